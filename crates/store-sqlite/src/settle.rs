//! Settle: writes the results of attempts. The event's state, the attempt, the destination's health, the totals and the
//! notice change in one transaction, fenced by the lease token. See `crates/engine/src/lease_protocol.md` for why these
//! fences are enough.

use posthaste_domain::{Decision, ErrorClass, NoticeKind, Timestamp, Transition, WorkerId};
use posthaste_store::{SettleResult, Settlement};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::claims::{ClaimNumber, EndedLeases};
use crate::destination::DestinationUpdates;
use crate::error::CallError;
use crate::notices::{LogBatch, LogEntry};
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
    let mut applied = Vec::with_capacity(batch.len());
    for settlement in batch {
        let transition = settlement.transition.as_ref();
        let lease = statements.find_lease(transition)?;
        applied.push(lease.is_some());
        let Some(lease) = lease else { continue };
        let started_at = started_at(settlement, now);
        statements.apply(transition, &lease, started_at, now)?;
        statements.record_attempt(settlement, AttemptPosition::applied(&lease), now, worker)?;
        add_changes(&mut destinations, &mut totals, transition, now);
        ended.add(lease.claim, transition.attempt() > 1);
        log.push(&log_entry(transition, transition.notice_kind(), AttemptPosition::applied(&lease)));
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
            if let Some(position) = statements.next_unapplied_position(transition)? {
                statements.record_attempt(settlement, position, now, worker)?;
                log.push(&log_entry(transition, None, position));
            }
        }
    }
    Ok(SettleResult::Stale)
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

/// The lease that a transition was made under.
struct SettledLease {
    /// Ordinal of the lease within its event, from one.
    number: u32,
    claim: ClaimNumber,
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
    find_lease: CachedStatement<'a>,
    retry: CachedStatement<'a>,
    insert_retry: CachedStatement<'a>,
    fail: CachedStatement<'a>,
    delete_pending: CachedStatement<'a>,
    record_attempt: CachedStatement<'a>,
    find_recorded: CachedStatement<'a>,
    last_position: CachedStatement<'a>,
}

impl<'a> Statements<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            find_lease: db.prepare_cached(
                "SELECT claims, lease_claim FROM webhook_queue WHERE id = ?1 AND lease_token = ?2",
            )?,
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
            delete_pending: db.prepare_cached("DELETE FROM webhook_queue WHERE id = ?1")?,
            record_attempt: db.prepare_cached(
                "INSERT INTO webhook_attempts
                     (event_key, position, applied, lease_token, attempt, trigger, started_at, duration_us,
                      http_status, error_class, excerpt, worker_id, recorded_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?,
            find_recorded: db.prepare_cached(
                "SELECT applied FROM webhook_attempts WHERE event_key = ?1 AND lease_token = ?2",
            )?,
            last_position: db.prepare_cached(
                "SELECT (SELECT max(position) FROM webhook_attempts WHERE event_key = ?1)
                 FROM webhook_events
                 WHERE id = ?1",
            )?,
        })
    }

    /// Finds the lease that a transition was made under. This is the fence: it returns `None` if the event no longer
    /// has the transition's token.
    fn find_lease(&mut self, transition: &Transition) -> rusqlite::Result<Option<SettledLease>> {
        let by = (transition.key().0, transition.token().as_uuid().into_bytes());
        self.find_lease
            .query_row(by, |row| Ok(SettledLease { number: row.get(0)?, claim: ClaimNumber(row.get(1)?) }))
            .optional()
    }

    /// Writes the event's new state.
    fn apply(
        &mut self,
        transition: &Transition,
        lease: &SettledLease,
        started_at: Timestamp,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let (key, attempts) = (transition.key().0, transition.attempt());
        let destination = transition.destination_id().0;
        match transition.decision() {
            Decision::Retry { after } => {
                let due = now.after(after).as_micros();
                self.retry.execute((
                    key,
                    attempts,
                    transition.last_error(),
                    started_at.as_micros(),
                    due,
                    now.as_micros(),
                ))?;
                self.insert_retry.execute((destination, due, key))?;
            }
            Decision::Delivered => {
                self.delete_pending.execute([key])?;
            }
            Decision::Failed(kind) => {
                self.fail.execute((
                    key,
                    destination,
                    kind.as_str(),
                    attempts,
                    lease.number,
                    started_at.as_micros(),
                    transition.last_error(),
                    now.as_micros(),
                ))?;
                self.delete_pending.execute([key])?;
            }
        }
        Ok(())
    }

    /// Finds the attempt that is recorded under the transition's token, and returns whether it was applied.
    fn find_recorded(&mut self, transition: &Transition) -> rusqlite::Result<Option<bool>> {
        let by = (transition.key().0, transition.token().as_uuid().into_bytes());
        self.find_recorded.query_row(by, |row| row.get(0)).optional()
    }

    /// Returns the position at which an attempt that was not applied is recorded. Returns `None` if its event no longer
    /// exists or has no position left.
    fn next_unapplied_position(
        &mut self,
        transition: &Transition,
    ) -> rusqlite::Result<Option<AttemptPosition>> {
        let last = self.last_position.query_row([transition.key().0], |row| row.get(0)).optional()?;
        Ok(last.and_then(AttemptPosition::unapplied))
    }

    fn record_attempt(
        &mut self,
        settlement: &Settlement,
        position: AttemptPosition,
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
        ))?;
        Ok(())
    }
}
