//! Concurrency limits: counts deliveries and payload bytes in flight, and computes how many more may be claimed.
//!
//! Small payloads are not counted in bytes, because the number of slots bounds them. So large events that fill the byte
//! limit, for example because their receivers hang, do not stop small ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_domain::{DestinationId, Lease};
use tokio::sync::Notify;

use crate::settings::Settings;

/// The part of the byte limit that must be available before large payloads are claimed again. Smaller steps would make
/// many small claims.
const AVAILABLE_PART_MIN: usize = 16;

/// The delivery slots of a worker, limited in total, per destination, for retries, and in payload bytes.
pub(crate) struct Slots {
    limits: Limits,
    used: Mutex<UsedSlots>,
    released: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    total: usize,
    retries: usize,
    per_destination: usize,
    large_bytes: usize,
    /// Size of the largest payload that is not counted in bytes.
    small_payload_bytes: usize,
}

#[derive(Debug, Default)]
struct UsedSlots {
    total: usize,
    retries: usize,
    /// Sizes of the payloads that are larger than [`Limits::small_payload_bytes`].
    large_bytes: usize,
    by_destination: BTreeMap<DestinationId, usize>,
    /// Number of slots released since the start.
    release_count: u64,
}

/// The number of slots that a claim may still fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AvailableSlots {
    pub(crate) total: usize,
    pub(crate) retries: usize,
    /// Only destinations with deliveries in flight; every other destination has its full limit.
    pub(crate) by_destination: BTreeMap<DestinationId, usize>,
    pub(crate) payloads: AvailablePayloads,
}

/// The payloads that a claim may bring into flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AvailablePayloads {
    /// Payloads of any size, with at most this many bytes together.
    AnySize(usize),
    /// Only payloads of at most this many bytes each: the byte limit is reached.
    OnlySmall(usize),
}

impl Limits {
    /// Returns the payloads that may be claimed beside those in flight.
    fn available_payloads(&self, used: &UsedSlots) -> AvailablePayloads {
        let available = self.large_bytes.saturating_sub(used.large_bytes);
        if used.large_bytes > 0 && available < self.large_bytes / AVAILABLE_PART_MIN {
            AvailablePayloads::OnlySmall(self.small_payload_bytes)
        } else {
            AvailablePayloads::AnySize(available)
        }
    }

    fn is_byte_limit_reached(&self, used: &UsedSlots) -> bool {
        matches!(self.available_payloads(used), AvailablePayloads::OnlySmall(_))
    }
}

impl Slots {
    pub(crate) fn new(settings: &Settings) -> Self {
        // A quarter of the slots is reserved for first attempts, even if the configured retry batch is larger.
        let reserved_for_first_attempts = (settings.concurrency / 4).max(1);
        let retries_max = settings.concurrency.saturating_sub(reserved_for_first_attempts).max(1);
        let limits = Limits {
            total: settings.concurrency,
            retries: settings.retry_batch.min(retries_max),
            per_destination: settings.per_destination,
            large_bytes: settings.in_flight_bytes_max,
            small_payload_bytes: settings.small_payload_bytes(),
        };
        Self { limits, used: Mutex::default(), released: Notify::new() }
    }

    pub(crate) fn available(&self) -> AvailableSlots {
        let used = self.used();
        let rest = |count: &usize| self.limits.per_destination.saturating_sub(*count);
        AvailableSlots {
            total: self.limits.total.saturating_sub(used.total),
            retries: self.limits.retries.saturating_sub(used.retries),
            by_destination: used.by_destination.iter().map(|(id, count)| (*id, rest(count))).collect(),
            payloads: self.limits.available_payloads(&used),
        }
    }

    /// Takes a slot for a delivery. It is released when the returned guard is dropped.
    pub(crate) fn acquire(self: &Arc<Self>, lease: &Lease) -> Slot {
        let payload_bytes = lease.payload.len();
        let slot = Slot {
            slots: Arc::clone(self),
            destination: lease.destination_id,
            is_retry: lease.is_retry(),
            large_bytes: if payload_bytes > self.limits.small_payload_bytes { payload_bytes } else { 0 },
        };
        let mut used = self.used();
        used.total += 1;
        used.large_bytes += slot.large_bytes;
        used.retries += usize::from(slot.is_retry);
        *used.by_destination.entry(slot.destination).or_default() += 1;
        slot
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.used().total
    }

    /// Returns how many slots have been released since the start. If the number grew during a claim, the claim was
    /// planned with fewer slots than are available now.
    pub(crate) fn release_count(&self) -> u64 {
        self.used().release_count
    }

    /// Resolves when a slot becomes free at a limit that had been reached, or after [`wake`](Self::wake).
    pub(crate) async fn released(&self) {
        self.released.notified().await;
    }

    /// Wakes the claimer although no slot was released: a circuit now allows more requests than before.
    pub(crate) fn wake(&self) {
        self.released.notify_one();
    }

    fn release(&self, slot: &Slot) {
        let mut used = self.used();
        let at_destination = used.by_destination.get(&slot.destination).copied().unwrap_or_default();
        let byte_limit_was_reached = self.limits.is_byte_limit_reached(&used);
        let limit_was_reached = used.total == self.limits.total
            || at_destination == self.limits.per_destination
            || (slot.is_retry && used.retries == self.limits.retries);
        used.total -= 1;
        used.release_count += 1;
        used.large_bytes -= slot.large_bytes;
        used.retries -= usize::from(slot.is_retry);
        if at_destination <= 1 {
            used.by_destination.remove(&slot.destination);
        } else {
            used.by_destination.insert(slot.destination, at_destination - 1);
        }
        let is_byte_limit_lifted = byte_limit_was_reached && !self.limits.is_byte_limit_reached(&used);
        drop(used);
        if limit_was_reached || is_byte_limit_lifted {
            self.released.notify_one();
        }
    }

    fn used(&self) -> MutexGuard<'_, UsedSlots> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of one delivery in flight. Dropping it releases the slot, also when the delivery panics or is aborted.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    destination: DestinationId,
    is_retry: bool,
    /// Size of the payload, or zero if it is not counted.
    large_bytes: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release(self);
    }
}
