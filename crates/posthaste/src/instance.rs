//! An instance inside a program: a store, a sender, and workers on demand.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste_domain::seal::MasterKeys;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{CycleReport, InvalidEvent, InvalidId, NewEvent, NewEventSpec};
use posthaste_engine::{
    DrainReport, Engine, InvalidSettings, Ports, Publisher, RunOnceError, Runtimes, Sender, Settings,
    SharedProfiles, SharedSigningKeys, TokioClock, WorkerHealth,
};
use posthaste_sender::InvalidOptions;
use posthaste_store::{EnqueueRequest, GracePeriod, Receipt, RotateRequest, Store, StoreError, StoredSecret};

use crate::dedicated_runtime::DedicatedRuntime;
use crate::options::Options;
use crate::os_random::{EntropyError, OsRandom};
use crate::wiring::{self, DatabaseError, OpenStore};

/// Why an instance cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error(transparent)]
    WorkerId(#[from] InvalidId),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sender(#[from] InvalidOptions),
}

impl OpenError {
    /// Returns true if the same call may succeed later without a change of the options, because the database was not
    /// reachable.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => error.is_transient(),
            Self::Store(error) => error.is_transient(),
            _ => false,
        }
    }
}

/// Why a worker cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error("the thread for heartbeats could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why the signing secret was not rotated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotateError {
    #[error("the options set the signing keys, so they are not rotated in the store; change them there")]
    Configured,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An instance with its store open. Cheap to clone; all clones share one store.
#[derive(Clone)]
pub struct Posthaste {
    pub(crate) open_store: OpenStore,
    ports: Ports,
    settings: Settings,
    signing_keys: SharedSigningKeys,
    master_keys: Arc<MasterKeys>,
    random: Arc<OsRandom>,
    payload_bytes_max: usize,
    /// The store of the worker that was started last; see [`Posthaste::producer_store`].
    direct_store: Arc<Mutex<Option<Arc<dyn Store>>>>,
}

impl Posthaste {
    /// Opens the store, creates or migrates its schema, and generates a signing secret if the store has none. Must be
    /// called on a tokio runtime.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let Options { database, settings, sender, signing_keys, master_keys, payload_bytes_max, observer } =
            options;
        // Checked first, so that a bad file leaves no new database behind.
        if let Some(file) = &sender.ca_file {
            wiring::check_ca_file(file)?;
        }
        let random = Arc::new(OsRandom::new()?);
        let open_store = database.open(settings.policy.max_attempts(), payload_bytes_max).await?;
        let store = open_store.store();
        let is_configured = signing_keys.is_some();
        let signing_keys = match signing_keys {
            Some(configured) => SharedSigningKeys::new(configured),
            None => {
                store.add_first_secret(&random.secret()).await?;
                SharedSigningKeys::load(&*store).await?
            }
        };
        let profiles = SharedProfiles::new(Arc::clone(&master_keys));
        let ports = Ports {
            store,
            sender: wiring::sender(&sender, signing_keys.clone(), profiles.clone())?,
            clock: Arc::new(TokioClock::start()),
            random: Arc::clone(&random) as _,
            observer,
            reloaded_keys: (!is_configured).then(|| signing_keys.clone()),
            profiles,
        };
        Ok(Self {
            open_store,
            ports,
            settings,
            signing_keys,
            master_keys,
            random,
            payload_bytes_max,
            direct_store: Arc::default(),
        })
    }

    /// Returns the store as a trait object.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.ports.store
    }

    /// Returns the store for producers. If a worker of this process can send a new event at once, the event is stored and leased
    /// in one commit, and sent without a claim. To be called after [`start_worker`](Self::start_worker).
    pub fn producer_store(&self) -> Arc<dyn Store> {
        let direct = self.direct_store.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(direct.as_ref().unwrap_or(&self.ports.store))
    }

    /// Returns the settings of the workers that this instance starts.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the keys that sign deliveries now. They change when the signing secret is rotated.
    pub fn signing_keys(&self) -> SigningKeys {
        (*self.signing_keys.current()).clone()
    }

    /// Returns the keys under which the keys and headers of destinations are sealed in the store.
    pub fn master_keys(&self) -> &Arc<MasterKeys> {
        &self.master_keys
    }

    /// Returns the source of randomness of this instance, for ids, nonces and secrets.
    pub fn random(&self) -> &Arc<OsRandom> {
        &self.random
    }

    /// Generates a new signing secret, which signs deliveries beside the one before it until the grace period ends.
    /// Returns the valid secrets, newest first.
    ///
    /// This process signs with the new secret when the call returns, and every other worker within
    /// [`SECRETS_LEARNED_WITHIN`](posthaste_engine::SECRETS_LEARNED_WITHIN). Give it to receivers after that time and
    /// before the grace period ends. `actor` is recorded as the one who rotated.
    pub async fn rotate_secret(
        &self,
        grace: GracePeriod,
        actor: &str,
    ) -> Result<Vec<StoredSecret>, RotateError> {
        let Some(signing_keys) = &self.ports.reloaded_keys else { return Err(RotateError::Configured) };
        let request = RotateRequest { secret: &self.random.secret(), grace, actor };
        let valid = self.ports.store.rotate_secret(request).await?;
        signing_keys.reload(&*self.ports.store).await?;
        Ok(valid)
    }

    /// Returns the size of the largest payload that this instance accepts, in bytes.
    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Replaces the sender with one that wraps it, for instance to trace deliveries.
    #[must_use]
    pub fn wrap_sender(mut self, wrap: impl FnOnce(Arc<dyn Sender>) -> Arc<dyn Sender>) -> Self {
        self.ports.sender = wrap(self.ports.sender);
        self
    }

    /// Validates an event against the limits of this instance.
    pub fn accept(&self, event: NewEventSpec) -> Result<NewEvent, InvalidEvent> {
        NewEvent::accept(event, self.payload_bytes_max, self.settings.policy.max_attempts())
    }

    /// Stores all of these events or none. They are durable when this returns.
    pub async fn enqueue(&self, events: Vec<NewEvent>) -> Result<Vec<Receipt>, StoreError> {
        let request = EnqueueRequest::new(events);
        Ok(self.producer_store().enqueue(request).await?.receipts)
    }

    /// Starts a worker, which delivers events until it is drained or dropped.
    pub fn start_worker(&self) -> Result<RunningWorker, StartError> {
        let heartbeat = heartbeat_thread()?;
        let runtimes = runtimes_with(&heartbeat);
        let engine = Engine::start(self.settings.clone(), self.ports.clone(), &runtimes)?;
        let direct_store = engine.direct_store();
        *self.direct_store.lock().unwrap_or_else(PoisonError::into_inner) = Some(direct_store);
        Ok(RunningWorker { engine, _heartbeat: heartbeat })
    }

    /// Runs one dispatch cycle: attempts the events that are due, at most as many as `concurrency` allows, and returns
    /// a report.
    pub async fn dispatch_once(&self) -> Result<CycleReport, DispatchError> {
        let (report, _) = self.dispatch_once_until(std::future::pending(), Duration::ZERO).await?;
        Ok(report)
    }

    /// Runs one dispatch cycle, as [`dispatch_once`](Self::dispatch_once) does, but stops claiming when `stop`
    /// resolves. Requests in flight then have until `deadline` to finish; the leases of unfinished requests are
    /// released.
    pub async fn dispatch_once_until(
        &self,
        stop: impl Future<Output = ()>,
        deadline: Duration,
    ) -> Result<(CycleReport, DrainReport), DispatchError> {
        let heartbeat = heartbeat_thread()?;
        let runtimes = runtimes_with(&heartbeat);
        let (settings, ports) = (self.settings.clone(), self.ports.clone());
        Ok(Engine::run_once_until(settings, ports, &runtimes, stop, deadline).await?)
    }

    /// Closes the store, for clones of this instance too. Drain its workers first. A program that exits without closing
    /// loses nothing, but leaves a part of a SQLite database in the write-ahead log beside the file.
    pub async fn close(self) {
        if !self.open_store.close().await {
            tracing::warn!(
                "the database could not be closed in time; the next start reads its write-ahead log"
            );
        }
    }
}

/// Why due events cannot be dispatched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    #[error(transparent)]
    Once(#[from] RunOnceError),
    #[error("the thread for heartbeats could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A worker in this process. If it is dropped without a drain, its leases stay until they expire.
pub struct RunningWorker {
    engine: Engine,
    _heartbeat: DedicatedRuntime,
}

impl RunningWorker {
    /// Returns the publisher, which broadcasts a notice for every event that reaches a terminal state.
    pub fn publisher(&self) -> &Publisher {
        self.engine.publisher()
    }

    /// Returns a handle that reports whether the worker makes progress.
    pub fn health(&self) -> WorkerHealth {
        self.engine.health()
    }

    /// Stops claiming and waits for requests in flight. Shortly before the deadline, interrupts the remaining ones and
    /// releases their leases.
    pub async fn drain(self, deadline: Duration) -> DrainReport {
        self.engine.drain(deadline).await
    }
}

/// Starts a thread for heartbeats alone, so that busy senders cannot delay lease renewals.
fn heartbeat_thread() -> std::io::Result<DedicatedRuntime> {
    DedicatedRuntime::start("posthaste-heartbeat")
}

fn runtimes_with(heartbeat: &DedicatedRuntime) -> Runtimes {
    Runtimes { heartbeat: heartbeat.handle().clone(), ..Runtimes::current() }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::wiring::Database;

    fn options(directory: &tempfile::TempDir) -> Options {
        Options::new(Database::sqlite(directory.path().join("outbox.db"))).expect("the system has entropy")
    }

    #[tokio::test]
    async fn closing_an_instance_checkpoints_its_file_and_closes_its_clones() {
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
    async fn unusable_ca_file_is_refused_before_the_database_is_created() {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(&directory);
        options.sender.ca_file = Some(directory.path().join("no-such-file.pem"));
        let refused = Posthaste::open(options).await.map(drop).unwrap_err();
        assert!(matches!(refused, OpenError::Sender(_)), "{refused:?}");
        assert!(std::fs::read_dir(&directory).unwrap().next().is_none());
    }
    #[tokio::test]
    async fn rotation_adds_a_secret_to_the_keys_unless_the_options_set_them() {
        let directory = tempfile::tempdir().unwrap();
        let posthaste = Posthaste::open(options(&directory)).await.unwrap();
        let before = posthaste.signing_keys();
        let valid = posthaste.rotate_secret(GracePeriod::DEFAULT, "shop").await.unwrap();
        let keys = posthaste.clone().signing_keys();
        let secrets: Vec<_> = valid.iter().map(|stored| stored.secret.clone()).collect();
        assert_eq!(keys.secrets(), secrets);
        assert_eq!(keys.secrets()[1..], *before.secrets());
        assert_eq!(valid[0].created_by.as_deref(), Some("shop"));
        let configured = Posthaste::open(options(&directory).signing_keys(before.clone())).await.unwrap();
        let refused = configured.rotate_secret(GracePeriod::DEFAULT, "shop").await.unwrap_err();
        assert!(matches!(refused, RotateError::Configured), "{refused:?}");
        assert_eq!(configured.signing_keys(), before);
    }
}
