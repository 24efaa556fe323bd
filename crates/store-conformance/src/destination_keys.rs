//! The keys and custom headers of destinations, and how workers learn of their changes.

use std::time::Duration;

use posthaste_domain::{DestinationId, DestinationUrl};
use posthaste_store::{
    ClaimRequest, DestinationAction, DestinationKey, KeyGrace, NewKey, Reseal, Retention, RotateKey,
    StoreError,
};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn keys(store: &Handle, destination: DestinationId) -> Vec<DestinationKey> {
    store.endpoints().keys(destination).await.expect("the store is up")
}

async fn rotate(
    store: &Handle,
    destination: DestinationId,
    key: &NewKey,
    grace: Duration,
) -> Result<Vec<DestinationKey>, StoreError> {
    let grace = KeyGrace::new(grace).expect("a valid grace period");
    let request = RotateKey { key: key.clone(), grace, actor: "ann" };
    store.endpoints().rotate_key(destination, &request, None).await
}

async fn version(store: &Handle, destination: DestinationId) -> i64 {
    let profiles = store.endpoints().profiles(&[destination]).await.expect("the store is up");
    profiles.first().map_or(0, |profile| profile.version)
}

pub async fn a_rotated_key_is_valid_beside_the_old_one_until_the_grace_period_ends(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let destination = endpoint(&store, &app).await.destination();
    let first = keys(&store, destination).await.remove(0);
    assert_eq!((first.created_by.as_deref(), first.retires_at), (None, None));
    let second = new_key("second");
    let valid = rotate(&store, destination, &second, HOUR).await.expect("it rotates");
    let ids = |keys: &[DestinationKey]| keys.iter().map(|key| key.sealed.id).collect::<Vec<_>>();
    assert_eq!(ids(&valid), [second.sealed.id, first.sealed.id], "newest first");
    assert_eq!((valid[0].created_by.as_deref(), valid[0].retires_at), (Some("ann"), None));
    assert_eq!(&valid[0].sealed, &second.sealed, "the store keeps what it was given");
    assert_eq!(keys(&harness.second_handle(), destination).await, valid);
    let repeated = rotate(&store, destination, &second, Duration::ZERO).await;
    assert_eq!(repeated, Ok(valid), "a repetition changes nothing");
    harness.advance(HOUR + MINUTE).await;
    assert_eq!(ids(&keys(&store, destination).await), [second.sealed.id]);
    let audit = store.destination(destination).await.expect("it exists").audit;
    assert_eq!(audit.iter().filter(|it| it.action == DestinationAction::RotateKey).count(), 1);
}

pub async fn ten_old_keys_may_be_valid_and_no_more(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let destination = endpoint(&store, &app).await.destination();
    for _ in 0..10 {
        rotate(&store, destination, &new_key("next"), HOUR).await.expect("there is space");
    }
    let refused = rotate(&store, destination, &new_key("next"), HOUR).await;
    assert!(matches!(refused, Err(StoreError::TooManyKeys { next_retires_at: Some(_) })), "{refused:?}");
    harness.advance(HOUR + MINUTE).await;
    assert_eq!(rotate(&store, destination, &new_key("next"), HOUR).await.expect("there is space").len(), 2);
}

pub async fn a_lease_carries_the_version_of_its_profile(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let destination = endpoint(&store, &app).await.destination();
    publish_one(&store, &app).await;
    let before = version(&store, destination).await;
    let unlisted = claim(&store, &ClaimRequest { limit: 0, ..claim_by("worker-a") }).await;
    assert_eq!(unlisted.updated, [], "no worker has read an older version of a new endpoint");
    rotate(&store, destination, &new_key("second"), HOUR).await.expect("it rotates");
    let after = version(&store, destination).await;
    assert!(after > before && before > 0);
    let claimed = claim(&store, &claim_by("worker-a")).await;
    assert_eq!((claimed.leases[0].profile_version, claimed.updated), (after, vec![destination]));
    harness.advance(HOUR).await;
    assert_eq!(claim(&store, &claim_by("worker-a")).await.updated, [], "the change is long ago");
}

pub async fn headers_are_replaced_only_if_they_are_those_that_the_caller_read(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let destination = endpoint(&store, &app).await.destination();
    let headers = async || store.endpoints().headers(destination).await.expect("the store is up");
    assert_eq!(headers().await, None);
    let (first, second) = (sealed("X-A: 1\n"), sealed("X-A: 2\n"));
    let before = version(&store, destination).await;
    store.endpoints().set_headers(destination, None, Some(&first)).await.expect("there were none");
    assert!(version(&store, destination).await > before);
    let refused = store.endpoints().set_headers(destination, None, Some(&second)).await;
    assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
    assert_eq!(headers().await.as_ref(), Some(&first));
    let profiles = store.endpoints().profiles(&[destination]).await.expect("the store is up");
    assert_eq!((profiles[0].headers.as_ref(), profiles[0].keys.len()), (Some(&first), 1));
    store.endpoints().set_headers(destination, Some(first.id), None).await.expect("they are current");
    assert_eq!(headers().await, None);
}

pub async fn a_profile_names_the_application_of_its_endpoint(harness: &dyn Harness) {
    let store = harness.store();
    let (first, second) = (app(&store).await, app(&store).await);
    let url = DestinationUrl::parse(HERE).expect("a valid URL");
    let direct = store.endpoints().url_destination(&url).await.expect("the store is up");
    rotate(&store, direct, &new_key("own"), Duration::ZERO).await.expect("it rotates");
    let expected = [
        (endpoint(&store, &first).await.destination(), Some(first.application.id)),
        (endpoint(&store, &second).await.destination(), Some(second.application.id)),
        (direct, None),
    ];
    let ids = expected.map(|(destination, _)| destination);
    let profiles = store.endpoints().profiles(&ids).await.expect("the store is up");
    assert_eq!(profiles.len(), ids.len());
    for (destination, app) in expected {
        let profile = profiles.iter().find(|profile| profile.destination == destination);
        assert_eq!(profile.map(|profile| profile.app), Some(app), "{destination:?}");
    }
}

pub async fn a_url_may_have_keys_of_its_own(harness: &dyn Harness) {
    let store = harness.store();
    let url = DestinationUrl::parse(HERE).expect("a valid URL");
    let destination = store.endpoints().url_destination(&url).await.expect("the store is up");
    assert_eq!(keys(&store, destination).await, [], "the instance's keys sign");
    assert_eq!(version(&store, destination).await, 0);
    rotate(&store, destination, &new_key("own"), Duration::ZERO).await.expect("it rotates");
    enqueue(&store, event_to(HERE)).await;
    let lease = claim_one(&store).await;
    assert_eq!((lease.destination_id, lease.profile_version), (destination, 1));
    let unknown = DestinationId(999_999);
    let refused = store.endpoints().keys(unknown).await;
    assert_eq!(refused, Err(StoreError::DestinationNotFound { id: unknown.0 }));
}

pub async fn sealed_values_are_listed_and_replaced_by_id(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let destination = endpoint(&store, &app).await.destination();
    store
        .endpoints()
        .set_headers(destination, None, Some(&sealed("X-A: 1\n")))
        .await
        .expect("there were none");
    let listed = async |after| store.endpoints().sealed_values(after, 1).await.expect("the store is up");
    let first = listed(None).await.remove(0);
    let second = listed(Some(first.id)).await.remove(0);
    assert!(first.id < second.id && listed(Some(second.id)).await.is_empty());
    let before = version(&store, destination).await;
    let new = posthaste_domain::seal::SealedValue { bytes: b"\0other".to_vec(), ..first.clone() };
    let reseal = Reseal { old: first.clone(), new: new.clone() };
    assert_eq!(store.endpoints().reseal(std::slice::from_ref(&reseal)).await, Ok(1));
    assert_eq!(listed(None).await, [new]);
    assert_eq!(store.endpoints().reseal(&[reseal]).await, Ok(0), "the value has changed meanwhile");
    assert_eq!(version(&store, destination).await, before, "the plaintext is the same");
}

pub async fn maintenance_removes_retired_keys_and_no_others(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let destination = endpoint(&store, &app).await.destination();
    rotate(&store, destination, &new_key("second"), HOUR).await.expect("it rotates");
    harness.advance(HOUR + MINUTE).await;
    let retention = Retention {
        keep_for: None,
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    store.maintain(&retention).await.expect("the store is up");
    let values = store.endpoints().sealed_values(None, 10).await.expect("the store is up");
    assert_eq!((values.len(), keys(&store, destination).await.len()), (1, 1));
}
