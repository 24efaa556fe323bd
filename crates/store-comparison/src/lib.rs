//! Random operations on a store and on the reference model, side by side.
//!
//! A sequence of operations is made up by chance and done to both: to the store that is examined, and to a
//! [`MemoryStore`](posthaste_store_memory::MemoryStore). Every answer is compared, and after every step everything that
//! the port shows. A sequence on which they differ is shrunk to a shortest one and told step by step.
//!
//! ```text
//! generate ─► Operation ─► Pair ─► look
//!  by chance   plain data   done    compared
//!                           twice
//! ```
//!
//! - **Names.** Each of the two makes its own ids; whatever belongs together is paired when it is first met (`names.rs`).
//! - **Time.** The examined store's clock may run on by itself. Durations are such that nothing expires near a moment
//!   at which it is looked at (`lengths.rs`), and moments are compared with a tolerance (`moments.rs`).
//! - **Choice.** Which claimable events a claim takes is the store's own business. It must be a legal and a full choice;
//!   then the model follows it (`claim.rs`).
#![forbid(unsafe_code)]

mod comparison;
mod difference;
mod generate;
mod lengths;
mod moments;
mod names;
mod operation;
mod pair;
mod tally;

mod claim;
mod enqueue;
mod lease;
mod look;
mod maintain;
mod notices;
mod operate;
mod page;
mod settle;

pub use comparison::{Comparison, Divergence};
pub use tally::Tally;
