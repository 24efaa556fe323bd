//! Tests of the registry's API through its router, on the memory store.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod fixture;

mod access;
mod applications;
mod attempts;
mod document;
mod endpoints;
mod errors;
mod event_types;
mod foreign_tokens;
mod headers;
mod idempotency;
mod limits;
mod messages;
mod operations;
mod operators;
mod portal;
mod secrets;
