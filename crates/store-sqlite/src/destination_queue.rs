//! The queues of the destinations: pending events without a lease, in the order in which claims take them.
//!
//! First attempts are in `webhook_first_attempts`, those that their producer deferred in `webhook_deferred`, retries in
//! `webhook_retries`, and an event with a lease is in none of them. The exception are consumed rows: first attempts below their destination's `first_attempts_head`, which
//! every reader skips.

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::row;
use crate::totals;

/// An event's entry in the queue of its destination, or the entry it would have without its lease.
#[derive(Clone, Copy)]
pub(crate) struct QueueEntry {
    pub(crate) key: EventKey,
    pub(crate) destination: DestinationId,
    pub(crate) attempts: u32,
    pub(crate) due: Timestamp,
    pub(crate) requeued_at: Option<Timestamp>,
    /// Whether the producer deferred the event, and no worker has leased it yet.
    pub(crate) is_deferred: bool,
    /// Whether the destination is an endpoint.
    pub(crate) is_of_endpoint: bool,
}

/// The columns of `webhook_queue` that [`QueueEntry::from_row`] reads, in its order.
macro_rules! queue_entry_columns {
    () => {
        "id, destination_id, attempts, next_attempt_at, requeued_at,
         attempts = 0 AND claims = 0 AND requeued_at IS NULL AND next_attempt_at > updated_at, app_id > 0"
    };
}
pub(crate) use queue_entry_columns;

impl QueueEntry {
    /// The number of columns of `queue_entry_columns!`.
    pub(crate) const COLUMNS: usize = 7;

    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: EventKey(row.get(0)?),
            destination: DestinationId(row.get(1)?),
            attempts: row.get(2)?,
            due: row::timestamp(row, 3)?,
            requeued_at: row::optional_timestamp(row, 4)?,
            is_deferred: row.get(5)?,
            is_of_endpoint: row.get(6)?,
        })
    }

    pub(crate) fn is_retry(&self) -> bool {
        self.attempts > 0
    }
}

/// Inserts an event into the queue of its destination. For a retry the caller must also lower the destination's
/// `earliest_retry_at`, with [`DestinationUpdates::add_retry`]. For a deferred event this function lowers
/// `earliest_deferred_at`.
///
/// [`DestinationUpdates::add_retry`]: crate::destination::DestinationUpdates::add_retry
pub(crate) fn insert(db: &Connection, entry: &QueueEntry) -> rusqlite::Result<()> {
    if entry.is_deferred {
        insert_deferred(db, entry.key, entry.destination, entry.due)?;
    } else if entry.is_retry() {
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

/// Queues a new event that is due later, and counts it.
pub(crate) fn insert_deferred(
    db: &Connection,
    key: EventKey,
    destination: DestinationId,
    due: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_deferred (destination_id, next_attempt_at, id) VALUES (?1, ?2, ?3)",
    )?
    .execute((destination.0, due.as_micros(), key.0))?;
    db.prepare_cached(
        "UPDATE webhook_destinations SET earliest_deferred_at = ?2
         WHERE id = ?1 AND (earliest_deferred_at IS NULL OR earliest_deferred_at > ?2)",
    )?
    .execute((destination.0, due.as_micros()))?;
    totals::count_deferred(db, 1)
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
        set_first_attempts_head(db, entry.destination, QueueHead::default())?;
    }
    Ok(())
}

/// The position up to which claims have consumed the first attempts of a destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueHead {
    /// The lowest key that claims still read.
    pub(crate) key: i64,
    /// The number of consumed rows below it.
    pub(crate) consumed: i64,
}

/// Stores up to where claims have consumed a destination's first attempts.
pub(crate) fn set_first_attempts_head(
    db: &Connection,
    destination: DestinationId,
    head: QueueHead,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_destinations SET first_attempts_head = ?2, first_attempts_consumed = ?3 WHERE id = ?1",
    )?
    .execute((destination.0, head.key, head.consumed))?;
    Ok(())
}

/// Removes an event without a lease from the queue of its destination.
pub(crate) fn remove(db: &Connection, entry: &QueueEntry) -> rusqlite::Result<()> {
    if entry.is_deferred {
        let removed = db
            .prepare_cached(
                "DELETE FROM webhook_deferred WHERE destination_id = ?1 AND next_attempt_at = ?2 AND id = ?3",
            )?
            .execute((entry.destination.0, entry.due.as_micros(), entry.key.0))?;
        totals::count_deferred(db, -i64::try_from(removed).unwrap_or(0))?;
    } else if entry.is_retry() {
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
    .query_row([key.0], |row| Ok((QueueEntry::from_row(row)?, row.get(QueueEntry::COLUMNS)?)))
    .optional()
}
