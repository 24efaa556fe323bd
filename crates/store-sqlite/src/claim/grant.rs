//! Grants: writes leases onto rows of the queue and reads the rows as [`Lease`]s.

use std::collections::BTreeMap;

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, EventId, EventKey, Lease, LeasePayload, MessageId, Timestamp, Trigger,
};
use posthaste_store::ClaimRequest;
use rand::rngs::StdRng;
use rusqlite::{CachedStatement, Connection, Row};

use super::abandon::HeldLease;
use super::{ClaimBudget, WaitingDestination, line, waiting_columns};
use crate::claims::{self, ClaimNumber, EndedLeases, LeaseCounts, NewClaim};
use crate::destination_queue::{self, QueueEntry, QueueHead};
use crate::key_runs::key_runs;
use crate::row;
use crate::token_seed::TokenSeed;
use crate::totals;

/// Builds a query for [`lease_from_row`] on a queue table, named `l` in the conditions. Only these queries read the
/// payload, and only up to the size `$payload_bytes_max`: SQLite reads the length of a larger one, but not its pages. Both
/// joins are by primary key.
macro_rules! leases {
    (
        $attempts:literal, $due:literal, $requeued_at:literal, $payload_bytes_max:literal, $from:literal, $where:literal
    ) => {
        concat!(
            "SELECT l.id, ",
            $attempts,
            ", ",
            $due,
            ", ",
            $requeued_at,
            ", e.event_id, e.message_id, e.event_type, e.max_attempts, m.content_type, m.traceparent,
             CASE WHEN length(m.payload) <= ",
            $payload_bytes_max,
            " THEN m.payload END, coalesce(length(m.payload), 0), e.replay_of
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

/// Reads first attempts of a destination, from the head of its queue.
pub(crate) const FIRST_ATTEMPTS: &str = leases!(
    "0",
    "CASE WHEN e.deliver_at IS NULL THEN coalesce(l.requeued_at, e.created_at)
          ELSE (SELECT next_attempt_at FROM webhook_queue q WHERE q.id = l.id) END",
    "l.requeued_at",
    "?4",
    "webhook_first_attempts",
    "l.destination_id = ?1 AND l.id >= ?3 ORDER BY l.id LIMIT ?2"
);

/// Reads due retries of a destination, from the head of its queue. `requeued_at` is NULL here: only first attempts need
/// it.
pub(crate) const RETRIES: &str = leases!(
    "(SELECT attempts FROM webhook_queue q WHERE q.id = l.id)",
    "l.next_attempt_at",
    "NULL",
    "?4",
    "webhook_retries",
    "l.destination_id = ?1 AND l.next_attempt_at <= ?3 ORDER BY l.next_attempt_at, l.id LIMIT ?2"
);

/// Reads deferred events of a destination that are due, from the head of its queue.
pub(crate) const DEFERRED: &str = leases!(
    "0",
    "l.next_attempt_at",
    "NULL",
    "?4",
    "webhook_deferred",
    "l.destination_id = ?1 AND l.next_attempt_at <= ?3 ORDER BY l.next_attempt_at, l.id LIMIT ?2"
);

/// Reads one pending event, leased or not.
const PENDING_EVENT: &str =
    leases!("l.attempts", "l.next_attempt_at", "l.requeued_at", "?2", "webhook_queue", "l.id = ?1");

/// Maximum number of consumed rows of a destination, which are claimed first attempts that are still in the table.
/// Beyond it, a claim deletes them. Until then a claim seeks past them at no extra cost.
const CONSUMED_ROWS_MAX: i64 = 100;

/// Writes the leases of a run of events. If a row already has a lease, that lease has expired and counts as lost.
const GRANT: &str = "
    UPDATE webhook_queue
    SET lease_token = ?3, lease_claim = ?4, lease_until = ?5,
        claims        = claims + 1,
        lost_leases   = lost_leases + (lease_token IS NOT NULL),
        updated_at    = ?6,
        lease_padding = NULL
    WHERE id BETWEEN ?1 AND ?2";

/// Collects leases, then writes all of them and the claim that holds them.
pub(super) struct ClaimWriter<'a> {
    pub(super) now: Timestamp,
    leases: Vec<Lease>,
    /// The heads of lines among the leases.
    line_heads: Vec<(DestinationId, EventKey)>,
    db: &'a Connection,
    request: &'a ClaimRequest,
    number: ClaimNumber,
    seed: TokenSeed,
    /// The heads of queues that the claim has changed.
    heads: BTreeMap<DestinationId, QueueHead>,
    read_destination: CachedStatement<'a>,
    first_attempts: CachedStatement<'a>,
}

impl<'a> ClaimWriter<'a> {
    pub(super) fn prepare(
        db: &'a Connection,
        request: &'a ClaimRequest,
        now: Timestamp,
        random: &mut StdRng,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            now,
            leases: Vec::new(),
            line_heads: Vec::new(),
            db,
            request,
            number: claims::next_claim_number(db)?,
            seed: TokenSeed::random(random),
            heads: BTreeMap::new(),
            read_destination: db.prepare_cached(DESTINATION)?,
            first_attempts: db.prepare_cached(FIRST_ATTEMPTS)?,
        })
    }

    /// Replaces an expired lease by a new one, if the budget allows it.
    pub(super) fn take_over(
        &mut self,
        expired: &HeldLease,
        budget: &mut ClaimBudget<'_>,
        ended: &mut EndedLeases,
    ) -> rusqlite::Result<()> {
        let entry = &expired.entry;
        let is_retry = entry.is_retry();
        let waiting = self.read_destination(entry.destination)?;
        if budget.available(&waiting, is_retry)? == 0 {
            return Ok(());
        }
        if waiting.is_fifo && line::head(self.db, self.now, waiting.id)? != Some(entry.key) {
            return Ok(());
        }
        let payload_bytes_max = self.inline_payload_bytes_max(budget);
        let (lease, payload_bytes) =
            read_lease(self.db, entry.key, entry.destination, self.seed, self.now, payload_bytes_max)?;
        if !budget.spend(&waiting, is_retry, payload_bytes) {
            return Ok(());
        }
        if waiting.is_fifo {
            budget.closed_lines.insert(waiting.id);
            self.line_heads.push((waiting.id, entry.key));
        }
        self.leases.push(lease);
        ended.add(expired.claim, is_retry);
        Ok(())
    }

    pub(super) fn read_destination(
        &mut self,
        destination: DestinationId,
    ) -> rusqlite::Result<WaitingDestination> {
        read_destination(&mut self.read_destination, destination)
    }

    /// Grants up to `count` first attempts of a destination and returns how many it granted.
    pub(super) fn grant_first_attempts(
        &mut self,
        destination: &WaitingDestination,
        count: usize,
        budget: &mut ClaimBudget<'_>,
    ) -> rusqlite::Result<usize> {
        let head = self.heads.get(&destination.id).copied().unwrap_or(destination.head);
        let payload_bytes_max = to_i64(self.inline_payload_bytes_max(budget));
        let found = (destination.id.0, to_i64(count), head.key, payload_bytes_max);
        let granting = LeaseSource { seed: self.seed, now: self.now, destination };
        let rows = self.first_attempts.query(found)?;
        let (granted, last) = granting.grant_rows(rows, budget, &mut self.leases)?;
        let new_head = QueueHead {
            key: last.map_or(head.key, |(key, _)| key + 1),
            consumed: head.consumed + to_i64(granted),
        };
        if granted == count && new_head.consumed < CONSUMED_ROWS_MAX {
            self.heads.insert(destination.id, new_head);
        } else if new_head.consumed > 0 {
            self.db
                .prepare_cached("DELETE FROM webhook_first_attempts WHERE destination_id = ?1 AND id < ?2")?
                .execute((destination.id.0, new_head.key))?;
            if destination.head == QueueHead::default() {
                self.heads.remove(&destination.id);
            } else {
                self.heads.insert(destination.id, QueueHead::default());
            }
        }
        Ok(granted)
    }

    /// Grants up to `count` due retries of a destination.
    pub(super) fn grant_retries(
        &mut self,
        destination: &WaitingDestination,
        count: usize,
        budget: &mut ClaimBudget<'_>,
    ) -> rusqlite::Result<()> {
        let mut found = self.db.prepare_cached(RETRIES)?;
        let payload_bytes_max = to_i64(self.inline_payload_bytes_max(budget));
        let rows = found.query((destination.id.0, to_i64(count), self.now.as_micros(), payload_bytes_max))?;
        let granting = LeaseSource { seed: self.seed, now: self.now, destination };
        let (_, last) = granting.grant_rows(rows, budget, &mut self.leases)?;
        let (key, due) = last.unzip();
        self.db
            .prepare_cached(
                "DELETE FROM webhook_retries
                 WHERE destination_id = ?1 AND (next_attempt_at, id) <= (?2, ?3)",
            )?
            .execute((destination.id.0, due, key))?;
        Ok(())
    }

    /// Returns the size of the largest payload that is read with its lease.
    fn inline_payload_bytes_max(&self, budget: &ClaimBudget<'_>) -> usize {
        budget.payloads.next_event_bytes_max().min(self.request.inline_payload_bytes_max)
    }

    /// Grants up to `count` deferred events of a destination that are due.
    pub(super) fn grant_deferred(
        &mut self,
        destination: &WaitingDestination,
        count: usize,
        budget: &mut ClaimBudget<'_>,
    ) -> rusqlite::Result<()> {
        let mut found = self.db.prepare_cached(DEFERRED)?;
        let payload_bytes_max = to_i64(self.inline_payload_bytes_max(budget));
        let rows = found.query((destination.id.0, to_i64(count), self.now.as_micros(), payload_bytes_max))?;
        let granting = LeaseSource { seed: self.seed, now: self.now, destination };
        let (granted, last) = granting.grant_rows(rows, budget, &mut self.leases)?;
        let (key, due) = last.unzip();
        self.db
            .prepare_cached(
                "DELETE FROM webhook_deferred
                 WHERE destination_id = ?1 AND (next_attempt_at, id) <= (?2, ?3)",
            )?
            .execute((destination.id.0, due, key))?;
        totals::count_deferred(self.db, -to_i64(granted))
    }

    /// Grants the head of the line of an endpoint in FIFO order, if it is due and the budget allows it. Returns how many events
    /// it granted. The claim grants no other event of the line.
    pub(super) fn grant_line_head(
        &mut self,
        destination: &WaitingDestination,
        budget: &mut ClaimBudget<'_>,
    ) -> rusqlite::Result<usize> {
        if budget.closed_lines.contains(&destination.id) {
            return Ok(0);
        }
        let head = match line::head(self.db, self.now, destination.id)? {
            Some(key) => destination_queue::find(self.db, key)?,
            None => None,
        };
        let is_due = |entry: &QueueEntry| !(entry.is_retry() || entry.is_deferred) || entry.due <= self.now;
        let granted = match head {
            Some((entry, None)) if is_due(&entry) && budget.available(destination, entry.is_retry())? > 0 => {
                let bytes_max = self.inline_payload_bytes_max(budget);
                let (lease, payload_bytes) =
                    read_lease(self.db, entry.key, destination.id, self.seed, self.now, bytes_max)?;
                let fits = budget.spend(destination, entry.is_retry(), payload_bytes);
                if fits {
                    destination_queue::remove(self.db, &entry)?;
                    self.line_heads.push((destination.id, entry.key));
                    self.leases.push(lease);
                }
                usize::from(fits)
            }
            _ => 0,
        };
        budget.closed_lines.insert(destination.id);
        Ok(granted)
    }

    /// Writes the leases and the claim, if it has any, and returns the leases.
    pub(super) fn finish(self) -> rusqlite::Result<Vec<Lease>> {
        for (destination, head) in &self.heads {
            destination_queue::set_first_attempts_head(self.db, *destination, *head)?;
        }
        if !self.leases.is_empty() {
            self.write_leases()?;
            let mut counts = LeaseCounts::default();
            self.leases.iter().for_each(|lease| counts.add(lease.is_retry()));
            let keys = self.leases.iter().map(|lease| lease.key);
            let ClaimRequest { id, owner, lease, .. } = self.request;
            let claim =
                NewClaim { number: self.number, id: *id, owner, lease: *lease, until: self.lease_until() };
            claims::insert(self.db, &claim, counts, keys)?;
            for (destination, key) in &self.line_heads {
                line::record_lease(self.db, *destination, *key)?;
            }
        }
        Ok(self.leases)
    }

    fn lease_until(&self) -> Timestamp {
        self.now.after(self.request.lease)
    }

    fn write_leases(&self) -> rusqlite::Result<()> {
        let mut grant = self.db.prepare_cached(GRANT)?;
        let until = self.lease_until();
        for (first, last) in key_runs(self.leases.iter().map(|lease| lease.key).collect()) {
            grant.execute((
                first,
                last,
                self.seed.into_bytes(),
                self.number.0,
                until.as_micros(),
                self.now.as_micros(),
            ))?;
        }
        Ok(())
    }
}

/// Reads a pending event as a lease under `seed`, with the size of its payload. The lease has only that size if the payload
/// is larger than `payload_bytes_max`.
pub(super) fn read_lease(
    db: &Connection,
    key: EventKey,
    destination: DestinationId,
    seed: TokenSeed,
    now: Timestamp,
    payload_bytes_max: usize,
) -> rusqlite::Result<(Lease, usize)> {
    let waiting = read_destination(&mut db.prepare_cached(DESTINATION)?, destination)?;
    db.prepare_cached(PENDING_EVENT)?.query_row((key.0, to_i64(payload_bytes_max)), |row| {
        Ok((lease_from_row(row, &waiting, seed, now)?, payload_bytes(row)?))
    })
}

const DESTINATION: &str = concat!("SELECT ", waiting_columns!(), " FROM webhook_destinations WHERE id = ?1");

fn read_destination(
    statement: &mut CachedStatement<'_>,
    destination: DestinationId,
) -> rusqlite::Result<WaitingDestination> {
    statement.query_row([destination.0], WaitingDestination::from_row)
}

/// What the leases on events of one destination have in common.
struct LeaseSource<'a> {
    seed: TokenSeed,
    now: Timestamp,
    destination: &'a WaitingDestination,
}

impl LeaseSource<'_> {
    /// Grants the rows of a query, up to the first whose payload does not fit. Returns the number of granted rows, and the
    /// key and due time of the last one: all entries of the queue up to it are granted, so the caller removes them with
    /// one statement.
    fn grant_rows(
        &self,
        mut rows: rusqlite::Rows<'_>,
        budget: &mut ClaimBudget<'_>,
        leases: &mut Vec<Lease>,
    ) -> rusqlite::Result<(usize, Option<(i64, i64)>)> {
        let first = leases.len();
        let mut last = None;
        while let Some(row) = rows.next()? {
            let lease = lease_from_row(row, self.destination, self.seed, self.now)?;
            if !budget.spend(self.destination, lease.is_retry(), payload_bytes(row)?) {
                break;
            }
            last = Some((lease.key.0, row.get(2)?));
            leases.push(lease);
        }
        Ok((leases.len() - first, last))
    }
}

fn lease_from_row(
    row: &Row<'_>,
    destination: &WaitingDestination,
    seed: TokenSeed,
    now: Timestamp,
) -> rusqlite::Result<Lease> {
    let key = EventKey(row.get(0)?);
    let attempts = row.get(1)?;
    let requeued = row::optional_timestamp(row, 3)?.is_some();
    // Payloads are expunged only after the event is delivered or failed.
    let payload = match (row.get_ref(10)?.as_blob_or_null()?, payload_bytes(row)?) {
        (None, bytes @ 1..) => LeasePayload::Stored { bytes },
        (payload, _) => LeasePayload::Loaded(Bytes::copy_from_slice(payload.unwrap_or_default())),
    };
    let event_id = EventId::from_stored(row.get(4)?);
    let message_id = MessageId::from_uuid(row::uuid(row, 5)?);
    Ok(Lease {
        token: seed.token(key),
        key,
        wire_id: match row.get::<_, Option<String>>(12)? {
            _ if destination.app > 0 => EventId::from_message(message_id),
            Some(replay_of) => EventId::from_stored(replay_of),
            None => event_id.clone(),
        },
        event_id,
        message_id,
        destination_id: destination.id,
        destination_url: destination.url.clone(),
        profile_version: destination.profile_version,
        event_type: row.get(6)?,
        content_type: row.get(8)?,
        payload,
        traceparent: row.get(9)?,
        attempts,
        max_attempts: row.get(7)?,
        trigger: Trigger::for_attempt(requeued, attempts),
        overdue: now.since(row::timestamp(row, 2)?),
    })
}

/// Returns the size of the payload in a row of a query for [`lease_from_row`].
fn payload_bytes(row: &Row<'_>) -> rusqlite::Result<usize> {
    Ok(usize::try_from(row.get::<_, i64>(11)?).unwrap_or(usize::MAX))
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
