//! Lists of messages and of their events, and the removal of payloads.

use posthaste_domain::{Channel, DeliveryStatus, FailureKind, MessageSpec};
use posthaste_store::{
    ListFrom, ListLimit, ListRequest, MessageContent, MessageFilter, MessageView, Retention, StoreError,
};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn listed(store: &Handle, app: &App, filter: &MessageFilter) -> Vec<MessageView> {
    let page = store.messages().list(app.scope(), filter, &ListRequest::default(), false).await;
    page.expect("the store is up").items
}

pub async fn messages_are_listed_newest_first_in_pages_both_ways(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, publish_one(&store, &app).await.id);
    }
    let list = async |from| {
        let request = ListRequest { from, limit: ListLimit::new(2).expect("a valid limit") };
        let page = store.messages().list(app.scope(), &MessageFilter::default(), &request, false).await;
        let page = page.expect("the store is up");
        (page.items.into_iter().map(|it| it.id).collect::<Vec<_>>(), page.done)
    };
    assert_eq!(list(ListFrom::Start).await, (ids[..2].to_vec(), false));
    assert_eq!(list(ListFrom::After(ids[1])).await, (ids[2..4].to_vec(), false));
    assert_eq!(list(ListFrom::After(ids[3])).await, (ids[4..].to_vec(), true));
    assert_eq!(list(ListFrom::Before(ids[4])).await, (ids[2..4].to_vec(), false));
    assert_eq!(list(ListFrom::Before(ids[1])).await, (ids[..1].to_vec(), true));
}

pub async fn messages_are_filtered_by_type_channel_tag_and_time(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let plain = publish_one(&store, &app).await;
    let typed =
        publish(&store, &app, MessageSpec { event_type: "other".to_owned(), ..message_spec() }).await.message;
    harness.advance(HOUR).await;
    let channels = Some(vec!["eu".to_owned()]);
    let marked = MessageSpec { channels, tags: vec!["t".to_owned()], ..message_spec() };
    let marked = publish(&store, &app, marked).await.message;
    let ids = async |filter: MessageFilter| -> Vec<_> {
        listed(&store, &app, &filter).await.iter().map(|message| message.id).collect()
    };
    let all = MessageFilter::default();
    assert_eq!(ids(all.clone()).await, [marked.id, typed.id, plain.id]);
    assert_eq!(ids(MessageFilter { event_types: names(&["other"]), ..all.clone() }).await, [typed.id]);
    let channel = Some(Channel::new("eu").expect("a valid channel"));
    assert_eq!(ids(MessageFilter { channel, ..all.clone() }).await, [marked.id]);
    assert_eq!(ids(MessageFilter { tag: Some("t".to_owned()), ..all.clone() }).await, [marked.id]);
    let times = listed(&store, &app, &all).await;
    let between = times[0].created_at.before(MINUTE);
    assert_eq!(ids(MessageFilter { before: Some(between), ..all.clone() }).await, [typed.id, plain.id]);
    assert_eq!(ids(MessageFilter { after: Some(between), ..all }).await, [marked.id]);
}

pub async fn content_is_returned_if_it_is_asked_for(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let message = publish_one(&store, &app).await;
    let content = async |with_content| {
        let found = store.messages().get(app.scope(), &ref_to(&message), with_content).await;
        found.expect("it exists").content
    };
    assert_eq!(content(false).await, MessageContent::Omitted);
    assert_eq!(content(true).await, MessageContent::Payload(message_spec().payload));
    assert_eq!(message.content, content(true).await, "a publish returns it");
}

pub async fn expunging_a_message_removes_its_payload_and_cancels_its_events(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    store.messages().expunge(app.scope(), &ref_to(&message), "ann").await.expect("it exists");
    for with_content in [false, true] {
        let found = store.messages().get(app.scope(), &ref_to(&message), with_content).await;
        assert_eq!(found.expect("it exists").content, MessageContent::Expunged);
    }
    let event = event_view(&store, &message, &endpoint).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Cancelled)));
    assert_nothing_claimable(&store).await;
}

pub async fn messages_of_an_endpoint_come_with_their_events(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let typed = endpoint_of_type(&store, &app, "invoice.paid").await;
    let first = publish_one(&store, &app).await;
    apply(&store, &claim_one(&store).await, success()).await;
    publish(&store, &app, MessageSpec { event_type: "other".to_owned(), ..message_spec() }).await;
    let second = publish_one(&store, &app).await;
    let filter = MessageFilter::default();
    let list = async |from| {
        let request = ListRequest { from, limit: ListLimit::new(1).expect("a valid limit") };
        let page = store.messages().of_endpoint(app.scope(), &by_id(&typed), &filter, &request, true).await;
        let page = page.expect("the store is up");
        let items = page.items.iter().map(|item| (item.message.id, item.event.status)).collect::<Vec<_>>();
        (items, page.done)
    };
    assert_eq!(list(ListFrom::Start).await, (vec![(second.id, DeliveryStatus::Pending)], false));
    let older = (vec![(first.id, DeliveryStatus::Delivered)], true);
    assert_eq!(list(ListFrom::After(second.id)).await, older);
}

fn keep_for(days: u32) -> Retention {
    Retention {
        keep_for: Some(DAY * days),
        keep_dead_letters_for: None,
        keep_unused_destinations_for: Some(DAY * days),
        rows_max: 100,
    }
}

pub async fn an_expired_payload_is_removed_when_its_events_have_ended(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let spec = MessageSpec { payload_retention_days: Some(5), ..message_spec() };
    let message = publish(&store, &app, spec).await.message;
    let content = async || {
        store.messages().get(app.scope(), &ref_to(&message), false).await.expect("it exists").content
    };
    harness.advance(DAY * 6).await;
    store.maintain(&keep_for(30)).await.expect("the store is up");
    assert_eq!(content().await, MessageContent::Omitted, "a pending event needs it");
    apply(&store, &claim_one(&store).await, success()).await;
    store.maintain(&keep_for(30)).await.expect("the store is up");
    assert_eq!(content().await, MessageContent::Expunged);
}

pub async fn an_old_message_is_removed_with_its_last_event(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    apply(&store, &claim_one(&store).await, success()).await;
    let resent =
        store.messages().resend(app.scope(), &ref_to(&message), &by_id(&endpoint), "ann", None).await;
    harness.advance(DAY * 3).await;
    while store.maintain(&keep_for(2)).await.expect("the store is up").has_more {}
    assert!(store.messages().get(app.scope(), &ref_to(&message), false).await.is_ok(), "an event is pending");
    let lease = claim_one(&store).await;
    assert_eq!(Ok(&lease.event_id), resent.as_ref());
    apply(&store, &lease, success()).await;
    harness.advance(DAY * 3).await;
    for _ in 0..3 {
        store.maintain(&keep_for(2)).await.expect("the store is up");
    }
    let removed = store.messages().get(app.scope(), &ref_to(&message), false).await;
    assert_eq!(removed, Err(StoreError::MessageNotFound { message: message.id.to_string() }));
    assert!(store.endpoints().get(app.scope(), &by_id(&endpoint)).await.is_ok(), "endpoints are kept");
}
