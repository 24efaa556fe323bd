//! Exports spans, and complains where it cannot, but not often.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use posthaste_engine::Clock;
use url::Url;

use super::client::Trouble;

/// A collector that stays away is complained of so often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// How many spans there were, and what became of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    began: AtomicU64,
    exported: AtomicU64,
}

impl Tally {
    pub(super) fn began(&self) {
        self.began.fetch_add(1, Ordering::Relaxed);
    }

    /// What was exported; and the rest, which found the queue full, or a collector that did not take it.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let exported = self.exported.load(Ordering::Relaxed);
        (exported, self.began.load(Ordering::Relaxed).saturating_sub(exported))
    }
}

pub(super) struct CarefulExporter<E> {
    exporter: E,
    endpoint: Url,
    trouble: Trouble,
    tally: Arc<Tally>,
    complaints: Complaints,
}

impl<E> CarefulExporter<E> {
    pub(super) fn new(
        exporter: E,
        endpoint: Url,
        trouble: Trouble,
        tally: Arc<Tally>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let complaints = Complaints { clock, since: Mutex::default() };
        Self { exporter, endpoint, trouble, tally, complaints }
    }
}

impl<E: SpanExporter> SpanExporter for CarefulExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let result = self.exporter.export(batch).await;
        match &result {
            Ok(()) => {
                self.tally.exported.fetch_add(spans, Ordering::Relaxed);
            }
            Err(error) => {
                if let Some(lost) = self.complaints.lost(spans) {
                    let error = self.trouble.take().unwrap_or_else(|| error.to_string());
                    tracing::warn!(endpoint = %self.endpoint, error, lost,
                        "traces cannot be exported, and their spans are lost; deliveries go on");
                }
            }
        }
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E> fmt::Debug for CarefulExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CarefulExporter").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

struct Complaints {
    clock: Arc<dyn Clock>,
    since: Mutex<Since>,
}

/// Since the last complaint.
#[derive(Default)]
struct Since {
    at: Option<Duration>,
    lost: u64,
}

impl Complaints {
    /// How many were lost since it was last told, where it is time to tell again.
    fn lost(&self, spans: u64) -> Option<u64> {
        let now = self.clock.monotonic();
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.lost += spans;
        if since.at.is_some_and(|at| now.saturating_sub(at) < COMPLAIN_EVERY) {
            return None;
        }
        since.at = Some(now);
        Some(std::mem::take(&mut since.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;

    #[derive(Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            unreachable!("nobody waits")
        }
    }

    #[test]
    fn a_collector_is_complained_of_once_a_minute_with_what_was_lost_since() {
        let clock = Arc::new(Seconds::default());
        let complaints = Complaints { clock: Arc::clone(&clock) as _, since: Mutex::default() };
        let lost_at = |seconds, spans| {
            clock.0.store(seconds, Ordering::Relaxed);
            complaints.lost(spans)
        };
        assert_eq!(lost_at(0, 5), Some(5));
        assert_eq!(lost_at(1, 7), None);
        assert_eq!(lost_at(59, 1), None);
        assert_eq!(lost_at(60, 2), Some(10));
        assert_eq!(lost_at(119, 3), None);
        assert_eq!(lost_at(7_200, 1), Some(4));
    }

    #[test]
    fn what_was_not_exported_is_lost() {
        let tally = Tally::default();
        (0..3).for_each(|_| tally.began());
        tally.exported.fetch_add(2, Ordering::Relaxed);
        assert_eq!(tally.so_far(), (2, 1));
    }
}
