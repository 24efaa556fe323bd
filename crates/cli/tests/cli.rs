//! The built command as people and scripts use it: its output and its exit codes.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "support/child.rs"]
mod child;
#[path = "cli/command.rs"]
mod command;
#[path = "cli/fake_api.rs"]
mod fake_api;

#[path = "cli/destinations.rs"]
mod destinations;
#[path = "cli/dlq.rs"]
mod dlq;
#[path = "cli/events.rs"]
mod events;
#[path = "cli/listen.rs"]
mod listen;
#[path = "cli/registry.rs"]
mod registry;
#[path = "cli/send.rs"]
mod send;
#[path = "cli/server.rs"]
mod server;
#[path = "cli/tls.rs"]
mod tls;
#[path = "cli/usage.rs"]
mod usage;
