//! The clocks of the benchmark, which measures real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the microseconds since the Unix epoch. All processes of a run are on one machine and share this clock.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn unix_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    u64::try_from(since_epoch.as_micros()).expect("the year is before 500000")
}

#[expect(clippy::disallowed_methods, reason = "a benchmark waits in real time")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits until a point in time.
pub(crate) async fn sleep_until(time: Instant) {
    sleep(time.saturating_duration_since(now())).await;
}
