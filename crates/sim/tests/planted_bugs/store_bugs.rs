//! Stores that are wrong in one way.
//!
//! Each is the memory store with its state bent around a call, so that it does what a store without the rule would.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ClaimId, DeliveryStatus, EventId, EventKey, Lease, LeaseToken, WorkerId};
use posthaste_sim::Sabotage;
use posthaste_store::{
    ClaimRequest, Claimed, EnqueueRequest, Enqueued, EventView, HeldLease, Layer, Layered, Maintained,
    Receipt, Retention, Settled, Settlement, Store, StoreError,
};
use posthaste_store_memory::{GrantedLease, MemoryStore};

/// A store bug: its name, the methods that it changes, and whatever it has to remember.
macro_rules! store_bug {
    ($(#[$doc:meta])* $name:ident $(remembers $memory:ty)?; $($method:item)*) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl Sabotage for $name {
            fn store(&self, memory: MemoryStore) -> Arc<dyn Store> {
                struct Bug {
                    memory: MemoryStore,
                    $(remembered: $memory,)?
                }

                #[async_trait]
                impl Layer for Bug {
                    fn inner(&self) -> &dyn Store {
                        &self.memory
                    }
                    $($method)*
                }

                Arc::new(Layered(Bug { memory, $(remembered: <$memory>::default(),)? }))
            }
        }
    };
}

/// Makes the row look as if it were leased under this token.
fn forge(memory: &MemoryStore, key: EventKey, token: LeaseToken, owner: &WorkerId) {
    memory.with_state(|state| {
        if let Some(row) = state.row_mut(key) {
            let until = row.lease.as_ref().map_or(row.updated_at, |lease| lease.until);
            let claim = row.lease.as_ref().map_or(ClaimId::random([0; 16]), |lease| lease.claim);
            row.lease = Some(GrantedLease { claim, token, owner: owner.clone(), until });
        }
    });
}

store_bug! {
    /// `UPDATE … WHERE id = $1`, without the token.
    SettleIgnoresToken;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        for settlement in batch {
            let (key, token) = (settlement.transition.key(), settlement.transition.token());
            if !self.memory.with_state(|state| state.attempts.contains_key(&token)) {
                forge(&self.memory, key, token, worker);
            }
        }
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    RenewIgnoresToken;

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        let current: Vec<HeldLease> = self.memory.with_state(|state| {
            let token = |held: &HeldLease| state.rows.get(&held.key)?.lease.as_ref().map(|lease| lease.token);
            held.iter().map(|held| HeldLease { token: token(held).unwrap_or(held.token), ..*held }).collect()
        });
        self.memory.renew(&current, lease).await
    }
}

store_bug! {
    /// A crash then eats the retry budget.
    ClaimCountsAttempts;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let claimed = self.memory.claim(request).await?;
        self.memory.with_state(|state| {
            for lease in &claimed.leases {
                state.row_mut(lease.key).expect("just claimed").attempts += 1;
            }
        });
        Ok(claimed)
    }
}

store_bug! {
    SettleAppliesReplays;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        for settlement in batch {
            let (key, token) = (settlement.transition.key(), settlement.transition.token());
            if self.memory.with_state(|state| state.attempts.remove(&token)).is_some() {
                forge(&self.memory, key, token, worker);
            }
        }
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    /// The worker is told that a result was lost which was written.
    SettleForgetsReplays;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let settled = self.memory.settle(worker, batch).await?;
        let forgetful = |settled| if settled == Settled::Replayed { Settled::Stale } else { settled };
        Ok(settled.into_iter().map(forgetful).collect())
    }
}

store_bug! {
    /// Due is all that counts.
    ClaimStealsLeases;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let live: Vec<(EventKey, GrantedLease)> = self.memory.with_state(|state| {
            let leased = state.rows.iter_mut().filter_map(|(key, row)| Some((*key, row.lease.as_mut()?)));
            leased
                .map(|(key, lease)| {
                    let expired = GrantedLease { until: Default::default(), ..lease.clone() };
                    (key, std::mem::replace(lease, expired))
                })
                .collect()
        });
        let claimed = self.memory.claim(request).await?;
        self.memory.with_state(|state| {
            for (key, lease) in live {
                let row = state.row_mut(key).expect("rows stay");
                if row.lease.as_ref().is_some_and(|current| current.token == lease.token) {
                    row.lease = Some(lease);
                }
            }
        });
        Ok(claimed)
    }
}

store_bug! {
    /// As a counter would after a failover.
    TokensRepeat remembers Mutex<Option<LeaseToken>>;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        if let Some(first) = claimed.leases.first_mut() {
            let mut remembered = self.remembered.lock().expect("one thread");
            let token = *remembered.get_or_insert(first.token);
            forge(&self.memory, first.key, token, &request.owner);
            *first = Lease { token, ..first.clone() };
        }
        Ok(claimed)
    }
}

store_bug! {
    /// One request in eight is acknowledged and forgotten, as by a commit that did not reach the disk.
    EnqueueAcknowledgesTooSoon remembers Mutex<u32>;

    async fn enqueue(&self, batch: &[EnqueueRequest]) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        let count = {
            let mut count = self.remembered.lock().expect("one thread");
            *count += 1;
            *count
        };
        if count % 8 != 0 {
            return self.memory.enqueue(batch).await;
        }
        let event_id = EventId::new(format!("lost-{count}")).expect("visible ASCII");
        let receipt = Receipt { event_id, status: DeliveryStatus::Pending, created_at: Default::default() };
        Ok(batch.iter().map(|_| Ok(Enqueued { replayed: false, receipts: vec![receipt.clone()] })).collect())
    }
}

store_bug! {
    RetriesAtOnce;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
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
    /// What was attempted once is passed over for ever after.
    RetriesAreForgotten;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.memory.claim(&ClaimRequest { retries_max: 0, ..request.clone() }).await
    }
}

store_bug! {
    CancelIsSilent;

    async fn cancel(&self, event_id: &EventId, actor: &str, reason: Option<&str>) -> Result<EventView, StoreError> {
        let notices = self.memory.with_state(|state| state.notices.len());
        let cancelled = self.memory.cancel(event_id, actor, reason).await;
        self.memory.with_state(|state| state.notices.truncate(notices));
        cancelled
    }
}

store_bug! {
    /// The same worker may have claimed the row again since.
    SettleChecksOwnerOnly;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        for settlement in batch {
            let (key, token) = (settlement.transition.key(), settlement.transition.token());
            let ours = self.memory.with_state(|state| {
                let owner = state.rows.get(&key)?.lease.as_ref().map(|lease| lease.owner.clone());
                (owner.as_ref() == Some(worker) && !state.attempts.contains_key(&token)).then_some(())
            });
            if ours.is_some() {
                forge(&self.memory, key, token, worker);
            }
        }
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    PausesAreForgotten;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let settled = self.memory.settle(worker, batch).await?;
        self.memory.with_state(|state| {
            state.destinations.values_mut().for_each(|destination| destination.paused_until = None);
        });
        Ok(settled)
    }
}

store_bug! {
    /// An event that takes its worker down then does so for ever.
    LostLeasesAreNotCounted;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let claimed = self.memory.claim(request).await?;
        self.memory.with_state(|state| {
            for lease in &claimed.leases {
                state.row_mut(lease.key).expect("just claimed").lost_leases = 0;
            }
        });
        Ok(claimed)
    }
}

store_bug! {
    CancelDoesNothing;

    async fn cancel(&self, event_id: &EventId, _actor: &str, _reason: Option<&str>) -> Result<EventView, StoreError> {
        Ok(self.memory.event(event_id).await?.event)
    }
}

store_bug! {
    ReleaseDoesNothing;

    async fn release(&self, _held: &[HeldLease]) -> Result<(), StoreError> {
        Ok(())
    }
}

store_bug! {
    RetentionTakesFailedEvents;

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        if retention.keep.is_some() {
            self.memory.with_state(|state| {
                state.rows.retain(|_, row| row.status != DeliveryStatus::Failed);
                state.revision += 1;
            });
        }
        self.memory.maintain(retention).await
    }
}
