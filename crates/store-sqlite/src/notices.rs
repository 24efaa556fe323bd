//! The log of what became of events.
//!
//! A batch is one row with an entry for each of its outcomes, packed. Commits follow one another, so that the order of
//! the rows is the order in which notices become visible. A row's id is never used again, whatever retention removes.
//!
//! Entries of outcomes that lead to a retry are no notices; they are there for retention, which finds old attempts and
//! old deliveries here in the order in which they were written. An event goes when the entry of its delivery does, and
//! so never before the last notice of it.

use posthaste_domain::{EventId, EventKey, Notice, NoticeKind, Timestamp};
use posthaste_store::{NoticeCursor, NoticePage, PublishedNotice};
use rusqlite::{Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::row;

/// What became of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: EventKey,
    /// None when there will be another attempt.
    pub(crate) kind: Option<NoticeKind>,
    pub(crate) attempts: u32,
    /// The lease under which the outcome was recorded, counted from one; zero when there was no attempt.
    pub(crate) lease: u32,
}

/// Big-endian key, letter of the kind, attempts, lease.
const ENTRY_BYTES: usize = 17;

impl Entry {
    pub(crate) fn without_attempt(key: EventKey, kind: NoticeKind, attempts: u32) -> Self {
        Self { key, kind: Some(kind), attempts, lease: 0 }
    }

    fn packed(self) -> [u8; ENTRY_BYTES] {
        let mut packed = [0; ENTRY_BYTES];
        packed[..8].copy_from_slice(&self.key.0.to_be_bytes());
        packed[8] = match self.kind {
            None => b'r',
            Some(NoticeKind::Delivered) => b'd',
            Some(NoticeKind::DeadLettered) => b'f',
        };
        packed[9..13].copy_from_slice(&self.attempts.to_be_bytes());
        packed[13..].copy_from_slice(&self.lease.to_be_bytes());
        packed
    }

    fn unpacked(packed: &[u8; ENTRY_BYTES]) -> Self {
        let (key, rest) = packed.split_first_chunk().expect("an entry is longer than its key");
        let (attempts, lease) = rest[1..].split_first_chunk().expect("an entry is longer than its attempts");
        let lease = lease.first_chunk().expect("an entry ends with its lease");
        Self {
            key: EventKey(i64::from_be_bytes(*key)),
            kind: match rest[0] {
                b'd' => Some(NoticeKind::Delivered),
                b'f' => Some(NoticeKind::DeadLettered),
                _ => None,
            },
            attempts: u32::from_be_bytes(*attempts),
            lease: u32::from_be_bytes(*lease),
        }
    }
}

/// The entries of a batch, written in the transaction that made them true.
#[derive(Default)]
pub(crate) struct Entries(Vec<u8>);

impl Entries {
    pub(crate) fn push(&mut self, entry: &Entry) {
        self.0.extend(entry.packed());
    }

    pub(crate) fn write(&self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        if !self.0.is_empty() {
            db.prepare_cached("INSERT INTO webhook_notices (at, entries) VALUES (?1, ?2)")?
                .execute((now.as_micros(), &self.0))?;
        }
        Ok(())
    }
}

/// With the place of each in its row.
pub(crate) fn unpacked(entries: &[u8]) -> impl Iterator<Item = (i64, Entry)> {
    let (entries, _) = entries.as_chunks();
    (0..).zip(entries.iter().map(Entry::unpacked))
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
        "SELECT id, at, gone, entries
         FROM webhook_notices
         WHERE id >= ?1
         ORDER BY id",
    )?;
    let mut rows = found.query([after.major])?;
    let mut notices = Vec::new();
    // Over rows that tell of retries only, so that nobody reads them twice.
    let mut stepped_to = after;
    while notices.len() < limit
        && let Some(row) = rows.next()?
    {
        let (major, at, gone) = (row.get(0)?, row::moment(row, 1)?, row.get(2)?);
        for (minor, entry) in unpacked(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?) {
            let cursor = NoticeCursor { major, minor };
            if let Some(kind) = entry.kind
                && minor >= gone
                && cursor > after
                && notices.len() < limit
            {
                let References { event_id, webhook_id, session_id, payment_request_id } =
                    references(db, entry.key)?;
                let attempts = entry.attempts;
                let notice =
                    Notice { kind, event_id, webhook_id, session_id, payment_request_id, attempts, at };
                notices.push(PublishedNotice { cursor, notice });
            }
        }
        stepped_to = stepped_to.max(NoticeCursor { major, minor: i64::MAX });
    }
    let cursor = notices.last().map_or(stepped_to, |last| last.cursor);
    Ok(NoticePage { notices, cursor })
}

/// What an event never changes of what is told of it.
struct References {
    event_id: EventId,
    webhook_id: Option<String>,
    session_id: Option<String>,
    payment_request_id: Option<String>,
}

fn references(db: &Connection, key: EventKey) -> rusqlite::Result<References> {
    db.prepare_cached(
        "SELECT event_id, webhook_id, session_id, payment_request_id FROM webhook_events WHERE id = ?1",
    )?
    .query_row([key.0], |row| {
        Ok(References {
            event_id: EventId::stored(row.get(0)?),
            webhook_id: row.get(1)?,
            session_id: row.get(2)?,
            payment_request_id: row.get(3)?,
        })
    })
}

/// Behind the last row that was ever written; SQLite keeps its id beyond the row itself.
fn end_of_log(db: &Connection) -> rusqlite::Result<NoticeCursor> {
    let last: Option<i64> = db
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'webhook_notices'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(NoticeCursor { major: last.unwrap_or(0), minor: i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_as_they_went_in() {
        let entry = |kind| Entry { key: EventKey(1 << 40), kind, attempts: 7, lease: 300 };
        let told = [None, Some(NoticeKind::Delivered), Some(NoticeKind::DeadLettered)].map(entry);
        let mut entries = Entries::default();
        told.iter().for_each(|entry| entries.push(entry));
        assert!(unpacked(&entries.0).eq((0..).zip(told)));
    }
}
