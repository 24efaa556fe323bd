//! Events of dead workers: takeover of expired leases, and abandonment after too many of them.

use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, EventId, FailureKind, Lease, NoticeKind, Trigger};
use posthaste_store::{ClaimRequest, ClaimResponse, DeadLetterQuery, PageRequest, SettleResult};

use crate::Harness;
use crate::fixture::*;

/// Claims the event and lets the lease expire, as if the worker died.
async fn lose_lease(harness: &dyn Harness, store: &Handle) -> Lease {
    let lease = claim_one(store).await;
    harness.advance(PAST_LEASE).await;
    lease
}

/// Enqueues an event and lets this many leases expire. The last expired lease is not taken over yet.
async fn lose_leases(harness: &dyn Harness, store: &Handle, lost: u32) -> (EventId, Lease) {
    let event_id = enqueue(store, event()).await;
    let mut last = lose_lease(harness, store).await;
    for _ in 1..lost {
        last = lose_lease(harness, store).await;
    }
    (event_id, last)
}

async fn claim_or_abandon(store: &Handle, abandon_after: u32) -> ClaimResponse {
    claim(store, &ClaimRequest { abandon_after, ..claim_by("worker-b") }).await
}

pub async fn expired_lease_is_claimable_by_another_worker(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lost = lose_lease(harness, &store).await;
    let leases = claim(&store, &claim_by("worker-b")).await.leases;
    assert_eq!(leases.len(), 1);
    assert_eq!((&leases[0].event_id, leases[0].key), (&event_id, lost.key));
    assert_ne!(leases[0].token, lost.token);
    let event = view(&store, &event_id).await;
    assert_eq!(event.lease_owner, Some(worker("worker-b")));
    assert_time_between(
        event.created_at,
        event.lease_until.expect("the event is leased"),
        PAST_LEASE + LEASE,
    );
}

pub async fn expired_lease_is_claimable_by_its_own_worker_under_a_new_token(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let lost = lose_lease(harness, &store).await;
    let regained = claim_one(&store).await;
    assert_ne!(regained.token, lost.token);
    let late = settle(&store, &settlement(&lost, success())).await;
    assert_eq!(late, SettleResult::Stale, "the owner's name does not prove that the lease is held");
    apply(&store, &regained, success()).await;
}

pub async fn lost_lease_is_counted_and_consumes_no_attempt(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    for lost in 0..4 {
        let lease = lose_lease(harness, &store).await;
        assert_eq!((lease.attempts, lease.trigger), (0, Trigger::Scheduled));
        let event = view(&store, &event_id).await;
        assert_eq!((event.claims, event.attempts, event.lost_leases), (lost + 1, 0, lost));
        assert_eq!((event.status, event.last_error), (DeliveryStatus::Pending, None));
    }
}

pub async fn concurrent_claims_take_over_an_expired_lease_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue(&store, event()).await;
    for round in 1..=3 {
        lose_lease(harness, &store).await;
        let (one, other) =
            join(claim(&store, &claim_by("worker-b")), claim(&second, &claim_by("worker-c"))).await;
        assert_eq!(one.leases.len() + other.leases.len(), 1);
        let event = view(&store, &event_id).await;
        assert_eq!((event.claims, event.lost_leases), (2 * round, 1));
        // Resets the count of lost leases and makes the event claimable for the next round.
        let lease = one.leases.first().or(other.leases.first()).expect("one claim was granted the lease");
        apply(&store, lease, status(500)).await;
        harness.advance(HOUR).await;
    }
}

pub async fn event_is_abandoned_at_the_limit_and_not_before(harness: &dyn Harness) {
    let store = harness.store();
    let (event_id, _) = lose_leases(harness, &store, 2).await;
    let claimed = claim_or_abandon(&store, 3).await;
    assert_eq!((claimed.leases.len(), claimed.abandoned), (1, vec![]));
    harness.advance(PAST_LEASE).await;

    let claimed = claim_or_abandon(&store, 3).await;
    assert_eq!((claimed.leases.len(), claimed.abandoned), (0, vec![event_id.clone()]));
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Abandoned)));
    assert_eq!((event.claims, event.attempts, event.lost_leases), (3, 0, 3));
    assert_eq!((event.lease_owner, event.lease_until, event.next_attempt_at), (None, None, None));
    let last_error = event.last_error.expect("an abandoned event has an error");
    assert!(last_error.starts_with("abandoned: 3 leases in a row"), "{last_error}");

    let claimed = claim_or_abandon(&store, 3).await;
    assert_eq!((claimed.leases.len(), claimed.abandoned), (0, vec![]), "the event is abandoned once");
}

pub async fn an_abandoned_event_is_published_once_as_dead_lettered(harness: &dyn Harness) {
    let store = harness.store();
    let (event_id, _) = lose_leases(harness, &store, 1).await;
    let before = end_of_log(&store).await;
    claim_or_abandon(&store, 1).await;
    claim_or_abandon(&store, 1).await;
    let notices = published_after(&store, before).await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(
        (notices[0].notice.kind, &notices[0].notice.event_id),
        (NoticeKind::DeadLettered(FailureKind::Abandoned), &event_id)
    );
    assert_eq!(notices[0].notice.attempts, 0);
    let failed =
        store.dead_letters(&DeadLetterQuery::all(), &PageRequest::default()).await.expect("the store is up");
    assert_eq!(failed.items.len(), 1);
}

pub async fn a_claim_abandons_some_and_grants_others(harness: &dyn Harness) {
    let store = harness.store();
    let (abandoned, _) = lose_leases(harness, &store, 2).await;
    let fresh = enqueue(&store, event()).await;
    let claimed = claim_or_abandon(&store, 2).await;
    assert_eq!(claimed.abandoned, [abandoned]);
    assert_eq!(claimed.leases.len(), 1);
    assert_eq!(claimed.leases[0].event_id, fresh);
}

pub async fn late_settlement_of_an_abandoned_event_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let (event_id, last) = lose_leases(harness, &store, 1).await;
    claim_or_abandon(&store, 1).await;
    let before = detail(&store, &event_id).await;
    assert_eq!(settle(&store, &settlement(&last, success())).await, SettleResult::Stale);
    assert_only_recorded(&store, &before, &[&last]).await;
}

pub async fn settlement_resets_the_count_of_lost_leases(harness: &dyn Harness) {
    let store = harness.store();
    let (event_id, _) = lose_leases(harness, &store, 2).await;
    let lease = claim_one(&store).await;
    assert_eq!(view(&store, &event_id).await.lost_leases, 2);
    apply(&store, &lease, status(500)).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.claims, event.attempts, event.lost_leases), (3, 1, 0));

    harness.advance(HOUR).await;
    lose_lease(harness, &store).await;
    let claimed = claim_or_abandon(&store, 2).await;
    assert_eq!(claimed.leases.len(), 1, "only leases lost since the settlement count");
}

pub async fn a_requeued_event_starts_without_lost_leases(harness: &dyn Harness) {
    let store = harness.store();
    let (event_id, _) = lose_leases(harness, &store, 2).await;
    assert_eq!(claim_or_abandon(&store, 2).await.abandoned.len(), 1);
    let requeued =
        store.requeue(&event_id, "operator".into()).await.expect("abandoned events can be requeued");
    assert_eq!((requeued.lost_leases, requeued.failure_kind), (0, None));
    lose_lease(harness, &store).await;
    assert_eq!(claim_or_abandon(&store, 2).await.leases.len(), 1);
}

pub async fn repeated_claim_returns_expired_leases_that_were_not_taken_over(harness: &dyn Harness) {
    let store = harness.store();
    let event_ids = enqueue_all(&store, vec![event(); 2]).await;
    let request = ClaimRequest { abandon_after: 1, ..claim_by("worker-a") };
    let first = leases(&store, &request).await;
    harness.advance(PAST_LEASE).await;
    let again = leases(&store, &request).await;
    assert_eq!((again.len(), lease_refs(&again)), (2, lease_refs(&first)));
    assert_nothing_claimable(&store).await;
    for event_id in &event_ids {
        let event = view(&store, event_id).await;
        assert_eq!((event.claims, event.attempts, event.lost_leases), (1, 0, 0));
    }
    for lease in &first {
        apply(&store, lease, success()).await;
    }
}

pub async fn repeated_claim_does_not_return_leases_that_were_taken_over(harness: &dyn Harness) {
    let store = harness.store();
    // A claim of the same worker under another id is a different claim.
    for taker in ["worker-b", "worker-a"] {
        enqueue_all(&store, vec![event(); 2]).await;
        let request = claim_by("worker-a");
        let first = leases(&store, &request).await;
        harness.advance(PAST_LEASE).await;
        let taken = only_lease(&store, &ClaimRequest { limit: 1, ..claim_by(taker) }).await;
        let (lost, kept): (Vec<Lease>, Vec<Lease>) =
            first.into_iter().partition(|lease| lease.event_id == taken.event_id);

        let before = detail(&store, &taken.event_id).await;
        assert_eq!(lease_refs(&leases(&store, &request).await), lease_refs(&kept));
        assert_eq!(settle(&store, &settlement(&lost[0], success())).await, SettleResult::Stale);
        assert_only_recorded(&store, &before, &[&lost[0]]).await;
        assert_eq!(view(&store, &kept[0].event_id).await.lost_leases, 0);

        apply(&store, &kept[0], success()).await;
        assert_eq!(
            lease_refs(&leases(&store, &request).await),
            [],
            "the other claim holds the remaining event"
        );
        apply(&store, &taken, success()).await;
    }
}

pub async fn repeated_claim_racing_a_takeover_leaves_one_owner(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue(&store, event()).await;
    let mut request = claim_by("worker-a");
    let mut lease = only_lease(&store, &request).await;
    let mut takeovers = 0;
    // Too few rounds to abandon the event.
    for _ in 0..4 {
        harness.advance(PAST_LEASE).await;
        let taker = claim_by("worker-b");
        let (again, taken) = join(leases(&store, &request), leases(&second, &taker)).await;
        assert_eq!(again.len() + taken.len(), 1, "the lease is either returned again or taken over");
        if let Some(taken) = taken.into_iter().next() {
            (request, lease) = (taker, taken);
            takeovers += 1;
        }
        assert_eq!(only_lease(&store, &request).await.token, lease.token, "the winner holds the lease");
        let event = view(&store, &event_id).await;
        assert_eq!((event.claims, event.lost_leases), (1 + takeovers, takeovers));
    }
    apply(&store, &lease, success()).await;
}
