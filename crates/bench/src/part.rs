//! The parts that measure the binary.

pub(crate) mod crowds;
pub(crate) mod drain;
pub(crate) mod endpoints;
pub(crate) mod idle;
pub(crate) mod ingest;
pub(crate) mod latency;
pub(crate) mod slow;
pub(crate) mod stages;
pub(crate) mod timed_drain;
pub(crate) mod workers;

use std::time::Duration;

use crate::raw::{self, RawRun};
use crate::run::Run;

/// How long a product may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Requests of one run of the raw client, at every scale: a shorter run would measure its start.
const RAW_REQUESTS: usize = 100_000;

/// Measures with the raw client before and after, and returns the mean beside the result.
///
/// The rate of a shared machine drifts; the mean of both sides follows it.
async fn beside_raw<T>(
    run: &mut Run,
    urls: &[String],
    measure: impl AsyncFnOnce(&mut Run) -> T,
) -> (T, RawRun) {
    let before = raw::measure(urls, RAW_REQUESTS);
    let result = measure(run).await;
    let after = raw::measure(urls, RAW_REQUESTS);
    let mean = RawRun {
        rate: f64::midpoint(before.rate, after.rate),
        cpu_micros: f64::midpoint(before.cpu_micros, after.cpu_micros),
    };
    (result, mean)
}
