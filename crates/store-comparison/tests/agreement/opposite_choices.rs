//! A correct store that decides every open choice of the port differently from the model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DeliveryOrder, DeliveryStatus, EventId, EventKey, Timestamp, WorkerId};
use posthaste_store::{
    ClaimRequest, ClaimResponse, EnqueueRequest, EnqueueResponse, LeaseRef, MaintenanceReport, PayloadBudget,
    Retention, SettleResult, Settlement, SlotBudget, Store, StoreClock as _, StoreError, StoreLayer,
};
use posthaste_store_memory::{ManualClock, MemoryStore, Row, State};

pub(crate) struct OppositeChoices {
    pub(crate) memory: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
}

#[async_trait]
impl StoreLayer for OppositeChoices {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    /// Names the last of several ids that are taken.
    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let ids: Vec<EventId> = request.events.iter().filter_map(|event| event.event_id().cloned()).collect();
        let mut response = self.memory.enqueue(request).await;
        if let Err(StoreError::EventIdTaken { event_id }) = &mut response {
            let mut ids = ids.iter().rev();
            let last = self.memory.with_state(|state| ids.find(|id| state.keys.contains_key(*id)));
            *event_id = last.unwrap_or(event_id).clone();
        }
        response
    }

    /// Grants the newest events first.
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let is_repeated = self.memory.with_state(|state| {
            let mut leases = state.rows.values().filter_map(|row| row.lease.as_ref());
            leases.any(|lease| lease.claim == request.id)
        });
        let mut claimed = if is_repeated {
            self.memory.claim(request).await?
        } else {
            // Abandon events first, so that they are not chosen.
            let nothing = ClaimRequest { limit: 0, ..request.clone() };
            let abandoned = self.memory.claim(&nothing).await?.abandoned;
            let (keys, is_limited_by_bytes) =
                self.memory.with_state(|state| choose_newest(state, self.clock.now(), request));
            ClaimResponse { abandoned, is_limited_by_bytes, ..self.memory.claim_exactly(request, &keys) }
        };
        claimed.leases.reverse();
        claimed.abandoned.reverse();
        Ok(claimed)
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let mut lost = self.memory.renew(held, lease).await?;
        lost.reverse();
        Ok(lost)
    }

    /// Reports another outcome under a settled token as stale, and publishes the notices of a batch in reverse order.
    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let before = self.memory.with_state(|state| state.notices.len());
        let mut settled = self.memory.settle(worker, batch).await?;
        self.memory.with_state(|state| {
            for (settlement, settled) in batch.iter().zip(&mut settled) {
                let written = state.attempts.get(&settlement.transition.token());
                if written
                    .is_some_and(|written| written.transition.outcome() != settlement.transition.outcome())
                {
                    *settled = SettleResult::Stale;
                }
            }
            let mut notices: Vec<_> = state.notices[before..].iter().map(|new| new.notice.clone()).collect();
            for new in &mut state.notices[before..] {
                new.notice = notices.pop().expect("the number of notices is unchanged");
            }
        });
        Ok(settled)
    }

    /// Removes one row per call, regardless of `rows_max`.
    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        self.memory.maintain(&Retention { rows_max: 1, ..*retention }).await
    }
}

/// Chooses the newest events first. Of a line it can only choose the head.
fn choose_newest(state: &State, now: Timestamp, request: &ClaimRequest) -> (Vec<EventKey>, bool) {
    let mut payloads = PayloadBudget::new(request);
    let mut slots = SlotBudget::new(request);
    let mut keys = Vec::new();
    for (key, row) in state.rows.iter().rev() {
        let (receiver, is_retry) = (state.receiver(row), row.attempts > 0);
        if slots.available(receiver, is_retry) > 0
            && row.is_ready(now)
            && !state.is_paused(row.destination_id, now)
            && is_head(state, now, *key, row)
            && has_tokens(state, now, row, &keys)
            && payloads.take(state.payload(row).len())
        {
            slots.take(receiver, 1, is_retry);
            keys.push(*key);
        }
    }
    (keys, payloads.refused() > 0)
}

/// Returns whether the destination of an event has any order, or the event is the head of its line.
fn is_head(state: &State, now: Timestamp, key: EventKey, row: &Row) -> bool {
    let endpoint = state.destinations[&row.destination_id].endpoint.as_ref();
    if endpoint.is_none_or(|endpoint| endpoint.order == DeliveryOrder::Any) {
        return true;
    }
    let is_in_line =
        |other: &Row| other.destination_id == row.destination_id && other.status == DeliveryStatus::Pending;
    let line = || state.rows.iter().filter(|(_, other)| is_in_line(other));
    let is_live = |other: &Row| other.lease.as_ref().is_some_and(|lease| !lease.is_expired(now));
    let leased = line().find(|(_, other)| other.lease.is_some());
    let head = leased.or_else(|| line().next()).map(|(head, _)| *head);
    head == Some(key) && !line().any(|(_, other)| is_live(other))
}

/// Returns whether the throttles have a token beside those of the chosen events.
fn has_tokens(state: &State, now: Timestamp, row: &Row, chosen: &[EventKey]) -> bool {
    let count =
        |is_like: &dyn Fn(&Row) -> bool| chosen.iter().filter(|key| is_like(&state.rows[*key])).count();
    let endpoint = state.destinations[&row.destination_id].endpoint.as_ref();
    let of_endpoint = endpoint.and_then(|it| Some(it.throttle?.available(it.spent_until, now)));
    let application = row.app.and_then(|app| state.registry.applications.get(&app));
    let of_application =
        application.and_then(|it| Some(it.application.throttle?.available(it.spent_until, now)));
    of_endpoint.is_none_or(|tokens| tokens > count(&|other| other.destination_id == row.destination_id))
        && of_application.is_none_or(|tokens| tokens > count(&|other| other.app == row.app))
}
