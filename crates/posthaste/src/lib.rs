//! Posthaste as a library: an [`Instance`](Posthaste) with its store, its sender and its workers, for programs that
//! embed it, and what the `posthaste` command is made of.
//!
//! ```text
//!  config ─► wiring ─► Posthaste ─► enqueue, start_worker, dispatch_once
//!            which       │
//!            adapters    └─► service: API, dashboard, logs, signals (the command alone)
//! ```
//!
//! A program that embeds Posthaste enqueues inside its own transaction and runs a worker beside its own work: see
//! `examples/embedded.rs`.
#![forbid(unsafe_code)]

mod configured;
mod instance;
mod wiring;

pub mod config;
pub mod service;

pub use instance::{
    DispatchError, OpenError, Options, PAYLOAD_BYTES_MAX_DEFAULT, Posthaste, RunningWorker, StartError,
};
pub use posthaste_domain as domain;
pub use posthaste_engine as engine;
pub use posthaste_sender as sender;
pub use posthaste_store as store;
pub use posthaste_store_postgres as store_postgres;
pub use posthaste_store_sqlite as store_sqlite;
pub use wiring::{Database, DatabaseError, Migrated, Opened, authorities};
