//! How long a person is kept waiting: the one place of the command line that looks at a timer.

use std::future::Future;
use std::time::Duration;

/// None if it took longer.
#[expect(
    clippy::disallowed_methods,
    reason = "a person waits for a command; no worker's timers are involved"
)]
pub(crate) async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    tokio::time::timeout(limit, work).await.ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a person waits for a command; no worker's timers are involved"
)]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}
