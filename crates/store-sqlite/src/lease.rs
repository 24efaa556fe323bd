//! Extending leases and giving them back, each fenced by its token.

use std::time::Duration;

use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::HeldLease;
use rusqlite::{Connection, OptionalExtension as _};

use crate::destination::News;
use crate::fault::Fault;
use crate::row;

/// An expired lease that nobody took over is still its holder's to extend.
pub(crate) fn renew(
    db: &Connection,
    now: Timestamp,
    held: &[HeldLease],
    lease: Duration,
) -> Result<Vec<HeldLease>, Fault> {
    let until = now.after(lease).as_micros();
    let mut extend = db.prepare_cached(
        "UPDATE webhook_outbox_events
         SET lease_until = ?3
         WHERE id = ?1 AND lease_token = ?2",
    )?;
    let mut lost = Vec::new();
    for held in held {
        if extend.execute((held.key.0, held.token.as_uuid().into_bytes(), until))? == 0 {
            lost.push(*held);
        }
    }
    Ok(lost)
}

pub(crate) fn release(db: &Connection, now: Timestamp, held: &[HeldLease]) -> Result<(), Fault> {
    let mut give_back = db.prepare_cached(
        "UPDATE webhook_outbox_events
         SET lease_token = NULL, lease_claim = NULL, lease_owner = NULL, lease_until = NULL, updated_at = ?3
         WHERE id = ?1 AND lease_token = ?2
         RETURNING destination_id, attempts, next_attempt_at",
    )?;
    let mut news = News::default();
    for held in held {
        let given_back = give_back
            .query_row((held.key.0, held.token.as_uuid().into_bytes(), now.as_micros()), |row| {
                Ok((DestinationId(row.get(0)?), row.get(1)?, row::moment(row, 2)?))
            })
            .optional()?;
        if let Some((destination, 1_u32.., due)) = given_back {
            news.retry(destination, due);
        }
    }
    news.write(db, now)?;
    Ok(())
}
