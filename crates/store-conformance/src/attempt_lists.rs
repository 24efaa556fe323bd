//! Lists of attempts of messages and of endpoints.

use posthaste_domain::{AttemptId, MessageSpec};
use posthaste_store::{
    AttemptFilter, AttemptRecord, AttemptsOf, ListFrom, ListLimit, ListRequest, StoreError,
};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn listed(store: &Handle, app: &App, filter: &AttemptFilter) -> Vec<AttemptRecord> {
    let page = store.messages().attempts(app.scope(), filter, &ListRequest::default()).await;
    page.expect("the store is up").items
}

fn statuses(records: &[AttemptRecord]) -> Vec<Option<u16>> {
    records.iter().map(|record| record.attempt.http_status).collect()
}

pub async fn attempts_are_listed_by_message_and_by_endpoint_newest_first(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let first = publish_one(&store, &app).await;
    apply(&store, &claim_one(&store).await, status(500)).await;
    harness.advance(RETRY_DELAY).await;
    let lease = claim_one(&store).await;
    apply(&store, &lease, success()).await;
    harness.advance(MINUTE).await;
    publish_one(&store, &app).await;
    apply(&store, &claim_one(&store).await, status(404)).await;

    let of_message = listed(&store, &app, &AttemptFilter::all(AttemptsOf::Message(ref_to(&first)))).await;
    assert_eq!(statuses(&of_message), [Some(200), Some(500)]);
    let newest = &of_message[0];
    assert_eq!(newest.id, AttemptId { event: lease.key, token: lease.token });
    assert_eq!((newest.message, newest.endpoint, &newest.url), (first.id, endpoint.id, &endpoint.url));
    assert!(newest.is_success() && newest.attempt.applied);
    let of_endpoint = listed(&store, &app, &AttemptFilter::all(AttemptsOf::Endpoint(by_id(&endpoint)))).await;
    assert_eq!(statuses(&of_endpoint), [Some(404), Some(200), Some(500)]);
}

pub async fn attempts_are_listed_in_pages_both_ways(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    for code in [501, 502, 503, 504] {
        publish_one(&store, &app).await;
        let lease = claim(&store, &claim_by("worker-a")).await.leases.pop().expect("one event is due");
        apply(&store, &lease, status(code)).await;
        harness.advance(SECOND).await;
    }
    let filter = AttemptFilter::all(AttemptsOf::Endpoint(by_id(&endpoint)));
    let ids: Vec<AttemptId> = listed(&store, &app, &filter).await.iter().map(|it| it.id).collect();
    let list = async |from| {
        let request = ListRequest { from, limit: ListLimit::new(3).expect("a valid limit") };
        let page = store.messages().attempts(app.scope(), &filter, &request).await.expect("the store is up");
        (page.items.into_iter().map(|it| it.id).collect::<Vec<_>>(), page.done)
    };
    assert_eq!(list(ListFrom::Start).await, (ids[..3].to_vec(), false));
    assert_eq!(list(ListFrom::After(ids[2])).await, (ids[3..].to_vec(), true));
    assert_eq!(list(ListFrom::Before(ids[3])).await, (ids[..3].to_vec(), true));
}

pub async fn attempts_are_filtered(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let channels = Some(vec!["eu".to_owned()]);
    publish(&store, &app, MessageSpec { channels, event_type: "other".to_owned(), ..message_spec() }).await;
    apply(&store, &claim_one(&store).await, success()).await;
    publish_one(&store, &app).await;
    apply(&store, &claim_one(&store).await, status(404)).await;
    let all = AttemptFilter::all(AttemptsOf::Endpoint(by_id(&endpoint)));
    let codes = async |filter: AttemptFilter| statuses(&listed(&store, &app, &filter).await);
    assert_eq!(codes(AttemptFilter { is_success: Some(true), ..all.clone() }).await, [Some(200)]);
    assert_eq!(codes(AttemptFilter { is_success: Some(false), ..all.clone() }).await, [Some(404)]);
    assert_eq!(codes(AttemptFilter { status_code_class: Some(4), ..all.clone() }).await, [Some(404)]);
    assert_eq!(codes(AttemptFilter { event_types: names(&["other"]), ..all.clone() }).await, [Some(200)]);
    let channel = Some(posthaste_domain::Channel::new("eu").expect("a valid channel"));
    assert_eq!(codes(AttemptFilter { channel, ..all.clone() }).await, [Some(200)]);
    assert_eq!(codes(AttemptFilter { endpoint: Some(by_id(&endpoint)), ..all }).await.len(), 2);
}

pub async fn an_attempt_is_found_through_its_own_message_only(harness: &dyn Harness) {
    let store = harness.store();
    let (one, other) = (app(&store).await, app(&store).await);
    endpoint(&store, &one).await;
    let message = publish_one(&store, &one).await;
    let lease = claim_one(&store).await;
    apply(&store, &lease, success()).await;
    let id = AttemptId { event: lease.key, token: lease.token };
    let found = store.messages().attempt(one.scope(), &ref_to(&message), id).await.expect("it exists");
    assert_eq!((found.id, found.event_id), (id, lease.event_id));
    let second = publish_one(&store, &one).await;
    let not_found = Err(StoreError::AttemptNotFound { attempt: id.to_string() });
    assert_eq!(store.messages().attempt(one.scope(), &ref_to(&second), id).await, not_found);
    let hidden = store.messages().attempt(other.scope(), &ref_to(&message), id).await;
    assert_eq!(hidden, Err(StoreError::MessageNotFound { message: message.id.to_string() }));
}
