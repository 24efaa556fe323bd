//! Forgetting what is old, a step at a time.

use posthaste_domain::EventId;
use posthaste_store::{Enqueued, Retention};

use crate::Harness;
use crate::fixture::*;

const KEEP_A_DAY: Retention = Retention { keep: Some(DAY), rows_max: 2 };
/// Far more than any case needs.
const STEPS_MAX: usize = 50;

/// Steps until there is no more to do.
async fn maintain(store: &Handle, retention: &Retention) {
    for _ in 0..STEPS_MAX {
        if !store.maintain(retention).await.expect("the store is up").more {
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
        old.push(delivered(&store, event()).await);
    }
    harness.advance(2 * DAY).await;
    let mut left = old.len();
    for _ in 0..STEPS_MAX {
        let step = store.maintain(&KEEP_A_DAY).await.expect("the store is up");
        let stored = count_stored(&store, &old).await;
        assert!(step.removed <= KEEP_A_DAY.rows_max, "{step:?}");
        assert!(left - stored <= step.removed, "{} events went in {step:?}", left - stored);
        assert!(step.more || stored == 0, "{stored} are left after {step:?}");
        left = stored;
        if !step.more {
            break;
        }
    }
    assert_eq!(left, 0);
    assert_eq!(store.overview().await.expect("the store is up").delivered, 0);
    let step = store.maintain(&KEEP_A_DAY).await.expect("the store is up");
    assert_eq!((step.removed, step.more), (0, false), "there is nothing left to remove");
}

pub async fn failed_and_pending_events_are_kept_however_old(harness: &dyn Harness) {
    let store = harness.store();
    let failed = dead_lettered(&store, event()).await;
    let retried = retrying(&store, event()).await;
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "operator", None).await.expect("a pending event can be cancelled");
    let pending = enqueue(&store, event()).await;
    harness.advance(400 * DAY).await;
    maintain(&store, &KEEP_A_DAY).await;
    let kept = [failed, retried, cancelled, pending];
    assert_eq!(count_stored(&store, &kept).await, 4);
    assert_eq!(claim_all(&store).await.len(), 2, "what was pending is still due");
    store.requeue(&kept[0], "operator").await.expect("what failed can still be requeued");
}

pub async fn age_counts_from_delivery_and_not_from_arrival(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(30 * DAY).await;
    apply(&store, &claim_one(&store).await, delivers()).await;
    harness.advance(DAY / 2).await;
    maintain(&store, &KEEP_A_DAY).await;
    assert_eq!(detail(&store, &event_id).await.history.len(), 1, "what is young is kept whole");
    harness.advance(DAY).await;
    maintain(&store, &KEEP_A_DAY).await;
    assert!(!is_stored(&store, &event_id).await);
}

pub async fn without_a_limit_everything_is_kept(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let event_id = delivered(&store, event()).await;
    harness.advance(4_000 * DAY).await;
    let keep_all = Retention { keep: None, rows_max: 2 };
    maintain(&store, &keep_all).await;
    assert_eq!(detail(&store, &event_id).await.history.len(), 1);
    assert_eq!(published(&store, start).await.len(), 1);
}

pub async fn old_notices_are_forgotten_and_the_log_goes_on(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    dead_lettered(&store, event()).await;
    let last_seen = end_of_log(&store).await;
    harness.advance(2 * DAY).await;
    maintain(&store, &KEEP_A_DAY).await;
    assert_eq!(published(&store, start).await, []);
    assert!(end_of_log(&store).await >= last_seen, "a place in the log is never used again");
    let event_id = delivered(&store, event()).await;
    for cursor in [start, last_seen] {
        let notices = published(&store, cursor).await;
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].notice.event_id, event_id);
    }
}

pub async fn a_key_is_remembered_even_when_its_event_is_gone(harness: &dyn Harness) {
    let store = harness.store();
    let request = keyed("key", 1, vec![event()]);
    let first = answer(&store, request.clone()).await.expect("a fresh key is accepted");
    apply(&store, &claim_one(&store).await, delivers()).await;
    harness.advance(KEY_KEPT / 2).await;
    maintain(&store, &Retention { keep: Some(MINUTE), rows_max: 10 }).await;
    assert_eq!(count_stored(&store, &ids(&first)).await, 0);
    let replay = answer(&store, request).await.expect("a replay is no error");
    assert!(replay.replayed);
    assert_eq!(ids(&replay), ids(&first));
}

pub async fn an_expired_key_is_forgotten_whatever_is_kept(harness: &dyn Harness) {
    let store = harness.store();
    answer(&store, keyed("key", 1, vec![event()])).await.expect("a fresh key is accepted");
    harness.advance(2 * KEY_KEPT).await;
    maintain(&store, &Retention { keep: None, rows_max: 2 }).await;
    let other = answer(&store, keyed("key", 2, vec![event()])).await.expect("the key is free again");
    let replay = answer(&store, keyed("key", 2, vec![event()])).await;
    assert_eq!(replay, Ok(Enqueued { replayed: true, ..other }));
}
