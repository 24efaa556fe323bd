//! Readiness of this process: the store responds and accepts writes, its schema is recent enough, and the worker claims
//! events and writes their results.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_api::{Check, Readiness};
use posthaste_engine::{ClockSkew, WorkerHealth, WriteFailure};
use posthaste_store::{Store, StoreError, StoreHealth};

/// Maximum age of the last claim of a ready worker. With an older claim, the worker is stuck or has lost its store.
/// Long poll intervals raise this limit.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(30);

/// The readiness checks of this process: of its store and its worker.
pub(crate) struct ProcessReadiness {
    pub(crate) store: Arc<dyn Store>,
    /// None if this process has no worker.
    pub(crate) health: Option<WorkerHealth>,
    pub(crate) poll_interval: Duration,
}

#[async_trait]
impl Readiness for ProcessReadiness {
    async fn check(&self) -> Vec<Check> {
        let mut checks = check_store(self.store.health().await);
        if let Some(health) = &self.health {
            checks.push(self.check_worker(health));
            checks.extend(health.clock_skew().map(check_clock));
        }
        checks
    }
}

impl ProcessReadiness {
    pub(crate) fn check_worker(&self, health: &WorkerHealth) -> Check {
        let claim_age_max = CLAIM_AGE_MAX.max(self.poll_interval * 3);
        let (ok, detail) = match (health.since_claim(), health.write_failure()) {
            (None, _) => (false, "has ended".to_owned()),
            (Some(_), Some(failure)) => (false, describe_failure(&failure)),
            (Some(age), None) if age > claim_age_max => {
                (false, format!("has not claimed for {} s", age.as_secs()))
            }
            (Some(_), None) => (true, describe_worker(health)),
        };
        Check { name: "worker", ok, detail }
    }
}

/// Compares the host's clock with the store's. A difference does not make the process unready: the store's clock dates
/// leases, retries and signatures.
fn check_clock(skew: ClockSkew) -> Check {
    let detail =
        if skew.is_tolerable() { "agrees with the store's".to_owned() } else { format!("differs: {skew}") };
    Check { name: "clock", ok: true, detail }
}

/// Describes a worker that claims. A local shortage does not make it unready: its events wait, and others can be sent.
fn describe_worker(health: &WorkerHealth) -> String {
    let in_flight = health.in_flight();
    match health.local_shortage() {
        None => format!("claims; {in_flight} in flight"),
        Some(shortage) => format!("claims; {in_flight} in flight; slowed down: {shortage}"),
    }
}

/// Says why a worker writes no results, in the store's words.
fn describe_failure(failure: &WriteFailure) -> String {
    let WriteFailure { error, waiting } = failure;
    match error {
        Some(error) => format!("claims nothing; {waiting} results wait to be written: {error}"),
        None => format!("claims nothing; {waiting} results wait, because the store does not answer"),
    }
}

/// Checks the store's health. Anyone may read the detail: the text of an error names tables, rights and files, but
/// neither data nor a password.
fn check_store(health: Result<StoreHealth, StoreError>) -> Vec<Check> {
    match health {
        Ok(StoreHealth { schema, schema_supported, .. }) => {
            let detail = format!("version {schema}, and this process supports version {schema_supported}");
            // A newer schema is fine: during an upgrade, the old process serves until the new one is ready.
            let schema = Check { name: "schema", ok: schema >= schema_supported, detail };
            vec![Check { name: "store", ok: true, detail: "responds".to_owned() }, schema]
        }
        Err(error) => {
            tracing::debug!(code = error.code(), %error, "not ready");
            vec![Check { name: "store", ok: false, detail: error.to_string() }]
        }
    }
}
