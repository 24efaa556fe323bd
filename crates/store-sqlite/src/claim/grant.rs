//! Writing leases onto rows, and reading rows as leases.

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Timestamp, Trigger,
};
use posthaste_store::ClaimRequest;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rusqlite::{CachedStatement, Connection, Row};

use super::Room;
use super::abandon::Expired;
use crate::claims::{self, ClaimNumber, Ended, Held};
use crate::line;
use crate::row;

/// A statement that [`lease_of`] reads, from `l`. The payload is read here and nowhere else; both joins are by key.
macro_rules! leases {
    ($attempts:literal, $due:literal, $requeued_at:literal, $from:literal, $where:literal) => {
        concat!(
            "SELECT l.id, ",
            $attempts,
            ", ",
            $due,
            ", ",
            $requeued_at,
            ", e.event_id, e.message_id, e.event_type, e.max_attempts, m.content_type, m.traceparent, m.payload
             FROM ",
            $from,
            " l
             CROSS JOIN webhook_events e ON e.id = l.id
             CROSS JOIN webhook_messages m ON m.key = e.message_key
             WHERE ",
            $where
        )
    };
}

/// The line of a destination, from its front.
pub(crate) const FIRST_ATTEMPTS: &str = leases!(
    "0",
    "coalesce(l.requeued_at, e.created_at)",
    "l.requeued_at",
    "webhook_ready",
    "l.destination_id = ?1 AND l.id >= ?3 ORDER BY l.id LIMIT ?2"
);

/// The line of a destination, from its front. That it was requeued matters to first attempts only.
pub(crate) const RETRIES: &str = leases!(
    "(SELECT attempts FROM webhook_queue q WHERE q.id = l.id)",
    "l.next_attempt_at",
    "NULL",
    "webhook_retries",
    "l.destination_id = ?1 AND l.next_attempt_at <= ?3 ORDER BY l.next_attempt_at, l.id LIMIT ?2"
);

const ONE: &str = leases!("l.attempts", "l.next_attempt_at", "l.requeued_at", "webhook_queue", "l.id = ?1");

/// So many rows of a line are spent before they are removed. What they cost a claim is to know of them, and no more.
const SPENT_MAX: i64 = 100;

/// A lease that is found on the row here has expired: it is lost.
const GRANT: &str = "
    UPDATE webhook_queue
    SET lease_token = ?2, lease_claim = ?3, lease_until = ?4,
        claims      = claims + 1,
        lost_leases = lost_leases + (lease_token IS NOT NULL),
        updated_at  = ?5,
        reserve     = NULL
    WHERE id = ?1";

/// One claim at work.
pub(super) struct Grant<'a> {
    pub(super) now: Timestamp,
    pub(super) leases: Vec<Lease>,
    db: &'a Connection,
    request: &'a ClaimRequest,
    random: &'a mut StdRng,
    number: ClaimNumber,
    grant: CachedStatement<'a>,
    line: CachedStatement<'a>,
}

impl<'a> Grant<'a> {
    pub(super) fn prepare(
        db: &'a Connection,
        request: &'a ClaimRequest,
        now: Timestamp,
        random: &'a mut StdRng,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            now,
            leases: Vec::new(),
            db,
            request,
            random,
            number: claims::free_number(db)?,
            grant: db.prepare_cached(GRANT)?,
            line: db.prepare_cached(LINE)?,
        })
    }

    pub(super) fn take_over(&mut self, lost: &Expired, ended: &mut Ended) -> rusqlite::Result<()> {
        let place = &lost.place;
        let token = self.token();
        let lease = one(self.db, place.key, place.destination, token, self.now)?;
        self.write(lease.key, lease.token)?;
        self.leases.push(lease);
        ended.count(lost.claim, place.is_retry());
        Ok(())
    }

    pub(super) fn first_attempts_of(
        &mut self,
        destination: DestinationId,
        count: usize,
        room: &mut Room<'_>,
    ) -> rusqlite::Result<usize> {
        let line = line_of(&mut self.line, destination)?;
        let mut found = self.db.prepare_cached(FIRST_ATTEMPTS)?;
        let rows = found.query((destination.0, at_most(count), line.ready_from))?;
        let (granted, last) = self.grant_all(rows, destination, &line.url, room)?;
        let ready_from = last.map_or(line.ready_from, |(key, _)| key + 1);
        let ready_spent = line.ready_spent + at_most(granted);
        if granted == count && ready_spent < SPENT_MAX {
            line::spend(self.db, destination, ready_from, ready_spent)?;
        } else if ready_spent > 0 {
            self.db
                .prepare_cached("DELETE FROM webhook_ready WHERE destination_id = ?1 AND id < ?2")?
                .execute((destination.0, ready_from))?;
            if line.ready_spent > 0 {
                line::spend(self.db, destination, 0, 0)?;
            }
        }
        Ok(granted)
    }

    pub(super) fn retries_of(
        &mut self,
        destination: DestinationId,
        count: usize,
        room: &mut Room<'_>,
    ) -> rusqlite::Result<usize> {
        let line = line_of(&mut self.line, destination)?;
        let mut found = self.db.prepare_cached(RETRIES)?;
        let rows = found.query((destination.0, at_most(count), self.now.as_micros()))?;
        let (granted, last) = self.grant_all(rows, destination, &line.url, room)?;
        let (key, due) = last.unzip();
        self.db
            .prepare_cached(
                "DELETE FROM webhook_retries
                 WHERE destination_id = ?1 AND (next_attempt_at, id) <= (?2, ?3)",
            )?
            .execute((destination.0, due, key))?;
        Ok(granted)
    }

    /// How many were granted, and the key and the due moment of the last: what stands before it in its line has been
    /// granted too, and leaves it with one statement.
    fn grant_all(
        &mut self,
        mut rows: rusqlite::Rows<'_>,
        destination: DestinationId,
        url: &DestinationUrl,
        room: &mut Room<'_>,
    ) -> rusqlite::Result<(usize, Option<(i64, i64)>)> {
        let from = self.leases.len();
        let mut last = None;
        while let Some(row) = rows.next()? {
            let lease = lease_of(row, destination, url, self.token(), self.now)?;
            last = Some((lease.key.0, row.get(2)?));
            room.take(destination, lease.is_retry());
            self.leases.push(lease);
        }
        drop(rows);
        for index in from..self.leases.len() {
            let (key, token) = (self.leases[index].key, self.leases[index].token);
            self.write(key, token)?;
        }
        Ok((self.leases.len() - from, last))
    }

    /// Leaves the claim behind, unless it was granted nothing.
    pub(super) fn finish(self) -> rusqlite::Result<Vec<Lease>> {
        if !self.leases.is_empty() {
            let mut held = Held::default();
            self.leases.iter().for_each(|lease| held.count(lease.is_retry()));
            let keys = self.leases.iter().map(|lease| lease.key);
            claims::insert(self.db, self.number, self.request, self.until(), held, keys)?;
        }
        Ok(self.leases)
    }

    fn token(&mut self) -> LeaseToken {
        LeaseToken::random(self.random.random())
    }

    fn until(&self) -> Timestamp {
        self.now.after(self.request.lease)
    }

    fn write(&mut self, key: EventKey, token: LeaseToken) -> rusqlite::Result<()> {
        let until = self.until();
        self.grant.execute((
            key.0,
            token.as_uuid().into_bytes(),
            self.number.0,
            until.as_micros(),
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
    let Some(claim) = claims::find(db, request)? else {
        return Ok(Vec::new());
    };
    let mut find = db.prepare_cached(
        "SELECT destination_id, lease_token FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2",
    )?;
    let mut extend = db.prepare_cached("UPDATE webhook_queue SET lease_until = ?2 WHERE id = ?1")?;
    let until = now.after(request.lease);
    let mut leases = Vec::new();
    for key in claims::granted(db, claim)? {
        let mut rows = find.query((key.0, claim.0))?;
        let Some(row) = rows.next()? else {
            continue;
        };
        let (destination, token) = (DestinationId(row.get(0)?), LeaseToken::from_uuid(row::uuid(row, 1)?));
        drop(rows);
        extend.execute((key.0, until.as_micros()))?;
        leases.push(one(db, key, destination, token, now)?);
    }
    claims::checked(db, claim, leases.iter().map(|lease| lease.key), until)?;
    Ok(leases)
}

fn one(
    db: &Connection,
    key: EventKey,
    destination: DestinationId,
    token: LeaseToken,
    now: Timestamp,
) -> rusqlite::Result<Lease> {
    let Line { url, .. } = line_of(&mut db.prepare_cached(LINE)?, destination)?;
    db.prepare_cached(ONE)?.query_row([key.0], |row| lease_of(row, destination, &url, token, now))
}

/// A destination, and where its line of first attempts begins.
struct Line {
    url: DestinationUrl,
    ready_from: i64,
    ready_spent: i64,
}

const LINE: &str = "SELECT url, ready_from, ready_spent FROM webhook_destinations WHERE id = ?1";

fn line_of(line: &mut CachedStatement<'_>, destination: DestinationId) -> rusqlite::Result<Line> {
    line.query_row([destination.0], |row| {
        Ok(Line {
            url: DestinationUrl::stored(row.get(0)?),
            ready_from: row.get(1)?,
            ready_spent: row.get(2)?,
        })
    })
}

fn lease_of(
    row: &Row<'_>,
    destination_id: DestinationId,
    destination_url: &DestinationUrl,
    token: LeaseToken,
    now: Timestamp,
) -> rusqlite::Result<Lease> {
    let attempts = row.get(1)?;
    let requeued = row::optional_moment(row, 3)?.is_some();
    // Only what has come to its end is ever expunged.
    let payload = row.get_ref(10)?.as_blob_or_null()?.unwrap_or_default();
    Ok(Lease {
        token,
        key: EventKey(row.get(0)?),
        event_id: EventId::stored(row.get(4)?),
        message_id: MessageId::from_uuid(row::uuid(row, 5)?),
        destination_id,
        destination_url: destination_url.clone(),
        event_type: row.get(6)?,
        content_type: row.get(8)?,
        payload: Bytes::copy_from_slice(payload),
        traceparent: row.get(9)?,
        attempts,
        max_attempts: row.get(7)?,
        trigger: Trigger::of(requeued, attempts),
        overdue: now.since(row::moment(row, 2)?),
    })
}

fn at_most(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
