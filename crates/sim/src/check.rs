//! The checker: validates, after every store operation, the properties that must always hold.
//!
//! The checker keeps its own copy of the rows. After each operation it compares the copy with the store. Every
//! difference must be one that this operation may make, and every response must be true. The checker relies only on
//! what is visible from outside the store: which leases were granted, which requests receivers got, which enqueues
//! were acknowledged, and which destinations asked for a pause.
//!
//! Properties are named as in violations: P1 durable, P2 no loss, P3 true outcomes, P4 lease form, P5 fence, P6 fresh
//! tokens, P7 expiry, P8 accounting, P9 requests, P10 attempt limits, P11 liveness, P12 terminal states, P13 atomic
//! records, P14 backoff, P18 every event ends, P19 no attempt for a shortage of our own, and no claim while results cannot
//! be written.
//!
//! **activity**: the history adds up to what the workers reported, each report counted once, and never to more than they wrote.
//! **bulk**: a bulk operation changes only what it selects, each event once.
//! **resume** and **probe**: an operator's resume closes the circuits of all workers; nothing but a resume and a success closes one.
//!
//! Properties of the registry: **fan-out** (each subscribed endpoint gets exactly one event of a message, and no other
//! endpoint any), **held** (a disabled endpoint gets no lease and keeps its events; a deletion cancels them), **rotation** (a
//! receiver with any valid key accepts every request), **fifo** (the events of a FIFO endpoint are sent one at a time, in the
//! order of their commits) and **throttle** (the leases of all workers together stay within the rate).

mod activity;
mod bulk;
mod checked_registry;
mod checked_store;
mod circuits;
mod claims;
mod clock_steps;
mod destinations;
mod expiry;
mod fan_out;
mod held;
mod lines;
mod records;
mod recovery;
mod registry;
mod registry_counts;
mod responses;
mod settlements;
mod signatures;
mod step;
mod throttles;
mod unused_destinations;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{
    BulkId, DeliveryStatus, DestinationId, EventId, EventKey, Lease, LeaseToken, NewEvent, Outcome, Timestamp,
};
use posthaste_engine::DrainReport;
use posthaste_store::{
    ActionRequest, BulkOperation, EnqueueResponse, NoticeCursor, PublishedNotice, Store, StoreError,
};
use posthaste_store_memory::{MemoryStore, Row};
use tokio::sync::Notify;

use crate::fault::FaultCounts;
use crate::process::Process;
use crate::receivers::RequestLog;
use crate::registry_layer::layer_registry;
use crate::run::Report;
use crate::scenario::Scenario;
use crate::time::WorldClock;

use activity::ActivityModel;
use checked_store::CheckedStore;
use registry::RegistryModel;
pub use registry_counts::RegistryCounts;
use step::Step;

/// A violated property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub property: &'static str,
    /// Time since the start of the simulation.
    pub at: Duration,
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} after {:.3} s: {}", self.property, self.at.as_secs_f64(), self.detail)
    }
}

/// The result of a check: the violated property and a description, if any.
type CheckResult = Result<(), (&'static str, String)>;

/// Returns a violation of `$property` unless the condition holds.
macro_rules! require {
    ($property:expr, $condition:expr, $($detail:tt)+) => {
        if !$condition {
            return Err(($property, format!($($detail)+)));
        }
    };
}
use require;

/// Compares the store with the model after every operation, and keeps the first violation.
pub(crate) struct Checker {
    clock: WorldClock,
    memory: MemoryStore,
    shared_store: Arc<dyn Store>,
    scenario: Scenario,
    model: Mutex<Model>,
    violated: Notify,
}

/// The checker's own copy of the store's state, built only from what is visible outside the store.
#[derive(Default)]
struct Model {
    rows: BTreeMap<EventKey, Row>,
    revision: u64,
    /// Tokens whose outcome has been recorded, with their events.
    outcomes: BTreeMap<LeaseToken, EventKey>,
    /// Tokens whose result was recorded as not applied.
    unapplied: BTreeSet<LeaseToken>,
    /// Every token ever granted, with its holder.
    holders: BTreeMap<LeaseToken, Arc<Process>>,
    accounts: BTreeMap<EventKey, LeaseAccount>,
    /// Number of leases that removed dead letters had. Their holders may still send.
    removed_claims: BTreeMap<EventKey, u32>,
    /// The destinations that exist, with the time of their creation.
    destinations: BTreeMap<DestinationId, Timestamp>,
    last_destination: Option<DestinationId>,
    registry: RegistryModel,
    /// The bulk operations that were started and not stopped.
    bulk: BTreeMap<BulkId, BulkOperation>,
    activity: ActivityModel,
    /// Number of events that were added for messages.
    events_of_messages: u64,
    /// The last pause that the receiver of each destination asked for.
    paused: BTreeMap<DestinationId, Pause>,
    /// The last pause of each destination by an operator.
    operator_paused: BTreeMap<DestinationId, Pause>,
    /// Destinations that an operator resumed, with the time of the last resume.
    resumed: BTreeMap<DestinationId, Timestamp>,
    circuits: circuits::CircuitModel,
    /// The last delay of each retry number.
    last_delays: BTreeMap<u32, LastDelay>,
    last_notice: NoticeCursor,
    /// The keys of applied operator actions.
    applied_actions: BTreeSet<String>,
    /// Number of audit rows.
    audit: usize,
    /// Number of attempt records.
    attempts: usize,
    request_log: RequestLog,
    /// Tokens under which no request was sent, because the worker's host lacked a resource.
    unsent: BTreeSet<LeaseToken>,
    counts: HandledCounts,
    steps: u64,
    digest: DefaultHasher,
    violation: Option<Violation>,
}

/// A pause of a destination.
#[derive(Debug, Clone, Copy)]
struct Pause {
    at: Timestamp,
    until: Timestamp,
}

/// The delay of the last retry of one number, and how many retries before it waited exactly as long.
#[derive(Debug, Clone, Copy, Default)]
struct LastDelay {
    delay: Duration,
    repeated: u32,
}

/// The leases of one event, by how they ended.
#[derive(Debug, Clone, Copy, Default)]
struct LeaseAccount {
    outcomes: u32,
    /// Leases that ended without an outcome: expired and taken over, released, cancelled, or expired with their event.
    abandoned: u32,
    /// Consecutive leases that expired since the last outcome or requeue.
    lost_in_a_row: u32,
}

/// How often the engines did what the faults required of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandledCounts {
    pub stale_writes: u64,
    pub replayed_settles: u64,
    pub replayed_claims: u64,
    pub takeovers: u64,
    pub abandoned: u64,
    pub expired: u64,
    pub released: u64,
    /// Events that were stored with a lease.
    pub enqueued_with_lease: u64,
    pub circuits_reported: u64,
    /// Delivered events that retention removed.
    pub removed: u64,
    /// Failed events that retention removed.
    pub dead_letters_removed: u64,
    /// Events that an operator discarded.
    pub discarded: u64,
    pub bulk_operations: u64,
    /// Events that bulk operations requeued, cancelled or discarded.
    pub changed_in_bulk: u64,
    /// Destinations without events that maintenance removed.
    pub destinations_removed: u64,
    /// Reports of activity that the store added to the history.
    pub reports: u64,
    /// Reports of activity that the store ignored, because it had them already.
    pub repeated_reports: u64,
    /// Processes that ran until the end and had reported all that they wrote.
    pub complete_reporters: u64,
    pub registry: RegistryCounts,
}

impl HandledCounts {
    /// Events that retention or an operator removed.
    fn all_removed(&self) -> u64 {
        self.removed + self.dead_letters_removed + self.discarded
    }

    pub fn add(&mut self, other: &Self) {
        self.stale_writes += other.stale_writes;
        self.replayed_settles += other.replayed_settles;
        self.replayed_claims += other.replayed_claims;
        self.takeovers += other.takeovers;
        self.abandoned += other.abandoned;
        self.expired += other.expired;
        self.released += other.released;
        self.enqueued_with_lease += other.enqueued_with_lease;
        self.circuits_reported += other.circuits_reported;
        self.removed += other.removed;
        self.dead_letters_removed += other.dead_letters_removed;
        self.discarded += other.discarded;
        self.bulk_operations += other.bulk_operations;
        self.changed_in_bulk += other.changed_in_bulk;
        self.destinations_removed += other.destinations_removed;
        self.reports += other.reports;
        self.repeated_reports += other.repeated_reports;
        self.complete_reporters += other.complete_reporters;
        self.registry.add(&other.registry);
    }
}

impl Checker {
    pub(crate) fn new(
        clock: WorldClock,
        memory: MemoryStore,
        shared_store: Arc<dyn Store>,
        scenario: Scenario,
    ) -> Self {
        Self { clock, memory, shared_store, scenario, model: Mutex::default(), violated: Notify::new() }
    }

    /// Returns the shared store for one process, with checks after every operation.
    pub(crate) fn store_of(self: &Arc<Self>, process: Arc<Process>) -> Arc<dyn Store> {
        layer_registry(CheckedStore {
            inner: Arc::clone(&self.shared_store),
            checker: Arc::clone(self),
            process,
        })
    }

    /// Resolves when a property has been violated.
    pub(crate) async fn violated(&self) {
        self.violated.notified().await;
    }

    /// Compares the store with the model after an operation.
    fn check(&self, step: &Step<'_>) {
        let now = self.clock.timestamp();
        let mut model = self.model();
        model.steps += 1;
        step.digest(&mut model.digest);
        now.as_micros().hash(&mut model.digest);
        let result =
            self.memory.with_state(|state| step::check_step(step, &mut model, state, now, &self.scenario));
        self.record_result(model, result);
    }

    /// Checks an operator action. Under the key of an applied action it is a repetition, which must succeed and change
    /// nothing.
    fn check_action(&self, step: Step<'_>, event_id: &EventId, request: ActionRequest<'_>, refused: bool) {
        let key = request.key.unwrap_or_default();
        let is_repetition = self.model().applied_actions.contains(key);
        if !is_repetition && !refused && request.key.is_some() {
            self.model().applied_actions.insert(key.to_owned());
        }
        self.check(&if is_repetition { Step::RepeatedAction { event_id, refused } } else { step });
    }

    /// Keeps the violation, if the check failed and it is the first.
    fn record_result(&self, mut model: MutexGuard<'_, Model>, result: CheckResult) {
        if let (Err((property, detail)), None) = (result, &model.violation) {
            model.violation = Some(Violation { property, at: self.clock.elapsed(), detail });
            self.violated.notify_one();
        }
    }

    /// Reports a violation that was found outside the checker.
    pub(crate) fn report_violation(&self, property: &'static str, detail: String) {
        self.record_result(self.model(), Err((property, detail)));
    }

    /// P9: an event gets at most one request per token, and no more requests than leases.
    pub(crate) fn record_request(&self, lease: &Lease) {
        let mut model = self.model();
        let (first, requests) = model.request_log.record_request(lease.key, lease.token);
        let claims_of_removed = model.removed_claims.get(&lease.key).copied().unwrap_or_default();
        let claims = model.rows.get(&lease.key).map_or(claims_of_removed, |row| row.claims);
        let is_granted = model.holders.contains_key(&lease.token);
        let row = model.rows.get(&lease.key);
        let is_stored = row.is_none_or(|row| model.payload_of(row) == lease.payload.expect_loaded());
        let result = (|| {
            let payload = lease.payload.expect_loaded();
            require!("P3", is_stored, "{} is sent with {} other bytes", lease.event_id, payload.len());
            require!("P9", is_granted, "{} is sent under a token that was never granted", lease.event_id);
            require!("P9", first, "two requests for {} under one token", lease.event_id);
            lines::check_request(lease, requests == 1, &model)?;
            require!(
                "P9",
                requests <= claims,
                "{requests} requests for {} in {claims} claims",
                lease.event_id
            );
            Ok(())
        })();
        self.record_result(model, result);
    }

    /// A request is dated by the store's clock. The worker reads that clock with each claim, as precisely as the claim is
    /// fast, and releases the leases of a claim that took more than a third of a lease by its own clock, which runs up to
    /// four times too slow. After that, it may read the payload and the keys of an endpoint, and need not claim meanwhile. The
    /// clock may have stepped since the last claim that was answered.
    pub(crate) fn check_request_time(&self, lease: &Lease, dated: Timestamp, process: &Process) {
        let claim_time_max = self.scenario.settings.lease.duration() / 3 * 4;
        let off_max = claim_time_max + process.clock_reading_age() + Duration::from_secs(1);
        let times = self.clock.timestamps_by_steps_within(off_max);
        let off = times.into_iter().map(|now| dated.since(now).max(now.since(dated)));
        let off = off.min().expect("there is a time before each step and after the last one");
        if off > off_max {
            let detail = format!("the request for {} is dated {off:?} off the store's clock", lease.event_id);
            self.report_violation("date", detail);
        }
    }

    /// Records that no request is sent under this lease: a local resource is lacking, or the payload cannot be read.
    pub(crate) fn record_unsent(&self, token: LeaseToken) {
        self.model().unsent.insert(token);
    }

    pub(crate) fn record_response(&self, lease: &Lease, outcome: &Outcome) {
        self.model().request_log.record_response(lease.token, outcome.http_status());
        self.record_health(lease.token, lease.destination_id, outcome);
    }

    /// P1: acknowledged events are stored with the requested content. Every step checks that they stay.
    pub(crate) fn check_acknowledged(&self, events: &[NewEvent], enqueued: &EnqueueResponse) {
        let result = self.memory.with_state(|state| {
            require!(
                "P1",
                events.len() == enqueued.receipts.len(),
                "{} events, {:?}",
                events.len(),
                enqueued.receipts
            );
            for (event, receipt) in events.iter().zip(&enqueued.receipts) {
                // An operator may discard an event before its producer has received the acknowledgement.
                if state.discarded.contains_key(&receipt.event_id) {
                    continue;
                }
                let row = state.keys.get(&receipt.event_id).and_then(|key| state.rows.get(key));
                let Some(row) = row else {
                    return Err(("P1", format!("{} was acknowledged but is not stored", receipt.event_id)));
                };
                let same = row.payload == event.payload() && row.destination_url == *event.destination_url();
                let same = same && row.max_attempts == event.max_attempts();
                require!(
                    "P1",
                    same,
                    "{} is stored with other content than was acknowledged",
                    receipt.event_id
                );
            }
            Ok(())
        });
        self.record_result(self.model(), result);
    }

    /// Reports a refused enqueue: the producers of the simulation make only valid requests.
    pub(crate) fn report_refused(&self, error: &StoreError) {
        self.report_violation("P1", format!("a valid request was refused: {error}"));
    }

    /// P13: a published notice has been committed, and subscribers receive all notices in order.
    pub(crate) fn check_notice(&self, previous: NoticeCursor, published: &PublishedNotice) {
        let notice = &published.notice;
        let result = self.memory.with_state(|state| {
            let same = |committed: &posthaste_domain::Notice| {
                (committed.kind, &committed.event_id, committed.attempts)
                    == (notice.kind, &notice.event_id, notice.attempts)
            };
            let committed = state.notices.iter().any(|committed| same(&committed.notice));
            require!("P13", committed, "published, not committed: {published:?}");
            let next = state.notices.iter().find(|committed| committed.cursor > previous);
            let in_order = next.is_none_or(|next| next.cursor == published.cursor);
            require!("P13", in_order, "after {previous:?} came {published:?} instead of {next:?}");
            Ok(())
        });
        self.record_result(self.model(), result);
    }

    /// After a drain, the process holds at most as many live leases as its drain report names.
    pub(crate) fn check_drained(&self, process: &Arc<Process>, drained: DrainReport) {
        let model = self.model();
        let now = self.clock.timestamp();
        let held = model.rows.values().filter_map(|row| Some((row, row.lease.as_ref()?)));
        let held = held.filter(|(_, lease)| !lease.is_expired(now));
        let live_leases = held
            .filter(|(_, lease)| {
                model.holders.get(&lease.token).is_some_and(|holder| Arc::ptr_eq(holder, process))
            })
            .filter(|(_, lease)| process.has_received(lease.token))
            .count();
        let result = (|| {
            require!(
                "drain",
                live_leases <= drained.unreleased,
                "{} holds {live_leases} live leases after its drain, but reported {drained:?}",
                process.worker_id
            );
            Ok(())
        })();
        self.record_result(model, result);
    }

    /// Counts circuits that are not closed. Without a circuit breaker there are none.
    pub(crate) fn record_circuit_reports(&self, tripped: usize) {
        let mut model = self.model();
        model.counts.circuits_reported += tripped as u64;
        let result = (|| {
            let allowed = tripped == 0 || self.scenario.retry.uses_circuit_breaker();
            require!("circuit", allowed, "{tripped} circuits opened, although the policy uses none");
            Ok(())
        })();
        self.record_result(model, result);
    }

    pub(crate) fn report(&self, seed: u64, faults: FaultCounts, simulated: Duration) -> Report {
        let model = self.model();
        let count = |status| model.rows.values().filter(|row| row.status == status).count() as u64;
        Report {
            seed,
            violation: model.violation.clone(),
            faults,
            simulated,
            steps: model.steps,
            events: model.rows.len() as u64 + model.counts.all_removed(),
            requests: model.request_log.total(),
            delivered: count(DeliveryStatus::Delivered) + model.counts.removed,
            failed: count(DeliveryStatus::Failed)
                + model.counts.dead_letters_removed
                + model.counts.discarded,
            counts: model.counts,
            digest: model.digest.finish(),
        }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
