//! Deliveries through an egress proxy, and what the proxy learns about them.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[path = "proxy/server.rs"]
mod server;

#[expect(dead_code, reason = "these tests need only a part of the receiver")]
#[path = "delivery/receiver.rs"]
mod receiver;

#[path = "proxy/delivery.rs"]
mod delivery;
#[path = "proxy/environment.rs"]
mod environment;
#[path = "proxy/refusal.rs"]
mod refusal;
