//! Settle: writes the results of attempts. The event's state, the attempt, the destination's health, the totals and the
//! notice change in one transaction, fenced by the lease token. See `crates/engine/src/lease_protocol.md` for why these
//! fences are enough.

use posthaste_domain::{
    Decision, EndpointDisable, ErrorClass, EventKey, FailureKind, NoticeKind, Timestamp, Transition, WorkerId,
};
use posthaste_store::{SYSTEM_ACTOR, SettleResult, Settlement};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::claims::{ClaimNumber, EndedLeases};
use crate::destination::DestinationUpdates;
use crate::error::CallError;
use crate::key_runs::key_runs;
use crate::notices::{LogBatch, LogEntry};
use crate::registry;
use crate::token_seed::TokenSeed;
use crate::totals::TotalsChange;

/// Applies each settlement whose lease is still held, then records the others as not applied. Returns one result per
/// settlement.
pub(crate) fn settle(
    db: &Connection,
    now: Timestamp,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<SettleResult>, CallError> {
    let mut statements = Statements::prepare(db)?;
    let (mut destinations, mut totals) = (DestinationUpdates::default(), TotalsChange::default());
    let (mut ended, mut log) = (EndedLeases::default(), LogBatch::default());
    let mut held = HeldLeases::find(db, batch)?;
    let (mut applied, mut attempts, mut ended_events) = (Vec::new(), Vec::new(), Vec::new());
    for settlement in batch {
        let transition = settlement.transition.as_ref();
        let lease = held.take(transition);
        applied.push(lease.is_some());
        let Some(lease) = lease else { continue };
        match transition.decision() {
            Decision::Retry { after } => statements.retry(settlement, now.after(after), now)?,
            Decision::Delivered => ended_events.push(lease.key),
            Decision::Failed(kind) => {
                statements.fail(settlement, kind, &lease, now)?;
                ended_events.push(lease.key);
            }
        }
        let position = AttemptPosition::applied(&lease);
        attempts.push((settlement, position, lease.is_of_endpoint));
        add_changes(&mut destinations, &mut totals, transition, now);
        ended.add(lease.claim, transition.attempt() > 1);
        log.push(&log_entry(transition, transition.notice_kind(), position));
        if lease.is_of_endpoint
            && let Some(rule) = transition.endpoint_disable()
            && disable_endpoint(db, now, transition, rule, &destinations)?
        {
            let kind = NoticeKind::EndpointDisabled(rule.reason());
            log.push(&LogEntry::without_attempt(transition.key(), kind, transition.attempt()));
        }
    }
    remove_pending(db, ended_events)?;
    // In key order, so that attempts on the same page are written together.
    attempts.sort_unstable_by_key(|(settlement, ..)| settlement.transition.key());
    for (settlement, position, is_of_endpoint) in attempts {
        statements.record_attempt(settlement, position, is_of_endpoint, now, worker)?;
    }
    let mut results = Vec::with_capacity(batch.len());
    for (settlement, applied) in batch.iter().zip(applied) {
        results.push(match applied {
            true => SettleResult::Applied,
            false => record_unapplied(&mut statements, &mut log, settlement, now, worker)?,
        });
    }
    log.write(db, now)?;
    ended.write(db)?;
    destinations.write(db, now)?;
    totals.write(db)?;
    Ok(results)
}

/// Records an attempt whose lease was lost, unless it is recorded already or its event no longer exists.
fn record_unapplied(
    statements: &mut Statements<'_>,
    log: &mut LogBatch,
    settlement: &Settlement,
    now: Timestamp,
    worker: &WorkerId,
) -> rusqlite::Result<SettleResult> {
    let transition = settlement.transition.as_ref();
    match statements.find_recorded(transition)? {
        Some(true) => return Ok(SettleResult::Replayed),
        Some(false) => {}
        None => {
            if let Some((position, is_of_endpoint)) = statements.next_unapplied_position(transition)? {
                statements.record_attempt(settlement, position, is_of_endpoint, now, worker)?;
                log.push(&log_entry(transition, None, position));
            }
        }
    }
    Ok(SettleResult::Stale)
}

/// Disables the endpoint that an event was sent to, if the rule says so and it is enabled. Returns whether it did.
fn disable_endpoint(
    db: &Connection,
    now: Timestamp,
    transition: &Transition,
    rule: EndpointDisable,
    destinations: &DestinationUpdates,
) -> rusqlite::Result<bool> {
    let id = transition.destination_id();
    if let EndpointDisable::FailingFor(limit) = rule {
        let failing_since = destinations.failing_since(db, now, id)?;
        if failing_since.is_none_or(|since| now.since(since) < limit) {
            return Ok(false);
        }
    }
    registry::disable_endpoint(db, now, id, rule.reason(), SYSTEM_ACTOR)
}

fn log_entry(transition: &Transition, kind: Option<NoticeKind>, position: AttemptPosition) -> LogEntry {
    let (key, attempts) = (transition.key(), transition.attempt());
    LogEntry { key, kind, attempts, attempt_position: position.0 }
}

/// Returns when the attempt began.
fn started_at(settlement: &Settlement, now: Timestamp) -> Timestamp {
    now.before(settlement.ended_ago).before(settlement.transition.duration())
}

/// Adds the changes that a transition makes to its destination and to the totals. The stored number of attempts still
/// equals that of the lease, because only a settle changes it while the lease is held.
fn add_changes(
    destinations: &mut DestinationUpdates,
    totals: &mut TotalsChange,
    transition: &Transition,
    now: Timestamp,
) {
    let destination = transition.destination_id();
    let attempts_before = transition.attempt() - 1;
    match transition.decision() {
        Decision::Retry { after } => {
            totals.add_retried(attempts_before);
            destinations.add_retry(destination, now.after(after));
        }
        Decision::Delivered | Decision::Failed(_) => {
            totals.add_ended(attempts_before, transition.failure_kind());
        }
    }
    if let Some(wait) = transition.destination_pause() {
        destinations.add_pause(destination, wait);
    }
    destinations.add_health(destination, transition.outcome().health());
}

/// Leased events of a run, each with the seed of its token.
const LEASED: &str = "
    SELECT id, claims, lease_claim, lease_token, app_id > 0
    FROM webhook_queue
    WHERE id BETWEEN ?1 AND ?2 AND lease_token IS NOT NULL";

/// Removes the events of a run from the queue.
const REMOVE_PENDING: &str = "DELETE FROM webhook_queue WHERE id BETWEEN ?1 AND ?2";

fn remove_pending(db: &Connection, keys: Vec<EventKey>) -> rusqlite::Result<()> {
    let mut remove = db.prepare_cached(REMOVE_PENDING)?;
    for run in key_runs(keys) {
        remove.execute(run)?;
    }
    Ok(())
}

/// The lease that a transition was made under.
#[derive(Clone, Copy)]
struct SettledLease {
    key: EventKey,
    /// Ordinal of the lease within its event, from one.
    number: u32,
    claim: ClaimNumber,
    is_of_endpoint: bool,
}

/// The leases that the events of a batch have, in the order of their keys. `None` stands for a lease that a settlement has
/// ended.
struct HeldLeases(Vec<(SettledLease, Option<TokenSeed>)>);

impl HeldLeases {
    fn find(db: &Connection, batch: &[Settlement]) -> rusqlite::Result<Self> {
        let mut leased = db.prepare_cached(LEASED)?;
        let mut held = Vec::with_capacity(batch.len());
        for run in key_runs(batch.iter().map(|settlement| settlement.transition.key()).collect()) {
            let mut rows = leased.query(run)?;
            while let Some(row) = rows.next()? {
                let (key, claim) = (EventKey(row.get(0)?), ClaimNumber(row.get(2)?));
                let lease = SettledLease { key, number: row.get(1)?, claim, is_of_endpoint: row.get(4)? };
                held.push((lease, Some(TokenSeed::from_row(row, 3)?)));
            }
        }
        Ok(Self(held))
    }

    /// Ends the lease that a transition was made under and returns it. This is the fence: returns `None` if the event
    /// has no lease with the transition's token, or an earlier settlement of the batch has ended it.
    fn take(&mut self, transition: &Transition) -> Option<SettledLease> {
        let key = transition.key();
        let index = self.0.binary_search_by_key(&key, |(lease, _)| lease.key).ok()?;
        let (lease, seed) = &mut self.0[index];
        let expected = TokenSeed::of_lease(key, transition.token());
        seed.take_if(|seed| *seed == expected).map(|_| *lease)
    }
}

/// The position of a recorded attempt within its event: `webhook_attempts.position`.
#[derive(Clone, Copy)]
struct AttemptPosition(u32);

impl AttemptPosition {
    /// Positions from one applied result to the next. Those in between are for results that were not applied.
    const STEP: u32 = 256;

    /// Returns the position of the result that is applied under this lease.
    const fn applied(lease: &SettledLease) -> Self {
        Self(lease.number.saturating_mul(Self::STEP))
    }

    /// Returns the position of a result that is not applied, after the last position of its event. Returns `None` if none
    /// is left before the next applied result: then the event keeps no more of them.
    const fn unapplied(last: Option<u32>) -> Option<Self> {
        let next = match last {
            Some(last) => last.saturating_add(1),
            None => 1,
        };
        if next % Self::STEP == 0 { None } else { Some(Self(next)) }
    }

    const fn is_applied(self) -> bool {
        self.0.is_multiple_of(Self::STEP)
    }
}

/// The statements of a settle, prepared once per batch.
struct Statements<'a> {
    retry: CachedStatement<'a>,
    insert_retry: CachedStatement<'a>,
    fail: CachedStatement<'a>,
    record_attempt: CachedStatement<'a>,
    find_recorded: CachedStatement<'a>,
    last_position: CachedStatement<'a>,
}

impl<'a> Statements<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            retry: db.prepare_cached(
                "UPDATE webhook_queue
                 SET attempts = ?2, lost_leases = 0, last_error = ?3, last_attempted_at = ?4,
                     next_attempt_at = ?5, updated_at = ?6,
                     lease_token = NULL, lease_claim = NULL, lease_until = NULL
                 WHERE id = ?1",
            )?,
            insert_retry: db.prepare_cached(
                "INSERT INTO webhook_retries (destination_id, next_attempt_at, id) VALUES (?1, ?2, ?3)",
            )?,
            fail: db.prepare_cached(
                "INSERT INTO webhook_failures
                     (id, destination_id, failure_kind, attempts, claims, lost_leases, last_attempted_at,
                      last_error, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8)",
            )?,
            record_attempt: db.prepare_cached(
                "INSERT INTO webhook_attempts
                     (event_key, position, applied, lease_token, attempt, trigger, started_at, duration_us,
                      http_status, error_class, excerpt, worker_id, recorded_at, endpoint_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?,
            find_recorded: db.prepare_cached(
                "SELECT applied FROM webhook_attempts WHERE event_key = ?1 AND lease_token = ?2",
            )?,
            last_position: db.prepare_cached(
                "SELECT (SELECT max(position) FROM webhook_attempts WHERE event_key = ?1), app_id > 0
                 FROM webhook_events
                 WHERE id = ?1",
            )?,
        })
    }

    /// Returns an event to the queue of its destination, due at `due`.
    fn retry(&mut self, settlement: &Settlement, due: Timestamp, now: Timestamp) -> rusqlite::Result<()> {
        let transition = settlement.transition.as_ref();
        let key = transition.key().0;
        self.retry.execute((
            key,
            transition.attempt(),
            transition.last_error(),
            started_at(settlement, now).as_micros(),
            due.as_micros(),
            now.as_micros(),
        ))?;
        self.insert_retry.execute((transition.destination_id().0, due.as_micros(), key))?;
        Ok(())
    }

    /// Dead-letters an event. The caller removes it from the queue.
    fn fail(
        &mut self,
        settlement: &Settlement,
        kind: FailureKind,
        lease: &SettledLease,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let transition = settlement.transition.as_ref();
        self.fail.execute((
            lease.key.0,
            transition.destination_id().0,
            kind.as_str(),
            transition.attempt(),
            lease.number,
            started_at(settlement, now).as_micros(),
            transition.last_error(),
            now.as_micros(),
        ))?;
        Ok(())
    }

    /// Finds the attempt that is recorded under the transition's token, and returns whether it was applied.
    fn find_recorded(&mut self, transition: &Transition) -> rusqlite::Result<Option<bool>> {
        let by = (transition.key().0, transition.token().as_uuid().into_bytes());
        self.find_recorded.query_row(by, |row| row.get(0)).optional()
    }

    /// Returns the position at which an attempt that was not applied is recorded, and whether its event is one of an endpoint.
    /// Returns `None` if its event no longer exists or has no position left.
    fn next_unapplied_position(
        &mut self,
        transition: &Transition,
    ) -> rusqlite::Result<Option<(AttemptPosition, bool)>> {
        let last = self.last_position.query_row([transition.key().0], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(last.optional()?.and_then(|(last, is_of_endpoint)| {
            AttemptPosition::unapplied(last).map(|position| (position, is_of_endpoint))
        }))
    }

    fn record_attempt(
        &mut self,
        settlement: &Settlement,
        position: AttemptPosition,
        is_of_endpoint: bool,
        now: Timestamp,
        worker: &WorkerId,
    ) -> rusqlite::Result<()> {
        let transition = settlement.transition.as_ref();
        let outcome = transition.outcome();
        self.record_attempt.execute((
            transition.key().0,
            position.0,
            position.is_applied(),
            transition.token().as_uuid().into_bytes(),
            transition.attempt(),
            transition.trigger().as_str(),
            started_at(settlement, now).as_micros(),
            i64::try_from(transition.duration().as_micros()).unwrap_or(i64::MAX),
            outcome.http_status(),
            outcome.error_class().map(ErrorClass::as_str),
            outcome.excerpt().as_str(),
            worker.as_str(),
            now.as_micros(),
            is_of_endpoint.then_some(transition.destination_id().0),
        ))?;
        Ok(())
    }
}
