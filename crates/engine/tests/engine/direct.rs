//! Events that are enqueued through the process of a worker, and sent without a claim.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use posthaste_domain::{BreakerPolicy, DeliveryStatus, DestinationId, EventId, NewEvent, NewEventSpec};
use posthaste_engine::{Engine, Settings};
use posthaste_store::{EnqueueRequest, Idempotency, PauseRequest, Store};

use crate::fixture::{Call, Fixture, Reply, event, millis, secs, sized_event};

/// Starts a worker that has delivered an event to each of these hosts, and whose claims have found no more.
async fn start_known(fixture: &Fixture, hosts: &[&str], change: impl FnOnce(&mut Settings)) -> Engine {
    let engine = fixture.start(|settings| {
        settings.poll_interval = secs(5);
        change(settings);
    });
    for host in hosts {
        let first = EnqueueRequest::new(vec![event(host, 1_000)]);
        fixture.memory.enqueue(first).await.expect("an unused id");
    }
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture.advance(secs(11)).await;
    engine
}

/// Enqueues an event through the worker's process, and lets its request start.
async fn enqueue(store: &Arc<dyn Store>, host: &str, number: usize) -> EventId {
    let response = store.enqueue(EnqueueRequest::new(vec![event(host, number)])).await.expect("it is stored");
    assert!(response.leases.is_empty(), "the leases are the worker's");
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    response.receipts[0].event_id.clone()
}

fn claims(fixture: &Fixture) -> usize {
    fixture.test_store().calls(Call::Claim)
}

#[tokio::test(start_paused = true)]
async fn event_to_a_known_destination_is_sent_without_a_claim() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let (store, before, now) = (engine.direct_store(), claims(&fixture), fixture.monotonic());
    for number in 0..5 {
        let id = enqueue(&store, "up", number).await;
        assert_eq!(fixture.receiver.requests().last().unwrap().1, id);
        assert_eq!(fixture.receiver.requests_to("up"), 2 + number);
    }
    assert_eq!((claims(&fixture), fixture.monotonic()), (before, now));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let delivered = fixture.event(&EventId::new("up-3").unwrap()).await.event;
    assert_eq!((delivered.attempts, delivered.claims), (1, 1));
    assert_eq!((claims(&fixture), engine.in_flight()), (before, 0));
}

#[tokio::test(start_paused = true)]
async fn failed_event_is_claimed_for_its_retry() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    fixture.receiver.script("up", [Reply::Status(500)]);
    let id = enqueue(&engine.direct_store(), "up", 0).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let delivered = fixture.event(&id).await.event;
    assert_eq!((delivered.attempts, delivered.claims), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn event_to_an_unknown_destination_is_claimed() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let (store, before) = (engine.direct_store(), claims(&fixture));
    let both = EnqueueRequest::new(vec![event("up", 0), event("new", 0)]);
    store.enqueue(both).await.unwrap();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(claims(&fixture) > before, "one event of the request is to an unknown destination");
    assert_eq!((fixture.receiver.requests_to("up"), fixture.receiver.requests_to("new")), (2, 1));
    assert_eq!(engine.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn large_payloads_and_large_requests_are_claimed() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let store = engine.direct_store();
    let large = sized_event("up", 0, (16 << 10) + 1);
    let many = (1..10).map(|number| event("up", number)).collect();
    for events in [vec![large], many] {
        let before = claims(&fixture);
        store.enqueue(EnqueueRequest::new(events)).await.unwrap();
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
        assert!(claims(&fixture) > before);
    }
}

#[tokio::test(start_paused = true)]
async fn new_events_do_not_overtake_a_backlog() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |settings| settings.per_destination = 1).await;
    fixture.receiver.always_reply("up", Reply::After(millis(30), 200));
    let store = engine.direct_store();
    fixture.enqueue("up", 20).await;
    fixture.advance(millis(5)).await;
    for number in 20..60 {
        enqueue(&store, "up", number).await;
        fixture.advance(millis(20)).await;
    }
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let sent: Vec<_> = fixture.receiver.requests().into_iter().skip(1).map(|(_, id, _)| id).collect();
    let expected: Vec<_> = (0..60).map(|number| EventId::new(format!("up-{number}")).unwrap()).collect();
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn full_window_is_not_exceeded() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |settings| settings.per_destination = 3).await;
    fixture.receiver.always_reply("up", Reply::After(millis(50), 200));
    let (store, before) = (engine.direct_store(), claims(&fixture));
    let requests = (0..30).map(|number| store.enqueue(EnqueueRequest::new(vec![event("up", number)])));
    assert!(join_all(requests).await.iter().all(Result::is_ok));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.most_in_flight("up"), 3);
    assert!(claims(&fixture) > before);
    assert_eq!((fixture.receiver.requests_to("up"), engine.in_flight()), (31, 0));
}

#[tokio::test(start_paused = true)]
async fn open_circuit_keeps_new_events_back() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |settings| {
        settings.breaker = BreakerPolicy::new(secs(60), 1, 1, 1, secs(600)).expect("a valid policy");
    })
    .await;
    let store = engine.direct_store();
    fixture.receiver.script("up", [Reply::Status(500)]);
    enqueue(&store, "up", 0).await;
    let id = enqueue(&store, "up", 1).await;
    assert_eq!(fixture.event(&id).await.event.claims, 0);
    assert_eq!(fixture.receiver.requests_to("up"), 2);
}

#[tokio::test(start_paused = true)]
async fn event_of_a_paused_destination_is_stored_without_a_lease() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let pause = PauseRequest::new("test", Some(secs(100)), None);
    fixture.memory.pause_destination(DestinationId(1), &pause).await.unwrap();
    let id = enqueue(&engine.direct_store(), "up", 0).await;
    assert_eq!((fixture.event(&id).await.event.claims, engine.in_flight()), (0, 0));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.monotonic() > secs(100));
}

#[tokio::test(start_paused = true)]
async fn event_of_a_later_time_is_claimed_when_it_is_due() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let (stored_at, before) = (fixture.monotonic(), claims(&fixture));
    let spec = NewEventSpec {
        destination_url: "https://up.test/".into(),
        event_type: "test".into(),
        deliver_in: secs(100),
        ..NewEventSpec::default()
    };
    let later = NewEvent::accept(spec, 1 << 20, 5).expect("a valid event");
    let stored = engine.direct_store().enqueue(EnqueueRequest::new(vec![later])).await.unwrap();
    let id = &stored.receipts[0].event_id;
    assert_eq!((fixture.event(id).await.event.claims, engine.in_flight()), (0, 0));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.monotonic() >= stored_at + secs(100) && claims(&fixture) > before);
    assert_eq!(fixture.event(id).await.event.claims, 1);
}

#[tokio::test(start_paused = true)]
async fn drain_releases_events_that_are_stored_meanwhile() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let store = engine.direct_store();
    fixture.test_store().set_enqueue_latency(secs(2));
    let enqueued = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.enqueue(EnqueueRequest::new(vec![event("up", 0)])).await }
    });
    fixture.advance(secs(1)).await;
    assert_eq!(engine.in_flight(), 1, "the place is reserved");
    let report = engine.drain(secs(10)).await;
    assert_eq!((report.released, report.unreleased), (0, 0), "no delivery was interrupted");
    let id = enqueued.await.unwrap().unwrap().receipts[0].event_id.clone();
    let during = store.enqueue(EnqueueRequest::new(vec![event("up", 1)])).await.unwrap();
    for (id, claims) in [(id, 1), (during.receipts[0].event_id.clone(), 0)] {
        let event = fixture.event(&id).await.event;
        assert_eq!((event.status, event.lease_owner, event.claims), (DeliveryStatus::Pending, None, claims));
    }
    assert_eq!(fixture.receiver.requests_to("up"), 1);
}

#[tokio::test(start_paused = true)]
async fn drain_ends_at_its_deadline_although_an_enqueue_hangs() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up", "slow"], |_| {}).await;
    let store = engine.direct_store();
    fixture.receiver.always_reply("slow", Reply::Hang);
    enqueue(&store, "slow", 0).await;
    fixture.test_store().set_enqueue_latency(secs(3_600));
    let hanging = tokio::spawn(async move { store.enqueue(EnqueueRequest::new(vec![event("up", 0)])).await });
    fixture.advance(secs(1)).await;
    let report = engine.drain(secs(10)).await;
    assert_eq!((report.released, report.unreleased), (1, 1), "the hanging call may have leased its event");
    hanging.abort();
}

#[tokio::test(start_paused = true)]
async fn event_is_sent_although_its_producer_gave_up_waiting() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let (store, before) = (engine.direct_store(), claims(&fixture));
    let response = store.enqueue(EnqueueRequest::new(vec![event("up", 0)])).now_or_never();
    assert!(response.is_none(), "the call was dropped before its response");
    fixture.wait_until("it is sent", |_| fixture.receiver.requests_to("up") == 2).await;
    assert_eq!(claims(&fixture), before);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(engine.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_calls_use_no_slots() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |settings| settings.per_destination = 3).await;
    let store = engine.direct_store();
    let request = || EnqueueRequest::new(vec![event("up", 0), event("up", 1)]);
    fixture.test_store().fail(&[Call::Enqueue]);
    for _ in 0..5 {
        assert!(store.enqueue(request()).await.unwrap_err().is_transient());
    }
    fixture.test_store().recover();
    fixture.test_store().panic_once(Call::Enqueue);
    assert!(store.enqueue(request()).await.is_err());
    fixture.advance(millis(1)).await;
    assert_eq!(engine.in_flight(), 0);
    let before = claims(&fixture);
    store.enqueue(request()).await.unwrap();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(claims(&fixture), before);
}

#[tokio::test(start_paused = true)]
async fn event_of_a_lost_response_is_sent_when_its_lease_has_expired() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let (store, began_at) = (engine.direct_store(), fixture.monotonic());
    let idempotency = Idempotency { key: "k".into(), fingerprint: [0; 32], keep_for: secs(86_400) };
    let request =
        EnqueueRequest { idempotency: Some(idempotency), ..EnqueueRequest::new(vec![event("up", 0)]) };
    fixture.test_store().lose_replies(Call::Enqueue, 1);
    assert!(store.enqueue(request.clone()).await.is_err());
    let repeated = store.enqueue(request).await.unwrap();
    assert!(repeated.replayed);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let took = fixture.monotonic() - began_at;
    assert!((secs(30)..secs(37)).contains(&took), "{took:?}");
    assert_eq!(fixture.receiver.requests_to("up"), 2);
    assert_eq!(engine.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn store_outlives_its_worker() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    let store = engine.direct_store();
    drop(engine);
    let id = enqueue(&store, "up", 0).await;
    assert_eq!(fixture.event(&id).await.event.claims, 0);
}

#[tokio::test(start_paused = true)]
async fn worker_whose_claims_fail_leaves_new_events_to_others() {
    let fixture = Fixture::new();
    let engine = start_known(&fixture, &["up"], |_| {}).await;
    fixture.test_store().fail(&[Call::Claim]);
    fixture.advance(secs(6)).await;
    let id = enqueue(&engine.direct_store(), "up", 0).await;
    assert_eq!(fixture.event(&id).await.event.claims, 0);
}
