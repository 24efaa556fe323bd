//! Tests of the API through its router. Cases whose result depends on the store run on every store.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod test_api;

mod access;
mod actions;
mod activity;
mod bodies;
mod body_limits;
mod bulk;
mod content;
mod dead_letters;
mod destinations;
mod diagnosis;
mod document;
mod enqueue;
mod errors;
mod events;
mod health;
mod idempotency;
mod local;
mod metrics;
mod overview;
mod payload;
mod producers;
mod reference;
mod stream;
