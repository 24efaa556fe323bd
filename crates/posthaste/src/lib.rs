//! Posthaste as a library: an [`Instance`](Posthaste) with its store, its sender and its workers, for programs that
//! embed it.
//!
//! ```text
//!  Options ─► wiring ─► Posthaste ─► enqueue, start_worker, dispatch_once
//! ```
//!
//! A program that embeds Posthaste enqueues inside its own transaction and runs a worker beside its own work: see
//! `examples/embedded.rs`.
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
compile_error!("posthaste needs a store: enable the feature `sqlite`, `postgres`, or both");

mod chance;
mod instance;
mod own_runtime;
mod wiring;

pub use chance::{NoEntropy, OsChance};
pub use instance::{
    DispatchError, OpenError, Options, PAYLOAD_BYTES_MAX_DEFAULT, Posthaste, RunningWorker, StartError,
    lease_owner,
};
pub use own_runtime::OwnRuntime;
pub use posthaste_domain as domain;
pub use posthaste_engine as engine;
pub use posthaste_sender as sender;
pub use posthaste_store as store;
#[cfg(feature = "postgres")]
pub use posthaste_store_postgres as store_postgres;
#[cfg(feature = "sqlite")]
pub use posthaste_store_sqlite as store_sqlite;
#[cfg(feature = "postgres")]
pub use wiring::check_postgres_url;
pub use wiring::{
    Database, DatabaseError, MigrationReport, Opened, authorities, check_authorities, system_resolver,
};
