//! Discarding failed events.

use posthaste_domain::{DeliveryStatus, EventId, FailureKind};
use posthaste_store::{
    AuditView, DeadLetterQuery, EventQuery, LeaseRef, ManualAction, PageRequest, Retention, SettleResult,
    StoreError,
};

use crate::Harness;
use crate::fixture::*;

async fn discard(store: &Handle, event_id: &EventId, reason: Option<&str>) -> AuditView {
    store.discard(event_id, "operator".into(), reason).await.expect("a failed event can be discarded")
}

/// The error of every call that names a discarded event.
fn discarded(event_id: &EventId, discard: &AuditView) -> StoreError {
    StoreError::EventDiscarded { event_id: event_id.clone(), discard: discard.clone() }
}

pub async fn a_discarded_event_is_in_no_list_and_no_count(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_dead_lettered(&store, event()).await;
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a pending event can be cancelled");
    let kept = enqueue_dead_lettered(&store, event()).await;
    for event_id in [&failed, &cancelled] {
        discard(&store, event_id, None).await;
    }
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.failed, overview.cancelled, overview.pending), (1, 0, 0));
    let page = PageRequest::default();
    let listed = [
        store.dead_letters(&DeadLetterQuery::all(), &page).await.expect("the store is up").items,
        store.events(&EventQuery::default(), &page).await.expect("the store is up").items,
    ];
    for items in listed {
        let ids: Vec<&EventId> = items.iter().map(|item| &item.event_id).collect();
        assert_eq!(ids, [&kept]);
    }
    assert_nothing_claimable(&store).await;
}

pub async fn a_discard_is_audited_and_outlives_its_event(harness: &dyn Harness) {
    let store = harness.store();
    let reasons = [(Some(" it's\n over\0 "), Some(" it's\n over ")), (Some(" \n"), None), (None, None)];
    for (reason, kept) in reasons {
        let event_id = enqueue_dead_lettered(&store, event()).await;
        store
            .cancel(&event_id, "first".into(), Some("other"))
            .await
            .expect("a failed event can be cancelled");
        let entry = discard(&store, &event_id, reason).await;
        assert_eq!((entry.action, entry.actor.as_str()), (ManualAction::Discard, "operator"));
        assert_eq!(entry.reason.as_deref(), kept);
        let second = harness.second_handle();
        assert_eq!(second.event(&event_id).await, Err(discarded(&event_id, &entry)));
    }
}

pub async fn only_a_failed_event_can_be_discarded(harness: &dyn Harness) {
    let store = harness.store();
    let delivered = enqueue_delivered(&store, event()).await;
    let retrying = enqueue_retrying(&store, event()).await;
    let leased = enqueue(&store, event()).await;
    claim_one(&store).await;
    let pending = enqueue(&store, event()).await;
    let statuses = [
        (delivered, DeliveryStatus::Delivered),
        (retrying, DeliveryStatus::Pending),
        (leased, DeliveryStatus::Pending),
        (pending, DeliveryStatus::Pending),
    ];
    for (event_id, status) in statuses {
        let before = detail(&store, &event_id).await;
        let refused = store.discard(&event_id, "operator".into(), None).await;
        assert_eq!(refused, Err(StoreError::NotDiscardable { event_id: event_id.clone(), status }));
        assert_eq!(detail(&store, &event_id).await, before);
    }
    let unknown = store.discard(&id("unknown"), "operator".into(), None).await;
    assert_eq!(unknown, Err(StoreError::EventNotFound { event_id: id("unknown") }));
}

pub async fn a_discarded_event_cannot_be_requeued_cancelled_or_discarded_again(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let entry = discard(&store, &event_id, Some("wrong customer")).await;
    let error = discarded(&event_id, &entry);
    assert_eq!(store.requeue(&event_id, "other".into()).await, Err(error.clone()));
    assert_eq!(store.cancel(&event_id, "other".into(), None).await, Err(error.clone()));
    assert_eq!(store.discard(&event_id, "other".into(), None).await, Err(error));
    assert_nothing_claimable(&store).await;
}

pub async fn a_late_result_of_a_discarded_event_is_stale(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    store.cancel(&event_id, "operator".into(), None).await.expect("a pending event can be cancelled");
    let entry = discard(&store, &event_id, None).await;
    let held = LeaseRef::from(&lease);
    assert_eq!(store.renew(&[held], LEASE).await, Ok(vec![held]));
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    store.release(&[held]).await.expect("lost leases are ignored");
    assert_eq!(store.event(&event_id).await, Err(discarded(&event_id, &entry)));
    assert_eq!(store.overview().await.expect("the store is up"), posthaste_store::Overview::default());
}

pub async fn notices_of_a_discarded_event_stay(harness: &dyn Harness) {
    let store = harness.store();
    let start = end_of_log(&store).await;
    let mut spec = event();
    spec.session_id = Some("session-1".to_owned());
    let event_id = enqueue_dead_lettered(&store, spec).await;
    discard(&store, &event_id, None).await;
    let notices = published_after(&store, start).await;
    assert_eq!(notices.len(), 1, "the discard publishes nothing: {notices:?}");
    let notice = &notices[0].notice;
    assert_eq!((&notice.event_id, notice.session_id.as_deref()), (&event_id, Some("session-1")));
    assert_eq!(notice.kind.failure_kind(), Some(FailureKind::Gone));
    assert_eq!(published_after(&store, start).await, notices, "they can be read again");
}

pub async fn a_repeated_enqueue_of_a_discarded_event_gets_the_first_response(harness: &dyn Harness) {
    let store = harness.store();
    let request = request_with_key("key", 1, vec![event_with_id("chosen")]);
    let first = try_enqueue(&store, request.clone()).await.expect("a fresh key is accepted");
    apply(&store, &claim_one(&store).await, status(410)).await;
    discard(&store, &id("chosen"), None).await;
    let replay = try_enqueue(&store, request).await.expect("a replay succeeds");
    assert!(replay.replayed);
    assert_eq!(ids(&replay), ids(&first));
    assert_nothing_claimable(&store).await;
}

pub async fn the_id_of_a_discarded_event_stays_taken_until_retention_forgets_it(harness: &dyn Harness) {
    let store = harness.store();
    let (event_id, retention) = (
        id("chosen"),
        Retention {
            keep_for: Some(DAY),
            keep_dead_letters_for: None,
            keep_unused_destinations_for: None,
            rows_max: 2,
        },
    );
    enqueue_dead_lettered(&store, event_with_id("chosen")).await;
    let entry = discard(&store, &event_id, None).await;
    let taken = Err(StoreError::EventIdTaken { event_id: event_id.clone() });
    let request = || request(vec![event_with_id("chosen")]);
    assert_eq!(try_enqueue(&store, request()).await, taken);

    harness.advance(DAY / 2).await;
    store.maintain(&retention).await.expect("the store is up");
    assert_eq!(try_enqueue(&store, request()).await, taken);
    let Err(StoreError::EventDiscarded { discard, .. }) = store.event(&event_id).await else {
        panic!("the discard is kept as long as delivered events are");
    };
    assert_eq!((discard.actor, discard.reason), (entry.actor, entry.reason));

    harness.advance(DAY).await;
    while store.maintain(&retention).await.expect("the store is up").has_more {}
    assert!(!is_stored(&store, &event_id).await);
    try_enqueue(&store, request()).await.expect("the id can be used again");
    assert_eq!(detail(&store, &event_id).await.audit, []);
}
