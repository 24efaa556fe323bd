//! A private PostgreSQL server for tests and benchmarks.
//!
//! The server has a temporary directory, a loopback port and a socket of its own. It is stopped and removed when the
//! process that started it ends, even by a panic or a kill. No other server is affected.
//!
//! ```no_run
//! use posthaste_postgres_server::PostgresServer;
//!
//! let server = PostgresServer::shared();
//! let database = server.create_database("orders");
//! assert_eq!(server.psql(&database.name, "SELECT 1").unwrap(), "1");
//! ```
#![forbid(unsafe_code)]

mod command;
mod database;
mod install;
mod server;
mod standby;
mod supervisor;

pub use command::CommandError;
pub use database::Database;
pub use server::{PostgresServer, StartError, StopMode, TEST_SETTINGS, free_ports};
