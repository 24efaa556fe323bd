//! The store's clock steps back, because it was wrong and has been corrected.

use std::time::Duration;

use posthaste_domain::{DestinationId, EventId, Lease, Timestamp};
use posthaste_store::{ClaimRequest, LeaseRef, PauseRequest};

use crate::Harness;
use crate::fixture::*;

/// Claims within which a due event is granted while the clock stands still. A store may use the first one to find out that
/// the clock has stepped back.
const CLAIMS_MAX: usize = 5;

/// A store whose clock can step back.
async fn store_ahead(harness: &dyn Harness) -> Handle {
    harness.advance(3 * HOUR).await;
    harness.store()
}

/// Steps the clock back by more than every delay, lease and pause of the cases.
async fn step_back(harness: &dyn Harness) {
    harness.step_back(2 * HOUR).await;
}

/// Claims until events are granted, while the clock stands still.
async fn granted_at_once(store: &Handle) -> Vec<Lease> {
    for _ in 0..CLAIMS_MAX {
        let leases = claim_all(store).await;
        if !leases.is_empty() {
            return leases;
        }
    }
    Vec::new()
}

async fn granted_ids(store: &Handle) -> Vec<EventId> {
    granted_at_once(store).await.into_iter().map(|lease| lease.event_id).collect()
}

/// Claims until the store has repaired a time. Until then no event may be granted.
async fn wait_for_repair(store: &Handle, what: &str, mut is_repaired: impl AsyncFnMut() -> bool) {
    within_tolerance(what, async {
        loop {
            assert_eq!(granted_ids(store).await, [], "{what}");
            if is_repaired().await {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn now(store: &Handle) -> Timestamp {
    store.health().await.expect("the store is up").now
}

/// A destination without pending events.
async fn served_destination(store: &Handle) -> DestinationId {
    enqueue(store, event()).await;
    let lease = claim_one(store).await;
    apply(store, &lease, success()).await;
    lease.destination_id
}

pub async fn first_attempts_are_due_after_the_clock_stepped_back(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let requeued = enqueue_dead_lettered(&store, event()).await;
    store.requeue(&requeued, "operator".into()).await.expect("a failed event can be requeued");
    let new = enqueue(&store, event()).await;
    step_back(harness).await;
    let mut leases = granted_at_once(&store).await;
    leases.sort_by_key(|lease| lease.event_id != requeued);
    assert_eq!(leases.iter().map(|lease| &lease.event_id).collect::<Vec<_>>(), [&requeued, &new]);
    apply(&store, &leases[0], success()).await;
    assert!(view(&store, &requeued).await.delivered_at.is_some());
}

pub async fn a_lease_from_before_the_clock_stepped_back_ends_a_full_lease_later(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let event_id = enqueue(&store, event()).await;
    let lost = claim_one(&store).await;
    step_back(harness).await;
    wait_for_repair(&store, "no lease is taken over before its time", async || {
        let until = view(&store, &event_id).await.lease_until.expect("the event is leased");
        until <= now(&store).await.after(LEASE)
    })
    .await;
    harness.advance(PAST_LEASE).await;
    let taker = claim_one(&store).await;
    assert_eq!((&taker.event_id, taker.token == lost.token), (&event_id, false));
    assert_eq!(view(&store, &event_id).await.lost_leases, 1);
}

pub async fn a_lease_that_is_renewed_after_the_clock_stepped_back_is_kept(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    step_back(harness).await;
    for _ in 0..6 {
        assert_eq!(granted_ids(&store).await, [], "a renewed lease is not taken over");
        assert_eq!(store.renew(&[LeaseRef::from(&lease)], LEASE).await, Ok(Vec::new()));
        harness.advance(LEASE / 2).await;
    }
    apply(&store, &lease, success()).await;
}

pub async fn a_retry_from_before_the_clock_stepped_back_is_due_after_its_own_delay(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let event_id = enqueue_retrying(&store, event()).await;
    step_back(harness).await;
    wait_for_repair(&store, "the delay begins again", async || {
        let due = view(&store, &event_id).await.next_attempt_at.expect("the event is pending");
        due <= now(&store).await.after(RETRY_DELAY)
    })
    .await;
    harness.advance(2 * RETRY_DELAY).await;
    let retry = claim_one(&store).await;
    assert_eq!((&retry.event_id, retry.attempts), (&event_id, 1));
}

pub async fn a_retry_that_is_released_after_the_clock_stepped_back_is_due(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let event_id = enqueue_retrying(&store, event()).await;
    harness.advance(2 * RETRY_DELAY).await;
    let lease = claim_one(&store).await;
    step_back(harness).await;
    release(&store, &[&lease]).await;
    assert_eq!(granted_ids(&store).await, [event_id]);
}

pub async fn a_retry_scheduled_after_the_clock_stepped_back_is_due_after_its_delay(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    enqueue_delivered(&store, event()).await;
    step_back(harness).await;
    assert_eq!(granted_ids(&store).await, []);
    let event_id = enqueue_retrying(&store, event()).await;
    assert_eq!(granted_ids(&store).await, []);
    harness.advance(2 * RETRY_DELAY).await;
    assert_eq!(granted_ids(&store).await, [event_id]);
}

pub async fn pauses_from_before_the_clock_stepped_back_end_after_their_own_length(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let pause = 20 * MINUTE;
    enqueue(&store, event_to(HERE)).await;
    let here = claim_one(&store).await;
    apply(&store, &here, requests_pause(pause)).await;
    let there = add_destination(&store, THERE).await;
    store.pause_destination(there, &pause_for(pause)).await.expect("the destination exists");
    step_back(harness).await;
    wait_for_repair(&store, "the pauses begin again", async || {
        let latest_end = Some(now(&store).await.after(pause));
        destination_status(&store, here.destination_id).await.paused_until() <= latest_end
            && destination_status(&store, there).await.paused_until() <= latest_end
    })
    .await;
    for id in [here.destination_id, there] {
        let paused = destination_status(&store, id).await;
        let since = paused.since().expect("the destination is paused");
        assert_time_between(since, paused.paused_until().expect("the pause has an end"), pause);
    }
    harness.advance(pause / 2).await;
    assert_eq!(granted_ids(&store).await, []);
    harness.advance(pause).await;
    assert_eq!(granted_at_once(&store).await.len(), 2);
}

pub async fn a_pause_without_end_outlasts_a_clock_that_steps_back(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let here = add_destination(&store, HERE).await;
    let pause = PauseRequest::new("ann", None, None);
    store.pause_destination(here, &pause).await.expect("the destination exists");
    step_back(harness).await;
    wait_for_repair(&store, "the pause begins again", async || {
        destination_status(&store, here).await.since() <= Some(now(&store).await)
    })
    .await;
    harness.advance(3 * HOUR).await;
    assert_eq!(granted_ids(&store).await, []);
    store.resume_destination(here, "ann").await.expect("the destination exists");
    assert_eq!(granted_at_once(&store).await.len(), 1);
}

pub async fn a_resume_from_before_the_clock_stepped_back_closes_no_later_circuit(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let here = served_destination(&store).await;
    store.resume_destination(here, "ann").await.expect("the destination exists");
    step_back(harness).await;
    let mut report = open_circuit("worker-a", here);
    report.open.as_mut().expect("it is open").open_for = Duration::ZERO;
    wait_for_repair(&store, "a circuit that opens after the resume is reported", async || {
        harness.advance(SECOND).await;
        store.report_circuits(std::slice::from_ref(&report)).await.expect("the store is up");
        destination_status(&store, here).await.circuit.is_some()
    })
    .await;
    harness.advance(2 * MINUTE).await;
    let request = ClaimRequest { resumed_within: MINUTE, ..claim_by("worker-a") };
    assert_eq!(claim(&store, &request).await.resumed, [], "the resume is over a minute old");
}

pub async fn a_circuit_reported_before_the_clock_stepped_back_is_forgotten(harness: &dyn Harness) {
    let store = store_ahead(harness).await;
    let here = served_destination(&store).await;
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    step_back(harness).await;
    wait_for_repair(&store, "the report of a dead worker is forgotten", async || {
        destination_status(&store, here).await.circuit.is_none()
    })
    .await;
    store.report_circuits(&[open_circuit("worker-b", here)]).await.expect("the store is up");
    assert!(destination_status(&store, here).await.circuit.is_some(), "a live worker repeats its report");
}
