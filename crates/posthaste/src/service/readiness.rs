//! Whether this process can do its work: the store answers, its schema is ours, the worker claims.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_api::{Check, Readiness};
use posthaste_engine::Pulse;
use posthaste_store::{Store, StoreError, Vitals};

/// A worker that has not claimed for so long is stuck, or cut off from its store.
const CLAIMS_EVERY: Duration = Duration::from_secs(30);

pub struct ProcessReadiness {
    pub store: Arc<dyn Store>,
    /// None where this process has no worker.
    pub pulse: Option<Pulse>,
    pub poll_interval: Duration,
}

#[async_trait]
impl Readiness for ProcessReadiness {
    async fn check(&self) -> Vec<Check> {
        let mut checks = store(self.store.vitals().await);
        checks.extend(self.pulse.as_ref().map(|pulse| self.worker(pulse)));
        checks
    }
}

impl ProcessReadiness {
    fn worker(&self, pulse: &Pulse) -> Check {
        let late = CLAIMS_EVERY.max(self.poll_interval * 3);
        let (ok, detail) = match pulse.since_claim() {
            None => (false, "has ended".to_owned()),
            Some(since) if since > late => (false, format!("has not claimed for {} s", since.as_secs())),
            Some(_) => (true, format!("claims; {} in flight", pulse.in_flight())),
        };
        Check { name: "worker", ok, detail }
    }
}

/// What is wrong with a store is for its operators to read in the log, not for whoever asks.
fn store(answer: Result<Vitals, StoreError>) -> Vec<Check> {
    match answer {
        Ok(vitals) => {
            let Vitals { schema, schema_known, .. } = vitals;
            let detail = format!("version {schema}, and this process works with {schema_known}");
            // A newer one has been migrated under us: what is replaced must serve until its replacement does.
            let schema = Check { name: "schema", ok: schema >= schema_known, detail };
            vec![Check { name: "store", ok: true, detail: "answers".to_owned() }, schema]
        }
        Err(error) => {
            tracing::debug!(code = error.code(), %error, "not ready");
            vec![Check { name: "store", ok: false, detail: error.code().to_owned() }]
        }
    }
}
