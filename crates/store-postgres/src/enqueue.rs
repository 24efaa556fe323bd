//! Stores new events.
//!
//! ```text
//! Store::enqueue ─► batch: queue ─► write: one transaction per batch ─► insert, after deduplicate where needed
//!                      │                          │ blocked by another client's row lock
//!                      └────► contention ◄────────┘ (retried apart from the batches)
//! enqueue_in ─► insert, in the caller's own transaction
//! ```
//!
//! One statement inserts every event of a batch, of all its requests. Requests with an idempotency key or a chosen event
//! id are checked for duplicates first, in the same transaction.

mod batch;
mod contention;
mod deduplicate;
mod destination_ids;
#[cfg(test)]
mod fake_writer;
mod insert;
mod insert_sql;
mod lock_wait;
mod transaction;
mod write;

use std::sync::{Arc, Weak};

use crate::StoreState;

pub(crate) use transaction::enqueue_with;
pub use transaction::{CallerError, enqueue_in, enqueue_in_schema};

pub(crate) use batch::{EnqueueQueue, QueueReceiver};
pub(crate) use destination_ids::DestinationIds;
pub(crate) use insert::{MessageIds, insert_in_transaction};

/// Writes the requests of the store's queue until the store is dropped.
pub(crate) async fn run(store: Weak<StoreState>, queue: QueueReceiver) {
    batch::run(Arc::new(store), queue).await;
}
