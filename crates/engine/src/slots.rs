//! The slots of a worker: its deliveries without an answer, limited in total, for retries, in bytes, by the windows of
//! destinations and hosts, and by the pace of hosts.
//!
//! Small payloads are not counted in bytes, because the number of slots bounds them. So large events that fill the byte
//! limit, for example because their receivers hang, do not stop small ones.

mod ages;
mod host;
mod hosts;
mod left_behind;
mod limits;
mod pace;
mod places;
mod recent;
mod share;
mod table;
mod window;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{DestinationId, Lease};
use posthaste_store::{Pace, PaceSlots, Receiver, ReceiverActivity, ReceiverSlots};
use tokio::sync::Notify;

use crate::heartbeat::RenewalGuard;
use crate::settings::Settings;
use limits::Limits;
use table::{AfterInterval, NewDelivery, Started, Table, Usage};

pub(crate) use ages::INTERVALS_UNTIL_OLD;
pub(crate) use limits::AvailablePayloads;
pub(crate) use window::Answer;

/// A claimed event whose lease is renewed.
pub(crate) struct ClaimedEvent {
    pub(crate) lease: Lease,
    pub(crate) renewal: RenewalGuard,
    /// When the call was requested that last confirmed the lease: its claim, or the reading of its payload.
    pub(crate) requested_at: Duration,
    /// When the claim was requested. The lease has the version of its destination's profile as of then.
    pub(crate) claimed_at: Duration,
}

/// An event that may be sent now, with its slot.
pub(crate) struct ReadyEvent {
    pub(crate) event: ClaimedEvent,
    pub(crate) slot: Slot,
}

/// A claimed event whose payload must be read before it is sent, with its slot.
pub(crate) struct UnreadEvent {
    pub(crate) event: ClaimedEvent,
    pub(crate) slot: ReadingSlot,
}

/// What to do next with a claimed event.
pub(crate) enum NextStep {
    ReadPayload(UnreadEvent),
    Send(ReadyEvent),
}

impl From<ReadyEvent> for NextStep {
    fn from(ready: ReadyEvent) -> Self {
        Self::Send(ready)
    }
}

/// What becomes of an event whose payload has been read.
pub(crate) enum AfterReading {
    Ready(ReadyEvent),
    /// It waits for a place in the windows of its destination and host.
    Waits,
    /// It should be released: the worker drains, or the destination has been paused or its circuit has opened.
    Stopped(ClaimedEvent),
}

/// What follows from an answer, or from the end of an interval.
pub(crate) struct NextEvents {
    /// Events that may be sent now.
    pub(crate) ready: Vec<ReadyEvent>,
    /// Events that should be released: they were claimed for a larger window, or for a host that still answered.
    pub(crate) unsent: Vec<ClaimedEvent>,
}

/// The deliveries of a worker that have no answer yet.
pub(crate) struct Slots {
    table: Mutex<Table<ClaimedEvent>>,
    released: Notify,
    ended: Notify,
}

/// The slots that a claim may still fill. [`Slots::of`] returns those of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AvailableSlots {
    pub(crate) total: usize,
    pub(crate) retries: usize,
    pub(crate) by_pace: PaceSlots,
    pub(crate) payloads: AvailablePayloads,
}

impl Slots {
    pub(crate) fn new(settings: &Settings) -> Self {
        let table = Mutex::new(Table::new(Limits::new(settings)));
        Self { table, released: Notify::new(), ended: Notify::new() }
    }

    pub(crate) fn available(&self) -> AvailableSlots {
        let table = self.table();
        AvailableSlots {
            total: table.available(),
            retries: table.available_retries(),
            by_pace: table.available_by_pace(),
            payloads: table.available_payloads(),
        }
    }

    /// Returns how many events of a receiver may be claimed. A claim asks for receivers that have due events, so those that
    /// get no slots or only first ones, or share the slots of hosts that are not prompt, may have more than the claim takes.
    pub(crate) fn of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
        let mut table = self.table();
        let slots = table.slots_of(receiver);
        if slots.destination == 0 || slots.host == 0 || slots.pace != Pace::Prompt || table.is_full() {
            table.left_behind.mark(receiver.destination);
        }
        slots
    }

    /// Records that the current claim cannot take all due events of a destination.
    pub(crate) fn mark_limited(&self, destination: DestinationId) {
        self.table().left_behind.mark(destination);
    }

    /// Records the answer to a claim, before its events are added. `is_complete` says whether it took all due events that
    /// the slots of their receivers allowed.
    pub(crate) fn record_claim(&self, is_complete: bool) {
        self.table().left_behind.record_claim(is_complete);
    }

    /// Records that a claim got no answer, or that nothing was claimed although events may be due.
    pub(crate) fn record_no_claim(&self) {
        self.table().left_behind.record_no_claim();
    }

    /// Takes places for new small events to these URLs, if all of them can be sent at once and overtake no event that waits
    /// in this worker or in the store.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        urls: &[&str],
        may_send: impl Fn(DestinationId) -> bool,
        now: Duration,
    ) -> Option<Reservation> {
        let usages = self.table().reserve(urls, may_send, now)?;
        Some(Reservation { slots: Arc::clone(self), usages })
    }

    /// Returns whether new events are being stored under reserved places.
    pub(crate) fn has_reservations(&self) -> bool {
        self.table().open_reservations > 0
    }

    /// Returns destinations that answer and have free slots.
    pub(crate) fn known(&self) -> Vec<DestinationId> {
        self.table().known()
    }

    /// Takes a slot for a claimed event. Returns the event if it may be sent at once, or if its payload must be read;
    /// otherwise it waits for a place in the windows of its destination and host.
    pub(crate) fn add(self: &Arc<Self>, event: ClaimedEvent, now: Duration) -> Option<NextStep> {
        let lease = &event.lease;
        let mut table = self.table();
        let host = table.host(lease.destination_url.origin(), lease.is_retry(), now);
        let delivery = NewDelivery {
            destination: lease.destination_id,
            url: lease.destination_url.as_str(),
            host,
            is_retry: lease.is_retry(),
            payload_bytes: lease.payload.len(),
            is_unread: lease.payload.is_stored(),
        };
        let usage = table.use_slot(delivery, now);
        if delivery.is_unread {
            table.start_reading(&usage);
            let slot = ReadingSlot { slots: Arc::clone(self), usage: Some(usage) };
            drop(table);
            return Some(NextStep::ReadPayload(UnreadEvent { event, slot }));
        }
        let started = table.add(usage, event);
        drop(table);
        started.map(|started| self.ready(started).into())
    }

    /// Passes on an event whose payload has been read.
    pub(crate) fn end_reading(self: &Arc<Self>, mut slot: ReadingSlot, event: ClaimedEvent) -> AfterReading {
        let mut usage = slot.usage.take().expect("only this method and drop take the usage");
        let mut table = self.table();
        let may_claim = table.end_reading(&mut usage);
        if table.is_stopped(&usage) {
            table.free(&usage);
            drop(table);
            self.notify(may_claim);
            return AfterReading::Stopped(event);
        }
        let started = table.add(usage, event);
        drop(table);
        if may_claim {
            self.wake();
        }
        started.map_or(AfterReading::Waits, |started| AfterReading::Ready(self.ready(started)))
    }

    /// Ends a request that has an answer: learns from it, frees its slot, and starts the next deliveries.
    pub(crate) fn record_answer(
        self: &Arc<Self>,
        mut slot: Slot,
        answer: Answer,
        took: Duration,
        now: Duration,
    ) -> NextEvents {
        let usage = slot.usage.take().expect("only this method and drop take the usage");
        let mut table = self.table();
        let (may_claim, unsent) = table.end_with_answer(&usage, answer, took, now);
        let started = table.start_waiting(&usage);
        drop(table);
        self.notify(may_claim);
        NextEvents { ready: started.into_iter().map(|started| self.ready(started)).collect(), unsent }
    }

    /// Returns the events that wait although they may be sent: requests before them ended without an answer.
    pub(crate) fn start_waiting(self: &Arc<Self>) -> Vec<ReadyEvent> {
        let started = self.table().start_all();
        started.into_iter().map(|started| self.ready(started)).collect()
    }

    /// Ends an interval: requests become old, and hosts cease to compete for places.
    pub(crate) fn begin_interval(self: &Arc<Self>) -> NextEvents {
        let AfterInterval { started, unsent, may_claim } = self.table().begin_interval();
        if may_claim {
            self.wake();
        }
        NextEvents { ready: started.into_iter().map(|started| self.ready(started)).collect(), unsent }
    }

    /// Makes the window of a destination start again, because its circuit has opened. Returns the events that wait for it.
    pub(crate) fn restart_window(&self, destination: DestinationId) -> Vec<ClaimedEvent> {
        self.table().restart_window(destination)
    }

    /// Claims nothing for a destination until [`unhold`](Self::unhold), because a result that pauses it is not written yet.
    /// Returns the events that wait for it.
    pub(crate) fn hold(&self, destination: DestinationId) -> Vec<ClaimedEvent> {
        self.table().hold(destination)
    }

    /// Ends a [`hold`](Self::hold): the store knows of the pause.
    pub(crate) fn unhold(&self, destination: DestinationId) {
        self.table().unhold(destination);
        self.wake();
    }

    /// Starts no waiting event from now on, and returns those that wait.
    pub(crate) fn close(&self) -> Vec<ClaimedEvent> {
        self.table().close()
    }

    /// Forgets receivers that have not been used for a long time.
    pub(crate) fn forget_unused(&self, now: Duration) {
        self.table().forget_unused(now);
    }

    /// Describes the destinations that were used last, `receivers_max` at most.
    pub(crate) fn receivers(&self, receivers_max: usize) -> Vec<ReceiverActivity> {
        self.table().receivers(receivers_max)
    }

    /// Returns the number of claimed events that wait for a place in a window.
    pub(crate) fn waiting(&self) -> usize {
        self.table().waiting()
    }

    /// Returns whether only the first events of hosts may be claimed.
    pub(crate) fn are_full(&self) -> bool {
        self.table().is_full()
    }

    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.table().in_flight()
    }

    /// Returns the number of deliveries without an answer.
    pub(crate) fn used(&self) -> usize {
        self.table().total()
    }

    /// Returns how many deliveries have ended since the start. If the number grew during a claim, the claim was planned
    /// with fewer slots than are available now.
    pub(crate) fn ended_count(&self) -> u64 {
        self.table().ended_count
    }

    /// Resolves when a slot becomes free at a limit that had been reached, or after [`wake`](Self::wake).
    pub(crate) async fn released(&self) {
        self.released.notified().await;
    }

    /// Resolves when a delivery has ended since the last call.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Wakes the claimer although no slot was released: for example, a circuit allows more requests than before.
    pub(crate) fn wake(&self) {
        self.released.notify_one();
    }

    fn notify(&self, may_claim: bool) {
        self.ended.notify_one();
        if may_claim {
            self.released.notify_one();
        }
    }

    fn ready(self: &Arc<Self>, started: Started<ClaimedEvent>) -> ReadyEvent {
        let slot = Slot { slots: Arc::clone(self), usage: Some(started.usage) };
        ReadyEvent { event: started.delivery, slot }
    }

    fn table(&self) -> MutexGuard<'_, Table<ClaimedEvent>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places for new events while the store stores them. Dropping it frees those that were not taken.
pub(crate) struct Reservation {
    slots: Arc<Slots>,
    usages: Vec<Usage>,
}

impl Reservation {
    /// Turns a place for a destination into the slot of an event. Returns none if there is no such place.
    pub(crate) fn take(&mut self, destination: DestinationId) -> Option<Slot> {
        let position = self.usages.iter().position(|usage| usage.destination == destination)?;
        let mut usage = self.usages.swap_remove(position);
        self.slots.table().start_reserved(&mut usage);
        Some(Slot { slots: Arc::clone(&self.slots), usage: Some(usage) })
    }

    /// Frees the places that were not taken.
    pub(crate) fn free(&mut self) {
        let may_claim = self.slots.table().end_all(&std::mem::take(&mut self.usages));
        self.slots.notify(may_claim);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.free();
        self.slots.table().open_reservations -= 1;
        // A drain waits for the end of all reservations.
        self.slots.notify(false);
    }
}

/// The slot of an event whose payload is being read. Dropping it releases the slot.
pub(crate) struct ReadingSlot {
    slots: Arc<Slots>,
    usage: Option<Usage>,
}

impl Drop for ReadingSlot {
    fn drop(&mut self) {
        let Some(mut usage) = self.usage.take() else { return };
        let mut table = self.slots.table();
        table.end_reading(&mut usage);
        table.free(&usage);
        drop(table);
        self.slots.notify(true);
    }
}

/// The slot of one request in flight. Dropping it releases the slot, also when the delivery panics or is aborted.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    usage: Option<Usage>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(usage) = self.usage.take() else { return };
        self.slots.table().end(&usage);
        // The next claim also starts events that wait for the place.
        self.slots.notify(true);
    }
}
