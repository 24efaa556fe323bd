//! Names, looked up at a DNS server that can be told to do anything.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

#[path = "dns/server.rs"]
mod server;

#[expect(dead_code, reason = "not everything that a receiver notices matters here")]
#[path = "delivery/receiver.rs"]
mod receiver;

#[path = "dns/answers.rs"]
mod answers;
#[path = "dns/caching.rs"]
mod caching;
#[path = "dns/delivery.rs"]
mod delivery;
#[path = "dns/failures.rs"]
mod failures;
