//! End-to-end tests of the built binary on each store. The tests start, stop and kill real processes, and receivers on
//! loopback record the requests.
//!
//! Every test also checks that no process prints a payload or a secret, and that no API response contains a payload.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
#![expect(clippy::needless_pass_by_value, reason = "each test owns its sandbox and may change it")]

#[macro_use]
mod harness;

mod api;
mod bulk;
mod canary;
mod cancel;
mod clock_skew;
mod commands;
mod configuration;
mod crash;
mod database_outage;
mod database_schema;
mod delivery;
mod disk;
mod doctor;
mod endpoint_commands;
mod external_writes;
mod metrics;
mod notice_stream;
mod operator_commands;
mod receivers;
mod refused_starts;
mod refused_writes;
mod requeue;
mod restart;
mod schedule;
mod secret_rotation;
mod shutdown;
mod telemetry;
