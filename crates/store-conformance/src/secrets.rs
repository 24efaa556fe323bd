//! Signing secrets of the instance and their rotation.

use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::signature::Secret;
use posthaste_store::{GracePeriod, Retention, RotateRequest, StoreError, StoredSecret, VALID_SECRETS_MAX};

use crate::Harness;
use crate::fixture::*;

fn secret(number: u8) -> Secret {
    Secret::from_bytes(vec![number; 32]).expect("32 bytes are a valid secret")
}

async fn valid(store: &Handle) -> Vec<StoredSecret> {
    store.signing_secrets().await.expect("the store is up")
}

/// The valid secrets, each as the number that [`secret`] takes.
async fn valid_numbers(store: &Handle) -> Vec<u8> {
    let number = |stored: StoredSecret| (0..=u8::MAX).find(|number| secret(*number) == stored.secret);
    valid(store).await.into_iter().map(|stored| number(stored).expect("a secret of this case")).collect()
}

async fn add_first(store: &Handle, number: u8) {
    store.add_first_secret(&secret(number)).await.expect("the store is up");
}

async fn rotate(store: &Handle, number: u8, grace: Duration) -> Result<Vec<StoredSecret>, StoreError> {
    let grace = GracePeriod::new(grace).expect("a valid grace period");
    store.rotate_secret(RotateRequest { secret: &secret(number), grace, actor: "ops" }).await
}

pub async fn first_secret_is_kept_and_returned_to_later_callers(harness: &dyn Harness) {
    let store = harness.store();
    assert!(valid(&store).await.is_empty(), "reading stores nothing");
    add_first(&store, 1).await;
    add_first(&harness.second_handle(), 2).await;
    assert_eq!(valid_numbers(&store).await, [1]);
    assert_eq!(valid_numbers(&harness.second_handle()).await, [1]);
    let first = valid(&store).await.remove(0);
    assert_eq!((first.created_by, first.retires_at), (None, None));
}

pub async fn one_of_concurrent_first_secrets_is_kept(harness: &dyn Harness) {
    join_all((1..=8).map(|number| {
        let store = harness.store();
        async move { add_first(&store, number).await }
    }))
    .await;
    assert_eq!(valid(&harness.store()).await.len(), 1);
}

pub async fn rotated_secret_is_valid_beside_the_old_one_until_the_grace_period_ends(harness: &dyn Harness) {
    let store = harness.store();
    add_first(&store, 1).await;
    let returned = rotate(&store, 2, HOUR).await.expect("one secret is valid");
    assert_eq!(returned, valid(&harness.second_handle()).await);
    assert_eq!(valid_numbers(&store).await, [2, 1], "newest first");
    let [newest, old] = returned.as_slice() else { panic!("{returned:?}") };
    assert_eq!((newest.created_by.as_deref(), newest.retires_at), (Some("ops"), None));
    assert_eq!(old.retires_at, Some(newest.created_at.after(HOUR)));
    harness.advance(HOUR - MINUTE).await;
    assert_eq!(valid_numbers(&store).await, [2, 1]);
    harness.advance(MINUTE + SECOND).await;
    assert_eq!(valid_numbers(&store).await, [2]);
    assert_eq!(valid_numbers(&harness.second_handle()).await, [2]);
}

pub async fn a_later_rotation_leaves_the_end_of_an_earlier_grace_period(harness: &dyn Harness) {
    let store = harness.store();
    add_first(&store, 1).await;
    rotate(&store, 2, HOUR).await.expect("one secret is valid");
    let first_ends = valid(&store).await[1].retires_at;
    rotate(&store, 3, HOUR * 10).await.expect("two secrets are valid");
    assert_eq!(valid_numbers(&store).await, [3, 2, 1]);
    assert_eq!(valid(&store).await[2].retires_at, first_ends);
    harness.advance(HOUR * 2).await;
    assert_eq!(valid_numbers(&store).await, [3, 2]);
    harness.advance(HOUR * 9).await;
    assert_eq!(valid_numbers(&store).await, [3]);
}

pub async fn repeated_rotation_with_the_same_secret_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    add_first(&store, 1).await;
    let first = rotate(&store, 2, HOUR).await.expect("one secret is valid");
    let again = rotate(&harness.second_handle(), 2, HOUR * 5).await.expect("the secret is stored");
    assert_eq!(again, first);
    assert_eq!(valid_numbers(&store).await, [2, 1]);
}

pub async fn the_number_of_valid_secrets_is_bounded(harness: &dyn Harness) {
    let store = harness.store();
    add_first(&store, 1).await;
    for number in 2..=5 {
        rotate(&store, number, HOUR * u32::from(number)).await.expect("fewer than the limit are valid");
    }
    assert_eq!(valid(&store).await.len(), VALID_SECRETS_MAX);
    let before = valid(&store).await;
    let next_retires_at = before.last().and_then(|oldest| oldest.retires_at);
    let refused = rotate(&store, 6, HOUR).await;
    assert_eq!(refused, Err(StoreError::TooManySecrets { next_retires_at }));
    assert_eq!(valid(&store).await, before, "a refused rotation changes nothing");
    harness.advance(HOUR * 2 + MINUTE).await;
    rotate(&store, 6, HOUR * 30).await.expect("one secret has retired");
    assert_eq!(valid_numbers(&store).await, [6, 5, 4, 3, 2]);
}

pub async fn concurrent_rotations_leave_one_secret_that_does_not_retire(harness: &dyn Harness) {
    let store = harness.store();
    add_first(&store, 1).await;
    let results = join_all((2..=4).map(|number| {
        let store = harness.second_handle();
        async move { rotate(&store, number, HOUR).await }
    }));
    assert!(results.await.iter().all(Result::is_ok));
    let secrets = valid(&store).await;
    assert_eq!(secrets.len(), 4);
    assert!(secrets[0].retires_at.is_none() && secrets[1..].iter().all(|old| old.retires_at.is_some()));
}

pub async fn maintenance_removes_retired_secrets_and_no_others(harness: &dyn Harness) {
    let store = harness.store();
    add_first(&store, 1).await;
    rotate(&store, 2, HOUR).await.expect("one secret is valid");
    let retention = Retention {
        keep_for: None,
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    store.maintain(&retention).await.expect("the store is up");
    assert_eq!(valid_numbers(&store).await, [2, 1]);
    harness.advance(HOUR * 2).await;
    store.maintain(&retention).await.expect("the store is up");
    add_first(&store, 3).await;
    assert_eq!(valid_numbers(&store).await, [2], "the newest secret stays");
    // The text of a removed secret is not recognised as stored.
    rotate(&store, 1, HOUR).await.expect("one secret is valid");
    assert_eq!(valid_numbers(&store).await, [1, 2]);
}
