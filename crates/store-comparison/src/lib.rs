//! Comparison of a store with the reference model, by random sequences of operations.
//!
//! Each sequence runs on the examined store and on a [`MemoryStore`](posthaste_store_memory::MemoryStore), the model.
//! Every result is compared, and after every step all state that the port shows. A sequence on which the two differ is
//! shrunk, and reported step by step.
//!
//! ```text
//! generate ─► Operation ─► SequenceRun ─► compare_state
//!  random      plain data   runs on both   after each step
//! ```
//!
//! - **Ids.** The store and the model generate their own ids; ids of the same thing are paired when they first occur
//!   (`id_map.rs`).
//! - **Time.** The examined store's clock may advance in real time. Durations are chosen so that nothing expires close to a
//!   comparison (`durations.rs`), and timestamps are compared with a tolerance (`clock_offset.rs`).
//! - **Registry.** Half of the sequences also call the registry of applications and endpoints (`registry.rs`).
//! - **Bulk operations and activity.** Sequences of all calls also start bulk operations and step them (`bulk.rs`), and report what
//!   workers did (`activity.rs`).
//! - **Choice.** A store decides which claimable events a claim takes. The choice must respect the limits and use them
//!   up; then the model grants the same events (`claim.rs`).
#![forbid(unsafe_code)]

mod activity;
mod bulk;
mod clock_offset;
mod comparison;
mod destination;
mod difference;
mod durations;
mod generate;
mod id_map;
mod operation;
mod registry;
mod sequence_run;
mod tally;

mod claim;
mod compare_state;
mod enqueue;
mod expire;
mod lease;
mod maintain;
mod notices;
mod operate;
mod page;
mod settle;

pub use comparison::{Comparison, Divergence};
pub use tally::Tally;
