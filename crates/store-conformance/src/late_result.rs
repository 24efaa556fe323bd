//! Late results: those of workers that had lost their leases. The history shows them; they change nothing else.

use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, Outcome};
use posthaste_store::{Retention, SettleResult};

use crate::Harness;
use crate::fixture::*;

/// Removes delivered events and attempts after a day, in one step.
const KEEP_A_DAY: Retention = Retention {
    keep_for: Some(DAY),
    keep_dead_letters_for: None,
    keep_unused_destinations_for: None,
    rows_max: 100,
};

pub async fn a_late_result_is_recorded_with_its_outcome(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    let before = detail(&store, &event_id).await;
    let late = settlement(&lease, Outcome::response(200, None, b"thank you"));
    for handle in [&store, &harness.second_handle()] {
        assert_eq!(settle(handle, &late).await, SettleResult::Stale, "also when it is repeated");
        assert_only_recorded(&store, &before, &[&lease]).await;
    }
    let shown = detail(&store, &event_id).await.history.remove(0);
    assert_eq!((shown.attempt, shown.http_status, shown.error_class), (1, Some(200), None));
    assert_eq!((shown.excerpt.as_str(), shown.duration), ("thank you", ATTEMPT_DURATION));
    assert_eq!((shown.worker, shown.trigger), (worker("worker-a"), lease.trigger));
    assert_time_between(shown.started_at, before.event.updated_at, ATTEMPT_DURATION);
}

pub async fn a_late_result_twice_in_one_batch_is_recorded_once(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    let before = detail(&store, &event_id).await;
    let late = settlement(&lost, success());
    assert_eq!(settle_all(&store, &[late.clone(), late.clone()]).await, [SettleResult::Stale; 2]);
    assert_only_recorded(&store, &before, &[&lost]).await;
    let batch = [late, settlement(&taker, success())];
    assert_eq!(settle_all(&store, &batch).await, [SettleResult::Stale, SettleResult::Applied]);
    assert_eq!(settle_all(&store, &batch).await, [SettleResult::Stale, SettleResult::Replayed]);
    assert_eq!(detail(&store, &event_id).await.history.len(), 2);
}

pub async fn concurrent_repetitions_of_a_late_result_record_it_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for _ in 0..10 {
        let event_id = enqueue(&store, event()).await;
        let late = settlement(&claim_one(&store).await, success());
        store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
        let settled = join(settle(&store, &late), settle(&second, &late)).await;
        assert_eq!(settled, (SettleResult::Stale, SettleResult::Stale));
        assert_eq!(detail(&store, &event_id).await.history.len(), 1);
    }
}

pub async fn late_results_do_not_change_how_a_delivered_event_is_shown(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    assert_eq!(settle(&store, &settlement(&lost, status(500))).await, SettleResult::Stale);
    harness.advance(MINUTE / 2).await;
    apply(&store, &taker, success()).await;
    let delivered = detail(&store, &event_id).await;
    assert_eq!((delivered.event.status, delivered.event.attempts), (DeliveryStatus::Delivered, 1));
    assert_eq!((delivered.event.claims, delivered.event.last_error.as_deref()), (2, None));
    let applied: Vec<_> = delivered.history.iter().map(|attempt| attempt.applied).collect();
    assert_eq!(applied, [false, true], "in the order in which they were recorded");

    harness.advance(HOUR).await;
    assert_eq!(settle(&store, &settlement(&lost, success())).await, SettleResult::Stale);
    assert_eq!(detail(&store, &event_id).await, delivered, "the lease has a result on record");

    let other = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    apply(&store, &taker, success()).await;
    let before = detail(&store, &other).await;
    harness.advance(HOUR).await;
    assert_eq!(settle(&store, &settlement(&lost, status(500))).await, SettleResult::Stale);
    assert_only_recorded(&store, &before, &[&lost]).await;
}

pub async fn a_removed_event_gets_no_late_result(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let (lost, taker) = take_over(harness, &store).await;
    apply(&store, &taker, success()).await;
    harness.advance(2 * DAY).await;
    store.maintain(&KEEP_A_DAY).await.expect("the store is up");
    assert!(!is_stored(&store, &event_id).await);
    for _ in 0..2 {
        assert_eq!(settle(&store, &settlement(&lost, success())).await, SettleResult::Stale);
    }
    let again = enqueue(&store, event()).await;
    assert_eq!(detail(&store, &again).await.history, []);
}

pub async fn a_late_result_before_a_requeue_stays_in_the_history(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    store.requeue(&event_id, "operator".into()).await.expect("a failed event can be requeued");
    apply(&store, &claim_one(&store).await, status(500)).await;
    let before = detail(&store, &event_id).await;
    let shown: Vec<_> = before.history.iter().map(|it| (it.attempt, it.http_status, it.applied)).collect();
    assert_eq!(shown, [(1, Some(200), false), (1, Some(500), true)]);
    assert_eq!((before.event.status, before.event.attempts), (DeliveryStatus::Pending, 1));
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    assert_eq!(detail(&store, &event_id).await, before);
}

pub async fn late_results_of_many_events_are_recorded_in_one_call(harness: &dyn Harness) {
    let store = harness.store();
    let mut events = Vec::new();
    for _ in 0..50 {
        events.push(enqueue(&store, event()).await);
    }
    let leases = claim_all(&store).await;
    assert_eq!(leases.len(), events.len());
    for event_id in &events {
        store.cancel(event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    }
    let batch: Vec<_> = leases.iter().map(|lease| settlement(lease, success())).collect();
    for _ in 0..2 {
        assert!(settle_all(&store, &batch).await.iter().all(|settled| *settled == SettleResult::Stale));
    }
    for event_id in &events {
        assert_eq!(detail(&store, event_id).await.history.len(), 1);
    }
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.cancelled, overview.delivered, overview.pending), (50, 0, 0));
}

pub async fn late_results_are_removed_with_other_old_attempts(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    // Retention may remove attempts by whole days.
    harness.advance(3 * DAY).await;
    for _ in 0..3 {
        store.maintain(&KEEP_A_DAY).await.expect("the store is up");
    }
    assert_eq!(detail(&store, &event_id).await.history, []);
}
