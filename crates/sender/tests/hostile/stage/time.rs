//! Real time: sockets know no other.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "what is tested is how long real sockets take")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a receiver that is slow in real time is what is tested")]
pub(crate) async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Whether the condition comes to hold, looked at every few milliseconds for one second.
pub(crate) async fn becomes(condition: impl Fn() -> bool) -> bool {
    for _ in 0..200 {
        if condition() {
            return true;
        }
        wait(Duration::from_millis(5)).await;
    }
    condition()
}
