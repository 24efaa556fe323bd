//! A PostgreSQL server of one's own, for tests and benchmarks.
//!
//! It lives in a temporary directory, listens on a loopback port and a socket that nobody else uses, and is gone when
//! the process that started it is: also when that panics or is killed. No other server is ever touched.
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
pub use server::{FOR_TESTS, PostgresServer, StartError, StopMode, free_ports};
