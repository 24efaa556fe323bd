//! A configuration that has been judged: nothing that is made of it can fail for its sake.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use posthaste_domain::signature::Secret;
use posthaste_domain::{BreakerPolicy, LeaseTerms, RetryPolicy, WorkerId};
use posthaste_engine::Settings;
use posthaste_sender::{AllowedNetworks, Proxy};
use serde_json::Value;
use tracing_subscriber::filter::Targets;
use url::Url;

use super::database::DatabaseUrl;
use super::effective::Effective;
use super::redacted::Redacted;
use super::values::{Dns, LogFormat, is_on_loopback};

/// Made by [`load`](super::load) alone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    pub database: DatabaseUrl,
    /// None keeps all.
    pub retention: Option<Duration>,
    pub listen: SocketAddr,
    /// As written: `name:role:key`, separated by commas. [`KeyRing`](posthaste_api::KeyRing) has read it once.
    pub api_keys: Option<Redacted>,
    pub payload_bytes_max: usize,
    pub idempotency: Duration,
    pub shutdown: Duration,
    pub retry_policy: RetryPolicy,
    pub allow_fast_retries: bool,
    pub timeout: Duration,
    pub retry_batch: usize,
    /// Requests in flight, and idle connections, per destination.
    pub per_destination: usize,
    pub concurrency: usize,
    pub lease: LeaseTerms,
    pub poll_interval: Duration,
    pub abandon_after: u32,
    pub cycle_interval: Duration,
    /// None for the host's name and a part that differs at every start.
    pub worker_id: Option<WorkerId>,
    /// Newest first, and not too many; none for those that the store keeps.
    pub signing_secrets: Vec<Secret>,
    pub allowed_networks: AllowedNetworks,
    pub ca_file: Option<PathBuf>,
    pub egress_proxy: Option<Proxy>,
    pub dns: Dns,
    pub log: Targets,
    /// None for whatever suits where the log goes.
    pub log_format: Option<LogFormat>,
    pub otlp_endpoint: Option<Url>,
    /// Every setting as text, in the order of the table.
    pub settings: Vec<Effective>,
    /// To be logged at every start.
    pub warnings: Vec<String>,
}

impl Config {
    pub fn engine_settings(&self, owner: WorkerId) -> Settings {
        Settings {
            worker_id: self.worker_id.clone().unwrap_or_else(|| owner.clone()),
            lease_owner: owner,
            policy: self.retry_policy.clone(),
            breaker: BreakerPolicy::default(),
            lease: self.lease,
            timeout: self.timeout,
            concurrency: self.concurrency,
            per_destination: self.per_destination,
            retry_batch: self.retry_batch,
            poll_interval: self.poll_interval,
            cycle_interval: self.cycle_interval,
            abandon_after: self.abandon_after,
            retention: self.retention,
        }
    }

    /// Whether only this host can reach the API.
    pub fn listens_on_loopback(&self) -> bool {
        is_on_loopback(self.listen)
    }

    /// How a setting of the table stands.
    pub fn setting(&self, name: &str) -> Option<&Effective> {
        self.settings.iter().find(|effective| effective.setting.name == name)
    }

    /// What `posthaste config --json` prints.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "settings": self.settings.iter().map(Effective::to_json).collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }
}
