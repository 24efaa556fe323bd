//! What a [`Config`] becomes: options of an instance, settings of the engine, output of `posthaste config`.

use posthaste::{Database, DatabaseError, OpenError, Options};
use posthaste_domain::{BreakerPolicy, WorkerId};
use posthaste_engine::{INLINE_PAYLOAD_BYTES_MAX, SLOW_AFTER, Settings, WINDOW_START};
use posthaste_sender::SenderOptions;
use serde_json::Value;

use super::database::DatabaseUrl;
use super::effective::EffectiveSetting;
use super::parse::Dns;
use super::settings::Config;

impl Config {
    /// Returns the options for [`Posthaste::open`](posthaste::Posthaste::open), without an observer. Reads the
    /// certificates of the database.
    pub fn options(&self) -> Result<Options, OpenError> {
        let mut options = Options::new(self.database()?)?;
        if let Some(worker_id) = &self.worker_id {
            options = options.worker_id(worker_id.clone())?;
        }
        options.settings = self.engine_settings(options.settings.lease_owner.clone());
        options.sender = self.sender_options();
        options.signing_keys = self.signing_secret.clone();
        options.master_keys = self.master_keys.clone().unwrap_or_default();
        options.payload_bytes_max = self.payload_bytes_max;
        Ok(if self.dns == Dns::System { options.system_resolver() } else { options })
    }

    /// Returns the database, not opened. Reads its certificates.
    pub fn database(&self) -> Result<Database, DatabaseError> {
        let database = self.database_url.database()?;
        match self.database_url {
            DatabaseUrl::Sqlite(_) => Ok(database),
            DatabaseUrl::Postgres(_) => database.in_schema(self.database_schema.clone()),
        }
    }

    /// Returns the settings of a worker whose leases have this owner.
    pub fn engine_settings(&self, lease_owner: WorkerId) -> Settings {
        Settings {
            worker_id: self.worker_id.clone().unwrap_or_else(|| lease_owner.clone()),
            lease_owner,
            policy: self.retry_policy.clone(),
            breaker: BreakerPolicy::default(),
            lease: self.lease_seconds,
            timeout: self.timeout_seconds,
            concurrency: self.concurrency,
            per_destination: self.http_pool_size,
            window_start: WINDOW_START,
            slow_after: SLOW_AFTER,
            in_flight_bytes_max: self.in_flight_bytes_max,
            inline_payload_bytes_max: INLINE_PAYLOAD_BYTES_MAX,
            retry_batch: self.retry_batch_size,
            poll_interval: self.poll_interval_ms,
            cycle_interval: self.cycle_seconds,
            abandon_after: self.abandon_after,
            expire_after: self.expire_after_seconds,
            retention: self.retention_days,
            dead_letter_retention: self.dead_letter_retention_days,
        }
    }

    /// Returns the options of the sender.
    pub fn sender_options(&self) -> SenderOptions {
        let mut options = SenderOptions::new();
        options.allowed_networks = self.allow_private_networks.clone();
        options.denied_networks = self.deny_networks.clone().unwrap_or_default();
        options.https_only = self.https_only;
        options.pool_size = self.http_pool_size;
        options.pool_size_total = SenderOptions::pooled_connections(self.concurrency);
        options.ca_file = self.ca_file.clone();
        options.proxy = self.egress_proxy.clone();
        options.compat_headers = self.compat_headers;
        options
    }

    /// Returns whether only this host can reach the API.
    pub fn listens_on_loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// Returns whether other hosts can reach neither the API nor the database. Only then may events be sent to loopback
    /// by default. API keys mean that others call the API, for instance through a reverse proxy on this host.
    pub(crate) fn only_this_host_can_enqueue(&self) -> bool {
        self.listens_on_loopback() && self.api_keys.is_none() && self.database_url.is_on_this_host()
    }

    /// Returns the effective value of a setting and its source, or None if no setting has this name.
    pub fn setting(&self, name: &str) -> Option<&EffectiveSetting> {
        self.settings.iter().find(|effective| effective.setting.name == name)
    }

    /// Returns the output of `posthaste config --json`.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "settings": self.settings.iter().map(EffectiveSetting::to_json).collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }
}
