//! Extending leases and giving them back.

use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, Lease, LeaseToken};
use posthaste_store::{HeldLease, Settled};

use crate::Harness;
use crate::fixture::*;

/// The leases that could not be extended.
async fn renew(store: &Handle, leases: &[&Lease]) -> Vec<HeldLease> {
    let held: Vec<HeldLease> = leases.iter().copied().map(HeldLease::from).collect();
    store.renew(&held, LEASE).await.expect("the store is up")
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
    apply(&store, &lease, delivers()).await;
}

pub async fn s3_guarded_renewal_needs_ownership(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = taken_over(harness, &store).await;
    let before = detail(&store, &event_id).await;
    assert_eq!(renew(&store, &[&lost]).await, [HeldLease::from(&lost)]);
    assert_eq!(detail(&store, &event_id).await, before);
    apply(&store, &taker, delivers()).await;
}

pub async fn a_renewal_extends_from_now_and_counts_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    harness.advance(LEASE / 2).await;
    assert_eq!(renew(&store, &[&lease]).await, []);
    let event = view(&store, &event_id).await;
    assert_apart(event.created_at, event.lease_until.expect("the event is leased"), LEASE / 2 + LEASE);
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

pub async fn an_expired_lease_that_nobody_took_can_be_renewed(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    assert_eq!(renew(&store, &[&lease]).await, []);
    assert_nothing_claimable(&store).await;
    assert_eq!(view(&store, &event_id).await.lost_leases, 0);
    apply(&store, &lease, delivers()).await;
}

pub async fn a_lease_that_has_ended_cannot_be_renewed(harness: &dyn Harness) {
    let store = harness.store();
    let settled = delivered(&store, event()).await;
    let failed = dead_lettered(&store, event()).await;
    let retried = retrying(&store, event()).await;
    let cancelled = enqueue(&store, event()).await;
    let in_flight = claim_one(&store).await;
    store.cancel(&cancelled, "operator", None).await.expect("a pending event can be cancelled");
    let released = enqueue(&store, event()).await;
    let given_back = claim_one(&store).await;
    release(&store, &[&given_back]).await;

    let mut held = vec![HeldLease::from(&in_flight), HeldLease::from(&given_back)];
    for event_id in [&settled, &failed, &retried] {
        let detail = detail(&store, event_id).await;
        held.push(HeldLease { key: detail.event.key, token: detail.history[0].token });
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

pub async fn a_renewal_reports_what_was_lost_and_extends_the_rest(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let (lost, _) = taken_over(harness, &store).await;
    let held_id = enqueue(&store, event()).await;
    let held = claim_one(&store).await;
    let unknown = HeldLease { key: held.key, token: LeaseToken::random([7; 16]) };
    harness.advance(LEASE / 2).await;
    let all = [HeldLease::from(&lost), HeldLease::from(&held), unknown];
    let reported = store.renew(&all, LEASE).await.expect("the store is up");
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported.contains(&HeldLease::from(&lost)) && reported.contains(&unknown), "{reported:?}");
    let event = view(&store, &held_id).await;
    assert_apart(event.created_at, event.lease_until.expect("the event is leased"), LEASE / 2 + LEASE);
}

pub async fn a_renewal_racing_a_takeover_leaves_one_holder(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    enqueue(&store, event()).await;
    let mut lease = claim_one(&store).await;
    // Fewer rounds than lost leases in a row would abandon the event.
    for _ in 0..4 {
        harness.advance(PAST_LEASE).await;
        let (lost, claimed) = join(renew(&store, &[&lease]), claim(&second, &claim_by("worker-b"))).await;
        assert_eq!(lost.len(), claimed.leases.len(), "either renewed or taken over");
        lease = claimed.leases.into_iter().next().unwrap_or(lease);
        assert_eq!(renew(&store, &[&lease]).await, [], "the winner holds it");
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

pub async fn a_release_is_neither_an_attempt_nor_a_loss(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = retrying(&store, event()).await;
    harness.advance(HOUR).await;
    claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    // More often than an event may lose its lease.
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

pub async fn an_outcome_under_a_released_lease_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    release(&store, &[&lease]).await;
    let before = detail(&store, &event_id).await;
    assert_eq!(settle(&store, &settlement(&lease, delivers())).await, Settled::Stale);
    assert_eq!(detail(&store, &event_id).await, before);
}

pub async fn a_release_passes_over_leases_that_were_lost(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = taken_over(harness, &store).await;
    let other_id = enqueue(&store, event()).await;
    let other = claim_one(&store).await;
    let before = detail(&store, &event_id).await;
    release(&store, &[&lost, &other]).await;
    assert_eq!(detail(&store, &event_id).await, before);
    assert_eq!(claim_one(&store).await.event_id, other_id, "the rest is given back");
    apply(&store, &taker, delivers()).await;
}

pub async fn there_may_be_nothing_to_renew_settle_or_release(harness: &dyn Harness) {
    let store = harness.store();
    assert_eq!(renew(&store, &[]).await, []);
    assert_eq!(settle_all(&store, &[]).await, []);
    release(&store, &[]).await;
}
