//! The health of destinations: pauses, failures, circuits.

use posthaste_domain::{DestinationId, ErrorClass, NewEventSpec, Outcome};
use posthaste_store::{
    ClaimRequest, DestinationState, DestinationStatus, FixedSlots, SettleResult, StoreError,
};

use crate::Harness;
use crate::fixture::*;

async fn state(store: &Handle, id: DestinationId) -> DestinationStatus {
    destination_status(store, id).await
}

async fn assert_no_lease_for_here(store: &Handle) {
    let leases = claim_all(store).await;
    assert!(leases.iter().all(|lease| lease.destination_url.as_str() != HERE), "{leases:?}");
}

pub async fn a_new_destination_is_healthy(harness: &dyn Harness) {
    let store = harness.store();
    let id = add_destination(&store, HERE).await;
    let state = state(&store, id).await;
    assert_eq!((state.id, state.url.as_str(), &state.circuit), (id, HERE, &None));
    assert_eq!((state.operator_pause, state.receiver_pause, state.failing_since), (None, None, None));
}

pub async fn an_unknown_destination_is_not_found(harness: &dyn Harness) {
    let store = harness.store();
    let unknown = DestinationId(i64::MAX);
    let not_found = StoreError::DestinationNotFound { id: i64::MAX };
    assert_eq!(store.destination(unknown).await, Err(not_found.clone()));
    assert_eq!(store.destination_status(unknown).await, Err(not_found.clone()));
    assert_eq!(store.pause_destination(unknown, &pause_for(HOUR)).await, Err(not_found.clone()));
    assert_eq!(store.resume_destination(unknown, "ann").await, Err(not_found));
}

pub async fn paused_destination_is_skipped_until_its_pause_ends(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_and_attempt(&store, event_to(HERE), requests_pause(30 * MINUTE)).await;
    let event = view(&store, &event_id).await;
    let paused_until = state(&store, event.destination_id).await.paused_until();
    assert_time_between(event.updated_at, paused_until.expect("the receiver requested a pause"), 30 * MINUTE);
    assert_eq!(event.next_attempt_at, Some(event.updated_at.after(30 * MINUTE)));

    let waiting = enqueue(&store, event_to(HERE)).await;
    let elsewhere = enqueue(&store, event_to(THERE)).await;
    assert_eq!(claim_one(&store).await.event_id, elsewhere, "a pause applies only to its own destination");
    harness.advance(15 * MINUTE).await;
    assert_no_lease_for_here(&store).await;
    harness.advance(20 * MINUTE).await;
    let here = view(&store, &waiting).await.destination_id;
    let mut granted: Vec<_> = claim_all(&store).await.into_iter().map(|lease| lease.event_id).collect();
    granted.retain(|granted| *granted != elsewhere);
    granted.sort();
    let mut expected = [event_id, waiting];
    expected.sort();
    assert_eq!(granted, expected);
    assert_eq!(state(&store, here).await.paused_until(), None, "an ended pause is not shown");
}

pub async fn paused_destination_does_not_hide_another(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_and_attempt(&store, event_to(HERE), requests_pause(HOUR)).await;
    enqueue_all(&store, vec![event_to(HERE); 300]).await;
    enqueue_all(&store, vec![event_to(THERE); 3]).await;
    let leases = claim(&store, &ClaimRequest { limit: 3, ..claim_by("worker-a") }).await.leases;
    assert_eq!(leases.len(), 3);
    assert!(leases.iter().all(|lease| lease.destination_url.as_str() == THERE), "{leases:?}");
}

pub async fn pause_applies_even_if_its_event_is_dead_lettered(harness: &dyn Harness) {
    let store = harness.store();
    let spec = NewEventSpec { max_attempts: Some(1), ..event_to(HERE) };
    let event_id = enqueue_and_attempt(&store, spec, requests_pause(HOUR)).await;
    let event = view(&store, &event_id).await;
    assert_eq!(event.next_attempt_at, None, "the event had only one attempt");
    assert!(state(&store, event.destination_id).await.paused_until().is_some());
    enqueue(&store, event_to(HERE)).await;
    assert_nothing_claimable(&store).await;
}

pub async fn longest_pause_applies(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event_to(HERE); 4]).await;
    let leases = claim_all(&store).await;
    let pausing = |index: usize, pause| settlement(&leases[index], requests_pause(pause));
    let batch = [pausing(0, 10 * MINUTE), pausing(1, 40 * MINUTE), pausing(2, 20 * MINUTE)];
    assert_eq!(settle_all(&store, &batch).await, [SettleResult::Applied; 3]);
    let assert_longest_applies = async || {
        let event = view(&store, &leases[1].event_id).await;
        let paused_until = state(&store, leases[1].destination_id).await.paused_until();
        assert_time_between(
            event.updated_at,
            paused_until.expect("the receiver requested a pause"),
            40 * MINUTE,
        );
    };
    assert_longest_applies().await;
    assert_eq!(settle(&store, &pausing(3, 5 * MINUTE)).await, SettleResult::Applied);
    assert_longest_applies().await;
}

pub async fn failing_since_is_the_first_failure_until_the_next_healthy_response(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_and_attempt(&store, event_to(HERE), status(500)).await;
    let here = view(&store, &event_id).await.destination_id;
    harness.advance(10 * MINUTE).await;
    let unreachable = Outcome::no_response(ErrorClass::Connect, "refused");
    apply(&store, &claim_one(&store).await, unreachable).await;
    let failing_since = state(&store, here).await.failing_since.expect("the destination failed twice");
    assert_time_between(failing_since, view(&store, &event_id).await.updated_at, 10 * MINUTE);
    harness.advance(HOUR).await;
    // A refusal shows that the receiver is healthy.
    apply(&store, &claim_one(&store).await, status(404)).await;
    assert_eq!(state(&store, here).await.failing_since, None);
}

pub async fn failure_on_our_side_does_not_change_a_destination(harness: &dyn Harness) {
    let store = harness.store();
    let panicked = || Outcome::no_response(ErrorClass::Panic, "index out of bounds");
    let event_id = enqueue_and_attempt(&store, event_to(HERE), panicked()).await;
    let here = view(&store, &event_id).await.destination_id;
    assert_eq!(state(&store, here).await.failing_since, None);
    enqueue_and_attempt(&store, event_to(HERE), status(500)).await;
    let before = state(&store, here).await;
    assert!(before.failing_since.is_some());
    enqueue_and_attempt(&store, event_to(HERE), panicked()).await;
    assert_eq!(state(&store, here).await, before);
}

pub async fn a_circuit_report_is_shown_until_it_expires(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    let now = store.health().await.expect("the store is up").now;
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    let second = harness.second_handle();
    let circuit = state(&second, here).await.circuit.expect("the circuit is reported as open");
    assert_time_between(circuit.since, now, OPEN_FOR);
    assert_time_between(now, circuit.next_probe_at, NEXT_PROBE_IN);
    assert_eq!(circuit.last_error.as_deref(), Some("HTTP 500"));
    harness.advance(HOUR / 2).await;
    assert_eq!(state(&store, here).await.state(), DestinationState::CircuitOpen);
    harness.advance(HOUR).await;
    assert_eq!(state(&store, here).await.circuit, None, "the report was not renewed");
}

pub async fn circuit_is_open_while_one_worker_reports_it(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    let report = async |report| store.report_circuits(&[report]).await.expect("the store is up");
    report(open_circuit("worker-a", here)).await;
    report(open_circuit("worker-a", here)).await;
    harness.advance(10 * MINUTE).await;
    report(open_circuit("worker-b", here)).await;
    let of_both = state(&store, here).await.circuit.expect("both workers report it as open");
    report(closed_circuit("worker-a", here)).await;
    let of_b = state(&store, here).await.circuit.expect("worker-b reports it as open");
    assert_time_between(of_both.since, of_b.since, 10 * MINUTE);
    assert_time_between(of_both.next_probe_at, of_b.next_probe_at, 10 * MINUTE);
    report(closed_circuit("worker-b", here)).await;
    assert_eq!(state(&store, here).await.circuit, None);
}

pub async fn report_on_an_unknown_destination_is_ignored(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    let unknown = DestinationId(i64::MAX);
    let reports = [
        open_circuit("worker-a", unknown),
        open_circuit("worker-a", here),
        closed_circuit("worker-b", unknown),
    ];
    store.report_circuits(&reports).await.expect("the store is up");
    assert_eq!(state(&store, here).await.state(), DestinationState::CircuitOpen);
    assert!(store.destination(unknown).await.is_err());
}

pub async fn open_circuit_of_one_worker_does_not_stop_another(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    let without_open_circuit = ClaimRequest {
        slots: FixedSlots::per_destination(100).with(here, 0).share(),
        ..claim_by("worker-a")
    };
    assert_eq!(claim(&store, &without_open_circuit).await.leases.len(), 0);
    assert_eq!(claim(&store, &claim_by("worker-b")).await.leases.len(), 1);
}
