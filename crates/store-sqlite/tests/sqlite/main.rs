//! What this store promises beyond the conformance suite.
#![expect(
    clippy::unwrap_used,
    reason = "what helpers of tests unwrap fails the test, as in the tests themselves"
)]

mod bookkeeping;
mod closing;
mod deliveries_view;
mod open;
mod own_transaction;
mod processes;
mod support;
mod waiting;
