//! Real time for commands. This is the only module of the command line that starts a timer.

use std::time::Duration;

/// Returns the output of `work`, or None if it takes longer than `limit`.
#[expect(
    clippy::disallowed_methods,
    reason = "a person waits for a command; no worker's timers are involved"
)]
pub(crate) async fn with_timeout<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    tokio::time::timeout(limit, work).await.ok()
}

/// Waits for `duration`.
#[expect(
    clippy::disallowed_methods,
    reason = "a person waits for a command; no worker's timers are involved"
)]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
