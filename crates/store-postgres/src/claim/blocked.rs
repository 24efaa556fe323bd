//! Destinations that this process skips for a moment, because they are throttled or because an event of their line is in flight.
//!
//! The index of claimable rows holds them as paused. A settle in this process may end that: it records the destination here, and
//! the next claim ends the pause. Other processes wait until the pause ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::Waker;
use tokio::time::Instant;

use crate::sleep;

/// The destinations that claims of this process have found blocked.
#[derive(Default)]
pub(crate) struct BlockedDestinations {
    sets: Mutex<Sets>,
    /// When the next task wakes the workers.
    wakes_at: Arc<Mutex<Option<Instant>>>,
}

#[derive(Default)]
struct Sets {
    /// Until when claims skip them.
    blocked: BTreeMap<DestinationId, Timestamp>,
    released: BTreeSet<DestinationId>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockedDestinations {
    fn lock(&self) -> MutexGuard<'_, Sets> {
        lock(&self.sets)
    }

    /// Records that claims skip a destination until then.
    pub(super) fn block(&self, destination: DestinationId, until: Timestamp) {
        self.lock().blocked.insert(destination, until);
    }

    /// Returns when claims skip the first of the destinations no longer. Forgets those that they skip no longer.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let mut sets = self.lock();
        sets.blocked.retain(|_, until| *until > now);
        sets.blocked.values().min().copied()
    }

    /// Releases destinations, if they are blocked: an event of theirs has ended or was released.
    pub(crate) fn release(&self, destinations: impl Iterator<Item = DestinationId>) {
        let mut sets = self.lock();
        let Sets { blocked, released } = &mut *sets;
        // Usually no destination is blocked, and this costs a batch nothing.
        if !blocked.is_empty() {
            released.extend(destinations.filter(|destination| blocked.remove(destination).is_some()));
        }
    }

    /// Releases all destinations: their throttles or their order may have changed.
    pub(crate) fn release_all(&self) {
        let mut sets = self.lock();
        let Sets { blocked, released } = &mut *sets;
        released.extend(std::mem::take(blocked).into_keys());
    }

    /// Takes the destinations that were released since the last call.
    pub(super) fn take_released(&self) -> BTreeSet<DestinationId> {
        std::mem::take(&mut self.lock().released)
    }

    /// Wakes the workers after this time, when a blocked destination may be claimable again, unless they will be woken before. Each
    /// claim sets the next time.
    pub(super) fn wake_in(&self, after: Duration, waker: &Waker) {
        let at = super::now() + after;
        let mut wakes_at = lock(&self.wakes_at);
        if wakes_at.is_some_and(|earlier| earlier <= at) {
            return;
        }
        *wakes_at = Some(at);
        drop(wakes_at);
        let (waker, wakes_at) = (waker.clone(), Arc::clone(&self.wakes_at));
        tokio::spawn(async move {
            sleep(after).await;
            lock(&wakes_at).take_if(|next| *next == at);
            waker.wake();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocked_destinations_are_released() {
        let (a, b, until) = (DestinationId(1), DestinationId(2), Timestamp::from_secs(9));
        let destinations = BlockedDestinations::default();
        destinations.release([a].into_iter());
        assert!(destinations.take_released().is_empty());
        destinations.block(a, until);
        destinations.block(b, until);
        destinations.release([a].into_iter());
        assert_eq!(destinations.take_released(), BTreeSet::from([a]));
        destinations.release_all();
        assert_eq!(destinations.take_released(), BTreeSet::from([b]));
        assert!(destinations.take_released().is_empty());
    }

    #[test]
    fn the_next_end_is_the_first_one_ahead() {
        let destinations = BlockedDestinations::default();
        for (id, until) in [(1, 30), (2, 10), (3, 20)] {
            destinations.block(DestinationId(id), Timestamp::from_secs(until));
        }
        let ends = [5, 10, 25, 30].map(|now| destinations.next_end(Timestamp::from_secs(now)));
        assert_eq!(ends, [Some(10), Some(20), Some(30), None].map(|end| end.map(Timestamp::from_secs)));
    }
}
