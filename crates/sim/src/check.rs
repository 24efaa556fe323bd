//! The properties that always hold, checked after every step.
//!
//! The checker keeps its own copy of the rows, compares it with the store after each operation, and asks of every
//! difference whether this operation was allowed to make it. It knows the rules from the outside: what was
//! granted, what receivers saw, what was acknowledged.

mod checked_store;
mod grants;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, EventKey, Lease, LeaseToken, Outcome, Timestamp};
use posthaste_engine::Settings;
use posthaste_store::{Enqueued, Layered, PublishedNotice, Store, StoreError};
use posthaste_store_memory::{MemoryStore, Row};
use tokio::sync::Notify;

use crate::fault::Tally;
use crate::incarnation::Incarnation;
use crate::receivers::Witness;
use crate::run::Report;
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
    ($property:literal, $condition:expr, $($detail:tt)+) => {
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
    settings: Settings,
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
    notices: usize,
    audit: usize,
    attempts: usize,
    witness: Witness,
    stale_writes: u64,
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
}

impl Checker {
    pub(crate) fn new(
        clock: WorldClock,
        memory: MemoryStore,
        shared: Arc<dyn Store>,
        settings: Settings,
    ) -> Self {
        Self { clock, memory, shared, settings, known: Mutex::default(), violated: Notify::new() }
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
            self.memory.with_state(|state| step::judge(step, &mut known, state, now, &self.settings));
        self.file(known, finding);
    }

    fn file(&self, mut known: MutexGuard<'_, Known>, finding: Finding) {
        if let (Err((property, detail)), None) = (finding, &known.violation) {
            known.violation = Some(Violation { property, at: self.clock.elapsed(), detail });
            self.violated.notify_one();
        }
    }

    /// P9: no more requests than leases, and none twice under one.
    pub(crate) fn request_arrives(&self, lease: &Lease) {
        let mut known = self.known();
        let (first, requests) = known.witness.arrives(&lease.event_id, lease.token);
        let claims = self.memory.with_state(|state| state.rows.get(&lease.key).map_or(0, |row| row.claims));
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

    /// P1: what is acknowledged is there. That it stays is checked with every step.
    pub(crate) fn acknowledged(&self, enqueued: &Enqueued) {
        let finding = self.memory.with_state(|state| {
            for receipt in &enqueued.receipts {
                let stored = state.keys.contains_key(&receipt.event_id);
                hold!("P1", stored, "{} was acknowledged and is not there", receipt.event_id);
            }
            Ok(())
        });
        self.file(self.known(), finding);
    }

    /// No producer here asks for what must be refused.
    pub(crate) fn refused(&self, error: &StoreError) {
        self.file(self.known(), Err(("P1", format!("a well-formed request was refused: {error}"))));
    }

    /// P13: what followers hear of has been committed.
    pub(crate) fn notice_published(&self, notice: &PublishedNotice) {
        let told = &notice.notice;
        let committed = self.memory.with_state(|state| {
            let mut of_event = state.notices.iter().map(|committed| &committed.notice);
            of_event.any(|committed| {
                (committed.kind, &committed.event_id, committed.attempts)
                    == (told.kind, &told.event_id, told.attempts)
            })
        });
        let finding =
            if committed { Ok(()) } else { Err(("P13", format!("published, not committed: {notice:?}"))) };
        self.file(self.known(), finding);
    }

    pub(crate) fn all_is_settled(&self) -> bool {
        self.memory.with_state(|state| state.rows.values().all(|row| row.status != DeliveryStatus::Pending))
    }

    pub(crate) fn out_of_patience(&self, patience: Duration) {
        let waiting = self.memory.with_state(|state| {
            let pending = state.rows.values().filter(|row| row.status == DeliveryStatus::Pending);
            pending.map(|row| format!("{row:?}")).collect::<Vec<_>>()
        });
        self.file(
            self.known(),
            Err(("P2", format!("{patience:?} after the last fault still pending: {waiting:?}"))),
        );
    }

    /// P11, once there are no more faults: what is ready is claimed within a poll, or within the cool-down of a
    /// circuit that has yet to close.
    pub(crate) fn nothing_waits_too_long(&self, peace_began: Timestamp) {
        let now = self.clock.timestamp();
        let settings = &self.settings;
        let patience = settings.poll_interval + settings.breaker.cool_down() * 2;
        // Workers may be down, stalled or full of hanging sends when peace begins.
        let patience = patience + settings.lease.duration() + settings.timeout + Duration::from_secs(60);
        let finding = self.memory.with_state(|state| {
            for row in state.rows.values().filter(|row| row.is_ready(now)) {
                let paused_until = state.destinations[&row.destination_id].paused_until;
                let expired_at = row.lease.as_ref().map(|lease| lease.until);
                let ready_since =
                    row.next_attempt_at.max(expired_at).max(paused_until).max(Some(peace_began));
                let waited = ready_since.map_or(Duration::ZERO, |since| now.since(since));
                hold!("P11", waited <= patience, "{} has been ready for {waited:?}", row.event_id);
            }
            Ok(())
        });
        self.file(self.known(), finding);
    }

    /// What can only be said when all is over.
    pub(crate) fn in_the_end(&self) {
        let known = self.known();
        let finding = self.memory.with_state(|state| {
            let payloads: BTreeSet<_> = state.rows.values().map(|row| &row.payload).collect();
            hold!("P1", payloads.len() == state.rows.len(), "a repeated request made a second event");
            for (key, row) in &state.rows {
                let account = known.accounts.get(key).copied().unwrap_or_default();
                let requests = known.witness.requests_of(&row.event_id);
                hold!(
                    "P9",
                    account.abandoned > 0 || requests == account.outcomes,
                    "{requests} requests for {} in {} outcomes, though no lease was lost",
                    row.event_id,
                    account.outcomes
                );
            }
            Ok(())
        });
        self.file(known, finding);
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
            events: known.rows.len() as u64,
            requests: known.witness.total(),
            delivered: count(DeliveryStatus::Delivered),
            failed: count(DeliveryStatus::Failed),
            stale_writes: known.stale_writes,
            digest: known.digest.finish(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
