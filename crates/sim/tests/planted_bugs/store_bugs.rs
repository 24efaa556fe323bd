//! Stores with one known bug each.
//!
//! Each is the memory store with a layer that changes its state before or after a call, so that the call has the effect
//! of the bug.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ClaimId, DeliveryStatus, EventId, EventKey, Lease, LeaseToken, WorkerId};
use posthaste_sim::PlantedBug;
use posthaste_store::{
    ActionRequest, AuditView, ClaimRequest, ClaimResponse, EnqueueRequest, EnqueueResponse, EventView,
    ExpireRequest, ExpireResponse, LayeredStore, LeaseRef, MaintenanceReport, Receipt, Retention,
    SettleResult, Settlement, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::{GrantedLease, MemoryStore, Row};

/// Defines a store bug: its name, the methods that it changes, and its own state.
macro_rules! store_bug {
    ($(#[$doc:meta])* $name:ident $(state $memory:ty)?; $($method:item)*) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl PlantedBug for $name {
            fn store(&self, memory: MemoryStore) -> Arc<dyn Store> {
                struct Bug {
                    memory: MemoryStore,
                    $(state: $memory,)?
                }

                #[async_trait]
                impl StoreLayer for Bug {
                    fn inner(&self) -> &dyn Store {
                        &self.memory
                    }
                    $($method)*
                }

                Arc::new(LayeredStore(Bug { memory, $(state: <$memory>::default(),)? }))
            }
        }
    };
}

/// Sets the row's lease to this token and owner.
fn forge_lease(memory: &MemoryStore, key: EventKey, token: LeaseToken, owner: &WorkerId) {
    memory.with_state(|state| {
        if let Some(row) = state.row_mut(key) {
            let until = row.lease.as_ref().map_or(row.updated_at, |lease| lease.until);
            let duration = row.lease.as_ref().map_or(Duration::ZERO, |lease| lease.duration);
            let claim = row.lease.as_ref().map_or(ClaimId::random([0; 16]), |lease| lease.claim);
            row.lease = Some(GrantedLease { claim, token, owner: owner.clone(), until, duration });
        }
    });
}

store_bug! {
    /// Updates the row by its id alone, without comparing the token.
    SettleIgnoresToken;

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
    /// Renews a lease under any token.
    RenewIgnoresToken;

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let current: Vec<LeaseRef> = self.memory.with_state(|state| {
            let token = |held: &LeaseRef| state.rows.get(&held.key)?.lease.as_ref().map(|lease| lease.token);
            held.iter().map(|held| LeaseRef { token: token(held).unwrap_or(held.token), ..*held }).collect()
        });
        self.memory.renew(&current, lease).await
    }
}

store_bug! {
    /// Counts an attempt with each claim, so that a crash uses up the retry budget.
    ClaimCountsAttempts;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
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
    /// Applies a repeated settle a second time.
    SettleAppliesReplays;

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
    /// Reports a repeated settle as stale although its result was written.
    SettleForgetsReplays;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.memory.settle(worker, batch).await?;
        let as_stale = |settled| if settled == SettleResult::Replayed { SettleResult::Stale } else { settled };
        Ok(settled.into_iter().map(as_stale).collect())
    }
}

store_bug! {
    /// Claims due events although they have a live lease.
    ClaimStealsLeases;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
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
    /// Grants the first token again and again, as a counter could after a failover.
    TokensRepeat state Mutex<Option<LeaseToken>>;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        if let Some(first) = claimed.leases.first_mut() {
            let mut state = self.state.lock().expect("one thread");
            let token = *state.get_or_insert(first.token);
            forge_lease(&self.memory, first.key, token, &request.owner);
            *first = Lease { token, ..first.clone() };
        }
        Ok(claimed)
    }
}

store_bug! {
    /// Leases new events, and does not return the leases.
    EnqueueHidesLeases;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let response = self.memory.enqueue(request).await?;
        Ok(EnqueueResponse { leases: Vec::new(), ..response })
    }
}

store_bug! {
    /// Leases new events of paused destinations.
    EnqueueIgnoresPauses;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let lease = request.lease.clone();
        let mut response = self.memory.enqueue(EnqueueRequest { lease: None, ..request }).await?;
        if let Some(lease) = lease.filter(|_| !response.replayed) {
            let ids = response.receipts.iter().map(|receipt| &receipt.event_id);
            let keys: Vec<_> = self.memory.with_state(|state| ids.map(|id| state.keys[id]).collect());
            response.leases = self.memory.lease_enqueued(&lease, &keys);
        }
        Ok(response)
    }
}

store_bug! {
    /// Acknowledges every eighth request without storing it, like a commit that did not reach the disk.
    EnqueueAcknowledgesTooSoon state Mutex<u32>;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let count = {
            let mut count = self.state.lock().expect("one thread");
            *count += 1;
            *count
        };
        if count % 8 != 0 {
            return self.memory.enqueue(request).await;
        }
        let event_id = EventId::new(format!("lost-{count}")).expect("visible ASCII");
        let receipt = Receipt { event_id, status: DeliveryStatus::Pending, created_at: Default::default() };
        Ok(EnqueueResponse { replayed: false, receipts: vec![receipt], leases: Vec::new() })
    }
}

store_bug! {
    /// Makes retries due at once.
    RetriesAtOnce;

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
    /// Grants payloads of any size.
    BytesAreUnlimited;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { payload_bytes_max: usize::MAX, event_payload_bytes_max: None, ..request.clone() }).await
    }
}

store_bug! {
    /// Returns all payloads with their leases.
    PayloadsComeWithLeases;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { inline_payload_bytes_max: usize::MAX, ..request.clone() }).await
    }
}

store_bug! {
    /// Never claims an event that has been attempted before.
    RetriesAreForgotten;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { retries_max: 0, ..request.clone() }).await
    }
}

store_bug! {
    /// Cancels without writing a notice.
    CancelIsSilent;

    async fn cancel(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<EventView, StoreError> {
        let notices = self.memory.with_state(|state| state.notices.len());
        let cancelled = self.memory.cancel(event_id, request, reason).await;
        self.memory.with_state(|state| state.notices.truncate(notices));
        cancelled
    }
}

store_bug! {
    /// Compares only the owner, although the same worker may have claimed the row again.
    SettleChecksOwnerOnly;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        for settlement in batch {
            let (key, token) = (settlement.transition.key(), settlement.transition.token());
            let ours = self.memory.with_state(|state| {
                let owner = state.rows.get(&key)?.lease.as_ref().map(|lease| lease.owner.clone());
                (owner.as_ref() == Some(worker) && !state.attempts.contains_key(&token)).then_some(())
            });
            if ours.is_some() {
                forge_lease(&self.memory, key, token, worker);
            }
        }
        self.memory.settle(worker, batch).await
    }
}

store_bug! {
    /// Ignores operators' pauses of destinations.
    OperatorPausesAreForgotten;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.with_state(|state| {
            state.destinations.values_mut().for_each(|destination| destination.operator_pause = None);
        });
        self.memory.claim(request).await
    }
}

store_bug! {
    /// Ignores requested pauses of destinations.
    PausesAreForgotten;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.memory.settle(worker, batch).await?;
        self.memory.with_state(|state| {
            state.destinations.values_mut().for_each(|destination| destination.receiver_pause = None);
        });
        Ok(settled)
    }
}

store_bug! {
    /// Never counts a lost lease, so that an event can crash workers forever.
    LostLeasesAreNotCounted;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
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
    /// Returns success from a cancel that changed nothing.
    CancelDoesNothing;

    async fn cancel(&self, event_id: &EventId, _request: ActionRequest<'_>, _reason: Option<&str>) -> Result<EventView, StoreError> {
        Ok(self.memory.event(event_id).await?.event)
    }
}

store_bug! {
    /// Ignores the key of a requeue, so that a repetition of an applied requeue is a conflict.
    RequeueForgetsKeys;

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.memory.requeue(event_id, request.actor.into()).await
    }
}

store_bug! {
    /// Returns success from a release that changed nothing.
    ReleaseDoesNothing;

    async fn release(&self, _held: &[LeaseRef]) -> Result<(), StoreError> {
        Ok(())
    }
}

store_bug! {
    /// Removes failed events.
    RetentionTakesFailedEvents;

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        if retention.keep_for.is_some() {
            self.memory.with_state(|state| {
                state.rows.retain(|_, row| row.status != DeliveryStatus::Failed);
                state.revision += 1;
            });
        }
        self.memory.maintain(retention).await
    }
}

store_bug! {
    /// Discards all events of the destination, also pending and delivered ones.
    DiscardTakesOtherEvents;

    async fn discard(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<AuditView, StoreError> {
        let destination = self.memory.event(event_id).await?.event.destination_id;
        let discarded = self.memory.discard(event_id, request, reason).await?;
        self.memory.with_state(|state| state.rows.retain(|_, row| row.destination_id != destination));
        Ok(discarded)
    }
}

store_bug! {
    /// Lets an event expire by its age, although an operator has requeued it since.
    ExpiryIgnoresRequeues;

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let actions: Vec<_> = self.memory.with_state(|state| {
            state.rows.iter_mut().map(|(key, row)| (*key, row.manual_last.take())).collect()
        });
        let expired = self.memory.expire(request).await;
        self.memory.with_state(|state| {
            for (key, manual_last) in actions {
                state.rows.get_mut(&key).expect("rows stay").manual_last = manual_last;
            }
        });
        expired
    }
}

store_bug! {
    /// Discards without a record of the operator.
    DiscardIsNotAudited;

    async fn discard(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<AuditView, StoreError> {
        let discarded = self.memory.discard(event_id, request, reason).await?;
        self.memory.with_state(|state| state.audit.pop());
        Ok(discarded)
    }
}

store_bug! {
    /// Lets events in flight expire.
    ExpiryIgnoresLeases;

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let leases: Vec<_> = self.memory.with_state(|state| {
            state.rows.iter_mut().map(|(key, row)| (*key, row.lease.take())).collect()
        });
        let expired = self.memory.expire(request).await;
        self.memory.with_state(|state| {
            for (key, lease) in leases {
                let row = state.rows.get_mut(&key).expect("rows stay");
                if row.status == DeliveryStatus::Pending {
                    row.lease = lease;
                }
            }
        });
        expired
    }
}

store_bug! {
    /// Leaves leases and delays as they are when the clock has stepped back.
    ClockStepsDelayEvents;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let before = self.memory.with_state(|state| state.rows.clone());
        let claimed = self.memory.claim(request).await?;
        self.memory.with_state(|state| {
            for (key, before) in before {
                let after = state.row_mut(key).expect("rows stay");
                let token = |row: &Row| row.lease.as_ref().map(|lease| lease.token);
                let is_extended = after.lease.as_ref().is_some_and(|lease| lease.claim == request.id);
                if (after.claims, after.status, token(after)) == (before.claims, before.status, token(&before))
                    && !is_extended
                {
                    *after = before;
                }
            }
        });
        Ok(claimed)
    }
}

store_bug! {
    /// Leaves pauses as they are when the clock has stepped back.
    ClockStepsLengthenPauses;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let before = self.memory.with_state(|state| state.destinations.clone());
        let claimed = self.memory.claim(request).await?;
        self.memory.with_state(|state| {
            for (id, before) in before {
                let after = state.destinations.get_mut(&id).expect("a claim removes no destination");
                (after.operator_pause, after.receiver_pause) = (before.operator_pause, before.receiver_pause);
            }
        });
        Ok(claimed)
    }
}

store_bug! {
    /// Takes over a lease that ends too late because the clock has stepped back, instead of shortening it.
    ClockStepsEndLeases;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let now = self.memory.health().await?.now;
        self.memory.with_state(|state| {
            for row in state.rows.values_mut() {
                if let Some(lease) = row.lease.as_mut().filter(|lease| lease.until.since(now) > lease.duration) {
                    lease.until = now;
                }
            }
        });
        self.memory.claim(request).await
    }
}

store_bug! {
    /// Forgets results that arrive after their lease was lost.
    LateResultsAreForgotten;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.memory.settle(worker, batch).await;
        self.memory.with_state(|state| state.attempts.retain(|_, attempt| attempt.applied));
        settled
    }
}

store_bug! {
    /// Removes old destinations although events refer to them.
    RetentionTakesUsedDestinations;

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let (now, report) = (self.memory.health().await?.now, self.memory.maintain(retention).await?);
        if let Some(keep_for) = retention.keep_unused_destinations_for {
            self.memory.with_state(|state| {
                state.destinations.retain(|_, destination| now.since(destination.created_at) < keep_for);
            });
        }
        Ok(report)
    }
}
