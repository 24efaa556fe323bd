//! Circuits and pauses: an unhealthy or paused destination defers its events.

use crate::fixture::{Fixture, Reply, millis, secs};
use posthaste_domain::{BreakerPolicy, DeliveryStatus};
use posthaste_engine::{Engine, Settings};
use posthaste_store::{DestinationState, Store as _};

/// Opens a circuit after three failures in a row, for thirty seconds.
pub(crate) fn sensitive_breaker(settings: &mut Settings) {
    settings.breaker = BreakerPolicy::new(secs(60), 1_000, 10_000, 3, secs(30)).expect("a valid policy");
    settings.per_destination = 1;
}

#[tokio::test(start_paused = true)]
async fn s1_circuit_an_open_circuit_defers_without_consuming_attempts() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 50).await;
    fixture.enqueue("up", 5).await;
    let _engine = fixture.start(sensitive_breaker);
    fixture.advance(secs(20)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 3, "three failures opened the circuit");
    assert_eq!(fixture.receiver.requests_to("up"), 5);
    let untouched = fixture.memory.with_state(|state| {
        let of_down = state.rows.values().filter(|row| row.event_id.as_str().starts_with("down"));
        of_down.filter(|row| (row.attempts, row.status) == (0, DeliveryStatus::Pending)).count()
    });
    assert_eq!(untouched, 47);
    let destination = fixture.memory.destination_status(posthaste_domain::DestinationId(1)).await.unwrap();
    let circuit = destination.circuit.expect("the open circuit is reported to the store");
    assert_eq!(circuit.last_error.as_deref(), Some("HTTP 500: scripted"));
    let cool_down = circuit.next_probe_at.since(circuit.since);
    assert!(cool_down.abs_diff(secs(30)) < millis(10), "{cool_down:?}");
}

#[tokio::test(start_paused = true)]
async fn s1_circuit_half_open_sends_a_single_probe_and_closes_when_it_succeeds() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..4).map(|_| Reply::After(millis(10), 500)));
    fixture.receiver.always_reply("down", Reply::After(secs(2), 200));
    fixture.enqueue("down", 20).await;
    let _engine = fixture.start(|settings| {
        sensitive_breaker(settings);
        settings.per_destination = 10;
    });
    // Ten requests were sent at once; four of them failed and opened the circuit.
    fixture.advance(secs(29)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 10);
    fixture.wait_until("the probe", |_| fixture.receiver.requests_to("down") > 10).await;
    fixture.advance(millis(500)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 11, "one probe");
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
}

#[tokio::test(start_paused = true)]
async fn closed_circuit_is_reported_closed() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..3).map(|_| Reply::Status(500)));
    fixture.enqueue("down", 6).await;
    let _engine = fixture.start(sensitive_breaker);
    let reported = || async {
        let destination = posthaste_domain::DestinationId(1);
        fixture.memory.destination_status(destination).await.expect("the destination exists").state()
    };
    fixture.advance(secs(10)).await;
    assert_eq!(reported().await, DestinationState::CircuitOpen);
    fixture.advance(secs(40)).await;
    assert_eq!(reported().await, DestinationState::Ok);
}

#[tokio::test(start_paused = true)]
async fn resume_closes_the_circuits_of_every_worker_within_two_seconds() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 50).await;
    let circuits_open =
        |engines: &[Engine]| -> usize { engines.iter().map(|engine| engine.health().circuits_open()).sum() };
    let engines = [fixture.start(sensitive_breaker), fixture.start(sensitive_breaker)];
    fixture.advance(secs(10)).await;
    assert_eq!((circuits_open(&engines), fixture.receiver.requests_to("down")), (2, 6));
    let destination = posthaste_domain::DestinationId(1);
    fixture.receiver.always_reply("down", Reply::Status(200));
    fixture.memory.resume_destination(destination, "ann").await.unwrap();
    fixture.advance(secs(2)).await;
    assert_eq!((circuits_open(&engines), fixture.receiver.requests_to("down")), (0, 50));
    let status = fixture.memory.destination_status(destination).await.unwrap();
    assert_eq!(status.state(), DestinationState::Ok, "no worker reports the closed circuit again");
}

#[tokio::test(start_paused = true)]
async fn circuit_that_opens_after_a_resume_stays_open() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 50).await;
    let engine = fixture.start(sensitive_breaker);
    fixture.advance(secs(10)).await;
    let destination = posthaste_domain::DestinationId(1);
    fixture.memory.resume_destination(destination, "ann").await.unwrap();
    fixture.advance(secs(9)).await;
    assert_eq!(engine.health().circuits_open(), 1, "the receiver still fails");
    let requests = fixture.receiver.requests_to("down");
    assert!((4..=9).contains(&requests), "{requests} requests");
    fixture.advance(secs(9)).await;
    assert_eq!(fixture.receiver.requests_to("down"), requests, "one resume closes a circuit once");
}

#[tokio::test(start_paused = true)]
async fn operators_pause_holds_events_of_all_workers_until_the_resume() {
    let fixture = Fixture::new();
    fixture.enqueue("here", 30).await;
    let destination = posthaste_domain::DestinationId(1);
    let pause = posthaste_store::PauseRequest::new("ann", None, None);
    fixture.memory.pause_destination(destination, &pause).await.unwrap();
    let _engines = [fixture.start(|_| {}), fixture.start(|_| {})];
    fixture.enqueue("there", 5).await;
    fixture.advance(secs(60)).await;
    assert_eq!((fixture.receiver.requests_to("here"), fixture.receiver.requests_to("there")), (0, 5));
    fixture.memory.resume_destination(destination, "bob").await.unwrap();
    fixture.advance(secs(2)).await;
    assert_eq!(fixture.receiver.requests_to("here"), 30);
}
