//! Background operations: recover and replay-missing.

use posthaste_domain::{DeliveryStatus, EventId, MessageSpec, Throttle};
use posthaste_store::{
    Endpoint, ListRequest, NewOperation, Operation, OperationKind, OperationState, PastRange, StoreError,
};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

fn rate(per_second: i64) -> Throttle {
    Throttle::new(per_second).expect("a valid rate")
}

async fn start(
    store: &Handle,
    app: &App,
    endpoint: &Endpoint,
    kind: OperationKind,
    per_second: i64,
) -> Result<Operation, StoreError> {
    let range = PastRange::new(DAY, std::time::Duration::ZERO).expect("a valid period");
    let (endpoint, rate) = (by_id(endpoint), rate(per_second));
    let new = NewOperation { kind, endpoint: &endpoint, range, rate, actor: "ann" };
    store.operations().start(app.scope(), &new, None).await
}

async fn advance(store: &Handle) -> usize {
    store.operations().advance(100).await.expect("the store is up").done
}

async fn get(store: &Handle, app: &App, operation: &Operation) -> Operation {
    store.operations().get(app.scope(), operation.id).await.expect("it exists")
}

/// Publishes a message whose event fails for good.
async fn publish_failing(store: &Handle, app: &App) -> EventId {
    publish(store, app, MessageSpec { max_attempts: Some(1), ..message_spec() }).await;
    let lease = claim_one(store).await;
    apply(store, &lease, status(500)).await;
    lease.event_id
}

pub async fn recover_reopens_failed_events_of_its_period(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let too_old = publish_failing(&store, &app).await;
    harness.advance(DAY * 2).await;
    let failed = publish_failing(&store, &app).await;
    let cancelled = event_of(&publish_one(&store, &app).await, &endpoint);
    store.cancel(&cancelled, "bob".into(), None).await.expect("it is pending");
    let operation = start(&store, &app, &endpoint, OperationKind::Recover, 100).await.expect("it starts");
    assert_eq!((operation.state, operation.done_count), (OperationState::Running, 0));
    assert_eq!(advance(&store).await, 1);
    let finished = get(&store, &app, &operation).await;
    assert_eq!((finished.state, finished.done_count), (OperationState::Finished, 1));
    assert_eq!(view(&store, &failed).await.status, DeliveryStatus::Pending);
    for left in [too_old, cancelled] {
        assert_eq!(view(&store, &left).await.status, DeliveryStatus::Failed);
    }
    assert_eq!(store.operations().advance(100).await.map(|it| (it.done, it.next_in)), Ok((0, None)));
}

pub async fn replay_missing_adds_the_events_that_an_endpoint_never_got(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let before = publish_one(&store, &app).await;
    publish(&store, &app, MessageSpec { event_type: "other".to_owned(), ..message_spec() }).await;
    let typed = endpoint_of_type(&store, &app, "invoice.paid").await;
    publish_one(&store, &app).await;
    start(&store, &app, &typed, OperationKind::ReplayMissing, 100).await.expect("it starts");
    assert_eq!(advance(&store).await, 1, "one of the three messages matches and is missing");
    assert_eq!(event_view(&store, &before, &typed).await.status, DeliveryStatus::Pending);
    assert_eq!(claim_all(&store).await.len(), 2);
    start(&store, &app, &typed, OperationKind::ReplayMissing, 100).await.expect("it starts");
    assert_eq!(advance(&store).await, 0, "nothing is missing any more");
}

pub async fn an_operation_stays_within_its_rate_and_continues(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    for _ in 0..5 {
        publish_one(&store, &app).await;
    }
    let endpoint = endpoint(&store, &app).await;
    let operation = start(&store, &app, &endpoint, OperationKind::ReplayMissing, 2).await.expect("it starts");
    assert_eq!(advance(&store).await, 2);
    assert_eq!(get(&store, &app, &operation).await.state, OperationState::Running);
    harness.advance(MINUTE).await;
    let step = harness.second_handle().operations().advance(100).await.expect("the store is up");
    assert_eq!(step.done, 2);
    assert!(step.next_in.is_some_and(|next_in| next_in <= SECOND));
    harness.advance(MINUTE).await;
    assert_eq!(advance(&store).await, 1);
    let finished = get(&store, &app, &operation).await;
    assert_eq!((finished.state, finished.done_count), (OperationState::Finished, 5));
}

pub async fn a_step_examines_a_limited_number_of_rows(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    for _ in 0..5 {
        publish_one(&store, &app).await;
    }
    let endpoint = endpoint(&store, &app).await;
    let operation =
        start(&store, &app, &endpoint, OperationKind::ReplayMissing, 100).await.expect("it starts");
    let mut done = Vec::new();
    while get(&store, &app, &operation).await.state == OperationState::Running {
        done.push(store.operations().advance(2).await.expect("the store is up").done);
    }
    assert_eq!(done, [2, 2, 1]);
}

pub async fn a_stopped_operation_does_no_more(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    publish_one(&store, &app).await;
    let endpoint = endpoint(&store, &app).await;
    let operation = start(&store, &app, &endpoint, OperationKind::ReplayMissing, 1).await.expect("it starts");
    let stopped = store.operations().stop(operation.id).await.expect("it exists");
    assert_eq!(stopped.state, OperationState::Stopped);
    assert_eq!(advance(&store).await, 0);
    assert_eq!(store.operations().stop(operation.id).await, Ok(stopped), "it has ended already");
    let listed = store.operations().list(Some(OperationState::Stopped), &ListRequest::default()).await;
    assert_eq!(listed.expect("the store is up").items.len(), 1);
}

pub async fn an_operation_of_a_deleted_endpoint_is_stopped(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    publish_one(&store, &app).await;
    let endpoint = endpoint(&store, &app).await;
    let operation = start(&store, &app, &endpoint, OperationKind::ReplayMissing, 1).await.expect("it starts");
    store.endpoints().delete(app.scope(), &by_id(&endpoint), "ann").await.expect("it is deleted");
    assert_eq!(get(&store, &app, &operation).await.state, OperationState::Stopped);
    assert_eq!(advance(&store).await, 0);
}

pub async fn an_operation_is_found_by_its_own_application_only(harness: &dyn Harness) {
    let store = harness.store();
    let (one, other) = (app(&store).await, app(&store).await);
    let endpoint = endpoint(&store, &one).await;
    let operation = start(&store, &one, &endpoint, OperationKind::Recover, 1).await.expect("it starts");
    let hidden = store.operations().get(other.scope(), operation.id).await;
    assert_eq!(hidden, Err(StoreError::OperationNotFound { operation: operation.id.to_string() }));
    set_disabled(&store, &one, &endpoint, true).await;
    let refused = start(&store, &one, &endpoint, OperationKind::Recover, 1).await;
    assert_eq!(refused, Err(StoreError::EndpointDisabled { endpoint: endpoint.id.to_string() }));
}
