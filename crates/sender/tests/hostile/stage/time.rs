//! Real time: sockets know no other.

use std::pin::pin;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(5);

#[expect(clippy::disallowed_methods, reason = "what is tested is how long real sockets take")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a receiver that is slow in real time is what is tested")]
pub(crate) async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Whether the condition comes to hold, looked at every few milliseconds for ten seconds.
pub(crate) async fn becomes(condition: impl Fn() -> bool) -> bool {
    for _ in 0..2_000 {
        if condition() {
            return true;
        }
        wait(TICK).await;
    }
    condition()
}

/// What comes of it, and for how long in all the machine kept a task meanwhile that had only to wake up.
pub(crate) async fn with_stalls<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let mut work = pin!(work);
    let mut stalled = Duration::ZERO;
    loop {
        let asleep = now();
        tokio::select! {
            biased;
            () = wait(TICK) => stalled += (now() - asleep).saturating_sub(2 * TICK),
            output = &mut work => return (output, stalled),
        }
    }
}
