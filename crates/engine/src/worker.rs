//! The state that the loops of one worker share, and the adapters that they call (store, sender, clock and others).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_domain::{ClaimId, RandomDraw};
use posthaste_store::Store;

use crate::circuits::Circuits;
use crate::clock::Clock;
use crate::cycle::CycleCounters;
use crate::due_times::DueTimes;
use crate::heartbeat::Heartbeat;
use crate::observe::Observer;
use crate::phase::PhaseTracker;
use crate::publish::Publisher;
use crate::sender::Sender;
use crate::settings::Settings;
use crate::settle::Settler;
use crate::shortages::Shortages;
use crate::signing::SharedSigningKeys;
use crate::slots::Slots;
use crate::store_time::StoreTime;

/// The engine's source of randomness. The simulation injects a seeded one.
pub trait RandomSource: Send + Sync + 'static {
    /// Returns a random number that selects a retry delay within its jitter window.
    fn draw(&self) -> RandomDraw;

    /// Returns a random claim id that no process has used before.
    fn new_claim_id(&self) -> ClaimId;
}

/// The interfaces through which the engine reaches the store, receivers, time, randomness and metrics.
#[derive(Clone)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub sender: Arc<dyn Sender>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn RandomSource>,
    pub observer: Arc<dyn Observer>,
    /// The sender's signing keys, if they are those of the store: the worker then reloads them.
    pub reloaded_keys: Option<SharedSigningKeys>,
}

/// One worker: its settings, the adapters that it calls, and the state that its loops share.
pub(crate) struct Worker {
    pub(crate) settings: Settings,
    pub(crate) ports: Ports,
    pub(crate) slots: Arc<Slots>,
    pub(crate) circuits: Arc<Circuits>,
    pub(crate) shortages: Shortages,
    pub(crate) due_times: DueTimes,
    pub(crate) store_time: StoreTime,
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) settler: Settler,
    pub(crate) publisher: Publisher,
    pub(crate) cycle: CycleCounters,
    pub(crate) phases: PhaseTracker,
    pub(crate) drain: DrainCounters,
    /// Milliseconds of the worker's clock; see [`Worker::last_claim_at`].
    pub(crate) last_claim_ms: AtomicU64,
}

impl Worker {
    /// Records that the claimer is healthy now: the store answered a claim, or no slot was available to claim for.
    pub(crate) fn record_claim(&self) {
        let now = self.ports.clock.monotonic().as_millis();
        self.last_claim_ms.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the time of the last [`Worker::record_claim`], by the worker's clock.
    pub(crate) fn last_claim_at(&self) -> Duration {
        Duration::from_millis(self.last_claim_ms.load(Ordering::Relaxed))
    }
}

/// Counts leases released during a drain, leases whose release has not committed yet, and results that were not written.
#[derive(Debug, Default)]
pub(crate) struct DrainCounters {
    released: AtomicUsize,
    pending: AtomicUsize,
    unwritten: AtomicUsize,
}

impl DrainCounters {
    /// Counts leases that are about to be released.
    pub(crate) fn add_pending(&self, leases: usize) {
        self.pending.fetch_add(leases, Ordering::SeqCst);
    }

    /// Stops counting leases that do not belong to a drain.
    pub(crate) fn remove_pending(&self, leases: usize) {
        self.pending.fetch_sub(leases, Ordering::SeqCst);
    }

    /// Counts pending leases as released.
    pub(crate) fn mark_released(&self, leases: usize) {
        self.remove_pending(leases);
        self.released.fetch_add(leases, Ordering::SeqCst);
    }

    /// Counts a result that was known but could not be written.
    pub(crate) fn count_unwritten(&self) {
        self.unwritten.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.load(Ordering::SeqCst)
    }

    pub(crate) fn released(&self) -> usize {
        self.released.load(Ordering::SeqCst)
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }
}
