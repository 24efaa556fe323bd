//! From a configuration to the options of an instance.

use posthaste::{Database, DatabaseError, OpenError, Options};
use posthaste_domain::signature::SigningKeys;
use posthaste_sender::SenderOptions;

use crate::{Config, DatabaseUrl, Dns};

impl Config {
    /// Options for [`Posthaste::open`](posthaste::Posthaste::open), without an observer.
    pub fn options(&self) -> Result<Options, OpenError> {
        let mut options = Options::new(self.database()?)?;
        if let Some(worker_id) = &self.worker_id {
            options = options.worker_id(worker_id.clone())?;
        }
        options.settings = self.engine_settings(options.settings.lease_owner.clone());
        options.sender = sender(self);
        options.signing_keys = keys(self)?;
        options.payload_bytes_max = self.payload_bytes_max;
        Ok(if self.dns == Dns::System { options.system_resolver() } else { options })
    }

    /// The database that the URL names, not opened.
    pub fn database(&self) -> Result<Database, DatabaseError> {
        match &self.database {
            DatabaseUrl::Sqlite(path) => Ok(Database::sqlite(path)),
            DatabaseUrl::Postgres(url) => Ok(Database::postgres(url.reveal())?),
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
    options
}
