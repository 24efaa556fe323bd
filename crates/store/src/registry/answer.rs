//! Kept answers: the first answer to a request with an idempotency key, which a repetition gets again.
//!
//! The store renders and keeps the answer in the transaction of the change. So a crash leaves both or neither, and a repeated
//! request never makes a second change.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::StoreError;

/// The key of an answer: a digest of the caller, the URL and the idempotency key of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerKey(pub [u8; 32]);

/// An HTTP answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// Omits the body, which may hold a secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// An answer that a store has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    pub answer: Answer,
    /// A digest of the body of the first request. A repetition with another body gets the same answer.
    pub fingerprint: [u8; 32],
}

/// Where and for how long a store keeps the answer to a call that returns a `T`.
///
/// If an answer is kept under the key, the call changes nothing and fails with [`StoreError::AnswerKept`].
pub struct AnswerSlot<T> {
    pub key: AnswerKey,
    pub fingerprint: [u8; 32],
    pub keep_for: Duration,
    /// Renders the answer. It must be quick, because a store calls it within a transaction.
    pub render: Arc<dyn Fn(&T) -> Answer + Send + Sync>,
}

impl<T> AnswerSlot<T> {
    /// Renders the answer as a store keeps it.
    pub fn render(&self, value: &T) -> KeptAnswer {
        KeptAnswer { answer: (self.render)(value), fingerprint: self.fingerprint }
    }
}

impl<T> Clone for AnswerSlot<T> {
    fn clone(&self) -> Self {
        Self { render: Arc::clone(&self.render), ..*self }
    }
}

impl<T> fmt::Debug for AnswerSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerSlot").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Access to the kept answers of a store.
#[async_trait]
pub trait Answers: Send + Sync {
    /// Returns the answer that is kept under a key, unless it has expired.
    async fn find(&self, key: &AnswerKey) -> Result<Option<KeptAnswer>, StoreError>;

    /// Keeps the answer to a request that changes nothing else in the store.
    async fn keep(&self, slot: &AnswerSlot<()>) -> Result<(), StoreError>;
}
