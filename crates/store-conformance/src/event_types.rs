//! Event types.

use posthaste_domain::{EventTypeChange, EventTypeSettings, NewEventType, OrgId};
use posthaste_store::{EventType, ListFrom, ListLimit, ListRequest, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn listed(store: &Handle, include_archived: bool) -> Vec<String> {
    let page = store.event_types().list(&org(), include_archived, &ListRequest::default()).await;
    page.expect("the store is up").items.into_iter().map(|it| it.name.to_string()).collect()
}

async fn archive(store: &Handle, name: &str) -> EventType {
    let change = EventTypeChange { is_archived: Some(true), ..EventTypeChange::default() };
    store.event_types().update(&org(), &type_name(name), &change).await.expect("it is archived")
}

pub async fn an_event_type_has_the_settings_it_was_created_with(harness: &dyn Harness) {
    let store = harness.store();
    let settings = EventTypeSettings {
        schemas: Some(r#"{"1":{"type":"object"}}"#.to_owned()),
        is_deprecated: true,
        group_name: Some("billing".to_owned()),
        feature_flags: ["beta".to_owned()].into(),
        ..EventTypeSettings::default()
    };
    let new = NewEventType { name: type_name("invoice.paid"), settings };
    let created = store.event_types().create(&org(), &new, None).await.expect("it is registered");
    assert_eq!((&created.settings, created.archived_at), (&new.settings, None));
    let found = harness.second_handle().event_types().get(&org(), &new.name).await;
    assert_eq!(found, Ok(created));
    let elsewhere = OrgId::new("org_other").expect("a valid id");
    let hidden = store.event_types().get(&elsewhere, &new.name).await;
    assert_eq!(hidden, Err(StoreError::EventTypeNotFound { name: new.name }));
}

pub async fn a_registered_name_is_taken_and_an_archived_one_is_revived(harness: &dyn Harness) {
    let store = harness.store();
    let new = new_type("invoice.paid");
    let first = store.event_types().create(&org(), &new, None).await.expect("it is registered");
    let taken = store.event_types().create(&org(), &new, None).await;
    assert_eq!(taken, Err(StoreError::EventTypeTaken { name: new.name.clone() }));
    assert!(archive(&store, "invoice.paid").await.archived_at.is_some());
    let revived = store.event_types().create(&org(), &new, None).await.expect("it is revived");
    assert_eq!((revived.archived_at, revived.created_at), (None, first.created_at));
}

pub async fn archived_event_types_are_listed_only_if_asked_for(harness: &dyn Harness) {
    let store = harness.store();
    for name in ["c", "a", "b"] {
        register(&store, name).await;
    }
    archive(&store, "b").await;
    assert_eq!(listed(&store, false).await, ["a", "c"]);
    assert_eq!(listed(&store, true).await, ["a", "b", "c"]);
    let request = ListRequest {
        from: ListFrom::Before(type_name("c")),
        limit: ListLimit::new(1).expect("a valid limit"),
    };
    let page = store.event_types().list(&org(), true, &request).await.expect("the store is up");
    assert_eq!((page.items.len(), page.items[0].name.as_str(), page.done), (1, "b", false));
}

pub async fn put_registers_replaces_and_revives_an_event_type(harness: &dyn Harness) {
    let store = harness.store();
    let put = async |new: &NewEventType| {
        let put = store.event_types().put(&org(), new).await.expect("the store is up");
        (put.is_new, put.value.settings.is_deprecated, put.value.archived_at)
    };
    assert_eq!(put(&new_type("a")).await, (true, false, None));
    archive(&store, "a").await;
    let settings = EventTypeSettings { is_deprecated: true, ..EventTypeSettings::default() };
    assert_eq!(put(&NewEventType { settings, ..new_type("a") }).await, (false, true, None));
}

pub async fn an_update_of_an_event_type_clears_only_what_it_names(harness: &dyn Harness) {
    let store = harness.store();
    let settings = EventTypeSettings {
        schemas: Some("{}".to_owned()),
        group_name: Some("billing".to_owned()),
        ..EventTypeSettings::default()
    };
    let new = NewEventType { settings, ..new_type("a") };
    store.event_types().put(&org(), &new).await.expect("the store is up");
    let change = EventTypeChange { schemas: Some(None), ..EventTypeChange::default() };
    let updated = store.event_types().update(&org(), &new.name, &change).await.expect("it is updated");
    assert_eq!((updated.settings.schemas, updated.settings.group_name.as_deref()), (None, Some("billing")));
}

pub async fn an_expunged_event_type_does_not_exist(harness: &dyn Harness) {
    let store = harness.store();
    register(&store, "a").await;
    let name = type_name("a");
    store.event_types().expunge(&org(), &name).await.expect("it is removed");
    let not_found = || StoreError::EventTypeNotFound { name: name.clone() };
    assert_eq!(store.event_types().expunge(&org(), &name).await, Err(not_found()));
    assert_eq!(store.event_types().get(&org(), &name).await, Err(not_found()));
    assert!(listed(&store, true).await.is_empty());
}
