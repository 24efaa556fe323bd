//! Real time, in which sockets run.

use std::pin::pin;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(5);

#[expect(clippy::disallowed_methods, reason = "these tests measure real sockets")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "these tests have receivers that are slow in real time")]
pub(crate) async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Checks a condition every few milliseconds, for ten seconds at most. Returns whether it became true.
pub(crate) async fn wait_until(condition: impl Fn() -> bool) -> bool {
    for _ in 0..2_000 {
        if condition() {
            return true;
        }
        wait(TICK).await;
    }
    condition()
}

/// Awaits a future. Also returns for how long the machine stalled meanwhile, measured by a timer that fires late.
pub(crate) async fn measure_stalls<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let mut work = pin!(work);
    let mut stalled = Duration::ZERO;
    loop {
        let sleeping_since = now();
        tokio::select! {
            biased;
            () = wait(TICK) => stalled += (now() - sleeping_since).saturating_sub(2 * TICK),
            output = &mut work => return (output, stalled),
        }
    }
}
