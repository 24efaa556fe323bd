//! The checks that a server runs on itself, for `posthaste doctor --server`.
//!
//! They have the names and texts of the checks of a command, but use what the process has open: its store, its worker and
//! its configuration. They read no pages of a database file, which can take long.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::Store;
use posthaste::engine::{WorkerHealth, host_time};
use posthaste_api::{Check, Finding, SelfChecks, Verdict};
use posthaste_config::{Config, DatabaseUrl};

use super::{checks, disk, store};
use crate::service::readiness::ProcessReadiness;

/// The checks of this process.
pub(crate) struct ProcessChecks {
    pub(crate) config: Arc<Config>,
    pub(crate) worker_id: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) readiness: Arc<ProcessReadiness>,
}

#[async_trait]
impl SelfChecks for ProcessChecks {
    fn worker_id(&self) -> String {
        self.worker_id.clone()
    }

    async fn run(&self) -> Vec<Finding> {
        let mut findings = checks::of_configuration(&self.config);
        findings.extend(self.check_store().await);
        findings.push(worker(self.readiness.health.as_ref().map(|health| self.check_worker(health))));
        let config = Arc::clone(&self.config);
        // Reads certificates from files.
        let of_settings = tokio::task::spawn_blocking(move || checks::of_settings(&config)).await;
        findings.extend(of_settings.unwrap_or_default());
        findings
    }
}

impl ProcessChecks {
    fn check_worker(&self, health: &WorkerHealth) -> Check {
        self.readiness.check_worker(health)
    }

    async fn check_store(&self) -> Vec<Finding> {
        let health = self.store.health().await;
        let mut findings = vec![match &health {
            Ok(health) => store::schema(health),
            Err(error) => Finding::new("store", Verdict::Broken, error.to_string()),
        }];
        findings.extend(checks::database_connection(&self.config));
        if health.is_ok() {
            let refused = self.store.check_writes().await.err().map(|error| error.to_string());
            findings.push(store::trial_write(refused.as_deref()));
        }
        findings.extend(self.store.wal_bytes().map(store::write_ahead_log));
        let store_clock = match &self.config.database_url {
            DatabaseUrl::Sqlite(path) => {
                findings.extend(disk::check(path));
                None
            }
            DatabaseUrl::Postgres(_) => health.ok().map(|health| health.now),
        };
        findings.push(store::clock(host_time(), store_clock));
        findings
    }
}

fn worker(check: Option<Check>) -> Finding {
    match check {
        None => Finding::new("worker", Verdict::Ok, "this process has none; workers run in other processes"),
        Some(Check { ok: true, detail, .. }) => Finding::new("worker", Verdict::Ok, detail),
        Some(Check { detail, .. }) => {
            let text = format!("{detail}: its log says why; restart the process if it does not recover");
            Finding::new("worker", Verdict::Broken, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_that_does_not_claim_is_broken_and_its_finding_says_what_to_do() {
        let check = |ok| Some(Check { name: "worker", ok, detail: "has not claimed for 40 s".to_owned() });
        assert_eq!(worker(check(true)).verdict, Verdict::Ok);
        assert_eq!(worker(None).verdict, Verdict::Ok);
        let broken = worker(check(false));
        assert_eq!(broken.verdict, Verdict::Broken);
        assert!(broken.text.contains("40 s") && broken.text.contains("restart"), "{}", broken.text);
    }
}
