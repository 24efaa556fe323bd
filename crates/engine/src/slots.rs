//! Who is in flight, and what may be claimed beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_domain::{DestinationId, Lease};
use tokio::sync::Notify;

use crate::settings::Settings;

/// The slots of a worker: bounded in total, per destination, and for retries.
pub(crate) struct Slots {
    limits: Limits,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    total: usize,
    retries: usize,
    per_destination: usize,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    retries: usize,
    by_destination: BTreeMap<DestinationId, usize>,
    /// Slots that were ever given back.
    frees: u64,
}

/// What a claim may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Free {
    pub(crate) total: usize,
    pub(crate) retries: usize,
    /// Of destinations with something in flight.
    pub(crate) by_destination: BTreeMap<DestinationId, usize>,
}

impl Slots {
    pub(crate) fn new(settings: &Settings) -> Self {
        // Whatever the retry batch, first attempts keep a quarter of the slots.
        let kept_for_first_attempts = (settings.concurrency / 4).max(1);
        let retries_max = settings.concurrency.saturating_sub(kept_for_first_attempts).max(1);
        let limits = Limits {
            total: settings.concurrency,
            retries: settings.retry_batch.min(retries_max),
            per_destination: settings.per_destination,
        };
        Self { limits, taken: Mutex::default(), freed: Notify::new() }
    }

    pub(crate) fn free(&self) -> Free {
        let taken = self.taken();
        let left = |count: &usize| self.limits.per_destination.saturating_sub(*count);
        Free {
            total: self.limits.total.saturating_sub(taken.total),
            retries: self.limits.retries.saturating_sub(taken.retries),
            by_destination: taken.by_destination.iter().map(|(id, count)| (*id, left(count))).collect(),
        }
    }

    pub(crate) fn take(self: &Arc<Self>, lease: &Lease) -> Slot {
        let slot =
            Slot { slots: Arc::clone(self), destination: lease.destination_id, retry: lease.is_retry() };
        let mut taken = self.taken();
        taken.total += 1;
        taken.retries += usize::from(slot.retry);
        *taken.by_destination.entry(slot.destination).or_default() += 1;
        slot
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.taken().total
    }

    /// Grows with every slot that is given back: when it has grown by the end of a claim, the claim was planned for
    /// less than is free now.
    pub(crate) fn frees(&self) -> u64 {
        self.taken().frees
    }

    /// Resolves when a limit that was reached is so no more.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Something other than a slot stopped holding back: a circuit has closed.
    pub(crate) fn loosened(&self) {
        self.freed.notify_one();
    }

    fn free_again(&self, slot: &Slot) {
        let mut taken = self.taken();
        let at_destination = taken.by_destination.get(&slot.destination).copied().unwrap_or_default();
        let held_back = taken.total == self.limits.total
            || at_destination == self.limits.per_destination
            || (slot.retry && taken.retries == self.limits.retries);
        taken.total -= 1;
        taken.frees += 1;
        taken.retries -= usize::from(slot.retry);
        if at_destination <= 1 {
            taken.by_destination.remove(&slot.destination);
        } else {
            taken.by_destination.insert(slot.destination, at_destination - 1);
        }
        drop(taken);
        if held_back {
            self.freed.notify_one();
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request in flight. Free again when dropped, however the delivery ends.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    destination: DestinationId,
    retry: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.free_again(self);
    }
}
