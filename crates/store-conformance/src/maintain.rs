//! Retention: removing old rows in small steps.

use posthaste_domain::EventId;
use posthaste_store::{EnqueueResponse, Retention};

use crate::Harness;
use crate::fixture::*;

const KEEP_A_DAY: Retention = Retention {
    keep_for: Some(DAY),
    keep_dead_letters_for: None,
    keep_unused_destinations_for: None,
    rows_max: 2,
};
/// Upper bound of maintenance steps, far more than any case needs.
const STEPS_MAX: usize = 50;

/// Runs maintenance steps until none is left.
async fn maintain(store: &Handle, retention: &Retention) {
    for _ in 0..STEPS_MAX {
        if !store.maintain(retention).await.expect("the store is up").has_more {
            return;
        }
    }
    panic!("{STEPS_MAX} steps were not enough");
}

async fn count_stored(store: &Handle, ids: &[EventId]) -> usize {
    let mut count = 0;
    for event_id in ids {
        count += usize::from(is_stored(store, event_id).await);
    }
    count
}

pub async fn old_delivered_events_are_removed_in_small_steps(harness: &dyn Harness) {
    let store = harness.store();
    let mut old = Vec::new();
    for _ in 0..5 {
        old.push(enqueue_delivered(&store, event()).await);
    }
    harness.advance(2 * DAY).await;
    let mut left = old.len();
    for _ in 0..STEPS_MAX {
        let step = store.maintain(&KEEP_A_DAY).await.expect("the store is up");
        let stored = count_stored(&store, &old).await;
        assert!(step.removed <= KEEP_A_DAY.rows_max, "{step:?}");
        assert!(left - stored <= step.removed, "{} events were removed in {step:?}", left - stored);
        assert!(step.has_more || stored == 0, "{stored} events are left after {step:?}");
        left = stored;
        if !step.has_more {
            break;
        }
    }
    assert_eq!(left, 0);
    assert_eq!(store.overview().await.expect("the store is up").delivered, 0);
    let step = store.maintain(&KEEP_A_DAY).await.expect("the store is up");
    assert_eq!((step.removed, step.has_more), (0, false), "no row is left to remove");
}

pub async fn failed_and_pending_events_are_kept_however_old(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_dead_lettered(&store, event()).await;
    let retried = enqueue_retrying(&store, event()).await;
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a pending event can be cancelled");
    let pending = enqueue(&store, event()).await;
    harness.advance(400 * DAY).await;
    maintain(&store, &KEEP_A_DAY).await;
    let kept = [failed, retried, cancelled, pending];
    assert_eq!(count_stored(&store, &kept).await, 4);
    assert_eq!(claim_all(&store).await.len(), 2, "the pending events are still due");
    store.requeue(&kept[0], "operator".into()).await.expect("a failed event can still be requeued");
}

pub async fn old_dead_letters_are_removed_in_small_steps(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let mut old = Vec::new();
    for _ in 0..3 {
        old.push(enqueue_dead_lettered(&store, event()).await);
    }
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a pending event can be cancelled");
    old.push(cancelled);
    let delivered = enqueue_delivered(&store, event()).await;
    let retrying = enqueue_retrying(&store, event()).await;
    harness.advance(2 * DAY).await;
    apply(&store, &claim_one(&store).await, status(500)).await;
    let recent = enqueue_dead_lettered(&store, event_to("https://recent.example/")).await;
    let retention = Retention {
        keep_for: None,
        keep_dead_letters_for: Some(DAY),
        keep_unused_destinations_for: None,
        rows_max: 2,
    };
    let mut left = old.len();
    for _ in 0..STEPS_MAX {
        let step = store.maintain(&retention).await.expect("the store is up");
        let stored = count_stored(&store, &old).await;
        assert!(step.removed <= retention.rows_max && left - stored == step.removed, "{step:?}");
        left = stored;
        if !step.has_more {
            break;
        }
    }
    assert_eq!(left, 0);
    assert_eq!(count_stored(&store, &[delivered, retrying, recent.clone()]).await, 3);
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.failed, overview.cancelled, overview.delivered), (1, 0, 1));
    let notices = published_after(&store, start).await;
    let failures = notices.iter().filter(|published| published.notice.kind.failure_kind().is_some());
    let about: Vec<_> = failures.map(|published| &published.notice.event_id).collect();
    assert_eq!(about, [&recent], "the notices of a dead letter are removed with it");
}

pub async fn retention_of_dead_letters_counts_from_their_last_change(harness: &dyn Harness) {
    let store = harness.store();
    let [cancelled, requeued] =
        [enqueue_dead_lettered(&store, event()).await, enqueue_dead_lettered(&store, event()).await];
    harness.advance(2 * DAY).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a failed event can be cancelled");
    store.requeue(&requeued, "operator".into()).await.expect("a failed event can be requeued");
    let retention = Retention {
        keep_for: None,
        keep_dead_letters_for: Some(DAY),
        keep_unused_destinations_for: None,
        rows_max: 2,
    };
    maintain(&store, &retention).await;
    assert_eq!(count_stored(&store, &[cancelled.clone(), requeued.clone()]).await, 2);
    apply(&store, &claim_one(&store).await, status(410)).await;
    harness.advance(2 * DAY).await;
    maintain(&store, &retention).await;
    assert_eq!(count_stored(&store, &[cancelled, requeued]).await, 0);
    assert_eq!(store.overview().await.expect("the store is up").failed, 0);
}

pub async fn late_result_of_a_removed_dead_letter_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    harness.advance(2 * DAY).await;
    maintain(
        &store,
        &Retention {
            keep_for: None,
            keep_dead_letters_for: Some(DAY),
            keep_unused_destinations_for: None,
            rows_max: 2,
        },
    )
    .await;
    assert!(!is_stored(&store, &event_id).await);
    let late = settle(&store, &settlement(&lease, success())).await;
    assert_eq!(late, posthaste_store::SettleResult::Stale);
    assert!(!is_stored(&store, &event_id).await);
}

pub async fn retention_counts_from_delivery_not_from_arrival(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(30 * DAY).await;
    apply(&store, &claim_one(&store).await, success()).await;
    harness.advance(DAY / 2).await;
    maintain(&store, &KEEP_A_DAY).await;
    assert_eq!(detail(&store, &event_id).await.history.len(), 1, "a recent event keeps its attempts");
    harness.advance(DAY).await;
    maintain(&store, &KEEP_A_DAY).await;
    assert!(!is_stored(&store, &event_id).await);
}

pub async fn without_retention_everything_is_kept(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let event_id = enqueue_delivered(&store, event()).await;
    harness.advance(4_000 * DAY).await;
    let keep_all = Retention {
        keep_for: None,
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 2,
    };
    maintain(&store, &keep_all).await;
    assert_eq!(detail(&store, &event_id).await.history.len(), 1);
    assert_eq!(published_after(&store, start).await.len(), 1);
}

pub async fn old_notices_are_removed_and_the_log_continues(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    enqueue_dead_lettered(&store, event()).await;
    let last_seen = end_of_log(&store).await;
    harness.advance(2 * DAY).await;
    maintain(&store, &KEEP_A_DAY).await;
    assert_eq!(published_after(&store, start).await, []);
    assert!(end_of_log(&store).await >= last_seen, "a position in the log is never reused");
    let event_id = enqueue_delivered(&store, event()).await;
    for cursor in [start, last_seen] {
        let notices = published_after(&store, cursor).await;
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].notice.event_id, event_id);
    }
}

pub async fn key_is_kept_after_its_event_is_removed(harness: &dyn Harness) {
    let store = harness.store();
    let request = request_with_key("key", 1, vec![event()]);
    let first = try_enqueue(&store, request.clone()).await.expect("a fresh key is accepted");
    apply(&store, &claim_one(&store).await, success()).await;
    harness.advance(KEY_LIFETIME / 2).await;
    maintain(
        &store,
        &Retention {
            keep_for: Some(MINUTE),
            keep_dead_letters_for: None,
            keep_unused_destinations_for: None,
            rows_max: 10,
        },
    )
    .await;
    assert_eq!(count_stored(&store, &ids(&first)).await, 0);
    let replay = try_enqueue(&store, request).await.expect("a replay succeeds");
    assert!(replay.replayed);
    assert_eq!(ids(&replay), ids(&first));
}

pub async fn expired_key_is_removed_without_retention(harness: &dyn Harness) {
    let store = harness.store();
    try_enqueue(&store, request_with_key("key", 1, vec![event()])).await.expect("a fresh key is accepted");
    harness.advance(2 * KEY_LIFETIME).await;
    maintain(
        &store,
        &Retention {
            keep_for: None,
            keep_dead_letters_for: None,
            keep_unused_destinations_for: None,
            rows_max: 2,
        },
    )
    .await;
    let other = try_enqueue(&store, request_with_key("key", 2, vec![event()]))
        .await
        .expect("an expired key can be used again");
    let replay = try_enqueue(&store, request_with_key("key", 2, vec![event()])).await;
    assert_eq!(replay, Ok(EnqueueResponse { replayed: true, ..other }));
}
