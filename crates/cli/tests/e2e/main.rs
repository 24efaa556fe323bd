//! The built binary, end to end and on each store: processes that are started, killed and stopped, receivers on loopback that
//! record what they get, and nothing in between.
//!
//! Every run is held to one promise beside its own: neither a payload nor a secret shows in anything that it prints,
//! and no answer of the API carries a payload.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]
#![expect(clippy::needless_pass_by_value, reason = "a test has its home to itself, and may change it")]

#[macro_use]
mod stage;

mod api;
mod beside;
mod cancelling;
mod commands;
mod configuration;
mod crashes;
mod delivery;
mod disk;
mod doctor;
mod metrics;
mod operating;
mod outage;
mod receivers;
mod refusals;
mod requeueing;
mod restarts;
mod schedule;
mod stopping;
mod stream;
mod telemetry;
