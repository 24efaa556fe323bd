//! Deliveries through an egress proxy, and what the proxy gets to know.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

#[path = "proxy/server.rs"]
mod server;

#[expect(dead_code, reason = "not everything that a receiver notices matters here")]
#[path = "delivery/receiver.rs"]
mod receiver;

#[path = "proxy/delivery.rs"]
mod delivery;
#[path = "proxy/environment.rs"]
mod environment;
#[path = "proxy/refusal.rs"]
mod refusal;
