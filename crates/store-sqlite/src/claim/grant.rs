//! Writing leases onto rows, and reading rows as leases.

use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Timestamp, Trigger,
};
use posthaste_store::{ClaimRequest, ManualAction};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rusqlite::{CachedStatement, Connection, Row};

use super::Room;
use crate::row;

/// A statement that [`lease_of`] reads. The payload is read here and nowhere else, through webhook_messages_id.
macro_rules! leases {
    ($from_where:literal) => {
        concat!(
            "SELECT e.id, e.event_id, e.message_id, e.destination_id, e.destination_url, e.event_type,
                    e.attempts, e.max_attempts, e.manual_last_action, e.next_attempt_at,
                    m.content_type, m.payload, m.traceparent
             FROM webhook_outbox_events e ",
            $from_where
        )
    };
}

pub(crate) const FIRST_ATTEMPTS: &str = leases!(
    "INDEXED BY webhook_outbox_events_first_attempts
     CROSS JOIN webhook_messages m ON m.id = e.message_id
     WHERE e.delivery_status = 'pending' AND e.attempts = 0 AND e.lease_token IS NULL
       AND e.destination_id = ?1
     ORDER BY e.id LIMIT ?2"
);

pub(crate) const RETRIES: &str = leases!(
    "INDEXED BY webhook_outbox_events_retries
     CROSS JOIN webhook_messages m ON m.id = e.message_id
     WHERE e.delivery_status = 'pending' AND e.attempts > 0 AND e.lease_token IS NULL
       AND e.destination_id = ?1 AND e.next_attempt_at <= ?3
     ORDER BY e.next_attempt_at, e.id LIMIT ?2"
);

const ONE: &str = leases!("CROSS JOIN webhook_messages m ON m.id = e.message_id WHERE e.id = ?1");

/// Index: webhook_outbox_events_leases, all of it and nothing beside it: as many entries as leases are out.
pub(crate) const GRANTED_BEFORE: &str = "
    SELECT id FROM webhook_outbox_events INDEXED BY webhook_outbox_events_leases
    WHERE lease_until IS NOT NULL AND lease_claim = ?1
    ORDER BY id";

/// A lease that is found on the row here has expired: it is lost.
const GRANT: &str = "
    UPDATE webhook_outbox_events
    SET lease_token = ?2, lease_claim = ?3, lease_owner = ?4, lease_until = ?5,
        claims      = claims + 1,
        lost_leases = lost_leases + (lease_token IS NOT NULL),
        updated_at  = ?6
    WHERE id = ?1";

/// One claim at work.
pub(super) struct Grant<'a> {
    pub(super) now: Timestamp,
    pub(super) leases: Vec<Lease>,
    db: &'a Connection,
    request: &'a ClaimRequest,
    random: &'a mut StdRng,
    grant: CachedStatement<'a>,
}

impl<'a> Grant<'a> {
    pub(super) fn prepare(
        db: &'a Connection,
        request: &'a ClaimRequest,
        now: Timestamp,
        random: &'a mut StdRng,
    ) -> rusqlite::Result<Self> {
        Ok(Self { now, leases: Vec::new(), db, request, random, grant: db.prepare_cached(GRANT)? })
    }

    pub(super) fn take_over(&mut self, key: EventKey) -> rusqlite::Result<Lease> {
        let token = self.token();
        let lease = self.db.prepare_cached(ONE)?.query_row([key.0], |row| lease_of(row, token, self.now))?;
        self.write(lease.key, lease.token)?;
        Ok(lease)
    }

    pub(super) fn first_attempts_of(
        &mut self,
        destination: DestinationId,
        count: usize,
        room: &mut Room<'_>,
    ) -> rusqlite::Result<usize> {
        let mut found = self.db.prepare_cached(FIRST_ATTEMPTS)?;
        let rows = found.query((destination.0, at_most(count)))?;
        self.grant_all(rows, room)
    }

    pub(super) fn retries_of(
        &mut self,
        destination: DestinationId,
        count: usize,
        room: &mut Room<'_>,
    ) -> rusqlite::Result<usize> {
        let mut found = self.db.prepare_cached(RETRIES)?;
        let rows = found.query((destination.0, at_most(count), self.now.as_micros()))?;
        self.grant_all(rows, room)
    }

    /// A granted row leaves the index that it is found in, so that all are read before the first is written.
    fn grant_all(&mut self, mut rows: rusqlite::Rows<'_>, room: &mut Room<'_>) -> rusqlite::Result<usize> {
        let from = self.leases.len();
        while let Some(row) = rows.next()? {
            let lease = lease_of(row, self.token(), self.now)?;
            room.take(&lease);
            self.leases.push(lease);
        }
        drop(rows);
        for index in from..self.leases.len() {
            let (key, token) = (self.leases[index].key, self.leases[index].token);
            self.write(key, token)?;
        }
        Ok(self.leases.len() - from)
    }

    fn token(&mut self) -> LeaseToken {
        LeaseToken::random(self.random.random())
    }

    fn write(&mut self, key: EventKey, token: LeaseToken) -> rusqlite::Result<()> {
        self.grant.execute((
            key.0,
            token.as_uuid().into_bytes(),
            self.request.id.as_uuid().into_bytes(),
            self.request.owner.as_str(),
            self.now.after(self.request.lease).as_micros(),
            self.now.as_micros(),
        ))?;
        Ok(())
    }
}

/// What this very claim was granted when its reply got lost, extended and otherwise as it was.
pub(super) fn granted_before(
    db: &Connection,
    now: Timestamp,
    request: &ClaimRequest,
) -> rusqlite::Result<Vec<Lease>> {
    let mut granted = db.prepare_cached(GRANTED_BEFORE)?;
    let keys: Vec<i64> = granted
        .query_map([request.id.as_uuid().into_bytes()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut leases = Vec::with_capacity(keys.len());
    for key in keys {
        let token: [u8; 16] = db
            .prepare_cached(
                "UPDATE webhook_outbox_events SET lease_until = ?2 WHERE id = ?1 RETURNING lease_token",
            )?
            .query_row((key, now.after(request.lease).as_micros()), |row| row.get(0))?;
        let token = LeaseToken::from_uuid(uuid::Uuid::from_bytes(token));
        leases.push(db.prepare_cached(ONE)?.query_row([key], |row| lease_of(row, token, now))?);
    }
    Ok(leases)
}

fn lease_of(row: &Row<'_>, token: LeaseToken, now: Timestamp) -> rusqlite::Result<Lease> {
    let attempts = row.get(6)?;
    let requeued = row.get_ref(8)?.as_str_or_null()? == Some(ManualAction::Requeue.as_str());
    // Only what has come to its end is ever expunged.
    let payload = row.get_ref(11)?.as_blob_or_null()?.unwrap_or_default();
    Ok(Lease {
        token,
        key: EventKey(row.get(0)?),
        event_id: EventId::stored(row.get(1)?),
        message_id: MessageId::from_uuid(row::uuid(row, 2)?),
        destination_id: DestinationId(row.get(3)?),
        destination_url: DestinationUrl::stored(row.get(4)?),
        event_type: row.get(5)?,
        content_type: row.get(10)?,
        payload: Bytes::copy_from_slice(payload),
        traceparent: row.get(12)?,
        attempts,
        max_attempts: row.get(7)?,
        trigger: Trigger::of(requeued, attempts),
        overdue: row::optional_moment(row, 9)?.map_or(Duration::ZERO, |due| now.since(due)),
    })
}

fn at_most(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
