//! Applications.

use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationRef, ApplicationSpec, NewApplication, OrgId, Throttle, Uid,
};
use posthaste_store::{AppScope, IfTaken, ListFrom, ListLimit, ListRequest, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

fn uid(text: &str) -> Uid {
    Uid::for_application(text).expect("a valid uid")
}

pub async fn an_application_has_the_fields_it_was_created_with(harness: &dyn Harness) {
    let store = harness.store();
    let spec = ApplicationSpec {
        name: "B\u{fc}cher".to_owned(),
        uid: Some("customer-1".to_owned()),
        throttle_per_second: Some(7),
        metadata: [("plan".to_owned(), "gold".to_owned())].into(),
    };
    let new = NewApplication::accept(spec).expect("a valid application");
    let app = add_app(&store, &new).await;
    let found = harness.second_handle().applications().get(app.scope()).await.expect("it exists");
    assert_eq!(found, app.application);
    assert_eq!((&found.name, &found.uid, found.throttle), (&new.name, &new.uid, new.throttle));
    assert_eq!((&found.metadata, &found.org), (&new.metadata, &org()));
    assert_same_time(found.created_at, found.updated_at);
}

pub async fn a_taken_uid_is_refused_or_returns_the_existing_application(harness: &dyn Harness) {
    let store = harness.store();
    let first = add_app(&store, &app_with_uid("customer-1")).await;
    let new = app_with_uid("customer-1");
    let refused = store.applications().create(&org(), &new, IfTaken::Refuse, None).await;
    assert_eq!(refused, Err(StoreError::UidTaken { uid: "customer-1".to_owned() }));
    let existing = store.applications().create(&org(), &new, IfTaken::ReturnExisting, None).await;
    let existing = existing.expect("it returns the first one");
    assert_eq!((existing.value.id, existing.is_new), (first.application.id, false));
    let elsewhere = OrgId::new("org_other").expect("a valid id");
    let other = store.applications().create(&elsewhere, &new, IfTaken::Refuse, None).await;
    assert!(other.expect("uids are unique per organisation").is_new);
}

pub async fn an_application_is_found_by_id_and_uid_within_its_organisation(harness: &dyn Harness) {
    let store = harness.store();
    let app = add_app(&store, &app_with_uid("customer-1")).await;
    let by_uid = ApplicationRef::Uid(uid("customer-1"));
    for named in [&app.app, &by_uid] {
        let found = store.applications().get(AppScope { org: &org(), app: named }).await;
        assert_eq!(found.as_ref(), Ok(&app.application));
        let elsewhere = OrgId::new("org_other").expect("a valid id");
        let hidden = store.applications().get(AppScope { org: &elsewhere, app: named }).await;
        assert_eq!(hidden, Err(StoreError::ApplicationNotFound { app: named.to_string() }));
    }
}

pub async fn put_creates_an_application_and_replaces_it_afterwards(harness: &dyn Harness) {
    let store = harness.store();
    let by_uid = ApplicationRef::Uid(uid("customer-1"));
    let created = store.applications().put(&org(), &by_uid, &new_app("one")).await.expect("it is created");
    assert_eq!((created.is_new, created.value.uid), (true, Some(uid("customer-1"))));
    let replaced = store.applications().put(&org(), &by_uid, &app_with_uid("customer-2")).await;
    let replaced = replaced.expect("it is replaced");
    assert_eq!((replaced.is_new, replaced.value.id), (false, created.value.id));
    assert_eq!(replaced.value.uid, Some(uid("customer-2")), "the uid of the body counts");
    let unknown = ApplicationRef::Id(ApplicationId(999_999));
    let refused = store.applications().put(&org(), &unknown, &new_app("one")).await;
    assert_eq!(refused, Err(StoreError::ApplicationNotFound { app: unknown.to_string() }));
}

pub async fn an_update_changes_and_clears_only_what_it_names(harness: &dyn Harness) {
    let store = harness.store();
    add_app(&store, &app_with_uid("taken")).await;
    let app = add_app(&store, &app_with_uid("customer-1")).await;
    let throttle = Throttle::new(5).expect("a valid rate");
    let change = ApplicationChange { throttle: Some(Some(throttle)), ..ApplicationChange::default() };
    let updated = store.applications().update(app.scope(), &change).await.expect("it is updated");
    assert_eq!((updated.throttle, updated.uid), (Some(throttle), Some(uid("customer-1"))));
    let change = ApplicationChange { uid: Some(None), ..ApplicationChange::default() };
    let updated = store.applications().update(app.scope(), &change).await.expect("it is updated");
    assert_eq!((updated.throttle, updated.uid), (Some(throttle), None));
    let change = ApplicationChange { uid: Some(Some(uid("taken"))), ..ApplicationChange::default() };
    let refused = store.applications().update(app.scope(), &change).await;
    assert_eq!(refused, Err(StoreError::UidTaken { uid: "taken".to_owned() }));
}

pub async fn a_deleted_application_does_not_exist_and_its_uid_is_free(harness: &dyn Harness) {
    let store = harness.store();
    let app = add_app(&store, &app_with_uid("customer-1")).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    store.applications().delete(app.scope(), "ann").await.expect("it is deleted");
    let not_found = || StoreError::ApplicationNotFound { app: app.app.to_string() };
    assert_eq!(store.applications().get(app.scope()).await, Err(not_found()));
    assert_eq!(store.applications().delete(app.scope(), "ann").await, Err(not_found()));
    assert_eq!(store.endpoints().get(app.scope(), &by_id(&endpoint)).await, Err(not_found()));
    assert_eq!(store.messages().get(app.scope(), &ref_to(&message), true).await, Err(not_found()));
    assert_nothing_claimable(&store).await;
    let again = add_app(&store, &app_with_uid("customer-1")).await;
    assert_ne!(again.application.id, app.application.id);
}

pub async fn applications_are_listed_in_pages_both_ways(harness: &dyn Harness) {
    let store = harness.store();
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(add_app(&store, &new_app(name)).await.application.id);
    }
    let list = async |from| {
        let request = ListRequest { from, limit: ListLimit::new(2).expect("a valid limit") };
        let page = store.applications().list(&org(), &request).await.expect("the store is up");
        (page.items.into_iter().map(|app| app.id).collect::<Vec<_>>(), page.done)
    };
    assert_eq!(list(ListFrom::Start).await, (ids[..2].to_vec(), false));
    assert_eq!(list(ListFrom::After(ids[1])).await, (ids[2..4].to_vec(), false));
    assert_eq!(list(ListFrom::After(ids[3])).await, (ids[4..].to_vec(), true));
    assert_eq!(list(ListFrom::Before(ids[4])).await, (ids[2..4].to_vec(), false));
    assert_eq!(list(ListFrom::Before(ids[2])).await, (ids[..2].to_vec(), true));
    let elsewhere = OrgId::new("org_other").expect("a valid id");
    let other =
        store.applications().list(&elsewhere, &ListRequest::default()).await.expect("the store is up");
    assert!(other.items.is_empty() && other.done);
}
