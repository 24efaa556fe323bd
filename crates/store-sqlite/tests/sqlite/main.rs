//! Tests of what the SQLite store guarantees beyond the conformance suite.
#![expect(
    clippy::unwrap_used,
    reason = "an unwrap in a test helper fails the test, as in the tests themselves"
)]

mod activity;
mod bookkeeping;
mod closing;
mod damage;
mod deliveries_view;
mod enqueue_in_transaction;
mod enqueue_view;
mod lost_file;
mod open;
mod processes;
mod publish_view;
mod registry;
mod registry_support;
mod saturated_hosts;
mod support;
mod timeouts;
mod write_ahead_log;
