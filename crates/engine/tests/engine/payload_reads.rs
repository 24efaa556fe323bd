//! Payloads that do not come with their leases: they are read before their events are sent.

use crate::fixture::{Call, Fixture, Reply, millis, secs, settings};
use posthaste_domain::{DeliveryStatus, EventId};
use posthaste_engine::{Engine, Runtimes};
use posthaste_store::Store as _;

const LARGE: usize = 256 << 10;

fn leased(fixture: &Fixture) -> usize {
    fixture.memory.with_state(|state| state.rows.values().filter(|row| row.lease.is_some()).count())
}

/// Asserts that an event was delivered at its first attempt, under its first lease.
async fn assert_delivered_at_once(fixture: &Fixture, id: &EventId) {
    let event = fixture.event(id).await.event;
    assert_eq!((event.status, event.attempts), (DeliveryStatus::Delivered, 1));
    assert_eq!((event.claims, event.lost_leases), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_takes_longer_than_lease_and_timeout_costs_neither() {
    let fixture = Fixture::new();
    // A mebibyte takes 52 seconds.
    fixture.test_store().set_link_speed(20_000);
    let id = fixture.enqueue_sized("large", 1, 1 << 20).await.remove(0);
    let _engine = fixture.start(|settings| settings.timeout = secs(1));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.monotonic() > secs(50));
    assert_delivered_at_once(&fixture, &id).await;
    let history = fixture.event(&id).await.history;
    assert!(history[0].duration < secs(1), "the receiver's time is {:?}", history[0].duration);
}

#[tokio::test(start_paused = true)]
async fn reads_take_no_place_of_a_request() {
    let fixture = Fixture::new();
    fixture.test_store().set_link_speed(10_000);
    for host in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        fixture.enqueue_sized(host, 10, 20_000).await;
    }
    let _engine = fixture.start(|settings| settings.concurrency = 8);
    fixture.advance(millis(100)).await;
    // One of the hosts has large events that are being read.
    fixture.enqueue("small", 50).await;
    let began_at = fixture.monotonic();
    fixture.wait_until("the small ones", |_| fixture.receiver.requests_to("small") == 50).await;
    let took = fixture.monotonic() - began_at;
    assert!(took < millis(1_100), "small events took {took:?}");
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_read_costs_no_attempt_and_is_not_read_again_and_again() {
    let fixture = Fixture::new();
    let ids = fixture.enqueue_sized("large", 40, LARGE).await;
    fixture.test_store().fail(&[Call::ReadPayload]);
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(1)).await;
    fixture.enqueue("small", 10).await;
    let began_at = fixture.monotonic();
    fixture.wait_until("the small ones", |_| fixture.receiver.requests_to("small") == 10).await;
    assert!(fixture.monotonic() - began_at < millis(1_100), "they are claimed as usual");
    fixture.advance(secs(120)).await;
    let (reads, claims) =
        (fixture.test_store().calls(Call::ReadPayload), fixture.test_store().calls(Call::Claim));
    assert!((10..300).contains(&reads) && claims < 1_000, "{reads} reads, {claims} claims in two minutes");
    assert_eq!(fixture.receiver.requests_to("large"), 0);
    fixture.test_store().recover();
    let recovered_at = fixture.monotonic();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.monotonic() - recovered_at < secs(8), "they follow within the longest pause");
    for id in ids {
        let event = fixture.event(&id).await.event;
        assert_eq!((event.attempts, event.lost_leases), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_panics_costs_no_attempt() {
    let fixture = Fixture::new();
    let id = fixture.enqueue_sized("large", 1, LARGE).await.remove(0);
    fixture.test_store().panic_once(Call::ReadPayload);
    let _engine = fixture.start(|_| {});
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let event = fixture.event(&id).await.event;
    assert_eq!((event.attempts, event.claims, event.lost_leases), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drain_releases_events_whose_payload_is_being_read() {
    let fixture = Fixture::new();
    fixture.test_store().set_link_speed(1_000);
    fixture.enqueue_sized("large", 20, LARGE).await;
    let engine = fixture.start(|_| {});
    fixture.wait_until("a read", |_| fixture.test_store().calls(Call::ReadPayload) > 0).await;
    let began_at = fixture.monotonic();
    let drained = engine.drain(secs(10)).await;
    assert!(fixture.monotonic() - began_at < secs(1), "it does not wait for the payloads");
    assert_eq!((drained.unreleased, leased(&fixture)), (0, 0));
    assert_eq!(fixture.receiver.requests_to("large"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_cancelled_while_its_payload_is_read_is_not_sent() {
    let fixture = Fixture::new();
    fixture.test_store().set_link_speed(LARGE / 10);
    let id = fixture.enqueue_sized("large", 1, LARGE).await.remove(0);
    let engine = fixture.start(|_| {});
    fixture.wait_until("a read", |_| fixture.test_store().calls(Call::ReadPayload) > 0).await;
    fixture.memory.cancel(&id, "operator".into(), None).await.unwrap();
    fixture.advance(secs(20)).await;
    assert_eq!(fixture.receiver.requests_to("large"), 0);
    assert_eq!(engine.drain(secs(1)).await.unreleased, 0);
    assert_eq!(fixture.test_store().calls(Call::ReadPayload), 1);
}

/// A receiver that asks for a pause gets no event that was claimed before.
#[tokio::test(start_paused = true)]
async fn an_event_whose_destination_is_paused_while_its_payload_is_read_waits_for_the_end_of_the_pause() {
    let fixture = Fixture::new();
    // The payload takes ten seconds.
    fixture.test_store().set_link_speed(LARGE / 10);
    let large = fixture.enqueue_sized("up", 1, LARGE).await.remove(0);
    fixture.receiver.script("up", [Reply::RetryAfter(secs(60))]);
    let _engine = fixture.start(|_| {});
    fixture.wait_until("a read", |_| fixture.test_store().calls(Call::ReadPayload) > 0).await;
    let small = posthaste_store::EnqueueRequest::new(vec![crate::fixture::event("up", 99)]);
    fixture.memory.enqueue(small).await.unwrap();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let requests = fixture.receiver.requests();
    let (sent_at, ..) = requests.iter().find(|(_, id, _)| *id == large).expect("it was delivered");
    assert!(*sent_at >= secs(60), "sent at {sent_at:?}");
    assert_eq!(fixture.event(&large).await.event.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_cycle_reads_payloads_and_ends_when_they_cannot_be_read() {
    let fixture = Fixture::new();
    let ids = fixture.enqueue_sized("large", 12, LARGE).await;
    fixture.test_store().fail(&[Call::ReadPayload]);
    Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!((fixture.receiver.requests_to("large"), leased(&fixture)), (0, 0));
    fixture.test_store().recover();
    Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await.unwrap();
    for id in ids {
        assert_eq!(fixture.event(&id).await.event.attempts, 1);
    }
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
}
