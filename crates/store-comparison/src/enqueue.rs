//! The same requests to both.

use bytes::Bytes;
use posthaste_domain::{NewEvent, NewEventSpec};
use posthaste_store::{EnqueueRequest, Enqueued, Idempotency, Receipt, Store as _, StoreError};

use crate::difference::{Agreed, Difference, same};
use crate::operation::{self, Handle, Request};
use crate::pair::{Both, Pair};

impl Pair<'_> {
    pub(crate) async fn enqueue(&mut self, handle: Handle, requests: &[Request]) -> Agreed<String> {
        let batch: Vec<EnqueueRequest> = requests.iter().map(request).collect();
        let store = self.store(handle).enqueue(&batch).await;
        let store = store.map_err(|error| Difference::failed("enqueue", &error))?;
        let model = self.model.enqueue(&batch).await.expect("the model is always up");
        same("the number of answers", &model.len(), &store.len())?;
        let mut told = Vec::new();
        for ((request, store), model) in batch.iter().zip(store).zip(model) {
            told.push(match (store, model) {
                (Ok(store), Ok(model)) => self.same_enqueued(&store, &model)?,
                (Err(store), Err(model)) => self.same_refusal(request, &store, &model)?,
                (store, model) => {
                    return Err(Difference::new(format!(
                        "the answer to {request:?} differs:\n  model: {model:?}\n  store: {store:?}"
                    )));
                }
            });
        }
        Ok(told.join("; "))
    }

    fn same_enqueued(&mut self, store: &Enqueued, model: &Enqueued) -> Agreed<String> {
        let shape = |enqueued: &Enqueued| (enqueued.replayed, enqueued.receipts.len());
        same("(replayed, receipts)", &shape(model), &shape(store))?;
        for (store, model) in store.receipts.iter().zip(&model.receipts) {
            self.names.events.meet(&store.event_id, &model.event_id)?;
            if !self.moments.are_aligned() {
                self.moments.align(store.created_at, model.created_at);
            }
            let told = Receipt {
                event_id: model.event_id.clone(),
                status: store.status,
                created_at: self.moments.as_model(store.created_at, model.created_at),
            };
            same("a receipt", model, &told)?;
        }
        if model.replayed {
            self.tally.count("replayed enqueues", 1);
            return Ok("replayed".to_owned());
        }
        let fresh = store.receipts.iter().zip(&model.receipts);
        self.enqueued.extend(
            fresh.map(|(store, model)| Both { store: store.event_id.clone(), model: model.event_id.clone() }),
        );
        self.tally.count("events", model.receipts.len());
        let ids: Vec<&str> = store.receipts.iter().map(|receipt| receipt.event_id.as_str()).collect();
        Ok(ids.join(", "))
    }

    /// Where several ids are taken, any of them may be named.
    fn same_refusal(
        &mut self,
        request: &EnqueueRequest,
        store: &StoreError,
        model: &StoreError,
    ) -> Agreed<String> {
        self.tally.count("refused enqueues", 1);
        let ids: Vec<_> = request.events.iter().filter_map(NewEvent::event_id).collect();
        let is_taken = |id| {
            self.model.with_state(|state| state.keys.contains_key(id))
                || ids.iter().filter(|other| **other == id).count() > 1
        };
        match (store, model) {
            (StoreError::EventIdTaken { event_id }, StoreError::EventIdTaken { .. })
                if ids.contains(&event_id) && is_taken(event_id) => {}
            _ => same("the refusal", model, store)?,
        }
        Ok(format!("refused: {store}"))
    }
}

fn request(request: &Request) -> EnqueueRequest {
    let idempotency = request.key.as_ref().map(|key| Idempotency {
        key: format!("key-{}", key.name),
        fingerprint: [key.body; 32],
        keep: key.keep,
    });
    EnqueueRequest { events: request.events.iter().map(new_event).collect(), idempotency }
}

fn new_event(event: &operation::NewEvent) -> NewEvent {
    let optional = |text: &str| event.in_full.then(|| text.to_owned());
    let plain: &[u8] = br#"{"amount": 1.0}"#;
    let spec = NewEventSpec {
        destination_url: event.destination.url().to_owned(),
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from_static(if event.in_full { b"\0\xff\xfe \xc3\x28 {}\r\n" } else { plain }),
        content_type: optional("application/octet-stream"),
        event_id: event.id.map(|id| format!("id-{id}")),
        payment_request_id: optional("pr-1"),
        webhook_id: optional("wh-2"),
        session_id: optional("se-3"),
        traceparent: optional("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        max_attempts: Some(event.max_attempts),
    };
    NewEvent::accept(spec, 1 << 20, event.max_attempts).expect("every field is acceptable")
}
