//! The state that the loops of one worker share, and the adapters that they call (store, sender, clock and others).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_domain::{ClaimId, DestinationId, Lease, RandomDraw, Timestamp};
use posthaste_store::{ClaimSlots, Receiver, ReceiverSlots, Store};

use crate::activity::ActivityCounters;
use crate::circuits::Circuits;
use crate::clock::Clock;
use crate::cycle::CycleCounters;
use crate::disabled::DisabledEndpoints;
use crate::due_times::DueTimes;
use crate::heartbeat::Heartbeat;
use crate::lanes::Lanes;
use crate::observe::Observer;
use crate::payloads::PayloadReads;
use crate::phase::{Phase, PhaseTracker};
use crate::profiles::SharedProfiles;
use crate::publish::Publisher;
use crate::sender::Sender;
use crate::settings::Settings;
use crate::settle::Settler;
use crate::shortages::Shortages;
use crate::signing::SharedSigningKeys;
use crate::slots::{ClaimedEvent, Slots};
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
    /// The keys and headers of destinations. The sender takes them from here.
    pub profiles: SharedProfiles,
}

/// One worker: its settings, the adapters that it calls, and the state that its loops share.
pub(crate) struct Worker {
    pub(crate) settings: Settings,
    pub(crate) ports: Ports,
    pub(crate) slots: Arc<Slots>,
    pub(crate) lanes: Lanes,
    pub(crate) circuits: Arc<Circuits>,
    pub(crate) shortages: Shortages,
    pub(crate) payload_reads: PayloadReads,
    pub(crate) due_times: DueTimes,
    pub(crate) store_time: StoreTime,
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) settler: Settler,
    pub(crate) publisher: Publisher,
    pub(crate) disabled: DisabledEndpoints,
    pub(crate) cycle: CycleCounters,
    pub(crate) activity: ActivityCounters,
    pub(crate) phases: PhaseTracker,
    pub(crate) drain: DrainCounters,
    /// Milliseconds of the worker's clock; see [`Worker::last_claim_at`].
    pub(crate) last_claim_ms: AtomicU64,
}

/// Results that may wait for the store, as a multiple of the slots. Beyond it the worker claims nothing.
const UNSETTLED_PER_SLOT: usize = 4;

impl Worker {
    /// Returns how many more results may wait for the store.
    pub(crate) fn unsettled_room(&self) -> usize {
        (self.settings.concurrency * UNSETTLED_PER_SLOT).saturating_sub(self.settler.unwritten())
    }

    /// Wakes the claimer when results have been written, if there was so little room before that it may have waited for
    /// that.
    pub(crate) fn wake_claimer_after_room_of(&self, room_before: usize) {
        if room_before <= self.settings.concurrency {
            self.slots.wake();
        }
    }

    /// Returns whether an event is not sent any more, because its claim was requested a third of a lease ago. The store's clock
    /// may have stepped since, and a receiver that lets events wait so long has stopped to answer.
    pub(crate) fn is_outdated(&self, requested_at: Duration) -> bool {
        self.ports.clock.monotonic().saturating_sub(requested_at) > self.settings.lease.duration() / 3
    }

    /// Returns the time of the store's clock. None before the first claim.
    pub(crate) fn store_now(&self) -> Option<Timestamp> {
        self.store_time.at(self.ports.clock.monotonic())
    }

    /// Returns whether events whose leases were requested at this time go back unsent: the worker drains, or they are
    /// outdated. If the request took too long, the first heartbeat might come too late.
    pub(crate) fn sends_no_more(&self, requested_at: Duration) -> bool {
        self.is_outdated(requested_at) || self.phases.current() != Phase::Running
    }

    /// Counts leases as claimed, and renews them from now on.
    pub(crate) fn accept_leases(
        &self,
        leases: Vec<Lease>,
        requested_at: Duration,
    ) -> impl Iterator<Item = ClaimedEvent> {
        self.cycle.count_claimed(leases.len());
        leases.into_iter().map(move |lease| ClaimedEvent {
            renewal: self.heartbeat.start_renewing(&lease),
            lease,
            requested_at,
            claimed_at: requested_at,
        })
    }

    /// Returns the number of deliveries being sent, settled or released.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.used() + self.settler.unwritten() + self.settler.given_up()
    }

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

/// The worker answers for each destination how many events of it can be sent: within the windows, and not to destinations
/// with an open circuit, without a local port or without readable keys.
impl ClaimSlots for Worker {
    fn of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
        let (destination, now) = (receiver.destination, self.ports.clock.monotonic());
        let slots = self.slots.of(receiver);
        if slots.destination == 0 {
            return slots;
        }
        let limit = if self.shortages.is_paused(destination, now) {
            Some(0)
        } else {
            let limits = [
                self.circuits.send_limit(destination, now),
                self.ports.profiles.send_limit(destination, now),
            ];
            limits.into_iter().flatten().min()
        };
        if limit.is_some() {
            self.slots.mark_limited(destination);
        }
        ReceiverSlots { destination: slots.destination.min(limit.unwrap_or(usize::MAX)), ..slots }
    }

    fn known(&self) -> Vec<DestinationId> {
        self.slots.known()
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Worker").field("worker_id", &self.settings.worker_id).finish_non_exhaustive()
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
