//! The conformance suite: test cases that every store must pass.
//!
//! An adapter implements [`Harness`] and calls [`conformance_suite!`]. Each case becomes a test on a new, empty
//! store. To add a case, write an `async fn` in the file of its topic and add its name to the list in `suite.rs`.
//!
//! Cases call a store only through the port, and compare only timestamps that the store has written. Therefore they
//! work with a manual clock and with the clock of a database server.
#![forbid(unsafe_code)]

#[macro_use]
mod suite;

mod fixture;
mod harness;
mod registry_fixture;

mod activity;
mod answers;
mod applications;
mod attempt_lists;
mod bulk;
mod cancel;
mod claim;
mod claim_bytes;
mod clock_step;
mod deliver_at;
mod destination;
mod destination_keys;
mod destinations;
mod disable;
mod discard;
mod endpoints;
mod enqueue;
mod enqueue_lease;
mod event_types;
mod expire;
mod fan_out;
mod fence;
mod fifo;
mod health;
mod idempotency;
mod late_result;
mod lease;
mod maintain;
mod message_lists;
mod notices;
mod operations;
mod overview;
mod page;
mod pause;
mod payload;
mod probe;
mod repeated_action;
mod repeated_claim;
mod replay;
mod requeue;
mod resend;
mod search;
mod secrets;
mod settle;
mod takeover;
mod throttle;
mod unused_destination;

pub use harness::Harness;

conformance_suite! { @list __conformance_cases }
