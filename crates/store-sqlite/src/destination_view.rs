//! Destinations for operators: their status, and the events that wait for them, counted up to a limit.

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, DestinationUrl, DisableReason, EventKey, Timestamp};
use posthaste_store::{
    DESTINATION_AUDIT_MAX, DestinationAction, DestinationAudit, DestinationDetail, DestinationState,
    DestinationStatus, DestinationView, DisabledEndpoint, HELD_COUNT_MAX, LISTED_PENDING_COUNT_MAX,
    OpenCircuit, OperatorPause, PENDING_COUNT_MAX, Page, PageRequest, PendingCount, ReceiverPause,
    StoreError,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::claims;
use crate::error::CallError;
use crate::row;

/// Conditions on a destination `d` at the time `?1`. They mirror [`DestinationStatus::state`].
macro_rules! is_paused {
    () => {
        "coalesce(d.paused_until > ?1, FALSE)"
    };
}
macro_rules! has_open_circuit {
    () => {
        "EXISTS (SELECT 1 FROM webhook_circuits c WHERE c.destination_id = d.id AND c.expires_at > ?1)"
    };
}

/// Lists ids after ?2. The primary key orders them.
pub(crate) const ALL: &str =
    "SELECT d.id FROM webhook_destinations d WHERE d.id > ?2 AND ?1 IS NOT NULL ORDER BY d.id LIMIT ?3";
/// Skips destinations in other states.
pub(crate) const OK: &str = concat!(
    "SELECT d.id FROM webhook_destinations d
     WHERE d.id > ?2 AND d.failing_since IS NULL AND NOT ",
    is_paused!(),
    " AND NOT ",
    has_open_circuit!(),
    " ORDER BY d.id LIMIT ?3"
);
/// Index: webhook_destinations_failing. Skips failing destinations that are held.
pub(crate) const FAILING: &str = concat!(
    "SELECT d.id FROM webhook_destinations d INDEXED BY webhook_destinations_failing
     WHERE d.id > ?2 AND d.failing_since IS NOT NULL AND NOT ",
    is_paused!(),
    " AND NOT ",
    has_open_circuit!(),
    " ORDER BY d.id LIMIT ?3"
);
/// The primary key of webhook_circuits orders the destinations.
pub(crate) const CIRCUIT_OPEN: &str = concat!(
    "SELECT DISTINCT o.destination_id FROM webhook_circuits o
     WHERE o.destination_id > ?2 AND o.expires_at > ?1
       AND EXISTS (SELECT 1 FROM webhook_destinations d WHERE d.id = o.destination_id AND NOT ",
    is_paused!(),
    ") ORDER BY o.destination_id LIMIT ?3"
);
/// Index: webhook_destinations_paused. Sorts the destinations that are paused now.
pub(crate) const PAUSED: &str =
    "SELECT d.id FROM webhook_destinations d INDEXED BY webhook_destinations_paused
     WHERE d.paused_until > ?1 AND d.disabled_at IS NULL AND d.id > ?2 ORDER BY d.id LIMIT ?3";
/// Index: webhook_destinations_disabled.
pub(crate) const DISABLED: &str =
    "SELECT d.id FROM webhook_destinations d INDEXED BY webhook_destinations_disabled
     WHERE d.disabled_at IS NOT NULL AND d.id > ?2 AND ?1 IS NOT NULL ORDER BY d.id LIMIT ?3";

/// Lists destinations by id.
pub(crate) fn list(
    db: &Connection,
    now: Timestamp,
    state: Option<DestinationState>,
    page: &PageRequest<DestinationId>,
) -> Result<Page<DestinationView, DestinationId>, CallError> {
    let sql = match state {
        None => ALL,
        Some(DestinationState::Ok) => OK,
        Some(DestinationState::Failing) => FAILING,
        Some(DestinationState::CircuitOpen) => CIRCUIT_OPEN,
        Some(DestinationState::Paused) => PAUSED,
        Some(DestinationState::Disabled) => DISABLED,
    };
    let limit = page.limit.get();
    let after = page.after.map_or(i64::MIN, |after| after.0);
    let rows_max = i64::try_from(limit).expect("page limits are at most a few hundred") + 1;
    let mut listed = db.prepare_cached(sql)?;
    let ids = listed.query_map((now.as_micros(), after, rows_max), |row| row.get(0).map(DestinationId))?;
    let mut ids: Vec<DestinationId> = ids.collect::<Result<_, _>>()?;
    let has_more = ids.len() > limit;
    ids.truncate(limit);
    let leases = read_leases(db, now)?;
    let view = |id: &DestinationId| read_view(db, now, *id, &leases, LISTED_PENDING_COUNT_MAX);
    let items = ids.iter().map(view).collect::<Result<_, _>>()?;
    Ok(Page { items, next: ids.last().copied().filter(|_| has_more) })
}

/// Reads one destination with the latest actions of operators on it.
pub(crate) fn read_detail(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
) -> Result<DestinationDetail, CallError> {
    let destination = read_view(db, now, id, &read_leases(db, now)?, PENDING_COUNT_MAX)?;
    Ok(DestinationDetail { destination, audit: read_audit(db, id)? })
}

/// Reads what decides whether events are sent to a destination.
pub(crate) fn read_status(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
) -> Result<DestinationStatus, CallError> {
    let status = db
        .prepare_cached(
            "SELECT url, receiver_paused_at, receiver_paused_until, operator_paused_at, operator_paused_until,
                    operator_paused_by, operator_pause_reason, failing_since, app_id, disabled_at, disabled_reason
             FROM webhook_destinations
             WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            Ok(DestinationStatus {
                id,
                url: DestinationUrl::from_stored(row.get(0)?),
                app: row::application(row, 8)?,
                disabled: disabled(row, 9)?,
                operator_pause: operator_pause(row, now)?,
                receiver_pause: receiver_pause(row, now)?,
                circuit: None,
                failing_since: row::optional_timestamp(row, 7)?,
            })
        })
        .optional()?;
    let status = status.ok_or(StoreError::DestinationNotFound { id: id.0 })?;
    Ok(DestinationStatus { circuit: read_circuit(db, now, id)?, ..status })
}

/// Reads since when and why an endpoint is disabled, from two columns.
pub(crate) fn disabled(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<DisabledEndpoint>> {
    let Some(at) = row::optional_timestamp(row, column)? else { return Ok(None) };
    Ok(Some(DisabledEndpoint { at, reason: row::decode(row, column + 1, DisableReason::from_name)? }))
}

/// Reads the operator's pause from a row, unless it has ended.
fn operator_pause(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Option<OperatorPause>> {
    let Some(at) = row::optional_timestamp(row, 3)? else { return Ok(None) };
    let until = row::optional_timestamp(row, 4)?;
    if until.is_some_and(|until| until <= now) {
        return Ok(None);
    }
    Ok(Some(OperatorPause { actor: row.get(5)?, at, until, reason: row.get(6)? }))
}

/// Reads the receiver's pause from a row, unless it has ended.
fn receiver_pause(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Option<ReceiverPause>> {
    let (at, until) = (row::optional_timestamp(row, 1)?, row::optional_timestamp(row, 2)?);
    let pause = at.zip(until).map(|(at, until)| ReceiverPause { at, until });
    Ok(pause.filter(|pause| pause.until > now))
}

fn read_circuit(db: &Connection, now: Timestamp, id: DestinationId) -> rusqlite::Result<Option<OpenCircuit>> {
    let mut reported = db.prepare_cached(
        "SELECT since, next_probe_at, last_error
         FROM webhook_circuits
         WHERE destination_id = ?1 AND expires_at > ?2
         ORDER BY worker",
    )?;
    let rows = reported.query_map((id.0, now.as_micros()), |row| {
        Ok(OpenCircuit {
            since: row::timestamp(row, 0)?,
            next_probe_at: row::timestamp(row, 1)?,
            last_error: row.get(2)?,
        })
    })?;
    Ok(OpenCircuit::merge(rows.collect::<Result<Vec<_>, _>>()?))
}

fn read_view(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    leases: &BTreeMap<DestinationId, LeaseSummary>,
    count_max: u64,
) -> Result<DestinationView, CallError> {
    let status = read_status(db, now, id)?;
    let leased = leases.get(&id).copied().unwrap_or_default();
    let mut counted = count_queued(db, id, count_max + 1)?;
    counted.add(leased.total, leased.oldest);
    let circuit_error = status.circuit.as_ref().and_then(|circuit| circuit.last_error.clone());
    let last_error = match circuit_error {
        None => last_retry_error(db, id)?,
        error => error,
    };
    Ok(DestinationView {
        in_flight: leased.live,
        pending: counted.finish(db, now, count_max)?,
        last_error,
        status,
    })
}

/// The error of the retry that is due last. The primary key of webhook_retries, backwards.
fn last_retry_error(db: &Connection, id: DestinationId) -> rusqlite::Result<Option<String>> {
    let found = db
        .prepare_cached(
            "SELECT q.last_error
             FROM (SELECT r.id FROM webhook_retries r WHERE r.destination_id = ?1
                   ORDER BY r.next_attempt_at DESC, r.id DESC LIMIT 1) r
             JOIN webhook_queue q ON q.id = r.id",
        )?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    Ok(found.flatten())
}

/// The leases of one destination.
#[derive(Debug, Clone, Copy, Default)]
struct LeaseSummary {
    total: u64,
    /// Leases that have not expired.
    live: u64,
    oldest: Option<EventKey>,
}

/// Reads the leases of all destinations. There are no more of them than slots of workers.
fn read_leases(db: &Connection, now: Timestamp) -> rusqlite::Result<BTreeMap<DestinationId, LeaseSummary>> {
    let mut find = db.prepare_cached(
        "SELECT destination_id, lease_until FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2",
    )?;
    let mut leases: BTreeMap<DestinationId, LeaseSummary> = BTreeMap::new();
    for claim in claims::all(db)? {
        for key in claims::granted_events(db, claim)? {
            let held = find
                .query_row((key.0, claim.0), |row| Ok((DestinationId(row.get(0)?), row::timestamp(row, 1)?)))
                .optional()?;
            let Some((destination, until)) = held else { continue };
            let summary = leases.entry(destination).or_default();
            summary.total += 1;
            summary.live += u64::from(until > now);
            summary.oldest = Some(summary.oldest.map_or(key, |oldest| oldest.min(key)));
        }
    }
    Ok(leases)
}

/// A number of events, and the oldest of them. Keys are assigned in the order of creation.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    count: u64,
    oldest: Option<EventKey>,
}

impl Counted {
    fn add(&mut self, count: u64, oldest: Option<EventKey>) {
        self.count += count;
        self.oldest = self.oldest.into_iter().chain(oldest).min();
    }

    fn finish(self, db: &Connection, now: Timestamp, count_max: u64) -> rusqlite::Result<PendingCount> {
        let created_at = match self.oldest {
            None => None,
            Some(key) => db
                .prepare_cached("SELECT created_at FROM webhook_events WHERE id = ?1")?
                .query_row([key.0], |row| row::timestamp(row, 0))
                .optional()?,
        };
        Ok(PendingCount::of(self.count, count_max, created_at.map(|created_at| now.since(created_at))))
    }
}

/// First attempts of a destination, at most ?2. The primary key of webhook_first_attempts.
pub(crate) const COUNT_FIRST_ATTEMPTS: &str = "
    SELECT count(*), min(id) FROM (
        SELECT id FROM webhook_first_attempts
        WHERE destination_id = ?1
          AND id >= (SELECT first_attempts_head FROM webhook_destinations WHERE id = ?1)
        LIMIT ?2)";
/// Retries of a destination, at most ?2. The primary key of webhook_retries.
pub(crate) const COUNT_RETRIES: &str = "
    SELECT count(*), min(id) FROM (SELECT id FROM webhook_retries WHERE destination_id = ?1 LIMIT ?2)";

/// Deferred events of a destination, at most ?2. Index: webhook_deferred_id.
pub(crate) const COUNT_DEFERRED: &str = "
    SELECT count(*), min(id) FROM (
        SELECT id FROM webhook_deferred INDEXED BY webhook_deferred_id WHERE destination_id = ?1 ORDER BY id LIMIT ?2)";

/// Counts the events in the queues of a destination, which hold its pending events without a lease. Reads at most
/// `rows_max` of each queue.
fn count_queued(db: &Connection, id: DestinationId, rows_max: u64) -> rusqlite::Result<Counted> {
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let mut counted = Counted::default();
    for sql in [COUNT_FIRST_ATTEMPTS, COUNT_DEFERRED, COUNT_RETRIES] {
        let (count, oldest) = db.prepare_cached(sql)?.query_row((id.0, rows_max), |row| {
            Ok((row::unsigned(row, 0)?, row.get::<_, Option<i64>>(1)?.map(EventKey)))
        })?;
        counted.add(count, oldest);
    }
    Ok(counted)
}

/// Destinations that are paused or have an open circuit. Index: webhook_destinations_paused.
pub(crate) const HELD: &str = "
    SELECT id FROM webhook_destinations WHERE paused_until > ?1
    UNION
    SELECT destination_id FROM webhook_circuits WHERE expires_at > ?1";

/// Counts the events without a lease whose destination is paused or has an open circuit.
pub(crate) fn count_held(db: &Connection, now: Timestamp) -> rusqlite::Result<PendingCount> {
    let mut held = db.prepare_cached(HELD)?;
    let mut rows = held.query([now.as_micros()])?;
    let mut counted = Counted::default();
    while let Some(row) = rows.next()?
        && counted.count <= HELD_COUNT_MAX
    {
        let queued = count_queued(db, DestinationId(row.get(0)?), HELD_COUNT_MAX + 1 - counted.count)?;
        counted.add(queued.count, queued.oldest);
    }
    counted.finish(db, now, HELD_COUNT_MAX)
}

fn read_audit(db: &Connection, id: DestinationId) -> rusqlite::Result<Vec<DestinationAudit>> {
    // Index: webhook_destination_audit_destination.
    let mut audit = db.prepare_cached(
        "SELECT action, actor, at, paused_until, reason
         FROM webhook_destination_audit
         WHERE destination_id = ?1
         ORDER BY id DESC LIMIT ?2",
    )?;
    let limit = i64::try_from(DESTINATION_AUDIT_MAX).unwrap_or(i64::MAX);
    let rows = audit.query_map((id.0, limit), |row| {
        Ok(DestinationAudit {
            action: row::decode(row, 0, DestinationAction::from_name)?,
            actor: row.get(1)?,
            at: row::timestamp(row, 2)?,
            until: row::optional_timestamp(row, 3)?,
            reason: row.get(4)?,
        })
    })?;
    let mut latest: Vec<DestinationAudit> = rows.collect::<Result<_, _>>()?;
    latest.reverse();
    Ok(latest)
}
