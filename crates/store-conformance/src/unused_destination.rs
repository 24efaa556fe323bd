//! Removal of destinations that no event refers to.

use posthaste_domain::{DestinationId, Outcome};
use posthaste_store::{EventQuery, PageRequest, PauseRequest, Retention, StoreError};

use crate::Harness;
use crate::fixture::*;

const RETENTION: Retention = Retention {
    keep_for: Some(DAY),
    keep_dead_letters_for: None,
    keep_unused_destinations_for: Some(DAY),
    rows_max: 2,
};
/// More steps than several passes over the destinations of a case take.
const STEPS: usize = 30;
/// More rounds of steps than the transactions of other databases on the same server take.
const ROUNDS_MAX: usize = 100;

/// Runs enough maintenance steps to remove every unused destination.
async fn maintain(store: &Handle) {
    for _ in 0..STEPS {
        store.maintain(&RETENTION).await.expect("the store is up");
    }
}

/// Runs maintenance until these destinations are removed. A store may keep a destination for as long as any transaction of
/// its server is open, and cases that run at the same time have such transactions.
async fn maintain_until_removed(store: &Handle, ids: &[DestinationId]) {
    for _ in 0..ROUNDS_MAX {
        maintain(store).await;
        let mut remaining = 0;
        for id in ids {
            remaining += usize::from(exists(store, *id).await);
        }
        if remaining == 0 {
            return;
        }
    }
    panic!("unused destinations stay after {ROUNDS_MAX} rounds of maintenance: {ids:?}");
}

async fn exists(store: &Handle, id: DestinationId) -> bool {
    match store.destination(id).await {
        Ok(_) => true,
        Err(StoreError::DestinationNotFound { .. }) => false,
        Err(error) => panic!("the store is up: {error}"),
    }
}

/// Makes one attempt to a new destination and returns the destination. No other event may be claimable.
async fn attempt_to(store: &Handle, url: &str, outcome: Outcome) -> DestinationId {
    let event_id = enqueue_and_attempt(store, event_to(url), outcome).await;
    view(store, &event_id).await.destination_id
}

pub async fn destinations_without_events_are_removed(harness: &dyn Harness) {
    let store = harness.store();
    let mut unused = Vec::new();
    for number in 0..7 {
        unused.push(attempt_to(&store, &format!("https://unused-{number}.example/"), success()).await);
    }
    let pending = enqueue(&store, event_to("https://used.example/")).await;
    let used = view(&store, &pending).await.destination_id;
    maintain(&store).await;
    for id in &unused {
        assert!(exists(&store, *id).await, "its event is still kept");
    }
    harness.advance(2 * DAY).await;
    maintain_until_removed(&store, &unused).await;
    assert!(exists(&store, used).await);
    assert_eq!(claim_one(&store).await.event_id, pending);
}

pub async fn a_removed_destination_is_created_again_under_another_id(harness: &dyn Harness) {
    let store = harness.store();
    let url = "https://here.example/";
    // Both handles have stored events for the destination and may have cached its id.
    let second = harness.second_handle();
    enqueue(&second, event_to(url)).await;
    for lease in claim_all(&store).await {
        apply(&store, &lease, success()).await;
    }
    let first = attempt_to(&store, url, success()).await;
    harness.advance(2 * DAY).await;
    maintain_until_removed(&store, &[first]).await;
    for handle in [&store, &second] {
        let event_id = enqueue(handle, event_to(url)).await;
        let lease = claim_one(&store).await;
        assert_eq!((&lease.event_id, lease.destination_url.as_str()), (&event_id, url));
        assert_ne!(lease.destination_id, first, "workers keep circuits by the id");
        apply(&store, &lease, success()).await;
    }
}

pub async fn a_paused_failing_or_reported_destination_is_kept(harness: &dyn Harness) {
    let store = harness.store();
    let paused = attempt_to(&store, "https://paused.example/", requests_pause(HOUR)).await;
    let failing = attempt_to(&store, "https://failing.example/", status(500)).await;
    let reported = attempt_to(&store, "https://reported.example/", success()).await;
    harness.advance(2 * DAY).await;
    for lease in claim_all(&store).await {
        let outcome = if lease.destination_id == paused { requests_pause(HOUR) } else { status(500) };
        apply(&store, &lease, outcome).await;
    }
    store.report_circuits(&[open_circuit("worker-a", reported)]).await.expect("the store is up");
    let events = store.events(&EventQuery::default(), &PageRequest::default()).await;
    for event in events.expect("the store is up").items {
        if event.delivered_at.is_none() {
            store
                .cancel(&event.event_id, "ann".into(), None)
                .await
                .expect("a pending event can be cancelled");
            store
                .discard(&event.event_id, "ann".into(), None)
                .await
                .expect("a failed event can be discarded");
        }
    }
    // The failures began two days ago; a destination without events has no later ones.
    maintain_until_removed(&store, &[failing]).await;
    assert!(exists(&store, paused).await && exists(&store, reported).await);
    harness.advance(2 * DAY).await;
    maintain_until_removed(&store, &[paused, reported]).await;
}

pub async fn a_destination_that_an_operator_paused_is_kept_until_a_day_after_its_resume(
    harness: &dyn Harness,
) {
    let store = harness.store();
    let here = attempt_to(&store, "https://here.example/", success()).await;
    let pause = PauseRequest::new("ann", None, Some("new disks"));
    store.pause_destination(here, &pause).await.expect("the destination exists");
    harness.advance(30 * DAY).await;
    maintain(&store).await;
    assert!(exists(&store, here).await, "the pause has no end");
    store.resume_destination(here, "bob").await.expect("the destination exists");
    maintain(&store).await;
    let audit = store.destination(here).await.expect("the destination exists").audit;
    assert_eq!(audit.len(), 2, "its audit log is kept with it");
    harness.advance(2 * DAY).await;
    maintain_until_removed(&store, &[here]).await;
}
