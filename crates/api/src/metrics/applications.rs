//! Attempts by application, with a bounded number of series.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use posthaste_domain::ApplicationId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::attempts::OUTCOMES;

/// Number of applications that have series of their own. Every series costs memory here and in Prometheus, and the number of
/// applications has no limit.
const APPLICATIONS_MAX: usize = 100;
/// Value of the label `app` for all applications beyond the first [`APPLICATIONS_MAX`].
const OTHER: &str = "other";

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ApplicationLabels {
    app: String,
    outcome: &'static str,
}

/// The counter of attempts by application and outcome.
pub(super) struct ApplicationMetrics {
    deliveries: Family<ApplicationLabels, Counter>,
    /// The applications that have series of their own: the first that this process has sent for.
    named: Mutex<BTreeSet<ApplicationId>>,
}

impl ApplicationMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { deliveries: Family::default(), named: Mutex::default() };
        metrics.export_zeros(OTHER);
        registry.register(
            "webhook_application_deliveries",
            "Attempts of endpoints whose result was stored, by application and outcome; app is other beyond the first 100 \
             applications of this process",
            metrics.deliveries.clone(),
        );
        metrics
    }

    /// Counts an attempt.
    pub(super) fn count(&self, app: ApplicationId, outcome: &'static str) {
        let app = self.label(app);
        self.deliveries.get_or_create(&ApplicationLabels { app, outcome }).inc();
    }

    /// Returns the label of an application: its id, or [`OTHER`] if as many other applications as allowed have series.
    fn label(&self, app: ApplicationId) -> String {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let is_named = named.contains(&app);
        if !is_named && named.len() >= APPLICATIONS_MAX {
            return OTHER.to_owned();
        }
        let label = app.to_string();
        if !is_named {
            named.insert(app);
            self.export_zeros(&label);
        }
        label
    }

    /// Exports every outcome of an application, because a rate needs a first sample.
    fn export_zeros(&self, app: &str) {
        for outcome in OUTCOMES {
            drop(self.deliveries.get_or_create(&ApplicationLabels { app: app.to_owned(), outcome }));
        }
    }
}
