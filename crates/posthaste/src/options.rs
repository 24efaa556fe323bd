//! The options of an instance: its database, its workers, its sender and its signing keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::seal::MasterKeys;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{InvalidId, RetryPolicy, WorkerId};
use posthaste_engine::{Observer, Settings};
use posthaste_sender::{AllowedNetworks, CompatHeaders, Proxy, SenderOptions};

use crate::instance::OpenError;
use crate::os_random::OsRandom;
#[cfg(feature = "postgres")]
use crate::wiring::DatabaseError;
use crate::wiring::{self, Database};

/// Largest payload that an instance accepts by default, in bytes.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 256 * 1024;

/// The options of an instance. [`Options::new`] sets the documented defaults; methods and fields change them.
#[derive(Clone)]
#[non_exhaustive]
#[must_use]
pub struct Options {
    pub database: Database,
    /// Settings of the workers that this instance starts.
    pub settings: Settings,
    pub sender: SenderOptions,
    /// Keys that sign deliveries. None uses the secrets in the store, which the first start generates.
    pub signing_keys: Option<SigningKeys>,
    /// Keys under which the keys and headers of destinations are sealed in the store. Without any, they are stored as they are.
    pub master_keys: Arc<MasterKeys>,
    pub payload_bytes_max: usize,
    /// Observer that is called for every attempt and every lost lease.
    pub observer: Arc<dyn Observer>,
}

impl Options {
    /// Returns the default options. Workers are named after the host, with a random part that differs at every start.
    pub fn new(database: Database) -> Result<Self, OpenError> {
        let settings = Settings::new(lease_owner(&host_name(), &OsRandom::new()?)?);
        let mut sender = SenderOptions::new();
        sender.pool_size = settings.per_destination;
        sender.pool_size_total = SenderOptions::pooled_connections(settings.concurrency);
        Ok(Self {
            database,
            settings,
            sender,
            signing_keys: None,
            master_keys: Arc::new(MasterKeys::none()),
            payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT,
            observer: Arc::new(()),
        })
    }

    /// Sets the schema of a PostgreSQL database that holds Posthaste's objects. The default is `app`; another name lets several
    /// instances share a database, and leaves a schema `app` to another application.
    #[cfg(feature = "postgres")]
    pub fn database_schema(mut self, name: &str) -> Result<Self, OpenError> {
        let schema =
            name.parse().map_err(|reason| DatabaseError::SchemaName { name: name.to_owned(), reason })?;
        self.database = self.database.in_schema(schema)?;
        Ok(self)
    }

    /// Names the workers in logs, reports and the attempt history. Their leases get an owner that also contains a
    /// random part, so that two starts with one name never share leases.
    pub fn worker_id(mut self, worker_id: WorkerId) -> Result<Self, OpenError> {
        self.settings.lease_owner = lease_owner(worker_id.as_str(), &OsRandom::new()?)?;
        self.settings.worker_id = worker_id;
        Ok(self)
    }

    /// Limits requests in flight in each worker, and pooled connections to twice as many. The default is 512.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.settings.concurrency = requests;
        self.sender.pool_size_total = SenderOptions::pooled_connections(requests);
        self
    }

    /// Limits requests in flight, and pooled connections, to one destination in each worker. The default is 20.
    pub fn per_destination(mut self, requests: usize) -> Self {
        self.settings.per_destination = requests;
        self.sender.pool_size = requests;
        self
    }

    /// Limits the payload bytes in flight in each worker. Small payloads, of at most 16 KiB by default, are not counted. The
    /// default is 64 MiB.
    pub fn in_flight_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.in_flight_bytes_max = bytes;
        self
    }

    /// Sets when failed attempts are retried and when an event is dead-lettered.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// Limits the duration of one request as a whole. The default is 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets how long delivered events and attempts are kept. None keeps them forever; the default is 30 days.
    pub fn retention(mut self, retention: Option<Duration>) -> Self {
        self.settings.retention = retention;
        self
    }

    /// Sets how long dead letters are kept after their last change. None, the default, keeps them forever.
    pub fn dead_letter_retention(mut self, retention: Option<Duration>) -> Self {
        self.settings.dead_letter_retention = retention;
        self
    }

    /// Allows deliveries to these private networks. By default, the sender connects to public addresses only.
    pub fn allowed_networks(mut self, networks: AllowedNetworks) -> Self {
        self.sender.allowed_networks = networks;
        self
    }

    /// Trusts the certificate authorities in this PEM file, in addition to the system's.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.sender.ca_file = Some(file.into());
        self
    }

    /// Sends every request through an egress proxy.
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.sender.proxy = Some(proxy);
        self
    }

    /// Resolves the names of receivers with the host's resolver (`getaddrinfo`) instead of Posthaste's own.
    pub fn system_resolver(mut self) -> Self {
        self.sender.resolver = wiring::system_resolver();
        self
    }

    /// Signs deliveries with these keys instead of the secrets in the store, which the first start generates.
    pub fn signing_keys(mut self, keys: SigningKeys) -> Self {
        self.signing_keys = Some(keys);
        self
    }

    /// Seals the keys and headers of destinations in the store under these keys. The first key seals, and all of them open.
    pub fn master_keys(mut self, keys: MasterKeys) -> Self {
        self.master_keys = Arc::new(keys);
        self
    }

    /// Sends the id, the timestamp and the signature of each request a second time, under these names. The default is none.
    pub fn compat_headers(mut self, headers: CompatHeaders) -> Self {
        self.sender.compat_headers = headers;
        self
    }

    /// Limits the payload of one event. The default is [`PAYLOAD_BYTES_MAX_DEFAULT`].
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// Calls this observer for every attempt and every lost lease, for instance to count them.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }
}

/// Returns the worker name with a random suffix that is unique to this start of the process.
fn lease_owner(name: &str, random: &OsRandom) -> Result<WorkerId, InvalidId> {
    WorkerId::with_boot_id(name, random.boot_id())
}

/// Returns the host's name, reduced to characters that a worker id may contain.
fn host_name() -> String {
    let name = gethostname::gethostname().to_string_lossy().into_owned();
    let safe: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(64).collect();
    if safe.is_empty() { "worker".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_under_one_worker_name_have_different_lease_owners() {
        let name = WorkerId::new("w".repeat(256)).expect("the longest name is valid");
        let [first, second] = [(); 2].map(|()| {
            let random = OsRandom::new().expect("the system has entropy");
            lease_owner(name.as_str(), &random).expect("every worker name makes an owner")
        });
        assert!(first.as_str().starts_with(name.as_str()) && second.as_str().starts_with(name.as_str()));
        assert_ne!(first, second);
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn limits_of_requests_bound_the_connection_pool_too() {
        let options = Options::new(Database::sqlite("outbox.db")).expect("the system has entropy");
        let options = options.concurrency(7).per_destination(3);
        assert_eq!((options.settings.concurrency, options.sender.pool_size_total), (7, 14));
        assert_eq!((options.settings.per_destination, options.sender.pool_size), (3, 3));
    }
}
