//! Enqueue: both get the same requests.

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_domain::{EventId, NewEvent, NewEventSpec, WorkerId};
use posthaste_store::{
    EnqueueLease, EnqueueRequest, EnqueueResponse, Idempotency, Receipt, Store as _, StoreError,
};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{EventSpec, Handle, RequestSpec};
use crate::sequence_run::{Counterparts, SequenceRun};

impl SequenceRun<'_> {
    pub(crate) async fn enqueue(
        &mut self,
        handle: Handle,
        requests: &[RequestSpec],
    ) -> ComparisonResult<String> {
        let batch: Vec<EnqueueRequest> = requests.iter().map(enqueue_request).collect();
        // The requests go to the store at the same time; it must handle them as if one after the other, in order.
        let handle = self.store(handle);
        let store = join_all(batch.iter().map(|request| handle.enqueue(request.clone()))).await;
        let mut model = Vec::new();
        for request in &batch {
            model.push(self.model.enqueue(EnqueueRequest { lease: None, ..request.clone() }).await);
        }
        let mut results = Vec::new();
        for ((request, store), model) in batch.iter().zip(store).zip(model) {
            results.push(match (store, model) {
                (Ok(store), Ok(model)) => self.compare_responses(request, &store, &model)?,
                (Err(error), _) if error.is_transient() => return Err(Difference::failed("enqueue", &error)),
                (Err(store), Err(model)) => self.compare_refusals(request, &store, &model)?,
                (store, model) => {
                    return Err(Difference::new(format!(
                        "the result of {request:?} differs:\n  model: {model:?}\n  store: {store:?}"
                    )));
                }
            });
        }
        Ok(results.join("; "))
    }

    fn compare_responses(
        &mut self,
        request: &EnqueueRequest,
        store: &EnqueueResponse,
        model: &EnqueueResponse,
    ) -> ComparisonResult<String> {
        let shape = |enqueued: &EnqueueResponse| (enqueued.replayed, enqueued.receipts.len());
        compare("(replayed, receipts)", &shape(model), &shape(store))?;
        for (store, model) in store.receipts.iter().zip(&model.receipts) {
            self.ids.events.pair(&store.event_id, &model.event_id)?;
            if !self.clock_offset.is_known() {
                self.clock_offset.align(store.created_at, model.created_at);
            }
            let converted = Receipt {
                event_id: model.event_id.clone(),
                status: store.status,
                created_at: self.clock_offset.to_model(store.created_at, model.created_at),
            };
            compare("a receipt", model, &converted)?;
        }
        if model.replayed {
            compare("the number of leases of a replayed enqueue", &0, &store.leases.len())?;
            self.tally.add("replayed enqueues", 1);
            return Ok("replayed".to_owned());
        }
        let fresh = store.receipts.iter().zip(&model.receipts);
        self.enqueued.extend(fresh.map(|(store, model)| Counterparts {
            store: store.event_id.clone(),
            model: model.event_id.clone(),
        }));
        self.tally.add("events", model.receipts.len());
        self.compare_new_leases(request, store)?;
        let ids: Vec<&str> = store.receipts.iter().map(|receipt| receipt.event_id.as_str()).collect();
        Ok(ids.join(", "))
    }

    /// Checks the leases that the store granted on new events, then lets the model grant the same ones.
    fn compare_new_leases(&mut self, request: &EnqueueRequest, store: &EnqueueResponse) -> ComparisonResult {
        let Some(lease) = &request.lease else {
            return compare("the number of leases without a request for them", &0, &store.leases.len());
        };
        let (keys, now) = (self.model_keys(&store.leases)?, self.now());
        let is_new = |event_id: &EventId| store.receipts.iter().any(|receipt| receipt.event_id == *event_id);
        for (granted, key) in store.leases.iter().zip(&keys) {
            let is_paused =
                self.model.with_state(|state| state.is_paused(state.rows[key].destination_id, now));
            if is_paused || !is_new(&granted.event_id) {
                let reason = if is_paused { "its destination is paused" } else { "it is not new" };
                let event_id = &granted.event_id;
                return Err(Difference::new(format!("event {event_id} was stored leased, but {reason}")));
            }
        }
        let model = self.model.lease_enqueued(lease, &keys);
        self.tally.add("events stored leased", model.len());
        self.compare_granted(&store.leases, &model, false).map(drop)
    }

    /// Compares the errors of a refused request. If several ids are taken, the store may name any of them.
    fn compare_refusals(
        &mut self,
        request: &EnqueueRequest,
        store: &StoreError,
        model: &StoreError,
    ) -> ComparisonResult<String> {
        self.tally.add("refused enqueues", 1);
        let ids: Vec<_> = request.events.iter().filter_map(NewEvent::event_id).collect();
        let is_taken = |id| {
            self.model.with_state(|state| state.keys.contains_key(id))
                || ids.iter().filter(|other| **other == id).count() > 1
        };
        match (store, model) {
            (StoreError::EventIdTaken { event_id }, StoreError::EventIdTaken { .. })
                if ids.contains(&event_id) && is_taken(event_id) => {}
            _ => compare("the refusal", model, store)?,
        }
        Ok(format!("refused: {store}"))
    }
}

fn enqueue_request(request: &RequestSpec) -> EnqueueRequest {
    let idempotency = request.key.as_ref().map(|key| Idempotency {
        key: format!("key-{}", key.name),
        fingerprint: [key.body; 32],
        keep_for: key.keep,
    });
    let events = request.events.iter().map(new_event).collect();
    let lease = request.lease.map(|(owner, duration)| EnqueueLease {
        owner: WorkerId::new(owner.name()).expect("visible ASCII"),
        duration,
    });
    EnqueueRequest { events, idempotency, stored_by: request.stored_by.map(str::to_owned), lease }
}

fn new_event(event: &EventSpec) -> NewEvent {
    let optional = |text: &str| event.all_fields.then(|| text.to_owned());
    let start: &[u8] = if event.all_fields { b"\0\xff\xfe \xc3\x28 {}\r\n" } else { br#"{"amount": 1.0}"# };
    let payload = [start, &vec![b' '; event.padding_bytes]].concat();
    let spec = NewEventSpec {
        destination_url: event.destination.url().to_owned(),
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from(payload),
        content_type: optional("application/octet-stream"),
        event_id: event.id.map(|id| format!("id-{id}")),
        payment_request_id: optional("pr-1"),
        webhook_id: optional("wh-2"),
        session_id: optional("se-3"),
        traceparent: optional("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        max_attempts: Some(event.max_attempts),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, 1 << 20, event.max_attempts).expect("every field is acceptable")
}
