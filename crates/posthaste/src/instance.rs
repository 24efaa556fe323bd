//! Posthaste inside a program: a store, a sender, and workers on demand.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::signature::{InvalidSecret, SigningKeys};
use posthaste_domain::{CycleReport, InvalidEvent, InvalidId, NewEvent, NewEventSpec, WorkerId};
use posthaste_engine::{
    DrainReport, Engine, InvalidSettings, Observer, Ports, Publisher, RunOnceError, Runtimes, Sender,
    Settings, TokioClock, WorkerHealth,
};
use posthaste_sender::{InvalidOptions, SenderOptions};
use posthaste_store::{EnqueueRequest, Receipt, Store, StoreError};

use crate::chance::{NoEntropy, OsChance};
use crate::own_runtime::OwnRuntime;
use crate::wiring::{self, Database, DatabaseError, Opened};

/// Largest payload that is accepted unless told otherwise.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 256 * 1024;

/// How an instance runs. [`Options::new`] gives the defaults of the contract.
pub struct Options {
    pub database: Database,
    /// How its workers run.
    pub settings: Settings,
    pub sender: SenderOptions,
    /// What deliveries are signed with; none for what the store keeps, made at its first start.
    pub signing_keys: Option<SigningKeys>,
    pub payload_bytes_max: usize,
    /// Hears of everything that its workers do.
    pub observer: Arc<dyn Observer>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    #[error(transparent)]
    WorkerId(#[from] InvalidId),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Secret(#[from] InvalidSecret),
    #[error(transparent)]
    Sender(#[from] InvalidOptions),
}

/// A worker that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error("the heartbeat needs a thread of its own, and none could be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl Options {
    /// The defaults, under the name of this host and of this start of the process.
    pub fn new(database: Database) -> Result<Self, OpenError> {
        let mut sender = SenderOptions::new();
        let settings = Settings::new(lease_owner(None, &OsChance::new()?)?);
        sender.pool_size = settings.per_destination;
        sender.pool_size_total = settings.concurrency;
        Ok(Self {
            database,
            settings,
            sender,
            signing_keys: None,
            payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT,
            observer: Arc::new(()),
        })
    }
}

/// The worker's name, or else the host's, and a part that no other start of a process has.
pub fn lease_owner(name: Option<&WorkerId>, chance: &OsChance) -> Result<WorkerId, InvalidId> {
    let name = name.map_or_else(host, |name| name.as_str().to_owned());
    WorkerId::with_boot_id(&name, chance.boot())
}

fn host() -> String {
    let name = gethostname::gethostname().to_string_lossy().into_owned();
    let safe: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(64).collect();
    if safe.is_empty() { "worker".to_owned() } else { safe }
}

/// An instance with its store open. Cheap to clone; clones are one instance.
#[derive(Clone)]
pub struct Posthaste {
    opened: Opened,
    ports: Ports,
    settings: Settings,
    signing_keys: SigningKeys,
    payload_bytes_max: usize,
}

impl Posthaste {
    /// Opens the store, creating or upgrading it, and makes a signing secret where there is none. On a tokio runtime.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let Options { database, settings, sender, signing_keys, payload_bytes_max, observer } = options;
        // Before anything is created.
        if let Some(file) = &sender.ca_file {
            wiring::check_authorities(file)?;
        }
        let chance = Arc::new(OsChance::new()?);
        let opened = database.open(settings.policy.max_attempts(), payload_bytes_max).await?;
        let store = opened.store();
        let signing_keys = match signing_keys {
            Some(configured) => configured,
            None => SigningKeys::new(store.signing_secrets(&chance.secret()).await?)?,
        };
        let sender = wiring::sender(sender, signing_keys.clone())?;
        let ports = Ports { store, sender, clock: Arc::new(TokioClock::start()), random: chance, observer };
        Ok(Self { opened, ports, settings, signing_keys, payload_bytes_max })
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.ports.store
    }

    /// The store under its own type: it enqueues inside transactions of the caller's.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What deliveries are signed with.
    pub fn signing_keys(&self) -> &SigningKeys {
        &self.signing_keys
    }

    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Sends through this instead, for instance to follow deliveries in traces.
    #[must_use]
    pub fn sending_through(mut self, wrap: impl FnOnce(Arc<dyn Sender>) -> Arc<dyn Sender>) -> Self {
        self.ports.sender = wrap(self.ports.sender);
        self
    }

    /// Judges an event as this instance accepts it.
    pub fn accept(&self, event: NewEventSpec) -> Result<NewEvent, InvalidEvent> {
        NewEvent::accept(event, self.payload_bytes_max, self.settings.policy.max_attempts())
    }

    /// Stores events, all or none, durably before it returns.
    pub async fn enqueue(&self, events: Vec<NewEvent>) -> Result<Vec<Receipt>, StoreError> {
        let request = EnqueueRequest { events, idempotency: None };
        Ok(self.ports.store.enqueue(request).await?.receipts)
    }

    /// Delivers from now on, until it is drained or dropped.
    pub fn start_worker(&self) -> Result<RunningWorker, StartError> {
        let heartbeat = heartbeat_thread()?;
        let runtimes = beside_this_one(&heartbeat);
        let engine = Engine::start(self.settings.clone(), self.ports.clone(), &runtimes)?;
        Ok(RunningWorker { engine, _heartbeat: heartbeat })
    }

    /// Delivers what is due now, and reports.
    pub async fn dispatch_once(&self) -> Result<CycleReport, DispatchError> {
        let (report, _) = self.dispatch_once_until(std::future::pending(), Duration::ZERO).await?;
        Ok(report)
    }

    /// The same. Told to stop, it lets what is in flight finish within the deadline, and gives back what has not.
    pub async fn dispatch_once_until(
        &self,
        stop: impl Future<Output = ()>,
        deadline: Duration,
    ) -> Result<(CycleReport, DrainReport), DispatchError> {
        let heartbeat = heartbeat_thread()?;
        let runtimes = beside_this_one(&heartbeat);
        let (settings, ports) = (self.settings.clone(), self.ports.clone());
        Ok(Engine::run_once_until(settings, ports, &runtimes, stop, deadline).await?)
    }

    /// Closes the store, for clones of this instance too. Workers are to be drained before. A program that ends without
    /// it loses nothing, and leaves a part of a SQLite database in the log beside the file.
    pub async fn close(self) {
        if !self.opened.close().await {
            tracing::warn!(
                "the database could not be closed in time; what its log holds is read at the next start"
            );
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    #[error(transparent)]
    Once(#[from] RunOnceError),
    #[error("the heartbeat needs a thread of its own, and none could be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A worker in this process. Dropped without a drain, its leases expire by themselves.
pub struct RunningWorker {
    engine: Engine,
    _heartbeat: OwnRuntime,
}

impl RunningWorker {
    pub fn publisher(&self) -> &Publisher {
        self.engine.publisher()
    }

    pub fn health(&self) -> WorkerHealth {
        self.engine.health()
    }

    /// Stops claiming and lets what is in flight finish within the deadline.
    pub async fn drain(self, deadline: Duration) -> DrainReport {
        self.engine.drain(deadline).await
    }
}

/// A thread for heartbeats alone: no busy sender keeps it from its timers.
fn heartbeat_thread() -> std::io::Result<OwnRuntime> {
    OwnRuntime::start("posthaste-heartbeat")
}

fn beside_this_one(heartbeat: &OwnRuntime) -> Runtimes {
    Runtimes { heartbeat: heartbeat.handle().clone(), ..Runtimes::current() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(directory: &tempfile::TempDir) -> Options {
        Options::new(Database::Sqlite(directory.path().join("outbox.db"))).expect("the system has entropy")
    }

    #[tokio::test]
    async fn an_instance_that_is_closed_leaves_everything_in_its_file_whoever_else_has_a_clone() {
        let directory = tempfile::tempdir().unwrap();
        let posthaste = Posthaste::open(options(&directory)).await.unwrap();
        let (clone, log) = (posthaste.clone(), directory.path().join("outbox.db-wal"));
        let event = NewEventSpec {
            destination_url: "https://receiver.example/hook".to_owned(),
            event_type: "invoice.paid".to_owned(),
            payload: "{}".into(),
            ..NewEventSpec::default()
        };
        posthaste.enqueue(vec![posthaste.accept(event).unwrap()]).await.unwrap();
        assert!(log.metadata().unwrap().len() > 0);
        posthaste.close().await;
        assert!(!log.exists());
        assert!(clone.store().overview().await.unwrap_err().is_transient(), "the clone is closed too");
        let again = Posthaste::open(options(&directory)).await.unwrap();
        assert_eq!(again.store().overview().await.unwrap().pending, 1);
    }

    #[tokio::test]
    async fn certificates_that_cannot_be_used_are_found_before_anything_is_created() {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(&directory);
        options.sender.ca_file = Some(directory.path().join("no-such-file.pem"));
        let refused = Posthaste::open(options).await.map(drop).unwrap_err();
        assert!(matches!(refused, OpenError::Sender(_)), "{refused:?}");
        assert!(std::fs::read_dir(&directory).unwrap().next().is_none());
    }

    #[test]
    fn a_worker_that_keeps_its_name_is_another_owner_at_every_start() {
        let name = WorkerId::new("w".repeat(256)).expect("as long as a name may be");
        let [first, second] = [(); 2].map(|()| {
            let chance = OsChance::new().expect("the system has entropy");
            lease_owner(Some(&name), &chance).expect("a name makes an owner")
        });
        assert!(first.as_str().starts_with(name.as_str()) && second.as_str().starts_with(name.as_str()));
        assert_ne!(first, second);
    }
}
