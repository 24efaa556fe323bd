//! Signing secrets of the instance.

use futures_util::future::join_all;
use posthaste_domain::signature::Secret;

use crate::Harness;
use crate::fixture::*;

fn secret(number: u8) -> Secret {
    Secret::from_bytes(vec![number; 32]).expect("32 bytes are a valid secret")
}

/// The text form of the valid secrets.
async fn valid_secrets(store: &Handle, first: &Secret) -> Vec<String> {
    let valid = store.signing_secrets(first).await.expect("the store is up");
    valid.iter().map(|secret| secret.reveal().to_string()).collect()
}

pub async fn first_secret_is_kept_and_returned_to_later_callers(harness: &dyn Harness) {
    let first = secret(1);
    assert_eq!(valid_secrets(&harness.store(), &first).await, [first.reveal().to_string()]);
    assert_eq!(valid_secrets(&harness.store(), &secret(2)).await, [first.reveal().to_string()]);
}

pub async fn one_of_concurrent_first_secrets_is_kept(harness: &dyn Harness) {
    let results = join_all((1..=8).map(|number| {
        let store = harness.store();
        async move { valid_secrets(&store, &secret(number)).await }
    }));
    let results = results.await;
    assert_eq!(results[0].len(), 1);
    assert!(results.iter().all(|secrets| *secrets == results[0]), "{results:?}");
}
