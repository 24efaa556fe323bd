//! The built binary, end to end and on each store: processes that are started, killed and stopped, receivers on loopback that
//! record what they get, and nothing in between.
//!
//! Every run is held to one promise beside its own: neither a payload nor a secret shows in anything that it prints,
//! and no answer of the API carries a payload.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

#[macro_use]
mod stage;

mod api;
mod cancelling;
mod commands;
mod configuration;
mod crashes;
mod delivery;
mod metrics;
mod outage;
mod receivers;
mod requeueing;
mod restarts;
mod schedule;
mod stopping;
mod stream;
mod telemetry;
