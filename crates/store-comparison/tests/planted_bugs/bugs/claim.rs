//! Bugs of claims.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::{ClaimId, DestinationId, EventId, LeasePayload, LeaseToken, Timestamp};
use posthaste_store::{
    ClaimRequest, ClaimResponse, ClaimSlots, EnqueueRequest, EnqueueResponse, LayeredStore, LeaseRef,
    PaceSlots, Receiver, ReceiverSlots, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::MemoryStore;

use super::forge_lease;

/// Returns whether the claim holds leases that an earlier call has granted.
fn is_repeated(memory: &MemoryStore, request: &ClaimRequest) -> bool {
    memory.with_state(|state| {
        let mut leases = state.rows.values().filter_map(|row| row.lease.as_ref());
        leases.any(|lease| lease.claim == request.id)
    })
}

store_bug! {
    claim_ignores_pauses;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let pauses: Vec<_> = self.memory.with_state(|state| {
            state.destinations.values_mut().map(|destination| (destination.receiver_pause.take(), destination.operator_pause.take())).collect()
        });
        let claimed = self.memory.claim(request).await;
        self.memory.with_state(|state| {
            for (destination, pause) in state.destinations.values_mut().zip(pauses) {
                (destination.receiver_pause, destination.operator_pause) = pause;
            }
        });
        claimed
    }
}

store_bug! {
    enqueue_leases_paused_destinations;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let lease = request.lease.clone();
        let mut enqueued = self.memory.enqueue(EnqueueRequest { lease: None, ..request }).await?;
        if let Some(lease) = lease.filter(|_| !enqueued.replayed) {
            let ids = enqueued.receipts.iter().map(|receipt| &receipt.event_id);
            let keys: Vec<_> =
                self.memory.with_state(|state| ids.map(|event_id| state.keys[event_id]).collect());
            enqueued.leases = self.memory.lease_enqueued(&lease, &keys);
        }
        Ok(enqueued)
    }
}

store_bug! {
    /// Returns a lease that is not stored, so that a claim grants the event again.
    enqueue_forgets_its_leases;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let enqueued = self.memory.enqueue(request).await?;
        self.memory.with_state(|state| {
            for lease in &enqueued.leases {
                state.row_mut(lease.key).expect("the event is stored").lease = None;
            }
        });
        Ok(enqueued)
    }
}

store_bug! {
    /// Grants every due event, leased or not.
    claim_steals_leases;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.with_state(|state| {
            for lease in state.rows.values_mut().filter_map(|row| row.lease.as_mut()) {
                lease.until = Timestamp::default();
            }
        });
        self.memory.claim(request).await
    }
}

store_bug! {
    claim_ignores_retries_max;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { retries_max: usize::MAX, ..request.clone() }).await
    }
}

store_bug! {
    claim_ignores_free_slots;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let slots = Arc::new(IgnoredSlots { slots: Arc::clone(&request.slots), limit: "destination" });
        self.memory.claim(&ClaimRequest { slots, ..request.clone() }).await
    }
}

store_bug! {
    claim_ignores_host_slots;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let slots = Arc::new(IgnoredSlots { slots: Arc::clone(&request.slots), limit: "host" });
        self.memory.claim(&ClaimRequest { slots, ..request.clone() }).await
    }
}

store_bug! {
    claim_ignores_the_pace_of_hosts;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { pace_slots: PaceSlots::UNLIMITED, ..request.clone() }).await
    }
}

/// Slots without one of their limits.
#[derive(Debug)]
struct IgnoredSlots {
    slots: Arc<dyn ClaimSlots>,
    limit: &'static str,
}

impl ClaimSlots for IgnoredSlots {
    fn of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
        let slots = self.slots.of(receiver);
        if self.limit == "host" {
            ReceiverSlots { host: usize::MAX, ..slots }
        } else {
            ReceiverSlots { destination: usize::MAX, ..slots }
        }
    }

    fn known(&self) -> Vec<DestinationId> {
        self.slots.known()
    }
}

store_bug! {
    claim_ignores_limit;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { limit: usize::MAX, ..request.clone() }).await
    }
}

store_bug! {
    claim_ignores_bytes;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        if is_repeated(&self.memory, request) {
            return self.memory.claim(request).await;
        }
        let claimed = self.memory.claim(&ClaimRequest { payload_bytes_max: usize::MAX, ..request.clone() }).await?;
        Ok(ClaimResponse { is_limited_by_bytes: false, kept_back: Vec::new(), ..claimed })
    }
}

store_bug! {
    repeated_claim_ignores_bytes;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let repeated = ClaimRequest { payload_bytes_max: usize::MAX, ..request.clone() };
        self.memory.claim(if is_repeated(&self.memory, request) { &repeated } else { request }).await
    }
}

store_bug! {
    claim_ignores_the_size_of_events;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { event_payload_bytes_max: None, ..request.clone() }).await
    }
}

store_bug! {
    claim_leaves_one;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { limit: request.limit.saturating_sub(1), ..request.clone() }).await
    }
}

store_bug! {
    claim_abandons_late;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.memory.claim(&ClaimRequest { abandon_after: request.abandon_after + 1, ..request.clone() }).await
    }
}

store_bug! {
    claim_names_abandoned_twice with_state Mutex<BTreeMap<ClaimId, Vec<EventId>>>;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        let mut abandoned_by_claim = self.state.lock().expect("one thread");
        let abandoned = abandoned_by_claim.entry(request.id).or_default();
        abandoned.append(&mut claimed.abandoned);
        Ok(ClaimResponse { abandoned: abandoned.clone(), ..claimed })
    }
}

store_bug! {
    claim_forgets_its_id with_state AtomicU64;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let claims = u128::from(self.state.fetch_add(1, Ordering::Relaxed));
        let id = ClaimId::random((claims << 64).to_be_bytes());
        self.memory.claim(&ClaimRequest { id, ..request.clone() }).await
    }
}

store_bug! {
    repeated_claim_extends_nothing;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let leases = self.memory.with_state(|state| {
            let leased = state.rows.iter().filter_map(|(key, row)| Some((*key, row.lease.clone()?)));
            leased.filter(|(_, lease)| lease.claim == request.id).collect::<Vec<_>>()
        });
        let claimed = self.memory.claim(request).await;
        self.memory.with_state(|state| {
            for (key, lease) in leases {
                state.row_mut(key).expect("a claim removes no rows").lease = Some(lease);
            }
        });
        claimed
    }
}

store_bug! {
    /// Repeats lease tokens, as a counter could after a failover.
    tokens_repeat with_state Mutex<Option<LeaseToken>>;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        if let Some(first) = claimed.leases.first_mut() {
            first.token = *self.state.lock().expect("one thread").get_or_insert(first.token);
            forge_lease(&self.memory, first.key, first.token, &request.owner);
        }
        Ok(claimed)
    }
}

store_bug! {
    claim_names_one_destination_that_it_kept_back;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        claimed.kept_back.truncate(1);
        Ok(claimed)
    }
}

store_bug! {
    payloads_have_no_size;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        for lease in &mut claimed.leases {
            if let LeasePayload::Stored { bytes } = &mut lease.payload {
                *bytes = 0;
            }
        }
        Ok(claimed)
    }
}

store_bug! {
    payloads_are_read_after_the_lease;

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        Ok(self.memory.with_state(|state| state.rows.get(&lease.key).map(|row| row.payload.clone())))
    }
}

store_bug! {
    payloads_are_text;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut claimed = self.memory.claim(request).await?;
        for lease in &mut claimed.leases {
            if let LeasePayload::Loaded(payload) = &mut lease.payload {
                *payload = Bytes::from(String::from_utf8_lossy(payload).into_owned());
            }
        }
        Ok(claimed)
    }
}
