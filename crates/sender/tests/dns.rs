//! Lookups at a DNS server that can misbehave in every way.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[path = "dns/server.rs"]
mod server;

#[expect(dead_code, reason = "these tests need only a part of the receiver")]
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
