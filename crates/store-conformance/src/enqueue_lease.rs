//! Events that are stored leased: an enqueue that asks for leases on its events.

use posthaste_domain::{DeliveryStatus, Lease, NewEventSpec};
use posthaste_store::{EnqueueLease, EnqueueRequest, LeaseRef};

use crate::Harness;
use crate::fixture::*;

/// The request, with leases for `worker-a`.
fn leased(request: EnqueueRequest) -> EnqueueRequest {
    EnqueueRequest { lease: Some(EnqueueLease { owner: worker("worker-a"), duration: LEASE }), ..request }
}

/// Enqueues an event under a lease and returns the lease.
async fn enqueue_leased(store: &Handle) -> Lease {
    let mut response =
        try_enqueue(store, leased(request(vec![event()]))).await.expect("the event is accepted");
    assert_eq!(response.leases.len(), 1, "{response:?}");
    let lease = response.leases.remove(0);
    assert_eq!(lease.event_id, response.receipts[0].event_id);
    lease
}

pub async fn an_event_stored_with_a_lease_has_it_at_once(harness: &dyn Harness) {
    let store = harness.store();
    let lease = enqueue_leased(&store).await;
    let view = view(&store, &lease.event_id).await;
    assert_eq!((view.status, view.claims, view.attempts), (DeliveryStatus::Pending, 1, 0));
    assert_eq!((view.lost_leases, view.lease_owner), (0, Some(worker("worker-a"))));
    assert_time_between(view.created_at, view.lease_until.expect("the event is leased"), LEASE);
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.pending, overview.pending_ready, overview.retrying), (1, 0, 0));
    assert_nothing_claimable(&harness.second_handle()).await;
}

pub async fn a_lease_of_an_enqueue_has_what_a_claim_would_return(harness: &dyn Harness) {
    let store = harness.store();
    let granted = enqueue_leased(&store).await;
    release(&store, &[&granted]).await;
    let claimed = claim_one(&store).await;
    assert_ne!(claimed.token, granted.token);
    assert_eq!(Lease { token: granted.token, overdue: granted.overdue, ..claimed }, granted);
}

pub async fn a_lease_of_an_enqueue_is_settled_like_that_of_a_claim(harness: &dyn Harness) {
    let store = harness.store();
    let after = end_of_log(&store).await;
    let lease = enqueue_leased(&store).await;
    apply(&store, &lease, success()).await;
    let detail = detail(&store, &lease.event_id).await;
    assert_eq!(
        (detail.event.status, detail.event.attempts, detail.event.claims),
        (DeliveryStatus::Delivered, 1, 1)
    );
    assert_eq!(detail.history.iter().map(|attempt| attempt.token).collect::<Vec<_>>(), [lease.token]);
    assert_eq!(published_after(&store, after).await.len(), 1);
}

pub async fn a_retry_after_a_lease_of_an_enqueue_is_claimed(harness: &dyn Harness) {
    let store = harness.store();
    let lease = enqueue_leased(&store).await;
    apply(&store, &lease, status(500)).await;
    assert_nothing_claimable(&store).await;
    harness.advance(2 * RETRY_DELAY).await;
    let retry = claim_one(&store).await;
    assert_eq!((retry.event_id, retry.attempts), (lease.event_id, 1));
}

pub async fn a_lease_of_an_enqueue_can_be_renewed(harness: &dyn Harness) {
    let store = harness.store();
    let lease = enqueue_leased(&store).await;
    for _ in 0..3 {
        harness.advance(LEASE * 2 / 3).await;
        assert_eq!(store.renew(&[LeaseRef::from(&lease)], LEASE).await, Ok(Vec::new()));
        assert_nothing_claimable(&store).await;
    }
    apply(&store, &lease, success()).await;
}

pub async fn a_released_lease_of_an_enqueue_counts_no_loss(harness: &dyn Harness) {
    let store = harness.store();
    let lease = enqueue_leased(&store).await;
    let mut wakeups = store.wakeups();
    release(&store, &[&lease]).await;
    assert_woken(&mut wakeups).await;
    apply(&store, &claim_one(&store).await, success()).await;
    let view = view(&store, &lease.event_id).await;
    assert_eq!((view.claims, view.lost_leases, view.attempts), (2, 0, 1));
}

pub async fn an_expired_lease_of_an_enqueue_is_taken_over_and_counts_one_loss(harness: &dyn Harness) {
    let store = harness.store();
    let lost = enqueue_leased(&store).await;
    harness.advance(PAST_LEASE).await;
    let taker = only_lease(&store, &claim_by("worker-b")).await;
    assert_eq!(taker.event_id, lost.event_id);
    let view = view(&store, &lost.event_id).await;
    assert_eq!((view.claims, view.lost_leases, view.lease_owner), (2, 1, Some(worker("worker-b"))));
    assert_eq!(store.renew(&[LeaseRef::from(&lost)], LEASE).await, Ok(vec![LeaseRef::from(&lost)]));
    apply(&store, &taker, success()).await;
}

pub async fn an_enqueue_leases_no_event_of_a_paused_destination(harness: &dyn Harness) {
    let store = harness.store();
    let paused = add_destination(&store, HERE).await;
    store.pause_destination(paused, &pause_for(HOUR)).await.expect("the destination exists");
    let mixed = leased(request(vec![event_to(HERE), event_to(THERE)]));
    let response = try_enqueue(&store, mixed).await.expect("the events are accepted");
    let leased: Vec<_> = response.leases.iter().map(|lease| lease.event_id.clone()).collect();
    assert_eq!(leased, [response.receipts[1].event_id.clone()]);
    assert_nothing_claimable(&store).await;
    store.resume_destination(paused, "ann").await.expect("the destination exists");
    assert_eq!(claim_all(&store).await.len(), 2, "the events of the paused destination wait in its queue");
}

pub async fn an_enqueue_leases_no_event_of_a_later_time(harness: &dyn Harness) {
    let store = harness.store();
    let later = NewEventSpec { deliver_in: MINUTE, ..event() };
    let response = try_enqueue(&store, leased(request(vec![later]))).await.expect("the event is accepted");
    assert_eq!(response.leases, []);
    let view = view(&store, &response.receipts[0].event_id).await;
    assert_eq!((view.claims, view.lease_owner, view.lease_until), (0, None, None));
    assert_nothing_claimable(&store).await;
    harness.advance(MINUTE * 2).await;
    assert_eq!(claim_one(&store).await.event_id, response.receipts[0].event_id);
}

pub async fn a_replayed_enqueue_grants_no_lease(harness: &dyn Harness) {
    let store = harness.store();
    let request = leased(request_with_key("key-1", 1, vec![event()]));
    let first = try_enqueue(&store, request.clone()).await.expect("the event is accepted");
    let repeated = try_enqueue(&store, request).await.expect("the request is replayed");
    assert_eq!((repeated.replayed, repeated.leases.len()), (true, 0));
    assert_eq!(repeated.receipts, first.receipts);
    for lease in &first.leases {
        apply(&store, lease, success()).await;
    }
}

pub async fn a_refused_enqueue_leaves_no_lease(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event_with_id("taken")).await;
    let refused = try_enqueue(&store, leased(request(vec![event(), event_with_id("taken")]))).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(claim_one(&store).await.event_id, id("taken"));
}

pub async fn a_repeated_claim_returns_no_lease_of_an_enqueue(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let request = claim_by("worker-a");
    let claimed = leases(&store, &request).await;
    let _ = enqueue_leased(&store).await;
    assert_eq!(lease_refs(&leases(&store, &request).await), lease_refs(&claimed));
}

pub async fn leases_of_concurrent_enqueues_are_separate(harness: &dyn Harness) {
    let store = harness.store();
    let requests: Vec<_> = (0..8).map(|_| leased(request(vec![event(), event()]))).collect();
    let mut granted = Vec::new();
    for response in enqueue_concurrently(&store, &requests).await {
        let response = response.expect("the events are accepted");
        let own = ids(&response);
        assert!(response.leases.iter().all(|lease| own.contains(&lease.event_id)), "{response:?}");
        granted.extend(response.leases);
    }
    let mut tokens: Vec<_> = granted.iter().map(|lease| lease.token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), granted.len(), "no token repeats");
    assert_eq!(claim_all(&store).await.len(), 16 - granted.len(), "a claim takes the other events");
    for lease in &granted {
        apply(&store, lease, success()).await;
    }
}
