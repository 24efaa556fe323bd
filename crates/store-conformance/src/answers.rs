//! Answers that are kept with the changes that they answer.

use futures_util::future::join_all;
use posthaste_domain::MessageSpec;
use posthaste_store::{AnswerKey, IfTaken, PublishRequest, Retention, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn status_of(store: &Handle, number: u8) -> Option<u16> {
    let found = store.answers().find(&AnswerKey([number; 32])).await.expect("the store is up");
    found.map(|kept| kept.answer.status)
}

pub async fn an_answer_is_kept_with_its_change_and_prevents_a_second_one(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let request = PublishRequest { answer: Some(slot(1)), ..publish_request(&app, message_spec()) };
    try_publish(&store, &request).await.expect("it is accepted");
    let other = harness.second_handle();
    let kept = other.answers().find(&AnswerKey([1; 32])).await.expect("the store is up").expect("it is kept");
    assert_eq!((kept.answer.status, &kept.answer.body[..], kept.fingerprint), (201, &b"{}"[..], [7; 32]));
    assert_eq!(try_publish(&other, &request).await, Err(StoreError::AnswerKept));
    assert_eq!(claim_all(&store).await.len(), 1, "the second call published nothing");
}

pub async fn a_refused_call_keeps_no_answer(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let spec = MessageSpec { uid: Some("order-17".to_owned()), ..message_spec() };
    publish(&store, &app, spec.clone()).await;
    let request = PublishRequest { answer: Some(slot(1)), ..publish_request(&app, spec) };
    assert!(matches!(try_publish(&store, &request).await, Err(StoreError::UidTaken { .. })));
    assert_eq!(status_of(&store, 1).await, None);
}

pub async fn every_change_of_the_registry_can_keep_its_answer(harness: &dyn Harness) {
    let store = harness.store();
    let created = store.applications().create(&org(), &new_app("a"), IfTaken::Refuse, Some(&slot(1))).await;
    created.expect("it is created");
    let again = store.applications().create(&org(), &new_app("a"), IfTaken::Refuse, Some(&slot(1))).await;
    assert_eq!(again, Err(StoreError::AnswerKept));
    let app = app(&store).await;
    let new = new_endpoint(endpoint_spec());
    for expected in [true, false] {
        let created = store.endpoints().create(app.scope(), &new, &new_secrets(), Some(&slot(2))).await;
        assert_eq!(created.is_ok(), expected);
    }
    let created = store.event_types().create(&org(), &new_type("a"), Some(&slot(3))).await;
    created.expect("it is registered");
    store.answers().keep(&slot(4)).await.expect("it is kept");
    assert_eq!(store.answers().keep(&slot(4)).await, Err(StoreError::AnswerKept));
    for number in 1..=4 {
        assert_eq!(status_of(&store, number).await, Some(201));
    }
}

pub async fn an_answer_expires(harness: &dyn Harness) {
    let store = harness.store();
    store.answers().keep(&slot(1)).await.expect("it is kept");
    harness.advance(HOUR + MINUTE).await;
    assert_eq!(status_of(&store, 1).await, None);
    let retention = Retention {
        keep_for: None,
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    store.maintain(&retention).await.expect("the store is up");
    store.answers().keep(&slot(1)).await.expect("the key is free again");
    assert_eq!(status_of(&store, 1).await, Some(201));
}

pub async fn concurrent_calls_under_one_key_make_one_change(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let request = PublishRequest { answer: Some(slot(1)), ..publish_request(&app, message_spec()) };
    let handles = [harness.store(), harness.second_handle(), harness.store(), harness.second_handle()];
    let published = join_all(handles.iter().map(|handle| try_publish(handle, &request))).await;
    assert_eq!(published.iter().filter(|published| published.is_ok()).count(), 1);
    assert_eq!(claim_all(&store).await.len(), 1);
}
