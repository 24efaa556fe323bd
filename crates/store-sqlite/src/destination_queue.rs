//! The queues of the destinations: pending events without a lease, in the order in which claims take them.
//!
//! First attempts are in `webhook_first_attempts`, retries in `webhook_retries`, and an event with a lease is in
//! neither. The exception are consumed rows: first attempts below their destination's `first_attempts_head`, which
//! every reader skips.

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::row;

/// An event's entry in the queue of its destination, or the entry it would have without its lease.
#[derive(Clone, Copy)]
pub(crate) struct QueueEntry {
    pub(crate) key: EventKey,
    pub(crate) destination: DestinationId,
    pub(crate) attempts: u32,
    pub(crate) due: Timestamp,
    pub(crate) requeued_at: Option<Timestamp>,
}

/// The columns of `webhook_queue` that [`QueueEntry::from_row`] reads, in its order.
macro_rules! queue_entry_columns {
    () => {
        "id, destination_id, attempts, next_attempt_at, requeued_at"
    };
}
pub(crate) use queue_entry_columns;

impl QueueEntry {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: EventKey(row.get(0)?),
            destination: DestinationId(row.get(1)?),
            attempts: row.get(2)?,
            due: row::timestamp(row, 3)?,
            requeued_at: row::optional_timestamp(row, 4)?,
        })
    }

    pub(crate) fn is_retry(&self) -> bool {
        self.attempts > 0
    }
}

/// Inserts an event into the queue of its destination. For a retry the caller must also lower the destination's
/// `earliest_retry_at`, with [`DestinationUpdates::add_retry`].
///
/// [`DestinationUpdates::add_retry`]: crate::destination::DestinationUpdates::add_retry
pub(crate) fn insert(db: &Connection, entry: &QueueEntry) -> rusqlite::Result<()> {
    if entry.is_retry() {
        db.prepare_cached(
            "INSERT INTO webhook_retries (destination_id, next_attempt_at, id) VALUES (?1, ?2, ?3)",
        )?
        .execute((entry.destination.0, entry.due.as_micros(), entry.key.0))?;
    } else {
        remove_consumed(db, entry)?;
        db.prepare_cached(
            "INSERT INTO webhook_first_attempts (destination_id, id, requeued_at) VALUES (?1, ?2, ?3)",
        )?
        .execute((entry.destination.0, entry.key.0, entry.requeued_at.map(Timestamp::as_micros)))?;
    }
    Ok(())
}

/// Deletes the consumed rows of a destination if the entry's key lies below the head, where claims would skip the
/// entry. One of the deleted rows may be an old row of the same event.
fn remove_consumed(db: &Connection, entry: &QueueEntry) -> rusqlite::Result<()> {
    let removed = db
        .prepare_cached(
            "DELETE FROM webhook_first_attempts
             WHERE destination_id = ?1
               AND id < (SELECT first_attempts_head FROM webhook_destinations
                         WHERE id = ?1 AND first_attempts_head > ?2)",
        )?
        .execute((entry.destination.0, entry.key.0))?;
    if removed > 0 {
        set_first_attempts_head(db, entry.destination, 0, 0)?;
    }
    Ok(())
}

/// Sets the lowest key that claims still read in a destination's first attempts, and the number of consumed rows below.
pub(crate) fn set_first_attempts_head(
    db: &Connection,
    destination: DestinationId,
    head: i64,
    consumed: i64,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_destinations SET first_attempts_head = ?2, first_attempts_consumed = ?3 WHERE id = ?1",
    )?
    .execute((destination.0, head, consumed))?;
    Ok(())
}

/// Removes an event without a lease from the queue of its destination.
pub(crate) fn remove(db: &Connection, entry: &QueueEntry) -> rusqlite::Result<()> {
    if entry.is_retry() {
        db.prepare_cached(
            "DELETE FROM webhook_retries WHERE destination_id = ?1 AND next_attempt_at = ?2 AND id = ?3",
        )?
        .execute((entry.destination.0, entry.due.as_micros(), entry.key.0))?;
    } else {
        db.prepare_cached("DELETE FROM webhook_first_attempts WHERE destination_id = ?1 AND id = ?2")?
            .execute((entry.destination.0, entry.key.0))?;
    }
    Ok(())
}

/// Returns a pending event's queue entry and, if the event is leased, the number of the claim that holds the lease.
pub(crate) fn find(db: &Connection, key: EventKey) -> rusqlite::Result<Option<(QueueEntry, Option<i64>)>> {
    db.prepare_cached(concat!(
        "SELECT ",
        queue_entry_columns!(),
        ", lease_claim FROM webhook_queue WHERE id = ?1"
    ))?
    .query_row([key.0], |row| Ok((QueueEntry::from_row(row)?, row.get(5)?)))
    .optional()
}
