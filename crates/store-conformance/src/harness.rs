//! The interface between the suite and an adapter under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_store::Store;

/// An empty store and control over its clock. Each case gets a new harness.
///
/// A harness sets the store's clock forward, or moves every stored timestamp into the past if it cannot change the clock.
/// Therefore a case never compares a timestamp read before an `advance` with one read after it.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The store under test.
    fn store(&self) -> Arc<dyn Store>;

    /// A second handle to the same data: another connection, if the store has connections.
    fn second_handle(&self) -> Arc<dyn Store>;

    /// Moves time forward. Real time may pass as well, but much less than a case advances.
    async fn advance(&self, by: Duration);

    /// Moves the store's clock back, as the correction of a wrong clock does. Stored timestamps stay as they are. A case
    /// has advanced the clock by more before.
    async fn step_back(&self, _by: Duration) {
        panic!("this harness cannot step the store's clock back");
    }
}
