//! Counts of events by state.

use std::time::Duration;

use posthaste_domain::EventId;
use posthaste_store::{Overview, PendingCount};

use crate::Harness;
use crate::fixture::*;

/// The overview without the age, which grows with real time.
async fn counts(store: &Handle) -> Overview {
    Overview { oldest_pending_age: None, ..store.overview().await.expect("the store is up") }
}

async fn oldest_pending_age(store: &Handle) -> Option<Duration> {
    store.overview().await.expect("the store is up").oldest_pending_age
}

pub async fn an_empty_store_counts_nothing(harness: &dyn Harness) {
    let store = harness.store();
    assert_eq!(store.overview().await, Ok(Overview::default()));
}

pub async fn s2_fr001_ac1_overview_counts_every_state(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_delivered(&store, event()).await;
    for _ in 0..2 {
        enqueue_dead_lettered(&store, event()).await;
    }
    for _ in 0..3 {
        enqueue_retrying(&store, event()).await;
    }
    enqueue(&store, event()).await;
    claim_one(&store).await;
    enqueue_all(&store, vec![event(); 5]).await;
    // Three retries that are not due, one leased event, five waiting events.
    let expected = Overview {
        pending: 9,
        pending_ready: 5,
        retrying: 3,
        failed: 2,
        cancelled: 0,
        delivered: 1,
        held: PendingCount::default(),
        oldest_pending_age: None,
    };
    assert_eq!(counts(&store).await, expected);
    harness.advance(HOUR).await;
    let all_ready = Overview { pending_ready: 9, ..expected };
    assert_eq!(counts(&store).await, all_ready, "the retries are due and the lease has expired");
}

pub async fn s2_fr001_ac2_oldest_pending_age_is_none_when_nothing_is_pending(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_delivered(&store, event()).await;
    enqueue_dead_lettered(&store, event()).await;
    harness.advance(HOUR).await;
    assert_eq!(oldest_pending_age(&store).await, None);
}

pub async fn s2_fr001_ac2_oldest_pending_age_is_that_of_the_oldest(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_delivered(&store, event()).await;
    harness.advance(HOUR).await;
    let oldest = enqueue(&store, event()).await;
    harness.advance(HOUR).await;
    enqueue(&store, event()).await;
    harness.advance(HOUR).await;
    let age = oldest_pending_age(&store).await.expect("two events are pending");
    assert!((2 * HOUR..2 * HOUR + MINUTE).contains(&age), "{age:?}");
    store.cancel(&oldest, "operator".into(), None).await.expect("a pending event can be cancelled");
    let age = oldest_pending_age(&store).await.expect("one event is pending");
    assert!((HOUR..HOUR + MINUTE).contains(&age), "{age:?}");
}

pub async fn s2_fr001_ac3_overview_follows_every_change_at_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue(&store, event()).await;
    let waiting = Overview { pending: 1, pending_ready: 1, ..Overview::default() };
    assert_eq!(counts(&second).await, waiting);
    let lease = claim_one(&store).await;
    assert_eq!(counts(&second).await, Overview { pending: 1, ..Overview::default() });
    apply(&store, &lease, status(500)).await;
    assert_eq!(counts(&second).await, Overview { pending: 1, retrying: 1, ..Overview::default() });
    store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    assert_eq!(counts(&second).await, Overview { failed: 1, cancelled: 1, ..Overview::default() });
    store.requeue(&event_id, "operator".into()).await.expect("a failed event can be requeued");
    assert_eq!(counts(&second).await, waiting);
    apply(&store, &claim_one(&store).await, success()).await;
    assert_eq!(counts(&second).await, Overview { delivered: 1, ..Overview::default() });
}

pub async fn cancelled_events_are_counted_among_the_failed_and_apart(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let failed = enqueue_dead_lettered(&store, event()).await;
    enqueue_dead_lettered(&store, event()).await;
    let pending = enqueue(&store, event()).await;
    let cancel = async |event_id: &EventId| {
        store.cancel(event_id, "operator".into(), None).await.expect("the event is not delivered");
    };
    cancel(&pending).await;
    assert_eq!(counts(&second).await, Overview { failed: 3, cancelled: 1, ..Overview::default() });
    cancel(&failed).await;
    cancel(&failed).await;
    assert_eq!(counts(&second).await, Overview { failed: 3, cancelled: 2, ..Overview::default() });
    for event_id in [&pending, &failed] {
        store.requeue(event_id, "operator".into()).await.expect("a cancelled event can be requeued");
    }
    let requeued = Overview { pending: 2, pending_ready: 2, failed: 1, ..Overview::default() };
    assert_eq!(counts(&second).await, requeued);
}
