//! Fencing: repeated, late and concurrent settlements.

use futures_util::future::join;
use posthaste_domain::DeliveryStatus;
use posthaste_store::{SettleResult, Settlement, StoreError};

use crate::Harness;
use crate::fixture::*;

pub async fn a_replayed_settlement_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    for outcome in [status(200), status(500), status(410)] {
        let event_id = enqueue(&store, event()).await;
        let settlement = settlement(&claim_one(&store).await, outcome);
        assert_eq!(settle(&store, &settlement).await, SettleResult::Applied);
        let before = (detail(&store, &event_id).await, end_of_log(&store).await);
        for handle in [&store, &harness.second_handle()] {
            assert_eq!(settle(handle, &settlement).await, SettleResult::Replayed);
        }
        assert_eq!((detail(&store, &event_id).await, end_of_log(&store).await), before);
    }
}

pub async fn a_settlement_twice_in_one_batch_is_applied_once(harness: &dyn Harness) {
    let store = harness.store();
    let before = end_of_log(&store).await;
    enqueue_all(&store, vec![event(); 2]).await;
    let leases = claim_all(&store).await;
    let (one, other) = (settlement(&leases[0], success()), settlement(&leases[1], success()));
    let settled = settle_all(&store, &[one.clone(), other, one]).await;
    assert_eq!(settled, [SettleResult::Applied, SettleResult::Applied, SettleResult::Replayed]);
    for lease in leases {
        let detail = detail(&store, &lease.event_id).await;
        assert_eq!((detail.event.attempts, detail.history.len()), (1, 1));
    }
    assert_eq!(published_after(&store, before).await.len(), 2);
}

pub async fn a_second_outcome_under_one_token_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    let batch = [settlement(&lease, status(500)), settlement(&lease, success())];
    let settled = settle_all(&store, &batch).await;
    assert_eq!(settled[0], SettleResult::Applied);
    assert_ne!(settled[1], SettleResult::Applied);
    let before = detail(&store, &event_id).await;
    assert_eq!((before.event.status, before.history.len()), (DeliveryStatus::Pending, 1));
    assert_ne!(settle(&store, &batch[1]).await, SettleResult::Applied);
    assert_eq!(detail(&store, &event_id).await, before);
}

pub async fn a_replay_after_the_next_claim_is_still_a_replay(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let first = settlement(&claim_one(&store).await, status(500));
    assert_eq!(settle(&store, &first).await, SettleResult::Applied);
    harness.advance(HOUR).await;
    let next = claim_one(&store).await;
    let before = detail(&store, &event_id).await;
    assert_eq!(settle(&store, &first).await, SettleResult::Replayed);
    assert_eq!(detail(&store, &event_id).await, before);
    apply(&store, &next, success()).await;
}

pub async fn a_replay_after_a_requeue_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let gone = settlement(&claim_one(&store).await, status(410));
    assert_eq!(settle(&store, &gone).await, SettleResult::Applied);
    store.requeue(&event_id, "operator".into()).await.expect("a failed event can be requeued");
    let before = detail(&store, &event_id).await;
    assert_eq!(settle(&store, &gone).await, SettleResult::Replayed);
    assert_eq!(detail(&store, &event_id).await, before);
    assert_eq!(claim_one(&store).await.attempts, 0);
}

pub async fn a_settlement_after_a_takeover_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    let (before, end) = (detail(&store, &event_id).await, end_of_log(&store).await);
    for outcome in [status(200), status(500), status(410)] {
        assert_eq!(settle(&store, &settlement(&lost, outcome)).await, SettleResult::Stale);
        assert_only_recorded(&store, &before, &[&lost]).await;
        assert_eq!(published_after(&store, end).await, []);
    }
    apply(&store, &taker, success()).await;
    let late = settle(&store, &settlement(&lost, status(500))).await;
    assert_eq!(late, SettleResult::Stale, "a delivered event never changes");
    assert_eq!(view(&store, &event_id).await.status, DeliveryStatus::Delivered);
}

pub async fn a_settlement_under_an_older_token_of_the_same_worker_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let expired = claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    let released = claim_one(&store).await;
    release(&store, &[&released]).await;
    let current = claim_one(&store).await;
    let (before, end) = (detail(&store, &event_id).await, end_of_log(&store).await);
    assert_eq!(before.event.lease_owner, Some(worker("worker-a")));
    let mut recorded = Vec::new();
    for older in [&expired, &released] {
        recorded.push(older);
        for outcome in [status(200), status(500), status(410)] {
            let late = store.settle(&worker("worker-a"), &[settlement(older, outcome)]).await;
            assert_eq!(
                late,
                Ok(vec![SettleResult::Stale]),
                "the owner's name does not prove that the lease is held"
            );
            assert_only_recorded(&store, &before, &recorded).await;
            assert_eq!(published_after(&store, end).await, []);
        }
    }
    apply(&store, &current, success()).await;
}

pub async fn stale_settlement_does_not_change_its_destination(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let (lost, _) = take_over(harness, &store).await;
    let before = destination_status(&store, lost.destination_id).await;
    assert_eq!(settle(&store, &settlement(&lost, requests_pause(HOUR))).await, SettleResult::Stale);
    let after = destination_status(&store, lost.destination_id).await;
    assert_eq!(after, before);
}

pub async fn expired_lease_that_was_not_taken_over_can_be_settled(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    apply(&store, &lease, success()).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.claims, event.lost_leases), (DeliveryStatus::Delivered, 1, 0));
}

pub async fn results_of_a_mixed_batch_are_in_order(harness: &dyn Harness) {
    let store = harness.store();
    let taken = enqueue(&store, event()).await;
    let (lost, _) = take_over(harness, &store).await;
    let cancelled = enqueue(&store, event()).await;
    let in_flight = claim_one(&store).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a pending event can be cancelled");
    let settled_before = enqueue(&store, event()).await;
    let replay = settlement(&claim_one(&store).await, status(500));
    assert_eq!(settle(&store, &replay).await, SettleResult::Applied);
    enqueue_all(&store, vec![event(); 2]).await;
    let fresh = claim_all(&store).await;

    let (one, other) = (settlement(&fresh[0], success()), settlement(&fresh[1], status(410)));
    let batch: [Settlement; 6] =
        [settlement(&lost, success()), one.clone(), replay, other, settlement(&in_flight, success()), one];
    let expected = [
        SettleResult::Stale,
        SettleResult::Applied,
        SettleResult::Replayed,
        SettleResult::Applied,
        SettleResult::Stale,
        SettleResult::Replayed,
    ];
    assert_eq!(settle_all(&store, &batch).await, expected);
    assert_eq!(view(&store, &fresh[0].event_id).await.status, DeliveryStatus::Delivered);
    assert_eq!(view(&store, &fresh[1].event_id).await.status, DeliveryStatus::Failed);
    for event_id in [&taken, &settled_before] {
        assert_eq!(view(&store, event_id).await.status, DeliveryStatus::Pending);
    }
}

pub async fn concurrent_replays_of_one_settlement_apply_it_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let before = end_of_log(&store).await;
    for _ in 0..10 {
        let event_id = enqueue(&store, event()).await;
        let settlement = settlement(&claim_one(&store).await, success());
        let (one, other) = join(settle(&store, &settlement), settle(&second, &settlement)).await;
        let applied_once = [
            (SettleResult::Applied, SettleResult::Replayed),
            (SettleResult::Replayed, SettleResult::Applied),
        ];
        assert!(applied_once.contains(&(one, other)), "{one:?}, {other:?}");
        assert_eq!(detail(&store, &event_id).await.history.len(), 1);
    }
    assert_eq!(published_after(&store, before).await.len(), 10);
}

pub async fn settlement_racing_a_cancel_has_one_winner(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let before = end_of_log(&store).await;
    for _ in 0..10 {
        let event_id = enqueue(&store, event()).await;
        let settlement = settlement(&claim_one(&store).await, success());
        let (settled, cancelled) =
            join(settle(&store, &settlement), second.cancel(&event_id, "operator".into(), None)).await;
        let status = view(&store, &event_id).await.status;
        match settled {
            SettleResult::Applied => {
                assert_eq!(status, DeliveryStatus::Delivered);
                assert_eq!(cancelled, Err(StoreError::NotCancellable { event_id, status }));
            }
            SettleResult::Stale => {
                assert_eq!(status, DeliveryStatus::Failed);
                assert_eq!(cancelled.expect("the cancel was first").status, status);
            }
            SettleResult::Replayed => panic!("the event was settled only once"),
        }
    }
    assert_eq!(published_after(&store, before).await.len(), 10, "one notice per event in both orders");
}
