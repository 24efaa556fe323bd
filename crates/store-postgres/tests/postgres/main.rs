//! Tests of behaviour that only PostgreSQL has: enqueueing in callers' transactions and in SQL, query plans, and broken
//! connections.
//!
//! One binary runs all of them, so that they share one server. Tests that stop or break a server start their own.
#![expect(clippy::unwrap_used, reason = "a failed setup step is a clear enough failure of its test")]

mod fixture;
#[path = "../support/mod.rs"]
mod support;

mod activity;
mod caller_transaction;
mod clock_steps;
mod connection;
mod contention;
mod deliveries_view;
mod durability;
mod failover;
mod first_sweep;
mod large_payloads;
mod late_commits;
mod late_results;
mod lost_replies;
mod migrations;
mod notices;
mod order_changes;
mod plans;
mod pooler;
mod publish_function;
mod registry_fixture;
mod retention;
mod schemas;
mod sql_function;
mod sql_refusals;
mod stalls;
mod tls;
mod unused_destinations;
mod url_form;
mod wake;
mod watermark;
mod write_check;
