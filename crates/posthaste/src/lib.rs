//! Posthaste delivers webhooks from inside your program: a transactional outbox, leases, retries with backoff, dead
//! letters.
//!
//! A program commits an event in its own database transaction, beside the rows that the event is about. A worker, in
//! this process or another, sends the event as a signed HTTP request and retries it until the receiver accepts it.
//!
//! ```text
//!  Options ─► Posthaste::open ─► accept ─► enqueue, or enqueue_in of the store (in your transaction)
//!                            └─► start_worker ─► notices of deliveries ─► drain
//! ```
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use posthaste::rusqlite::{Connection, TransactionBehavior};
//! use posthaste::{AllowedNetworks, Database, NewEventSpec, Options, Posthaste};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("shop.db");
//! # let receiver = std::net::TcpListener::bind("127.0.0.1:0")?;
//! # let url = format!("http://{}/hook", receiver.local_addr()?);
//! # std::thread::spawn(move || {
//! #     use std::io::{Read as _, Write as _};
//! #     let (mut connection, _) = receiver.accept().unwrap();
//! #     let mut request = [0; 4096];
//! #     connection.read(&mut request).unwrap();
//! #     connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
//! # });
//! // Opening creates the tables of the outbox. By default, only public addresses are dialled; this receiver is local.
//! let options = Options::new(Database::sqlite(&file))?
//!     .concurrency(64)
//!     .allowed_networks(AllowedNetworks::loopback());
//! let posthaste = Posthaste::open(options).await?;
//! let worker = posthaste.start_worker()?;
//! let mut notices = worker.publisher().subscribe().await?;
//!
//! // The order and its webhook are committed together, or neither is.
//! let mut shop = Connection::open(&file)?;
//! shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)")?;
//! let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! transaction.execute("INSERT INTO orders (cents) VALUES (4200)", [])?;
//! let event = posthaste.accept(NewEventSpec {
//!     destination_url: url,
//!     event_type: "order.placed".to_owned(),
//!     payload: r#"{"order": 1, "cents": 4200}"#.into(),
//!     ..NewEventSpec::default()
//! })?;
//! let store = posthaste.sqlite_store().expect("the database is a SQLite file");
//! store.enqueue_in(&transaction, &[event])?;
//! transaction.commit()?;
//! // Wakes the worker now; otherwise it finds the event at its next poll.
//! store.wake();
//!
//! let notice = notices.next().await?.notice;
//! assert_eq!(notice.kind.as_str(), "WebhookDeliveredEvent");
//!
//! worker.drain(Duration::from_secs(5)).await;
//! posthaste.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/embedded.rs` is a whole program, with a receiver that verifies signatures.
//!
//! # Features
//!
//! - `sqlite` (default): events in a SQLite file, with SQLite compiled in.
//! - `postgres`: events in PostgreSQL, for workers on many hosts. The counterpart of `enqueue_in` above is
//!   the method of that name of `postgres_store()`, or the function of the module `store_postgres`.
//!
//! At least one of them is required.
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
compile_error!("posthaste needs a store: enable the feature `sqlite`, `postgres`, or both");

mod dedicated_runtime;
mod instance;
mod options;
mod os_random;
mod wiring;

#[doc(hidden)]
pub use dedicated_runtime::DedicatedRuntime;
pub use instance::{DispatchError, OpenError, Posthaste, RotateError, RunningWorker, StartError};
pub use options::{Options, PAYLOAD_BYTES_MAX_DEFAULT};
pub use os_random::{EntropyError, OsRandom};
pub use posthaste_domain as domain;
pub use posthaste_domain::seal::MasterKeys;
pub use posthaste_domain::signature::SigningKeys;
pub use posthaste_domain::{CycleReport, NewEvent, NewEventSpec, RetryPolicy, WorkerId};
pub use posthaste_engine as engine;
pub use posthaste_engine::{DrainReport, Observer, Publisher, Settings};
pub use posthaste_sender as sender;
pub use posthaste_sender::{AllowedNetworks, CompatHeaders, Proxy, SenderOptions};
pub use posthaste_store as store;
pub use posthaste_store::{GracePeriod, Receipt, Store, StoreError, StoredSecret};
#[cfg(feature = "postgres")]
pub use posthaste_store_postgres as store_postgres;
#[cfg(feature = "sqlite")]
pub use posthaste_store_sqlite as store_sqlite;
#[cfg(feature = "sqlite")]
pub use wiring::rusqlite;
pub use wiring::{
    Database, DatabaseCheck, DatabaseError, MigrationReport, OpenStore, PageCheck, check_ca_file,
    count_authorities,
};
#[cfg(feature = "postgres")]
pub use wiring::{InvalidSchemaName, InvalidUrl, PostgresUrl, SchemaName, tokio_postgres};
