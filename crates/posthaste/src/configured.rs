//! From a configuration to an instance.

use std::sync::Arc;

use posthaste_domain::signature::SigningKeys;
use posthaste_sender::SenderOptions;

use crate::config::{Config, DatabaseUrl, Dns};
use crate::instance::{OpenError, Options, owner};
use crate::service::chance::OsChance;
use crate::wiring::{self, Database, DatabaseError};

impl Options {
    /// What the configuration says, watched by nobody.
    pub fn configured(config: &Config) -> Result<Self, OpenError> {
        let owner = owner(config.worker_id.as_ref(), &OsChance::new()?)?;
        Ok(Self {
            database: Database::configured(config)?,
            settings: config.engine_settings(owner),
            sender: sender(config),
            signing_keys: keys(config)?,
            payload_bytes_max: config.payload_bytes_max,
            observer: Arc::new(()),
        })
    }
}

impl Database {
    pub fn configured(config: &Config) -> Result<Self, DatabaseError> {
        match &config.database {
            DatabaseUrl::Sqlite(path) => Ok(Self::Sqlite(path.clone())),
            DatabaseUrl::Postgres(url) => Ok(Self::postgres(url.reveal())?),
        }
    }
}

fn keys(config: &Config) -> Result<Option<SigningKeys>, OpenError> {
    match config.signing_secrets.clone() {
        none if none.is_empty() => Ok(None),
        secrets => Ok(Some(SigningKeys::new(secrets)?)),
    }
}

fn sender(config: &Config) -> SenderOptions {
    let mut options = SenderOptions::new();
    options.allowed_networks = config.allowed_networks.clone();
    options.pool_size = config.per_destination;
    options.pool_size_total = config.concurrency;
    options.ca_file = config.ca_file.clone();
    options.proxy = config.egress_proxy.clone();
    if config.dns == Dns::System {
        options.resolver = wiring::host_resolver();
    }
    options
}
