//! What became of attempts, from the same values that the log line and the row are read from.

use posthaste_domain::FailureKind;
use posthaste_engine::AttemptSeen;
use posthaste_store::Settled;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The steps of the retry contract and the edges of their jitter. What is at or below 29.999 s lies under its floor of
/// 30 s, which a step may touch.
const RETRY_DELAYS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 29.999, 30.0, 48.0, 60.0, 72.0, 120.0, 144.0, 240.0, 480.0, 960.0, 1_800.0,
    3_600.0, 7_200.0, 21_600.0,
];
const LATENCIES: [f64; 16] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0];
const LAGS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// Every outcome and every kind is there from the start, at zero: a rate needs a beginning.
const OUTCOMES: [&str; 4] =
    ["delivered", "retried", FailureKind::Exhausted.as_str(), FailureKind::Gone.as_str()];
const KINDS: [FailureKind; 3] = [FailureKind::Exhausted, FailureKind::Gone, FailureKind::Abandoned];

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

pub(super) struct Attempts {
    deliveries: Family<ByOutcome, Counter>,
    dead_letters: Family<ByKind, Counter>,
    retry_delay: Histogram,
    latency: Histogram,
    lag: Histogram,
    stale_writes: Counter,
    pub(super) leases_lost: Counter,
}

impl Attempts {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let attempts = Self {
            deliveries: Family::default(),
            dead_letters: Family::default(),
            retry_delay: Histogram::new(RETRY_DELAYS),
            latency: Histogram::new(LATENCIES),
            lag: Histogram::new(LAGS),
            stale_writes: Counter::default(),
            leases_lost: Counter::default(),
        };
        for outcome in OUTCOMES {
            drop(attempts.deliveries.get_or_create(&ByOutcome { outcome }));
        }
        for kind in KINDS {
            drop(attempts.dead_letters.get_or_create(&ByKind { kind: kind.as_str() }));
        }
        registry.register(
            "webhook_deliveries",
            "Attempts whose result was written, by what it led to",
            attempts.deliveries.clone(),
        );
        registry.register(
            "webhook_dead_letters",
            "Events that this process dead-lettered, by kind; cancels of operators are not among them",
            attempts.dead_letters.clone(),
        );
        registry.register(
            "webhook_retry_delay",
            "Seconds until a scheduled retry; anything in the bucket 29.999 is under the floor of the retry contract",
            attempts.retry_delay.clone(),
        );
        registry.register(
            "webhook_delivery_latency",
            "Seconds from the start of a request to its outcome",
            attempts.latency.clone(),
        );
        registry.register(
            "webhook_delivery_lag",
            "Seconds that an event had been due when it was claimed for sending",
            attempts.lag.clone(),
        );
        registry.register(
            "webhook_stale_writes",
            "Results that were refused because their lease was lost",
            attempts.stale_writes.clone(),
        );
        registry.register(
            "webhook_leases_lost",
            "Leases that could not be renewed in time",
            attempts.leases_lost.clone(),
        );
        attempts
    }

    pub(super) fn attempted(&self, seen: &AttemptSeen<'_>) {
        let transition = seen.transition;
        self.latency.observe(transition.duration().as_secs_f64());
        self.lag.observe(seen.lag().as_secs_f64());
        match seen.settled {
            Some(Settled::Applied | Settled::Replayed) => {
                self.deliveries.get_or_create(&ByOutcome { outcome: transition.label() }).inc();
                if let Some(delay) = transition.retry_after() {
                    self.retry_delay.observe(delay.as_secs_f64());
                }
                if let Some(kind) = transition.failure_kind() {
                    self.dead_letters.get_or_create(&ByKind { kind: kind.as_str() }).inc();
                }
            }
            Some(Settled::Stale) => {
                self.stale_writes.inc();
            }
            None => {}
        }
    }

    pub(super) fn abandoned(&self, events: usize) {
        let kind = FailureKind::Abandoned.as_str();
        self.dead_letters.get_or_create(&ByKind { kind }).inc_by(u64::try_from(events).unwrap_or(u64::MAX));
    }
}
