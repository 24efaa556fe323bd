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

/// What the future gives, unless it takes longer: a hang becomes a failure that has a name.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for real sockets; nothing is scheduled by it")]
pub(crate) async fn within<T>(bound: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(bound, future).await.ok()
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
