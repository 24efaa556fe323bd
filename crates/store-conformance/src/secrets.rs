//! The instance's signing secrets.

use futures_util::future::join_all;
use posthaste_domain::signature::Secret;

use crate::Harness;
use crate::fixture::*;

fn secret(number: u8) -> Secret {
    Secret::from_bytes(vec![number; 32]).expect("32 bytes are a secret")
}

/// The texts of the secrets that the store holds valid.
async fn valid(store: &Handle, first: &Secret) -> Vec<String> {
    let valid = store.signing_secrets(first).await.expect("the store answers");
    valid.iter().map(|secret| secret.reveal().to_string()).collect()
}

pub async fn the_first_secret_is_kept_and_given_to_all_who_come_later(harness: &dyn Harness) {
    let first = secret(1);
    assert_eq!(valid(&harness.store(), &first).await, [first.reveal().to_string()]);
    assert_eq!(valid(&harness.store(), &secret(2)).await, [first.reveal().to_string()]);
}

pub async fn of_many_first_secrets_one_is_kept(harness: &dyn Harness) {
    let answers = join_all((1..=8).map(|number| {
        let store = harness.store();
        async move { valid(&store, &secret(number)).await }
    }));
    let answers = answers.await;
    assert_eq!(answers[0].len(), 1);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}
