//! What PostgreSQL brings beyond the port: transactions of callers, SQL, plans, connections that break.
//!
//! One binary, so that all of it shares one server; tests that hurt their server start one of their own.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

mod fixture;
#[path = "../support/mod.rs"]
mod support;

mod caller_transaction;
mod connection;
mod contention;
mod deliveries_view;
mod failover;
mod late_commits;
mod migrations;
mod notices;
mod oldest;
mod plans;
mod pooler;
mod retention;
mod sql_function;
mod sql_refusals;
mod stalls;
mod tls;
mod url_form;
