//! The properties that always hold, checked after every step.
//!
//! The checker keeps its own copy of the rows. After each operation it compares it with the store and asks of every
//! difference whether this operation was allowed to make it, and of every answer whether it is true. It knows the
//! rules from the outside: what was granted, what receivers saw, what was acknowledged, who asked to be left alone.

mod answers;
mod books;
mod checked_store;
mod grants;
mod peace;
mod settled;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{
    DeliveryStatus, DestinationId, EventKey, Lease, LeaseToken, NewEvent, Outcome, Timestamp,
};
use posthaste_engine::Drained;
use posthaste_store::{Enqueued, Layered, NoticeCursor, PublishedNotice, Store, StoreError};
use posthaste_store_memory::{MemoryStore, Row};
use tokio::sync::Notify;

use crate::fault::Tally;
use crate::incarnation::Incarnation;
use crate::receivers::Witness;
use crate::run::Report;
use crate::scenario::Scenario;
use crate::time::WorldClock;

use checked_store::CheckedStore;
use step::Step;

/// A property that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub property: &'static str,
    pub at: Duration,
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} after {:.3} s: {}", self.property, self.at.as_secs_f64(), self.detail)
    }
}

/// What a rule finds.
type Finding = Result<(), (&'static str, String)>;

/// Finds a violation of `$property` unless the condition holds.
macro_rules! hold {
    ($property:expr, $condition:expr, $($detail:tt)+) => {
        if !$condition {
            return Err(($property, format!($($detail)+)));
        }
    };
}
use hold;

pub(crate) struct Checker {
    clock: WorldClock,
    memory: MemoryStore,
    shared: Arc<dyn Store>,
    scenario: Scenario,
    known: Mutex<Known>,
    violated: Notify,
}

/// What the checker knows, all of it seen from outside the store.
#[derive(Default)]
struct Known {
    rows: BTreeMap<EventKey, Row>,
    revision: u64,
    /// Tokens whose outcome has been recorded.
    outcomes: BTreeSet<LeaseToken>,
    /// Every token ever granted, with its holder.
    holders: BTreeMap<LeaseToken, Arc<Incarnation>>,
    accounts: BTreeMap<EventKey, Account>,
    /// Until when destinations asked to be left alone.
    paused: BTreeMap<DestinationId, Timestamp>,
    last_notice: NoticeCursor,
    audit: usize,
    attempts: usize,
    witness: Witness,
    counts: Counts,
    steps: u64,
    digest: DefaultHasher,
    violation: Option<Violation>,
}

/// The books of one event.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    outcomes: u32,
    /// Leases that ended without an outcome: expired and taken over, released, or cancelled.
    abandoned: u32,
    /// Leases in a row that expired, since the last outcome or requeue.
    lost_in_a_row: u32,
}

/// How often what should happen did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub stale_writes: u64,
    pub replayed_settles: u64,
    pub replayed_claims: u64,
    pub takeovers: u64,
    pub abandoned: u64,
    pub released: u64,
    pub circuits_reported: u64,
    pub removed: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.stale_writes += other.stale_writes;
        self.replayed_settles += other.replayed_settles;
        self.replayed_claims += other.replayed_claims;
        self.takeovers += other.takeovers;
        self.abandoned += other.abandoned;
        self.released += other.released;
        self.circuits_reported += other.circuits_reported;
        self.removed += other.removed;
    }
}

impl Checker {
    pub(crate) fn new(
        clock: WorldClock,
        memory: MemoryStore,
        shared: Arc<dyn Store>,
        scenario: Scenario,
    ) -> Self {
        Self { clock, memory, shared, scenario, known: Mutex::default(), violated: Notify::new() }
    }

    /// The shared store as one process uses it.
    pub(crate) fn store_of(self: &Arc<Self>, process: Arc<Incarnation>) -> Arc<dyn Store> {
        Arc::new(Layered(CheckedStore {
            inner: Arc::clone(&self.shared),
            checker: Arc::clone(self),
            process,
        }))
    }

    pub(crate) async fn violated(&self) {
        self.violated.notified().await;
    }

    /// Compares the store with what is known, after an operation.
    fn check(&self, step: &Step<'_>) {
        let now = self.clock.timestamp();
        let mut known = self.known();
        known.steps += 1;
        step.digest(&mut known.digest);
        now.as_micros().hash(&mut known.digest);
        let finding =
            self.memory.with_state(|state| step::judge(step, &mut known, state, now, &self.scenario));
        self.file(known, finding);
    }

    fn file(&self, mut known: MutexGuard<'_, Known>, finding: Finding) {
        if let (Err((property, detail)), None) = (finding, &known.violation) {
            known.violation = Some(Violation { property, at: self.clock.elapsed(), detail });
            self.violated.notify_one();
        }
    }

    /// Something broke a rule that is checked elsewhere.
    pub(crate) fn broken(&self, property: &'static str, detail: String) {
        self.file(self.known(), Err((property, detail)));
    }

    /// P9: no more requests than leases, and none twice under one.
    pub(crate) fn request_arrives(&self, lease: &Lease) {
        let mut known = self.known();
        let (first, requests) = known.witness.arrives(&lease.event_id, lease.token);
        let claims = known.rows.get(&lease.key).map_or(0, |row| row.claims);
        let finding = (|| {
            hold!("P9", first, "two requests for {} under one token", lease.event_id);
            hold!("P9", requests <= claims, "{requests} requests for {} in {claims} claims", lease.event_id);
            Ok(())
        })();
        self.file(known, finding);
    }

    pub(crate) fn request_answered(&self, lease: &Lease, outcome: &Outcome) {
        self.known().witness.answers(lease.token, outcome.http_status());
    }

    /// P1: what is acknowledged is there, as it was handed in. That it stays is checked with every step.
    pub(crate) fn acknowledged(&self, events: &[NewEvent], enqueued: &Enqueued) {
        let finding = self.memory.with_state(|state| {
            hold!(
                "P1",
                events.len() == enqueued.receipts.len(),
                "{} events, {:?}",
                events.len(),
                enqueued.receipts
            );
            for (event, receipt) in events.iter().zip(&enqueued.receipts) {
                let row = state.keys.get(&receipt.event_id).and_then(|key| state.rows.get(key));
                let Some(row) = row else {
                    return Err(("P1", format!("{} was acknowledged and is not there", receipt.event_id)));
                };
                let same = row.payload == event.payload() && row.destination_url == *event.destination_url();
                let same = same && row.max_attempts == event.max_attempts();
                hold!("P1", same, "{} is not what was acknowledged under its name", receipt.event_id);
            }
            Ok(())
        });
        self.file(self.known(), finding);
    }

    /// No producer here asks for what must be refused.
    pub(crate) fn refused(&self, error: &StoreError) {
        self.broken("P1", format!("a well-formed request was refused: {error}"));
    }

    /// P13: what followers hear of has been committed, and they hear of everything in order.
    pub(crate) fn notice_published(&self, previous: NoticeCursor, published: &PublishedNotice) {
        let told = &published.notice;
        let finding = self.memory.with_state(|state| {
            let same = |notice: &posthaste_domain::Notice| {
                (notice.kind, &notice.event_id, notice.attempts) == (told.kind, &told.event_id, told.attempts)
            };
            let committed = state.notices.iter().any(|committed| same(&committed.notice));
            hold!("P13", committed, "published, not committed: {published:?}");
            let next = state.notices.iter().find(|committed| committed.cursor > previous);
            let in_order = next.is_none_or(|next| next.cursor == published.cursor);
            hold!("P13", in_order, "after {previous:?} came {published:?} instead of {next:?}");
            Ok(())
        });
        self.file(self.known(), finding);
    }

    /// A drain says what it left: no more leases of this process are live than it said.
    pub(crate) fn drained(&self, process: &Arc<Incarnation>, drained: Drained) {
        let known = self.known();
        let now = self.clock.timestamp();
        let held = known.rows.values().filter_map(|row| Some((row, row.lease.as_ref()?)));
        let held = held.filter(|(_, lease)| !lease.is_expired(now));
        let left = held
            .filter(|(_, lease)| {
                known.holders.get(&lease.token).is_some_and(|holder| Arc::ptr_eq(holder, process))
            })
            .filter(|(_, lease)| process.has_received(lease.token))
            .count();
        let finding = (|| {
            hold!(
                "drain",
                left <= drained.left,
                "{} left {left} leases, but said {drained:?}",
                process.worker_id
            );
            Ok(())
        })();
        self.file(known, finding);
    }

    pub(crate) fn circuits_reported(&self, count: usize) {
        self.known().counts.circuits_reported += count as u64;
    }

    pub(crate) fn report(&self, seed: u64, faults: Tally, simulated: Duration) -> Report {
        let known = self.known();
        let count = |status| known.rows.values().filter(|row| row.status == status).count() as u64;
        Report {
            seed,
            violation: known.violation.clone(),
            faults,
            simulated,
            steps: known.steps,
            events: known.rows.len() as u64 + known.counts.removed,
            requests: known.witness.total(),
            delivered: count(DeliveryStatus::Delivered) + known.counts.removed,
            failed: count(DeliveryStatus::Failed),
            counts: known.counts,
            digest: known.digest.finish(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
