//! The lines of the destinations: what is pending and has no lease, in the order in which claims take it.
//!
//! First attempts stand in `webhook_ready`, retries in `webhook_retries`, and an event under a lease in neither; but for
//! spent rows of first attempts, which are below their destination's `ready_from` and which nobody looks at.

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::row;

/// An event's place in its line: where it stands, or would stand without its lease.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) key: EventKey,
    pub(crate) destination: DestinationId,
    pub(crate) attempts: u32,
    pub(crate) due: Timestamp,
    pub(crate) requeued_at: Option<Timestamp>,
}

/// The columns of `webhook_queue` that [`Place::of`] reads, in its order.
macro_rules! place_columns {
    () => {
        "id, destination_id, attempts, next_attempt_at, requeued_at"
    };
}
pub(crate) use place_columns;

impl Place {
    pub(crate) fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: EventKey(row.get(0)?),
            destination: DestinationId(row.get(1)?),
            attempts: row.get(2)?,
            due: row::moment(row, 3)?,
            requeued_at: row::optional_moment(row, 4)?,
        })
    }

    pub(crate) fn is_retry(&self) -> bool {
        self.attempts > 0
    }
}

/// Whoever puts a retry into its line also tells its destination, with [`News::retry`].
///
/// [`News::retry`]: crate::destination::News::retry
pub(crate) fn put(db: &Connection, place: &Place) -> rusqlite::Result<()> {
    if place.is_retry() {
        db.prepare_cached(
            "INSERT INTO webhook_retries (destination_id, next_attempt_at, id) VALUES (?1, ?2, ?3)",
        )?
        .execute((place.destination.0, place.due.as_micros(), place.key.0))?;
    } else {
        remove_spent(db, place)?;
        db.prepare_cached("INSERT INTO webhook_ready (destination_id, id, requeued_at) VALUES (?1, ?2, ?3)")?
            .execute((place.destination.0, place.key.0, place.requeued_at.map(Timestamp::as_micros)))?;
    }
    Ok(())
}

/// Makes way for a first attempt that goes back to where rows are spent, among them maybe its own.
fn remove_spent(db: &Connection, place: &Place) -> rusqlite::Result<()> {
    let reset = db
        .prepare_cached(
            "DELETE FROM webhook_ready
             WHERE destination_id = ?1
               AND id < (SELECT ready_from FROM webhook_destinations WHERE id = ?1 AND ready_from > ?2)",
        )?
        .execute((place.destination.0, place.key.0))?;
    if reset > 0 {
        spend(db, place.destination, 0, 0)?;
    }
    Ok(())
}

/// Says from where on a destination's first attempts are in line, and how many rows before that are spent.
pub(crate) fn spend(
    db: &Connection,
    destination: DestinationId,
    ready_from: i64,
    ready_spent: i64,
) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE webhook_destinations SET ready_from = ?2, ready_spent = ?3 WHERE id = ?1")?
        .execute((destination.0, ready_from, ready_spent))?;
    Ok(())
}

pub(crate) fn remove(db: &Connection, place: &Place) -> rusqlite::Result<()> {
    if place.is_retry() {
        db.prepare_cached(
            "DELETE FROM webhook_retries WHERE destination_id = ?1 AND next_attempt_at = ?2 AND id = ?3",
        )?
        .execute((place.destination.0, place.due.as_micros(), place.key.0))?;
    } else {
        db.prepare_cached("DELETE FROM webhook_ready WHERE destination_id = ?1 AND id = ?2")?
            .execute((place.destination.0, place.key.0))?;
    }
    Ok(())
}

/// A pending event's place and, if it is under a lease, that lease's claim.
pub(crate) fn find(db: &Connection, key: EventKey) -> rusqlite::Result<Option<(Place, Option<i64>)>> {
    db.prepare_cached(concat!("SELECT ", place_columns!(), ", lease_claim FROM webhook_queue WHERE id = ?1"))?
        .query_row([key.0], |row| Ok((Place::of(row)?, row.get(5)?)))
        .optional()
}
