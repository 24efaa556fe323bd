//! One list of cases that every store must pass.
//!
//! An adapter implements [`Harness`] and calls [`conformance_suite!`]; each case becomes a test of its own on a fresh
//! store. To add a case, write one `async fn` in the file that it belongs to and one line in the list in `suite.rs`.
//!
//! Cases look at a store only through the port, and at time only through differences between the moments that it
//! has stored, so that they mean the same under a clock that stands still and under a database server's own.
#![forbid(unsafe_code)]

#[macro_use]
mod suite;

mod fixture;
mod harness;

mod cancel;
mod claim;
mod claim_again;
mod destination;
mod enqueue;
mod fence;
mod idempotency;
mod lease;
mod maintain;
mod notices;
mod overview;
mod page;
mod requeue;
mod secrets;
mod settle;
mod takeover;
mod vitals;

pub use harness::Harness;

conformance_suite! { @list __conformance_cases }
