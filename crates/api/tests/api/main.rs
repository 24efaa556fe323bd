//! The API through its router, on every store where a store decides the answer.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

mod stage;

mod access;
mod actions;
mod bodies;
mod dead_letters;
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
mod reference;
mod stream;
