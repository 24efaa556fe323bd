//! Requests of tenants: repeated until the store has served or refused them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_store::{Answer, AnswerKey, AnswerSlot, StoreError};

use super::Tenants;
use crate::time::sleep;

/// How a request ended.
pub(super) enum Served<T> {
    Now(T),
    /// The store had served the request, and its response was lost. The number is the one in the kept answer.
    Before(i64),
    Refused(StoreError),
}

/// Returns the slot of a request. The answer is the number of what the request created.
pub(super) fn slot<T: 'static>(number: u64, render: fn(&T) -> i64) -> AnswerSlot<T> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    AnswerSlot {
        key: AnswerKey(key),
        fingerprint: [0; 32],
        keep_for: Duration::from_secs(86_400),
        render: Arc::new(move |created| Answer {
            status: 201,
            body: Bytes::from(render(created).to_string()),
        }),
    }
}

impl Tenants {
    /// Makes a call again as long as the store does not respond, and finds the kept answer of a call that was served.
    pub(super) async fn serve<T, C: Future<Output = Result<T, StoreError>>>(
        &self,
        key: AnswerKey,
        call: impl Fn() -> C,
    ) -> Served<T> {
        loop {
            match call().await {
                Ok(created) => return Served::Now(created),
                Err(StoreError::AnswerKept) => return Served::Before(self.kept_number(key).await),
                Err(error) if error.is_transient() => sleep(self.random.millis(100..3_000)).await,
                Err(error) => return Served::Refused(error),
            }
        }
    }

    /// Returns the number in a kept answer. Fan-out fails if there is none: the request would be served twice.
    async fn kept_number(&self, key: AnswerKey) -> i64 {
        self.world.checker.record_repeated_request();
        let kept = self.store.answers().find(&key).await.ok().flatten();
        let number = kept.as_ref().and_then(|kept| std::str::from_utf8(&kept.answer.body).ok()?.parse().ok());
        number.unwrap_or_else(|| {
            let detail = format!("the answer to a repeated request is {kept:?}");
            self.world.checker.report_violation("fan-out", detail);
            0
        })
    }
}
