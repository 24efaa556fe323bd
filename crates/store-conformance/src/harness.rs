//! What an adapter brings to be examined.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_store::Store;

/// One empty store, and the hand on its clock. Each case gets a fresh one.
///
/// There are two ways to move time. A store with an injected clock sets it forward; one whose clock is a database
/// server's moves every moment that it has stored into the past instead. So a case never compares a moment that it
/// read before an `advance` with one that it read after, only moments of one reading with each other.
#[async_trait]
pub trait Harness: Send + Sync {
    fn store(&self) -> Arc<dyn Store>;

    /// Another way to the same data: a second connection, where the store has connections.
    fn second_handle(&self) -> Arc<dyn Store>;

    /// Time may pass on its own as well, but never by as much as a case moves it.
    async fn advance(&self, by: Duration);
}
