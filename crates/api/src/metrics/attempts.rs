//! Metrics of delivery attempts, derived from the same values as the log line and the stored row.

use posthaste_domain::{DisableReason, FailureKind};
use posthaste_engine::{AttemptEvent, LocalShortage};
use posthaste_store::SettleResult;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::applications::ApplicationMetrics;

/// Histogram buckets for retry delays: the steps of the retry contract and the edges of their jitter. A delay in the bucket
/// 29.999 violates the contract's minimum of 30 s; a delay of exactly 30 s does not.
const RETRY_DELAY_SECONDS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 29.999, 30.0, 48.0, 60.0, 72.0, 120.0, 144.0, 240.0, 480.0, 960.0, 1_800.0,
    3_600.0, 7_200.0, 21_600.0,
];
/// Histogram buckets for request durations.
const LATENCY_SECONDS: [f64; 16] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0];
/// Histogram buckets for the time from when an event is due until it is claimed.
const LAG_SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// Value of the label `outcome` for attempts that were accepted.
const DELIVERED: &str = "delivered";
/// Values of the label `outcome`. They are exported from the start with 0, because a rate needs a first sample.
pub(super) const OUTCOMES: [&str; 4] =
    [DELIVERED, "retried", FailureKind::Exhausted.as_str(), FailureKind::Gone.as_str()];
/// Values of the label `kind`, also exported from the start with 0.
const KINDS: [FailureKind; 4] =
    [FailureKind::Exhausted, FailureKind::Gone, FailureKind::Abandoned, FailureKind::Expired];
/// Values of the label `reason`, also exported from the start with 0. A worker reports no endpoint that an operator disabled.
const DISABLE_REASONS: [DisableReason; 2] = [DisableReason::Gone, DisableReason::Failing];

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Counters and histograms of delivery attempts.
pub(super) struct AttemptMetrics {
    deliveries: Family<OutcomeLabels, Counter>,
    /// The counter of `deliveries` for most attempts, so that they need no search among its labels.
    delivered: Counter,
    applications: ApplicationMetrics,
    dead_letters: Family<KindLabels, Counter>,
    retry_delay: Histogram,
    latency: Histogram,
    lag: Histogram,
    stale_writes: Counter,
    pub(super) leases_lost: Counter,
    local_shortages: Family<ResourceLabels, Counter>,
    endpoints_disabled: Family<ReasonLabels, Counter>,
}

impl AttemptMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let deliveries = Family::<OutcomeLabels, Counter>::default();
        let delivered = deliveries.get_or_create(&OutcomeLabels { outcome: DELIVERED }).clone();
        let attempts = Self {
            delivered,
            deliveries,
            applications: ApplicationMetrics::register(registry),
            dead_letters: Family::default(),
            retry_delay: Histogram::new(RETRY_DELAY_SECONDS),
            latency: Histogram::new(LATENCY_SECONDS),
            lag: Histogram::new(LAG_SECONDS),
            stale_writes: Counter::default(),
            leases_lost: Counter::default(),
            local_shortages: Family::default(),
            endpoints_disabled: Family::default(),
        };
        for outcome in OUTCOMES {
            drop(attempts.deliveries.get_or_create(&OutcomeLabels { outcome }));
        }
        for kind in KINDS {
            drop(attempts.dead_letters.get_or_create(&KindLabels { kind: kind.as_str() }));
        }
        for shortage in LocalShortage::ALL {
            drop(attempts.local_shortages.get_or_create(&ResourceLabels { resource: shortage.as_str() }));
        }
        for reason in DISABLE_REASONS {
            drop(attempts.endpoints_disabled.get_or_create(&ReasonLabels { reason: reason.as_str() }));
        }
        registry.register(
            "webhook_deliveries",
            "Attempts whose result was stored, by outcome",
            attempts.deliveries.clone(),
        );
        registry.register(
            "webhook_dead_letters",
            "Events that this process dead-lettered, by kind; excludes cancels by operators",
            attempts.dead_letters.clone(),
        );
        registry.register(
            "webhook_retry_delay",
            "Seconds until a scheduled retry; delays in the bucket 29.999 violate the minimum of the retry contract",
            attempts.retry_delay.clone(),
        );
        registry.register(
            "webhook_delivery_latency",
            "Seconds from the start of a request to its outcome",
            attempts.latency.clone(),
        );
        registry.register(
            "webhook_delivery_lag",
            "Seconds from the time an event was due until it was claimed for sending",
            attempts.lag.clone(),
        );
        registry.register(
            "webhook_stale_writes",
            "Results that the store rejected because their lease was lost",
            attempts.stale_writes.clone(),
        );
        registry.register(
            "webhook_leases_lost",
            "Leases that could not be renewed in time",
            attempts.leases_lost.clone(),
        );
        registry.register(
            "webhook_local_shortages",
            "Requests not sent because this host lacked a resource, by resource; they cost no attempt",
            attempts.local_shortages.clone(),
        );
        registry.register(
            "webhook_endpoints_disabled",
            "Endpoints that this process found disabled by a result, by reason; excludes those that operators disabled",
            attempts.endpoints_disabled.clone(),
        );
        attempts
    }

    /// Records an attempt in the counters and histograms.
    pub(super) fn on_attempt(&self, attempt: &AttemptEvent<'_>) {
        let transition = attempt.transition;
        self.latency.observe(transition.duration().as_secs_f64());
        self.lag.observe(attempt.lag().as_secs_f64());
        match attempt.settled {
            Some(SettleResult::Applied | SettleResult::Replayed) => {
                match transition.label() {
                    DELIVERED => self.delivered.inc(),
                    outcome => self.deliveries.get_or_create(&OutcomeLabels { outcome }).inc(),
                };
                if let Some(app) = attempt.app {
                    self.applications.count(app, transition.label());
                }
                if let Some(delay) = transition.retry_after() {
                    self.retry_delay.observe(delay.as_secs_f64());
                }
                if let Some(kind) = transition.failure_kind() {
                    self.dead_letters.get_or_create(&KindLabels { kind: kind.as_str() }).inc();
                }
            }
            Some(SettleResult::Stale) => {
                self.stale_writes.inc();
            }
            None => {}
        }
    }

    /// Records a request that was not sent for lack of a local resource.
    pub(super) fn on_local_shortage(&self, shortage: LocalShortage) {
        self.local_shortages.get_or_create(&ResourceLabels { resource: shortage.as_str() }).inc();
    }

    /// Records an endpoint that a result disabled.
    pub(super) fn on_endpoint_disabled(&self, reason: DisableReason) {
        self.endpoints_disabled.get_or_create(&ReasonLabels { reason: reason.as_str() }).inc();
    }

    /// Records events that were dead-lettered without an attempt: abandoned or expired.
    pub(super) fn on_dead_lettered(&self, kind: FailureKind, events: usize) {
        self.dead_letters
            .get_or_create(&KindLabels { kind: kind.as_str() })
            .inc_by(u64::try_from(events).unwrap_or(u64::MAX));
    }
}
