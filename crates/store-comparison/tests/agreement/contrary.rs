//! A store that is right, and does whatever it may choose unlike the model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{EventKey, NewEvent, Timestamp, WorkerId};
use posthaste_store::{
    ClaimRequest, Claimed, EnqueueRequest, Enqueued, HeldLease, Layer, Maintained, Retention, Settled,
    Settlement, Store, StoreClock as _, StoreError,
};
use posthaste_store_memory::{ManualClock, MemoryStore, State};

pub(crate) struct Contrary {
    pub(crate) memory: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
}

#[async_trait]
impl Layer for Contrary {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    /// Of several ids that are taken, the last is named.
    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        let mut answers = self.memory.enqueue(batch).await?;
        for (request, answer) in batch.iter().zip(&mut answers) {
            if let Err(StoreError::EventIdTaken { event_id }) = answer {
                let mut ids = request.events.iter().rev().filter_map(NewEvent::event_id);
                let last = self.memory.with_state(|state| ids.find(|id| state.keys.contains_key(*id)));
                *event_id = last.unwrap_or(event_id).clone();
            }
        }
        Ok(answers)
    }

    /// The youngest first.
    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let is_granted = self.memory.with_state(|state| {
            let mut leases = state.rows.values().filter_map(|row| row.lease.as_ref());
            leases.any(|lease| lease.claim == request.id)
        });
        let mut claimed = if is_granted {
            self.memory.claim(request).await?
        } else {
            // What is to be abandoned must be gone before the choice is made.
            let nothing = ClaimRequest { limit: 0, ..request.clone() };
            let abandoned = self.memory.claim(&nothing).await?.abandoned;
            let keys = self.memory.with_state(|state| youngest_first(state, self.clock.now(), request));
            Claimed { abandoned, ..self.memory.claim_exactly(request, &keys) }
        };
        claimed.leases.reverse();
        claimed.abandoned.reverse();
        Ok(claimed)
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        let mut lost = self.memory.renew(held, lease).await?;
        lost.reverse();
        Ok(lost)
    }

    /// Another outcome under a settled token is stale; the notices of one batch come last first.
    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let before = self.memory.with_state(|state| state.notices.len());
        let mut settled = self.memory.settle(worker, batch).await?;
        self.memory.with_state(|state| {
            for (settlement, settled) in batch.iter().zip(&mut settled) {
                let written = state.attempts.get(&settlement.transition.token());
                if written
                    .is_some_and(|written| written.transition.outcome() != settlement.transition.outcome())
                {
                    *settled = Settled::Stale;
                }
            }
            let mut told: Vec<_> = state.notices[before..].iter().map(|new| new.notice.clone()).collect();
            for new in &mut state.notices[before..] {
                new.notice = told.pop().expect("there are as many as before");
            }
        });
        Ok(settled)
    }

    /// A row at a time, whatever is asked.
    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        self.memory.maintain(&Retention { rows_max: 1, ..*retention }).await
    }
}

fn youngest_first(state: &State, now: Timestamp, request: &ClaimRequest) -> Vec<EventKey> {
    let mut taken = BTreeMap::new();
    let mut retries = 0;
    let mut keys = Vec::new();
    for (key, row) in state.rows.iter().rev() {
        let taken = taken.entry(row.destination_id).or_insert(0);
        let is_retry = row.attempts > 0;
        let fits = keys.len() < request.limit
            && *taken < request.free_slots_of(row.destination_id)
            && (!is_retry || retries < request.retries_max);
        if fits && row.is_ready(now) && !state.is_paused(row.destination_id, now) {
            *taken += 1;
            retries += usize::from(is_retry);
            keys.push(*key);
        }
    }
    keys
}
