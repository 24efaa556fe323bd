//! Pauses and resumes of destinations by operators.

use posthaste_domain::{DestinationId, EventId};
use posthaste_store::{
    ClaimRequest, DestinationAction, DestinationAudit, DestinationState, PauseRequest, ResumedDestination,
};

use crate::Harness;
use crate::fixture::*;

async fn pause(store: &Handle, id: DestinationId, pause: &PauseRequest) {
    store.pause_destination(id, pause).await.expect("the destination exists");
}

async fn pause_without_end(store: &Handle, id: DestinationId) {
    pause(store, id, &PauseRequest::new("ann", None, Some("new disks"))).await;
}

async fn resume(store: &Handle, id: DestinationId) {
    store.resume_destination(id, "bob").await.expect("the destination exists");
}

async fn claimed_ids(store: &Handle) -> Vec<EventId> {
    let mut ids: Vec<EventId> = claim_all(store).await.into_iter().map(|lease| lease.event_id).collect();
    ids.sort();
    ids
}

fn sorted<const N: usize>(mut ids: [EventId; N]) -> Vec<EventId> {
    ids.sort();
    ids.into()
}

pub async fn operators_pause_holds_first_attempts_retries_and_expired_leases(harness: &dyn Harness) {
    let store = harness.store();
    let retrying = enqueue_retrying(&store, event_to(HERE)).await;
    let leased = enqueue(&store, event_to(HERE)).await;
    let here = claim_one(&store).await.destination_id;
    let waiting = enqueue(&store, event_to(HERE)).await;
    let status = store
        .pause_destination(here, &PauseRequest::new("ann", None, Some("new disks")))
        .await
        .expect("the destination exists");
    assert_eq!((status.state(), status.paused_until()), (DestinationState::Paused, None));
    assert_eq!(status.reason().as_deref(), Some("paused by ann: new disks"));
    assert_eq!(status, destination_status(&harness.second_handle(), here).await);

    for _ in 0..3 {
        harness.advance(HOUR).await;
        assert_nothing_claimable(&store).await;
        assert_nothing_claimable(&harness.second_handle()).await;
    }
    let elsewhere = enqueue(&store, event_to(THERE)).await;
    assert_eq!(claim_one(&store).await.event_id, elsewhere, "a pause applies only to its own destination");
    resume(&store, here).await;
    assert_eq!(claimed_ids(&store).await, sorted([retrying, leased, waiting]));
}

pub async fn events_in_flight_finish_during_a_pause(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event_to(HERE); 2]).await;
    let leases = claim_all(&store).await;
    pause_without_end(&store, leases[0].destination_id).await;
    assert_eq!(store.renew(&lease_refs(&leases), LEASE).await, Ok(Vec::new()));
    apply(&store, &leases[0], success()).await;
    apply(&store, &leases[1], status(500)).await;
    harness.advance(HOUR).await;
    assert_nothing_claimable(&store).await;
}

pub async fn resume_releases_events_at_once_through_every_handle(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let here = add_destination(&store, HERE).await;
    pause_without_end(&store, here).await;
    // Both handles learn of the pause.
    assert_nothing_claimable(&store).await;
    assert_nothing_claimable(&second).await;
    resume(&store, here).await;
    let lease = claim_one(&second).await;
    release(&store, &[&lease]).await;
    claim_one(&store).await;
    assert_eq!(destination_status(&store, here).await.state(), DestinationState::Ok);
}

pub async fn pause_with_an_end_ends_by_itself(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    pause(&store, here, &pause_for(30 * MINUTE)).await;
    let paused = destination_status(&store, here).await;
    let since = paused.since().expect("the destination is paused");
    assert_time_between(since, paused.paused_until().expect("the pause has an end"), 30 * MINUTE);
    harness.advance(20 * MINUTE).await;
    assert_nothing_claimable(&store).await;
    harness.advance(20 * MINUTE).await;
    let ended = destination_status(&store, here).await;
    assert_eq!((ended.state(), ended.operator_pause), (DestinationState::Ok, None));
    claim_one(&store).await;
}

pub async fn later_pause_replaces_an_earlier_one(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    pause_without_end(&store, here).await;
    pause(&store, here, &pause_for(10 * MINUTE)).await;
    harness.advance(20 * MINUTE).await;
    let lease = claim_one(&store).await;
    release(&store, &[&lease]).await;
    pause(&store, here, &pause_for(10 * MINUTE)).await;
    pause_without_end(&store, here).await;
    harness.advance(20 * MINUTE).await;
    assert_nothing_claimable(&store).await;
}

pub async fn pauses_by_operator_and_receiver_do_not_shorten_each_other(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event_to(HERE); 3]).await;
    let leases = claim_all(&store).await;
    let here = leases[0].destination_id;
    pause(&store, here, &pause_for(40 * MINUTE)).await;
    apply(&store, &leases[0], requests_pause(10 * MINUTE)).await;
    harness.advance(20 * MINUTE).await;
    let by_operator = destination_status(&store, here).await;
    assert!(by_operator.operator_pause.is_some() && by_operator.receiver_pause.is_none());
    assert_nothing_claimable(&store).await;

    store.renew(&lease_refs(&leases[1..]), DAY).await.expect("the store is up");
    apply(&store, &leases[1], requests_pause(50 * MINUTE)).await;
    pause(&store, here, &pause_for(5 * MINUTE)).await;
    harness.advance(30 * MINUTE).await;
    let by_receiver = destination_status(&store, here).await;
    assert!(by_receiver.operator_pause.is_none() && by_receiver.receiver_pause.is_some());
    assert_nothing_claimable(&store).await;
    harness.advance(30 * MINUTE).await;
    assert_eq!(claim_all(&store).await.len(), 2);
}

pub async fn resume_ends_the_pause_of_the_receiver(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_and_attempt(&store, event_to(HERE), requests_pause(10 * HOUR)).await;
    let here = view(&store, &event_id).await.destination_id;
    let waiting = enqueue(&store, event_to(HERE)).await;
    assert_nothing_claimable(&store).await;
    resume(&store, here).await;
    let status = destination_status(&store, here).await;
    assert_eq!((status.state(), status.receiver_pause), (DestinationState::Failing, None));
    assert_eq!(claim_one(&store).await.event_id, waiting, "the retry is not due yet");
}

pub async fn resume_closes_reported_circuits_and_is_listed_by_claims(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let here = add_destination(&store, HERE).await;
    let there = add_destination(&store, THERE).await;
    assert_eq!(claim(&store, &claim_by("worker-a")).await.resumed, []);
    let reports =
        [open_circuit("worker-a", here), open_circuit("worker-b", here), open_circuit("worker-a", there)];
    store.report_circuits(&reports).await.expect("the store is up");
    let resumed = store.resume_destination(here, "bob").await.expect("the destination exists");
    assert_eq!((resumed.state(), resumed.circuit), (DestinationState::Ok, None));
    assert_eq!(destination_status(&store, there).await.state(), DestinationState::CircuitOpen);

    let listed = async |handle: &Handle, within| -> Vec<DestinationId> {
        let request = ClaimRequest { resumed_within: within, ..claim_by("worker-c") };
        let resumed = claim(handle, &request).await.resumed;
        resumed.into_iter().map(|ResumedDestination { destination, .. }| destination).collect()
    };
    for handle in [&store, &second] {
        assert_eq!(listed(handle, HOUR).await, [here]);
    }
    harness.advance(30 * MINUTE).await;
    assert_eq!(listed(&store, 10 * MINUTE).await, []);
    let request = ClaimRequest { resumed_within: HOUR, ..claim_by("worker-c") };
    let resumed = claim(&store, &request).await.resumed;
    assert_eq!(resumed.len(), 1);
    assert!(resumed[0].ago.abs_diff(30 * MINUTE) < 15 * SECOND, "{resumed:?}");
}

pub async fn circuit_that_opened_before_the_resume_is_not_reported_again(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    resume(&store, here).await;
    // The worker has not learned of the resume yet.
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    assert_eq!(destination_status(&store, here).await.circuit, None);
    harness.advance(10 * MINUTE).await;
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    assert!(destination_status(&store, here).await.circuit.is_some(), "this circuit opened after the resume");
}

pub async fn pause_and_resume_are_audited(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    let there = add_destination(&store, THERE).await;
    pause_without_end(&store, here).await;
    pause(&store, here, &pause_for(HOUR)).await;
    resume(&store, here).await;
    resume(&store, there).await;
    let audit = harness.second_handle().destination(here).await.expect("the destination exists").audit;
    let who: Vec<_> = audit.iter().map(|entry| (entry.action, entry.actor.as_str())).collect();
    use DestinationAction::{Pause, Resume};
    assert_eq!(who, [(Pause, "ann"), (Pause, "ann"), (Resume, "bob")]);
    let DestinationAudit { at, until, reason, .. } = &audit[0];
    assert_eq!((until, reason.as_deref()), (&None, Some("new disks")));
    assert_same_time(*at, store.health().await.expect("the store is up").now);
    assert_time_between(audit[1].at, audit[1].until.expect("the pause has an end"), HOUR);
    assert_eq!((&audit[1].reason, &audit[2].until, &audit[2].reason), (&None, &None, &None));
}

pub async fn resume_wakes_waiting_workers(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    let mut wakeups = store.wakeups();
    resume(&store, here).await;
    assert_woken(&mut wakeups).await;
}
