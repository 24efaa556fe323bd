//! Bugs of settles, renewals and releases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{EventId, WorkerId};
use posthaste_store::{
    EventDetail, LayeredStore, LeaseRef, SettleResult, Settlement, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::MemoryStore;

use super::forge_lease;

store_bug! {
    /// Updates `WHERE id = $1`, without the token.
    settle_ignores_token;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        for settlement in batch {
            let (key, token) = (settlement.transition.key(), settlement.transition.token());
            if !self.memory.with_state(|state| state.attempts.contains_key(&token)) {
                forge_lease(&self.memory, key, token, worker);
            }
        }
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    settle_forgets_replays;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.memory.settle(worker, batch).await?;
        let as_stale = |settled| if settled == SettleResult::Replayed { SettleResult::Stale } else { settled };
        Ok(settled.into_iter().map(as_stale).collect())
    }
}

store_bug! {
    settle_applies_replays;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        for settlement in batch {
            let (key, token) = (settlement.transition.key(), settlement.transition.token());
            if self.memory.with_state(|state| state.attempts.remove(&token)).is_some() {
                forge_lease(&self.memory, key, token, worker);
            }
        }
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    retries_at_once;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.memory.settle(worker, batch).await?;
        self.memory.with_state(|state| {
            for settlement in batch {
                if let Some(row) = state.row_mut(settlement.transition.key()) {
                    row.next_attempt_at = row.next_attempt_at.map(|_| row.updated_at);
                }
            }
        });
        Ok(settled)
    }
}

store_bug! {
    settle_ignores_when_it_ended;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let just_now = |settlement: &Settlement| Settlement { ended_ago: Duration::ZERO, ..settlement.clone() };
        self.memory.settle(worker, &batch.iter().map(just_now).collect::<Vec<_>>()).await
    }
}

store_bug! {
    failing_since_is_overwritten;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        self.memory.with_state(|state| {
            for destination in state.destinations.values_mut() {
                destination.failing_since = None;
            }
        });
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    pauses_are_replaced;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        self.memory.with_state(|state| {
            for settlement in batch.iter().filter(|settlement| settlement.transition.destination_pause().is_some()) {
                if let Some(destination) = state.destinations.get_mut(&settlement.transition.destination_id()) {
                    destination.receiver_pause = None;
                }
            }
        });
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    renew_ignores_token;

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let current: Vec<LeaseRef> = self.memory.with_state(|state| {
            let token = |held: &LeaseRef| state.rows.get(&held.key)?.lease.as_ref().map(|lease| lease.token);
            held.iter().map(|held| LeaseRef { token: token(held).unwrap_or(held.token), ..*held }).collect()
        });
        self.memory.renew(&current, lease).await
    }
}

store_bug! {
    release_counts_a_loss;

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        self.memory.with_state(|state| {
            for held in held {
                let row = state.row_mut(held.key);
                if let Some(row) = row.filter(|row| row.lease.as_ref().is_some_and(|lease| lease.token == held.token)) {
                    row.lost_leases += 1;
                }
            }
        });
        self.memory.release(held).await
    }
}

store_bug! {
    release_panics;

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        for held in held {
            let is_held = self.memory.with_state(|state| {
                let lease = state.rows.get(&held.key).and_then(|row| row.lease.as_ref());
                lease.is_some_and(|lease| lease.token == held.token)
            });
            assert!(is_held, "a lease that was not held");
        }
        self.memory.release(held).await
    }
}

store_bug! {
    late_results_are_forgotten;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.memory.settle(worker, batch).await;
        self.memory.with_state(|state| state.attempts.retain(|_, attempt| attempt.applied));
        settled
    }
}

store_bug! {
    late_results_count;

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        let mut detail = self.memory.event(event_id).await?;
        detail.history.iter_mut().for_each(|attempt| attempt.applied = true);
        Ok(detail)
    }
}

store_bug! {
    late_results_are_replayed;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let known = |settlement: &Settlement| {
            self.memory.with_state(|state| state.attempts.contains_key(&settlement.transition.token()))
        };
        let known: Vec<bool> = batch.iter().map(known).collect();
        let settled = self.memory.settle(worker, batch).await?;
        let result = |(settled, known)| if known { SettleResult::Replayed } else { settled };
        Ok(settled.into_iter().zip(known).map(result).collect())
    }
}
