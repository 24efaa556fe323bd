//! The log of event results, from which notices are read.
//!
//! Each batch of results is one row with a packed entry per event. SQLite runs one write transaction at a time, so the
//! order of the rows is the order in which notices become visible. A row's id is never reused, not even after retention.
//!
//! Entries of attempts that lead to a retry, or that were not applied, are not notices. They exist for retention, which
//! finds old attempts and old deliveries in the log in the order of their commits. Retention removes a delivered event
//! together with the entry of its delivery, and so never before the event's last notice. The notices of a discarded event stay.

use posthaste_domain::{
    DestinationId, DestinationUrl, DisableReason, EndpointId, EventId, EventKey, FailureKind, Notice,
    NoticeEndpoint, NoticeKind, Timestamp,
};
use posthaste_store::{NoticeCursor, NoticePage, NoticeSubject, PublishedNotice};
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::CallError;
use crate::{row, totals};

/// One event's result: delivered, dead-lettered or to be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) key: EventKey,
    /// `None` if the event will be retried, or the attempt was not applied.
    pub(crate) kind: Option<NoticeKind>,
    pub(crate) attempts: u32,
    /// Position of the recorded attempt within its event; zero if the result had no attempt.
    pub(crate) attempt_position: u32,
}

/// Length of a packed entry: key, kind as a letter, attempts and the position of the attempt; integers are big-endian.
const ENTRY_BYTES: usize = 17;

impl LogEntry {
    /// Creates the entry of an event that was dead-lettered or cancelled without a recorded attempt.
    pub(crate) fn without_attempt(key: EventKey, kind: NoticeKind, attempts: u32) -> Self {
        Self { key, kind: Some(kind), attempts, attempt_position: 0 }
    }

    fn pack(self) -> [u8; ENTRY_BYTES] {
        let mut packed = [0; ENTRY_BYTES];
        packed[..8].copy_from_slice(&self.key.0.to_be_bytes());
        packed[8] = match self.kind {
            None => b'r',
            Some(NoticeKind::Delivered) => b'd',
            Some(NoticeKind::DeadLettered(kind)) => failure_letter(kind),
            Some(NoticeKind::EndpointDisabled(reason)) => disable_letter(reason),
        };
        packed[9..13].copy_from_slice(&self.attempts.to_be_bytes());
        packed[13..].copy_from_slice(&self.attempt_position.to_be_bytes());
        packed
    }

    fn unpack(packed: &[u8; ENTRY_BYTES]) -> Self {
        let (key, rest) = packed.split_first_chunk().expect("an entry is longer than its key");
        let (attempts, rest_after_attempts) =
            rest[1..].split_first_chunk().expect("an entry is longer than its attempts");
        let attempt_position =
            rest_after_attempts.first_chunk().expect("an entry ends with the position of its attempt");
        Self {
            key: EventKey(i64::from_be_bytes(*key)),
            kind: match rest[0] {
                b'd' => Some(NoticeKind::Delivered),
                letter => find_failure_kind(letter)
                    .map(NoticeKind::DeadLettered)
                    .or_else(|| find_disable_reason(letter).map(NoticeKind::EndpointDisabled)),
            },
            attempts: u32::from_be_bytes(*attempts),
            attempt_position: u32::from_be_bytes(*attempt_position),
        }
    }
}

/// The letter of the reason for which an endpoint was disabled, in a packed entry.
const fn disable_letter(reason: DisableReason) -> u8 {
    match reason {
        DisableReason::Manual => b'M',
        DisableReason::Gone => b'G',
        DisableReason::Failing => b'F',
    }
}

fn find_disable_reason(letter: u8) -> Option<DisableReason> {
    DisableReason::ALL.iter().copied().find(|reason| disable_letter(*reason) == letter)
}

/// The letter of a failure kind in a packed entry. It differs from `r`, a retry, and `d`, a delivery.
const fn failure_letter(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Exhausted => b'x',
        FailureKind::Cancelled => b'c',
        FailureKind::Abandoned => b'a',
        FailureKind::Gone => b'g',
        FailureKind::Expired => b'e',
    }
}

/// Returns the failure kind with this letter.
fn find_failure_kind(letter: u8) -> Option<FailureKind> {
    FailureKind::ALL.iter().copied().find(|kind| failure_letter(*kind) == letter)
}

/// The packed log entries of a batch of event results, written as one row in the transaction that changes the events.
#[derive(Default)]
pub(crate) struct LogBatch(Vec<u8>);

impl LogBatch {
    pub(crate) fn push(&mut self, entry: &LogEntry) {
        self.0.extend(entry.pack());
    }

    pub(crate) fn write(&self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        if !self.0.is_empty() {
            let id = totals::next_notice_id(db)?;
            db.prepare_cached("INSERT INTO webhook_notices (id, at, entries) VALUES (?1, ?2, ?3)")?
                .execute((id, now.as_micros(), &self.0))?;
        }
        Ok(())
    }
}

/// Unpacks the entries of a row, each with its index in the row.
pub(crate) fn unpack_entries(entries: &[u8]) -> impl Iterator<Item = (i64, LogEntry)> {
    let (entries, _) = entries.as_chunks();
    (0..).zip(entries.iter().map(LogEntry::unpack))
}

/// Returns up to `limit` notices after a cursor. Without a cursor, and with one beyond the end of the log, returns no
/// notices and the end of the log.
pub(crate) fn read_notices(
    db: &Connection,
    after: Option<NoticeCursor>,
    limit: usize,
) -> Result<NoticePage, CallError> {
    let end = end_of_log(db)?;
    let Some(after) = after.filter(|after| *after <= end) else {
        return Ok(NoticePage { notices: Vec::new(), cursor: end });
    };
    let mut found = db.prepare_cached(
        "SELECT id, at, entries_removed, entries
         FROM webhook_notices
         WHERE id >= ?1
         ORDER BY id",
    )?;
    let mut rows = found.query([after.major])?;
    let mut notices = Vec::new();
    // Also advances over rows without notices, so that the next call does not read them again.
    let mut read_up_to = after;
    while notices.len() < limit
        && let Some(row) = rows.next()?
    {
        let (major, at, entries_removed) = (row.get(0)?, row::timestamp(row, 1)?, row.get(2)?);
        for (minor, entry) in unpack_entries(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?) {
            let cursor = NoticeCursor { major, minor };
            if let Some(kind) = entry.kind
                && minor >= entries_removed
                && cursor > after
                && notices.len() < limit
                && let Some(references) = read_references(db, entry.key)?
            {
                let EventReferences {
                    event_id,
                    webhook_id,
                    session_id,
                    payment_request_id,
                    endpoint,
                    subject,
                } = references;
                let notice = Notice {
                    kind,
                    event_id,
                    webhook_id,
                    session_id,
                    payment_request_id,
                    attempts: entry.attempts,
                    at,
                    endpoint: endpoint.filter(|_| kind.disable_reason().is_some()),
                };
                notices.push(PublishedNotice { cursor, notice, subject });
            }
        }
        read_up_to = read_up_to.max(NoticeCursor { major, minor: i64::MAX });
    }
    let cursor = notices.last().map_or(read_up_to, |last| last.cursor);
    Ok(NoticePage { notices, cursor })
}

/// The fields of an event that its notices contain.
struct EventReferences {
    event_id: EventId,
    webhook_id: Option<String>,
    session_id: Option<String>,
    payment_request_id: Option<String>,
    /// `None` if the event was enqueued to a URL.
    endpoint: Option<NoticeEndpoint>,
    /// `None` if the event was discarded.
    subject: Option<NoticeSubject>,
}

/// Reads the fields of an event, also of a discarded one. Returns `None` if retention has removed the event.
fn read_references(db: &Connection, key: EventKey) -> rusqlite::Result<Option<EventReferences>> {
    db.prepare_cached(
        "SELECT e.event_id, e.webhook_id, e.session_id, e.payment_request_id, e.destination_id, e.app_id, e.event_type, d.url
         FROM webhook_events e
         JOIN webhook_destinations d ON d.id = e.destination_id
         WHERE e.id = ?1
         UNION ALL
         SELECT event_id, webhook_id, session_id, payment_request_id, destination_id, app_id, NULL, NULL
         FROM webhook_discarded_events
         WHERE id = ?1",
    )?
    .query_row([key.0], |row| {
        let id = EndpointId(DestinationId(row.get(4)?));
        let (event_type, url): (Option<String>, Option<String>) = (row.get(6)?, row.get(7)?);
        Ok(EventReferences {
            event_id: EventId::from_stored(row.get(0)?),
            webhook_id: row.get(1)?,
            session_id: row.get(2)?,
            payment_request_id: row.get(3)?,
            endpoint: row::application(row, 5)?.map(|app| NoticeEndpoint { id, app }),
            subject: event_type.zip(url).map(|(event_type, url)| NoticeSubject {
                event_type,
                destination_url: DestinationUrl::from_stored(url),
            }),
        })
    })
    .optional()
}

/// Returns the cursor after the last row ever written, which retention may have removed.
fn end_of_log(db: &Connection) -> rusqlite::Result<NoticeCursor> {
    Ok(NoticeCursor { major: totals::last_notice_id(db)?, minor: i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_entries_unpack_to_the_same_values() {
        let entry = |kind| LogEntry { key: EventKey(1 << 40), kind, attempts: 7, attempt_position: 300 };
        let failures = FailureKind::ALL.iter().map(|kind| Some(NoticeKind::DeadLettered(*kind)));
        let disabled = DisableReason::ALL.iter().map(|reason| Some(NoticeKind::EndpointDisabled(*reason)));
        let others = [None, Some(NoticeKind::Delivered)].into_iter().chain(disabled);
        let expected: Vec<_> = others.chain(failures).map(entry).collect();
        let mut batch = LogBatch::default();
        expected.iter().for_each(|entry| batch.push(entry));
        assert!(unpack_entries(&batch.0).eq((0..).zip(expected)));
    }
}
