//! A span exporter that counts spans, and logs failures at a limited rate.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use posthaste_engine::Clock;
use url::Url;

use super::client::LastError;

/// Minimum time between two warnings about a collector that keeps failing.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Counters of the spans that were started, and of those that were exported.
#[derive(Debug, Default)]
pub(super) struct SpanCounts {
    started: AtomicU64,
    exported: AtomicU64,
}

impl SpanCounts {
    /// Counts a span that was started.
    pub(super) fn record_start(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    fn record_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Returns the number of exported spans.
    pub(super) fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Returns the number of spans that were started and not exported: the queue was full, or the collector failed.
    pub(super) fn lost(&self) -> u64 {
        self.started.load(Ordering::Relaxed).saturating_sub(self.exported())
    }
}

/// An exporter that wraps another one, counts exported spans and logs failures.
pub(super) struct MonitoredExporter<E> {
    exporter: E,
    endpoint: Url,
    last_error: LastError,
    counts: Arc<SpanCounts>,
    failures: FailureLog,
}

impl<E> MonitoredExporter<E> {
    pub(super) fn new(
        exporter: E,
        endpoint: Url,
        last_error: LastError,
        counts: Arc<SpanCounts>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { exporter, endpoint, last_error, counts, failures: FailureLog::new(clock) }
    }
}

impl<E: SpanExporter> SpanExporter for MonitoredExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let result = self.exporter.export(batch).await;
        match &result {
            Ok(()) => self.counts.record_exported(spans),
            Err(error) => {
                if let Some(lost) = self.failures.record_lost(spans) {
                    let error = self.last_error.take().unwrap_or_else(|| error.to_string());
                    tracing::warn!(endpoint = %self.endpoint, error, lost,
                        "traces cannot be exported, and their spans are lost; deliveries continue");
                }
            }
        }
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E> fmt::Debug for MonitoredExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitoredExporter").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

/// Decides when a failure is logged: the first at once, later ones once per [`WARNING_INTERVAL`].
struct FailureLog {
    clock: Arc<dyn Clock>,
    state: Mutex<FailureLogState>,
}

#[derive(Default)]
struct FailureLogState {
    last_warning: Option<Duration>,
    /// Spans lost since the last warning.
    lost: u64,
}

impl FailureLog {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// Counts lost spans. Returns the number lost since the last warning if another warning is due, otherwise None.
    fn record_lost(&self, spans: u64) -> Option<u64> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.lost += spans;
        if state.last_warning.is_some_and(|last| now.saturating_sub(last) < WARNING_INTERVAL) {
            return None;
        }
        state.last_warning = Some(now);
        Some(std::mem::take(&mut state.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;

    /// A clock that the test sets, in seconds.
    #[derive(Default)]
    struct ManualClock(AtomicU64);

    impl Clock for ManualClock {
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            unreachable!("a failure log does not sleep")
        }

        fn host_time(&self) -> posthaste_domain::Timestamp {
            unreachable!("a failure log does not read the wall clock")
        }
    }

    #[test]
    fn failing_collector_is_logged_once_a_minute_with_the_spans_lost_since() {
        let clock = Arc::new(ManualClock::default());
        let failures = FailureLog::new(Arc::clone(&clock) as _);
        let lose_at = |seconds, spans| {
            clock.0.store(seconds, Ordering::Relaxed);
            failures.record_lost(spans)
        };
        assert_eq!(lose_at(0, 5), Some(5));
        assert_eq!(lose_at(1, 7), None);
        assert_eq!(lose_at(59, 1), None);
        assert_eq!(lose_at(60, 2), Some(10));
        assert_eq!(lose_at(119, 3), None);
        assert_eq!(lose_at(7_200, 1), Some(4));
    }

    #[test]
    fn spans_that_were_not_exported_are_lost() {
        let counts = SpanCounts::default();
        (0..3).for_each(|_| counts.record_start());
        counts.record_exported(2);
        assert_eq!((counts.exported(), counts.lost()), (2, 1));
    }
}
