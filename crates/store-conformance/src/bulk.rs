//! Bulk operations: one action on all dead letters that a filter selects.

use posthaste_domain::{
    DeliveryStatus, DestinationUrl, EventId, FailureKind, MessageSpec, NewEventSpec, Throttle,
};
use posthaste_store::{
    BulkAction, BulkFilter, BulkOperation, ErrorFilter, ListRequest, ManualAction, NewBulkOperation,
    OperationState, Retention, StoreError,
};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

fn rate(per_second: i64) -> Throttle {
    Throttle::new(per_second).expect("a valid rate")
}

async fn count(store: &Handle, filter: &BulkFilter) -> u64 {
    let count = store.bulk().count(filter).await.expect("the store is up");
    assert!(count.is_exact);
    count.count
}

async fn start(store: &Handle, action: BulkAction, filter: BulkFilter) -> BulkOperation {
    start_at_rate(store, action, filter, 1_000).await
}

async fn start_at_rate(
    store: &Handle,
    action: BulkAction,
    filter: BulkFilter,
    per_second: i64,
) -> BulkOperation {
    let matched = store.bulk().count(&filter).await.expect("the store is up");
    let rate = rate(per_second);
    let new =
        NewBulkOperation { action, filter, rate, matched, reason: Some("repair"), actor: "ann", key: None };
    store.bulk().start(&new).await.expect("the store is up")
}

async fn advance(store: &Handle) -> usize {
    store.bulk().advance(100).await.expect("the store is up").done
}

async fn get(store: &Handle, operation: &BulkOperation) -> BulkOperation {
    store.bulk().get(operation.id).await.expect("it exists")
}

async fn status_of(store: &Handle, event_id: &EventId) -> DeliveryStatus {
    view(store, event_id).await.status
}

/// Enqueues an event that fails for good with this outcome.
async fn enqueue_failed(store: &Handle, event: NewEventSpec, http_status: u16) -> EventId {
    let event = NewEventSpec { max_attempts: Some(1), ..event };
    enqueue_and_attempt(store, event, status(http_status)).await
}

fn url(text: &str) -> DestinationUrl {
    DestinationUrl::parse(text).expect("a valid URL")
}

pub async fn a_requeue_makes_all_selected_dead_letters_pending(harness: &dyn Harness) {
    let store = harness.store();
    let failed = [enqueue_dead_lettered(&store, event()).await, enqueue_dead_lettered(&store, event()).await];
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "bob".into(), None).await.expect("it is pending");
    let delivered = enqueue_delivered(&store, event()).await;
    let mut wakeups = store.wakeups();
    let operation = start(&store, BulkAction::Requeue, BulkFilter::default()).await;
    assert_eq!((operation.state, operation.matched.count), (OperationState::Running, 2));
    assert_eq!((operation.actor.as_str(), operation.reason.as_deref()), ("ann", Some("repair")));
    assert_eq!(advance(&store).await, 2);
    assert_woken(&mut wakeups).await;
    let finished = get(&store, &operation).await;
    assert_eq!((finished.state, finished.done_count), (OperationState::Finished, 2));
    for event_id in &failed {
        let requeued = detail(&store, event_id).await;
        assert_eq!((requeued.event.status, requeued.event.attempts), (DeliveryStatus::Pending, 0));
        let audit = requeued.audit.last().expect("the audit log has the requeue");
        assert_eq!((audit.action, audit.actor.as_str()), (ManualAction::Requeue, "ann"));
    }
    assert_eq!(view(&store, &cancelled).await.failure_kind, Some(FailureKind::Cancelled));
    assert_eq!(status_of(&store, &delivered).await, DeliveryStatus::Delivered);
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.pending, overview.failed, overview.cancelled), (2, 1, 1));
    assert_eq!(claim_all(&store).await.len(), 2);
}

pub async fn an_event_that_fails_again_is_left_alone(harness: &dyn Harness) {
    let store = harness.store();
    for _ in 0..3 {
        enqueue_failed(&store, event(), 500).await;
    }
    harness.advance(SECOND).await;
    let operation = start_at_rate(&store, BulkAction::Requeue, BulkFilter::default(), 1).await;
    let mut done = 0;
    // Every requeued event fails again before the next step.
    for _ in 0..6 {
        harness.advance(MINUTE).await;
        done += advance(&store).await;
        for lease in claim_all(&store).await {
            apply(&store, &lease, status(500)).await;
        }
    }
    assert_eq!(done, 3);
    assert_eq!(get(&store, &operation).await.state, OperationState::Finished);
}

pub async fn a_cancel_changes_the_kind_and_publishes_no_second_notice(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_failed(&store, event(), 500).await;
    let end = end_of_log(&store).await;
    start(&store, BulkAction::Cancel, BulkFilter::default()).await;
    assert_eq!(advance(&store).await, 1);
    let cancelled = detail(&store, &failed).await;
    assert_eq!(cancelled.event.failure_kind, Some(FailureKind::Cancelled));
    assert_eq!(cancelled.event.last_error.as_deref(), Some("manual_cancelled: repair"));
    let audit = cancelled.audit.last().expect("the audit log has the cancel");
    assert_eq!((audit.action, audit.reason.as_deref()), (ManualAction::Cancel, Some("repair")));
    assert_eq!(published_after(&store, end).await, []);
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.failed, overview.cancelled), (1, 1));
    assert_eq!(count(&store, &BulkFilter::default()).await, 0, "cancelled events are left alone");
}

pub async fn a_discard_removes_the_events_and_keeps_their_ids(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_failed(&store, event_with_id("gone"), 500).await;
    let kept = enqueue(&store, event()).await;
    start(&store, BulkAction::Discard, BulkFilter::default()).await;
    assert_eq!(advance(&store).await, 1);
    let refused = store.event(&failed).await.expect_err("the event is discarded");
    let StoreError::EventDiscarded { discard, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((discard.actor.as_str(), discard.reason.as_deref()), ("ann", Some("repair")));
    assert!(try_enqueue(&store, request(vec![event_with_id("gone")])).await.is_err(), "the id stays taken");
    assert_eq!(status_of(&store, &kept).await, DeliveryStatus::Pending);
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.pending, overview.failed), (1, 0));
}

pub async fn every_condition_of_a_filter_selects(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    publish(&store, &app, MessageSpec { max_attempts: Some(1), ..message_spec() }).await;
    let of_endpoint = claim_one(&store).await;
    apply(&store, &of_endpoint, status(404)).await;
    harness.advance(MINUTE).await;
    let to = |target: &str, event_type: &str| NewEventSpec {
        event_type: event_type.to_owned(),
        ..event_to(target)
    };
    let (one, other) = ("https://one.example/hook", "https://other.example/hook");
    enqueue_failed(&store, to(one, "a"), 500).await;
    enqueue_failed(&store, to(one, "b"), 503).await;
    let last = enqueue_failed(&store, to(other, "b"), 410).await;
    let failed_at = view(&store, &last).await.updated_at;
    let any = BulkFilter::default;
    let error = |name: &str| ErrorFilter::parse(name);
    for (filter, expected) in [
        (any(), 4),
        (BulkFilter { destination: Some(url(one)), ..any() }, 2),
        (BulkFilter { destination: Some(url("https://none.example/")), ..any() }, 0),
        (BulkFilter { endpoint: Some(endpoint.id), ..any() }, 1),
        (BulkFilter { endpoint: Some(endpoint.id), destination: Some(url(one)), ..any() }, 0),
        (BulkFilter { app: Some(app.application.id), ..any() }, 1),
        (BulkFilter { event_type: Some("b".to_owned()), ..any() }, 2),
        (BulkFilter { event_type: Some("b".to_owned()), destination: Some(url(other)), ..any() }, 1),
        (BulkFilter { failure_kind: Some(FailureKind::Gone), ..any() }, 1),
        (BulkFilter { failure_kind: Some(FailureKind::Cancelled), ..any() }, 0),
        (BulkFilter { error: error("http_503"), ..any() }, 1),
        (BulkFilter { error: error("http_4xx"), ..any() }, 2),
        (BulkFilter { error: error("timeout"), ..any() }, 0),
        (BulkFilter { since: Some(failed_at.before(SECOND * 30)), ..any() }, 3),
        (BulkFilter { until: Some(failed_at.before(SECOND * 30)), ..any() }, 1),
        (BulkFilter { since: Some(failed_at.after(SECOND)), ..any() }, 0),
    ] {
        assert_eq!(count(&store, &filter).await, expected, "{filter:?}");
        // An operation selects the same events as its count. Cancelled ones are counted below and not selected again.
        let operation = start(&store, BulkAction::Requeue, filter.clone()).await;
        store.bulk().stop(operation.id, "bob").await.expect("it exists");
        let stored = get(&store, &operation).await.filter;
        assert_eq!(BulkFilter { until: filter.until, ..stored }, filter);
    }
    let selected = BulkFilter { destination: Some(url(one)), error: error("http_5xx"), ..any() };
    let operation = start(&store, BulkAction::Requeue, selected).await;
    assert_eq!(advance(&store).await, 2);
    let finished = get(&store, &operation).await;
    assert_eq!((finished.examined_count, finished.done_count), (2, 2), "only the destination's are examined");
    let by_type = BulkFilter { event_type: Some("b".to_owned()), ..any() };
    let operation = start(&store, BulkAction::Requeue, by_type).await;
    assert_eq!(advance(&store).await, 1);
    assert_eq!(get(&store, &operation).await.examined_count, 2);
}

pub async fn an_operation_stays_within_its_rate_and_any_handle_continues_it(harness: &dyn Harness) {
    let store = harness.store();
    for _ in 0..5 {
        enqueue_failed(&store, event(), 500).await;
    }
    let operation = start_at_rate(&store, BulkAction::Requeue, BulkFilter::default(), 2).await;
    assert_eq!(advance(&store).await, 2);
    harness.advance(MINUTE).await;
    let step = harness.second_handle().bulk().advance(100).await.expect("the store is up");
    assert_eq!(step.done, 2);
    assert!(step.next_in.is_some_and(|next_in| next_in <= SECOND));
    harness.advance(MINUTE).await;
    assert_eq!(advance(&store).await, 1);
    let finished = get(&store, &operation).await;
    assert_eq!((finished.state, finished.done_count), (OperationState::Finished, 5));
}

pub async fn two_workers_change_each_event_once(harness: &dyn Harness) {
    let (one, other) = (harness.store(), harness.second_handle());
    for _ in 0..20 {
        enqueue_failed(&one, event(), 500).await;
    }
    let operation = start(&one, BulkAction::Requeue, BulkFilter::default()).await;
    let mut done = 0;
    while get(&one, &operation).await.state == OperationState::Running {
        let (a, b) = futures_util::future::join(one.bulk().advance(3), other.bulk().advance(3)).await;
        done += a.expect("the store is up").done + b.expect("the store is up").done;
    }
    assert_eq!(done, 20);
    assert_eq!(get(&other, &operation).await.done_count, 20);
    assert_eq!(claim_all(&one).await.len(), 20);
}

pub async fn a_step_examines_a_limited_number_of_dead_letters(harness: &dyn Harness) {
    let store = harness.store();
    for _ in 0..5 {
        enqueue_failed(&store, event(), 500).await;
    }
    let operation = start(&store, BulkAction::Discard, BulkFilter::default()).await;
    let mut done = Vec::new();
    while get(&store, &operation).await.state == OperationState::Running {
        done.push(store.bulk().advance(2).await.expect("the store is up").done);
    }
    assert_eq!(done, [2, 2, 1]);
}

pub async fn a_stopped_operation_does_no_more(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_failed(&store, event(), 500).await;
    let operation = start(&store, BulkAction::Requeue, BulkFilter::default()).await;
    let stopped = store.bulk().stop(operation.id, "bob").await.expect("it exists");
    assert_eq!((stopped.state, stopped.stopped_by.as_deref()), (OperationState::Stopped, Some("bob")));
    assert_eq!(advance(&store).await, 0);
    let again = store.bulk().stop(operation.id, "eve").await.expect("it exists");
    assert_eq!(again.stopped_by.as_deref(), Some("bob"), "a second stop changes nothing");
    assert_eq!(store.bulk().advance(100).await.map(|step| step.next_in), Ok(None));
}

pub async fn a_request_under_a_known_key_starts_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let matched = store.bulk().count(&BulkFilter::default()).await.expect("the store is up");
    let new = |action, key| NewBulkOperation {
        action,
        filter: BulkFilter::default(),
        rate: rate(10),
        matched,
        reason: None,
        actor: "ann",
        key,
    };
    let first = store.bulk().start(&new(BulkAction::Requeue, Some("k"))).await.expect("the store is up");
    let again = harness.second_handle().bulk().start(&new(BulkAction::Requeue, Some("k"))).await;
    assert_eq!(again.map(|again| again.id), Ok(first.id));
    let other = store.bulk().start(&new(BulkAction::Requeue, None)).await.expect("the store is up");
    let third = store.bulk().start(&new(BulkAction::Cancel, None)).await.expect("the store is up");
    let listed = store.bulk().list(None, &ListRequest::default()).await.expect("the store is up");
    let listed: Vec<_> = listed.items.into_iter().map(|operation| operation.id).collect();
    assert_eq!(listed, [third.id, other.id, first.id], "newest first");
}

pub async fn operations_are_listed_by_state_and_removed_when_they_are_old(harness: &dyn Harness) {
    let store = harness.store();
    let ended = start(&store, BulkAction::Requeue, BulkFilter::default()).await;
    advance(&store).await;
    enqueue_failed(&store, event(), 500).await;
    let running = start(&store, BulkAction::Requeue, BulkFilter::default()).await;
    let listed = store.bulk().list(Some(OperationState::Running), &ListRequest::default()).await;
    let listed = listed.expect("the store is up").items;
    assert_eq!(listed.iter().map(|operation| operation.id).collect::<Vec<_>>(), [running.id]);
    harness.advance(DAY).await;
    let retention = Retention {
        keep_for: Some(MINUTE),
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    while store.maintain(&retention).await.expect("the store is up").has_more {}
    let missing = store.bulk().get(ended.id).await.expect_err("it ended a day ago");
    assert!(matches!(missing, StoreError::OperationNotFound { .. }), "{missing:?}");
    assert_eq!(get(&store, &running).await.state, OperationState::Running);
}
