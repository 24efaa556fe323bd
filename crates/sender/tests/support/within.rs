//! A time limit for futures, so that a test that hangs fails with a message.

use std::time::Duration;

/// Awaits a future. Returns `None` if it takes longer than the limit.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for real sockets")]
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
