//! Storing events: every field is kept, and a request is stored as a whole or not at all.

use bytes::Bytes;
use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, EventId, NewEventSpec, Trigger};
use posthaste_store::{EnqueueRequest, EnqueueResponse, EventQuery, PageRequest, StoreError};

use crate::Harness;
use crate::fixture::*;

pub async fn an_enqueued_event_is_pending_due_and_unattempted(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let detail = detail(&store, &event_id).await;
    assert_eq!((detail.history, detail.audit), (vec![], vec![]));
    let event = detail.event;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Pending, None));
    assert_eq!((event.attempts, event.claims, event.lost_leases), (0, 0, 0));
    assert_eq!((event.lease_owner, event.lease_until), (None, None));
    assert_eq!((event.last_error, event.last_attempted_at), (None, None));
    assert_eq!((event.delivered_at, event.manual_last), (None, None));
    assert_same_time(event.next_attempt_at.expect("a pending event has a due time"), event.created_at);
    assert_same_time(event.updated_at, event.created_at);
}

pub async fn every_field_of_an_event_is_stored(harness: &dyn Harness) {
    let store = harness.store();
    let spec = NewEventSpec {
        event_type: "order created".to_owned(),
        content_type: Some("application/cloudevents+json".to_owned()),
        event_id: Some("order-17/created".to_owned()),
        payment_request_id: Some("pr-1".to_owned()),
        webhook_id: Some("wh-2".to_owned()),
        session_id: Some("se-3".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        max_attempts: Some(17),
        ..event_to("https://receiver.example/hook?tenant=%C3%A9&b=2")
    };
    let event_id = enqueue(&store, spec.clone()).await;
    let event = view(&store, &event_id).await;
    assert_eq!(event.event_id.as_str(), "order-17/created");
    assert_eq!(event.destination_url.as_str(), spec.destination_url);
    assert_eq!(event.event_type, spec.event_type);
    assert_eq!(event.payment_request_id, spec.payment_request_id);
    assert_eq!(event.webhook_id, spec.webhook_id);
    assert_eq!(event.session_id, spec.session_id);
    assert_eq!(event.max_attempts, 17);

    let lease = claim_one(&store).await;
    assert_eq!((lease.key, lease.event_id), (event.key, event.event_id));
    assert_eq!((lease.message_id, lease.destination_id), (event.message_id, event.destination_id));
    assert_eq!(lease.destination_url, event.destination_url);
    assert_eq!(lease.event_type, spec.event_type);
    assert_eq!(Some(lease.content_type), spec.content_type);
    assert_eq!(lease.payload.expect_loaded(), &spec.payload);
    assert_eq!(lease.traceparent, spec.traceparent);
    assert_eq!((lease.attempts, lease.max_attempts), (0, 17));
    assert_eq!(lease.trigger, Trigger::Scheduled);
}

pub async fn omitted_fields_stay_empty(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.payment_request_id, event.webhook_id, event.session_id), (None, None, None));
    assert_eq!(claim_one(&store).await.traceparent, None);
}

pub async fn every_event_keeps_the_name_of_the_key_that_stored_it(harness: &dyn Harness) {
    let store = harness.store();
    let stored_by = |name: Option<&str>, ids: &[&str]| EnqueueRequest {
        stored_by: name.map(str::to_owned),
        ..request(ids.iter().copied().map(event_with_id).collect())
    };
    // Requests of several producers may share a commit. Generated ids take another path than chosen ones.
    let generated = EnqueueRequest { stored_by: Some("orders".to_owned()), ..request(vec![event(); 2]) };
    let requests = [
        stored_by(Some("orders"), &["order-1", "order-2"]),
        stored_by(None, &["without"]),
        stored_by(Some("invoices"), &["invoice-1"]),
        generated,
    ];
    let responses = enqueue_concurrently(&store, &requests).await;
    let mut expected = vec![];
    for (request, response) in requests.iter().zip(responses) {
        let response = response.expect("the events are accepted");
        expected.extend(ids(&response).into_iter().map(|event_id| (event_id, request.stored_by.clone())));
    }
    let assert_kept = async || {
        for (event_id, stored_by) in &expected {
            assert_eq!(view(&store, event_id).await.stored_by, *stored_by, "{event_id}");
        }
    };
    assert_kept().await;
    for lease in claim_all(&store).await {
        let outcome = if lease.event_id == id("order-1") { success() } else { status(410) };
        apply(&store, &lease, outcome).await;
    }
    assert_kept().await;
    let requeued = store.requeue(&id("order-2"), "ops".into()).await;
    assert_eq!(requeued.expect("a failed event can be requeued").stored_by.as_deref(), Some("orders"));
    let listed = store.events(&EventQuery::default(), &PageRequest::default()).await;
    for event in listed.expect("the list is served").items {
        let (_, stored_by) = expected.iter().find(|(id, _)| *id == event.event_id).expect("it was stored");
        assert_eq!(event.stored_by, *stored_by, "{}", event.event_id);
    }
}

pub async fn payload_bytes_are_stored_exactly(harness: &dyn Harness) {
    let store = harness.store();
    let payloads: [&[u8]; 6] = [
        b"",
        b"\0",
        b" {\"b\":1.0,\n\t\"a\" : 1e2, \"a\":2}\r\n ",
        b"\xff\xfe\x80 not utf-8 \xc3\x28",
        "\u{feff}\u{2028}\u{1f980}".as_bytes(),
        b"\\x00 '; -- %s {} $1",
    ];
    let with_payload = |payload| NewEventSpec { payload: Bytes::from_static(payload), ..event() };
    let ids = enqueue_all(&store, payloads.map(with_payload).to_vec()).await;
    let leases = claim_all(&store).await;
    for (event_id, payload) in ids.iter().zip(payloads) {
        let lease = leases.iter().find(|lease| lease.event_id == *event_id).expect("every event was claimed");
        assert_eq!(lease.payload.expect_loaded(), payload);
    }
}

pub async fn a_generated_event_id_is_msg_and_32_hex_digits(harness: &dyn Harness) {
    let store = harness.store();
    let mut ids = enqueue_all(&store, vec![event(); 20]).await;
    for event_id in &ids {
        assert_eq!(*event_id, EventId::from_message(view(&store, event_id).await.message_id));
        let digits = event_id.as_str().strip_prefix("msg_").expect("a generated id starts with msg_");
        assert_eq!(digits.len(), 32, "{event_id}");
        assert!(digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{event_id}");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20, "every id is unique");
}

pub async fn receipts_are_in_the_order_of_the_events(harness: &dyn Harness) {
    let store = harness.store();
    let events = ["c", "a", "b"].map(event_with_id).to_vec();
    let enqueued = try_enqueue(&store, request(events)).await.expect("the events are accepted");
    assert!(!enqueued.replayed);
    assert_eq!(ids(&enqueued), ["c", "a", "b"].map(id));
    for receipt in enqueued.receipts {
        assert_eq!(receipt.status, DeliveryStatus::Pending);
        assert_eq!(receipt.created_at, view(&store, &receipt.event_id).await.created_at);
    }
}

pub async fn request_with_a_taken_event_id_is_refused_as_a_whole(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event_with_id("taken")).await;
    let before = detail(&store, &id("taken")).await;
    let events = ["fresh", "taken", "fresh-too"].map(event_with_id).to_vec();
    let refused = try_enqueue(&store, request(events)).await;
    assert_eq!(refused, Err(StoreError::EventIdTaken { event_id: id("taken") }));
    assert!(!is_stored(&store, &id("fresh")).await);
    assert!(!is_stored(&store, &id("fresh-too")).await);
    assert_eq!(detail(&store, &id("taken")).await, before);
    assert_eq!(claim_all(&store).await.len(), 1);
}

pub async fn request_with_a_repeated_event_id_is_refused_as_a_whole(harness: &dyn Harness) {
    let store = harness.store();
    let events = ["once", "twice", "twice"].map(event_with_id).to_vec();
    let refused = try_enqueue(&store, request(events)).await;
    assert_eq!(refused, Err(StoreError::EventIdTaken { event_id: id("twice") }));
    assert!(!is_stored(&store, &id("once")).await);
    assert!(!is_stored(&store, &id("twice")).await);
    assert_nothing_claimable(&store).await;
}

pub async fn a_refused_request_does_not_fail_concurrent_ones(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event_with_id("taken")).await;
    let batch = [
        request(vec![event_with_id("first")]),
        request(vec![event_with_id("between"), event_with_id("taken")]),
        // The id is not taken, because the request before was refused as a whole.
        request(vec![event_with_id("between")]),
        request(vec![event_with_id("last")]),
    ];
    let results = enqueue_concurrently(&store, &batch).await;
    assert_eq!(results[1], Err(StoreError::EventIdTaken { event_id: id("taken") }));
    for (index, name) in [(0, "first"), (2, "between"), (3, "last")] {
        let enqueued = results[index].as_ref().expect("the request is accepted");
        assert_eq!(ids(enqueued), [id(name)]);
        assert!(is_stored(&store, &id(name)).await);
    }
    assert_eq!(claim_all(&store).await.len(), 4);
}

pub async fn concurrent_requests_cannot_share_an_event_id(harness: &dyn Harness) {
    let store = harness.store();
    let batch = [request(vec![event_with_id("shared")]), request(vec![event_with_id("shared"), event()])];
    let results = enqueue_concurrently(&store, &batch).await;
    assert!(results[0].is_ok(), "the first request gets the id: {results:?}");
    assert_eq!(results[1], Err(StoreError::EventIdTaken { event_id: id("shared") }));
    assert_eq!(claim_all(&store).await.len(), 1);
}

pub async fn concurrent_requests_for_one_event_id_make_one_event(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for round in 0..10 {
        let name = format!("wanted-{round}");
        let wanted = || request(vec![event(), event_with_id(&name)]);
        let (one, other) = join(try_enqueue(&store, wanted()), try_enqueue(&second, wanted())).await;
        let taken = Err(StoreError::EventIdTaken { event_id: id(&name) });
        assert!(one == taken || other == taken, "one request is refused: {one:?}, {other:?}");
        assert!(one.is_ok() || other.is_ok(), "the other is accepted: {one:?}, {other:?}");
    }
    assert_eq!(claim_all(&store).await.len(), 20);
}

pub async fn a_request_of_a_thousand_events_is_stored_whole(harness: &dyn Harness) {
    let store = harness.store();
    let events = (0..1_000).map(|n| event_to(&format!("https://receiver-{}.example/", n % 10)));
    let mut ids = enqueue_all(&store, events.collect()).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1_000);
    assert_eq!(store.overview().await.expect("the store is up").pending, 1_000);
}

pub async fn a_request_without_events_has_no_receipts(harness: &dyn Harness) {
    let store = harness.store();
    let response = try_enqueue(&store, request(vec![])).await;
    assert_eq!(response, Ok(EnqueueResponse { replayed: false, receipts: vec![], leases: Vec::new() }));
    assert_nothing_claimable(&store).await;
}

pub async fn events_to_one_url_share_a_destination(harness: &dyn Harness) {
    let store = harness.store();
    let urls =
        ["https://a.example/x", "https://b.example/x", "https://A.example:443/x", "https://a.example/X"];
    let ids = enqueue_all(&store, urls.map(event_to).to_vec()).await;
    let later = enqueue(&store, event_to(urls[0])).await;
    let mut destinations = Vec::new();
    for event_id in ids.iter().chain([&later]) {
        destinations.push(view(&store, event_id).await.destination_id);
    }
    assert_eq!(destinations[2], destinations[0], "two spellings of one URL");
    assert_eq!(destinations[4], destinations[0], "one URL, enqueued twice");
    assert_ne!(destinations[1], destinations[0]);
    assert_ne!(destinations[3], destinations[0]);
}

pub async fn acknowledged_event_is_visible_through_every_handle(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue(&store, event()).await;
    assert_eq!(view(&second, &event_id).await, view(&store, &event_id).await);
    assert_eq!(claim_one(&second).await.event_id, event_id);
}

pub async fn enqueue_wakes_waiting_workers(harness: &dyn Harness) {
    let store = harness.store();
    let mut wakeups = store.wakeups();
    enqueue(&store, event()).await;
    assert_woken(&mut wakeups).await;
}
