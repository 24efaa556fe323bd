//! A bound on waiting: what hangs becomes a failure that has a name.

use std::time::Duration;

/// What the future gives, unless it takes longer.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for real sockets; nothing is scheduled by it")]
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
