//! The log of what became of events.
//!
//! Commits follow one another, so that the order of the ids is the order in which notices become visible. An id is
//! never used again, whatever retention removes.

use posthaste_domain::{EventId, EventKey, Notice, NoticeKind, Timestamp};
use posthaste_store::{NoticeCursor, NoticePage, PublishedNotice};
use rusqlite::{Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::row;

/// Tells of a row that has just come to its end, in the transaction that brought it there.
pub(crate) fn publish(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    kind: NoticeKind,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_notices (kind, event_id, webhook_id, session_id, payment_request_id, attempts, at)
         SELECT ?2, event_id, webhook_id, session_id, payment_request_id, attempts, ?3
         FROM webhook_outbox_events
         WHERE id = ?1",
    )?
    .execute((key.0, kind.as_str(), now.as_micros()))?;
    Ok(())
}

/// Tells of the rows that the attempts after this one brought to their end, in the order of the attempts. One statement
/// for a whole batch, because SQLite keeps the last id of the log once per statement.
pub(crate) fn publish_attempts_after(db: &Connection, now: Timestamp, attempt: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_notices (kind, event_id, webhook_id, session_id, payment_request_id, attempts, at)
         SELECT CASE e.delivery_status WHEN 'delivered' THEN ?3 ELSE ?4 END,
                e.event_id, e.webhook_id, e.session_id, e.payment_request_id, e.attempts, ?2
         FROM webhook_attempts a
         CROSS JOIN webhook_outbox_events e ON e.id = a.event_key
         WHERE a.id > ?1 AND e.delivery_status <> 'pending'
         ORDER BY a.id",
    )?
    .execute((attempt, now.as_micros(), NoticeKind::Delivered.as_str(), NoticeKind::DeadLettered.as_str()))?;
    Ok(())
}

pub(crate) fn notices(
    db: &Connection,
    after: Option<NoticeCursor>,
    limit: usize,
) -> Result<NoticePage, Fault> {
    let Some(after) = after else {
        return Ok(NoticePage { notices: Vec::new(), cursor: end_of_log(db)? });
    };
    let mut found = db.prepare_cached(
        "SELECT id, kind, event_id, webhook_id, session_id, payment_request_id, attempts, at
         FROM webhook_notices
         WHERE id > ?1
         ORDER BY id LIMIT ?2",
    )?;
    let rows = found.query_map((after.minor, i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
        Ok(PublishedNotice {
            cursor: cursor(row.get(0)?),
            notice: Notice {
                kind: row::word(row, 1, NoticeKind::from_word)?,
                event_id: EventId::stored(row.get(2)?),
                webhook_id: row.get(3)?,
                session_id: row.get(4)?,
                payment_request_id: row.get(5)?,
                attempts: row.get(6)?,
                at: row::moment(row, 7)?,
            },
        })
    })?;
    let notices = rows.collect::<Result<Vec<_>, _>>()?;
    let cursor = notices.last().map_or(after, |last| last.cursor);
    Ok(NoticePage { notices, cursor })
}

/// The last id that was ever given, kept by SQLite beyond the row itself.
fn end_of_log(db: &Connection) -> rusqlite::Result<NoticeCursor> {
    let last = db
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'webhook_notices'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(cursor(last.unwrap_or(0)))
}

fn cursor(id: i64) -> NoticeCursor {
    NoticeCursor { major: 0, minor: id }
}
