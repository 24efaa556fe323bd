//! Renewing and releasing leases.

use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, Lease, LeaseToken};
use posthaste_store::{LeaseRef, SettleResult};

use crate::Harness;
use crate::fixture::*;

/// Renews leases and returns the lost ones.
async fn renew(store: &Handle, leases: &[&Lease]) -> Vec<LeaseRef> {
    let refs: Vec<LeaseRef> = leases.iter().copied().map(LeaseRef::from).collect();
    store.renew(&refs, LEASE).await.expect("the store is up")
}

pub async fn s3_guarded_renewal_keeps_a_lease_beyond_its_first_expiry(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    for _ in 0..4 {
        harness.advance(LEASE * 2 / 3).await;
        assert_eq!(renew(&store, &[&lease]).await, []);
        assert_nothing_claimable(&store).await;
    }
    apply(&store, &lease, success()).await;
}

pub async fn s3_guarded_renewal_needs_ownership(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    let before = detail(&store, &event_id).await;
    assert_eq!(renew(&store, &[&lost]).await, [LeaseRef::from(&lost)]);
    assert_eq!(detail(&store, &event_id).await, before);
    apply(&store, &taker, success()).await;
}

pub async fn renewal_extends_from_now_and_increments_no_counter(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    harness.advance(LEASE / 2).await;
    assert_eq!(renew(&store, &[&lease]).await, []);
    let event = view(&store, &event_id).await;
    assert_time_between(event.created_at, event.lease_until.expect("the event is leased"), LEASE / 2 + LEASE);
    assert_eq!(event.lease_owner, Some(worker("worker-a")));
    assert_eq!((event.claims, event.attempts, event.lost_leases), (1, 0, 0));
}

pub async fn a_renewed_lease_still_expires(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    renew(&store, &[&claim_one(&store).await]).await;
    harness.advance(PAST_LEASE).await;
    claim_one(&store).await;
}

pub async fn expired_lease_that_was_not_taken_over_can_be_renewed(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    assert_eq!(renew(&store, &[&lease]).await, []);
    assert_nothing_claimable(&store).await;
    assert_eq!(view(&store, &event_id).await.lost_leases, 0);
    apply(&store, &lease, success()).await;
}

pub async fn ended_lease_cannot_be_renewed(harness: &dyn Harness) {
    let store = harness.store();
    let settled = enqueue_delivered(&store, event()).await;
    let failed = enqueue_dead_lettered(&store, event()).await;
    let retried = enqueue_retrying(&store, event()).await;
    let cancelled = enqueue(&store, event()).await;
    let in_flight = claim_one(&store).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a pending event can be cancelled");
    let released = enqueue(&store, event()).await;
    let released_lease = claim_one(&store).await;
    release(&store, &[&released_lease]).await;

    let mut held = vec![LeaseRef::from(&in_flight), LeaseRef::from(&released_lease)];
    for event_id in [&settled, &failed, &retried] {
        let detail = detail(&store, event_id).await;
        held.push(LeaseRef { key: detail.event.key, token: detail.history[0].token });
    }
    let mut lost = store.renew(&held, LEASE).await.expect("the store is up");
    lost.sort();
    held.sort();
    assert_eq!(lost, held);
    for event_id in [&settled, &failed, &retried, &cancelled, &released] {
        let event = view(&store, event_id).await;
        assert_eq!((event.lease_owner, event.lease_until), (None, None), "{event_id}");
    }
}

pub async fn renewal_reports_lost_leases_and_extends_the_others(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let (lost, _) = take_over(harness, &store).await;
    let held_id = enqueue(&store, event()).await;
    let held = claim_one(&store).await;
    let unknown = LeaseRef { key: held.key, token: LeaseToken::random([7; 16]) };
    harness.advance(LEASE / 2).await;
    let all = [LeaseRef::from(&lost), LeaseRef::from(&held), unknown];
    let reported = store.renew(&all, LEASE).await.expect("the store is up");
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported.contains(&LeaseRef::from(&lost)) && reported.contains(&unknown), "{reported:?}");
    let event = view(&store, &held_id).await;
    assert_time_between(event.created_at, event.lease_until.expect("the event is leased"), LEASE / 2 + LEASE);
}

pub async fn renewal_racing_a_takeover_leaves_one_owner(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    enqueue(&store, event()).await;
    let mut lease = claim_one(&store).await;
    // Too few rounds to abandon the event.
    for _ in 0..4 {
        harness.advance(PAST_LEASE).await;
        let (lost, claimed) = join(renew(&store, &[&lease]), claim(&second, &claim_by("worker-b"))).await;
        assert_eq!(lost.len(), claimed.leases.len(), "the lease is either renewed or taken over");
        lease = claimed.leases.into_iter().next().unwrap_or(lease);
        assert_eq!(renew(&store, &[&lease]).await, [], "the winner holds the lease");
    }
}

pub async fn a_released_event_is_claimable_at_once(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    release(&store, &[&lease]).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.lease_owner, event.lease_until), (None, None));
    let regained = claim_one(&store).await;
    assert_eq!(regained.event_id, event_id);
    assert_ne!(regained.token, lease.token);
}

pub async fn release_counts_neither_as_an_attempt_nor_as_a_lost_lease(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_retrying(&store, event()).await;
    harness.advance(HOUR).await;
    claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    // More often than an event may lose its lease before it is abandoned.
    for _ in 0..10 {
        let lease = claim_one(&store).await;
        assert_eq!(lease.attempts, 1);
        release(&store, &[&lease]).await;
    }
    let detail = detail(&store, &event_id).await;
    assert_eq!((detail.event.status, detail.event.attempts), (DeliveryStatus::Pending, 1));
    assert_eq!((detail.event.claims, detail.event.lost_leases), (12, 1));
    assert_eq!(detail.event.last_error.as_deref(), Some("HTTP 500"));
    assert_eq!(detail.history.len(), 1);
}

pub async fn settlement_under_a_released_lease_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    release(&store, &[&lease]).await;
    let before = detail(&store, &event_id).await;
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    assert_only_recorded(&store, &before, &[&lease]).await;
}

pub async fn release_ignores_lost_leases(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    let other_id = enqueue(&store, event()).await;
    let other = claim_one(&store).await;
    let before = detail(&store, &event_id).await;
    release(&store, &[&lost, &other]).await;
    assert_eq!(detail(&store, &event_id).await, before);
    assert_eq!(claim_one(&store).await.event_id, other_id, "the other lease is released");
    apply(&store, &taker, success()).await;
}

pub async fn empty_batches_are_accepted(harness: &dyn Harness) {
    let store = harness.store();
    assert_eq!(renew(&store, &[]).await, []);
    assert_eq!(settle_all(&store, &[]).await, []);
    release(&store, &[]).await;
}
