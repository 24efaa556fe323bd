//! Whether this process can do its work: the store answers, its schema is ours, the worker claims.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_api::{Check, Readiness};
use posthaste_engine::WorkerHealth;
use posthaste_store::{Store, StoreError, StoreHealth};

/// A worker that has not claimed for so long is stuck, or cut off from its store.
const CLAIMS_EVERY: Duration = Duration::from_secs(30);

pub(crate) struct ProcessReadiness {
    pub(crate) store: Arc<dyn Store>,
    /// None where this process has no worker.
    pub(crate) health: Option<WorkerHealth>,
    pub(crate) poll_interval: Duration,
}

#[async_trait]
impl Readiness for ProcessReadiness {
    async fn check(&self) -> Vec<Check> {
        let mut checks = store(self.store.health().await);
        checks.extend(self.health.as_ref().map(|health| self.worker(health)));
        checks
    }
}

impl ProcessReadiness {
    fn worker(&self, health: &WorkerHealth) -> Check {
        let late = CLAIMS_EVERY.max(self.poll_interval * 3);
        let (ok, detail) = match health.since_claim() {
            None => (false, "has ended".to_owned()),
            Some(since) if since > late => (false, format!("has not claimed for {} s", since.as_secs())),
            Some(_) => (true, format!("claims; {} in flight", health.in_flight())),
        };
        Check { name: "worker", ok, detail }
    }
}

/// What is wrong with a store is for its operators to read in the log, not for whoever asks.
fn store(answer: Result<StoreHealth, StoreError>) -> Vec<Check> {
    match answer {
        Ok(health) => {
            let StoreHealth { schema, schema_supported, .. } = health;
            let detail = format!("version {schema}, and this process works with {schema_supported}");
            // A newer one has been migrated under us: what is replaced must serve until its replacement does.
            let schema = Check { name: "schema", ok: schema >= schema_supported, detail };
            vec![Check { name: "store", ok: true, detail: "answers".to_owned() }, schema]
        }
        Err(error) => {
            tracing::debug!(code = error.code(), %error, "not ready");
            vec![Check { name: "store", ok: false, detail: error.code().to_owned() }]
        }
    }
}
