//! Settle: writes the results of attempts. The event's state, the attempt, the destination's health, the totals and the
//! notice change in one transaction, fenced by the lease token. See `crates/engine/src/lease_protocol.md` for why these
//! fences are enough.

use posthaste_domain::{Decision, ErrorClass, Timestamp, Transition, WorkerId};
use posthaste_store::{SettleResult, Settlement};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::claims::{ClaimNumber, EndedLeases};
use crate::destination::DestinationUpdates;
use crate::error::CallError;
use crate::notices::{LogBatch, LogEntry};
use crate::totals::TotalsChange;

/// Applies each settlement whose lease is still held and returns one result per settlement.
pub(crate) fn settle(
    db: &Connection,
    now: Timestamp,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<SettleResult>, CallError> {
    let mut statements = Statements::prepare(db)?;
    let (mut destinations, mut totals) = (DestinationUpdates::default(), TotalsChange::default());
    let (mut ended, mut log) = (EndedLeases::default(), LogBatch::default());
    let mut results = Vec::with_capacity(batch.len());
    for settlement in batch {
        let transition = settlement.transition.as_ref();
        let Some(lease) = statements.find_lease(transition)? else {
            let is_recorded = statements.is_recorded(transition)?;
            results.push(if is_recorded { SettleResult::Replayed } else { SettleResult::Stale });
            continue;
        };
        let started_at = now.before(settlement.ended_ago).before(transition.duration());
        statements.apply(transition, &lease, started_at, now)?;
        statements.record_attempt(transition, &lease, started_at, now, worker)?;
        add_changes(&mut destinations, &mut totals, transition, now);
        ended.add(lease.claim, transition.attempt() > 1);
        log.push(&LogEntry {
            key: transition.key(),
            kind: transition.notice_kind(),
            attempts: transition.attempt(),
            lease_number: lease.number,
        });
        results.push(SettleResult::Applied);
    }
    log.write(db, now)?;
    ended.write(db)?;
    destinations.write(db, now)?;
    totals.write(db)?;
    Ok(results)
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

/// The statements of a settle, prepared once per batch.
struct Statements<'a> {
    find_lease: CachedStatement<'a>,
    retry: CachedStatement<'a>,
    insert_retry: CachedStatement<'a>,
    fail: CachedStatement<'a>,
    delete_pending: CachedStatement<'a>,
    record_attempt: CachedStatement<'a>,
    find_attempt: CachedStatement<'a>,
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
                     (event_key, lease_number, lease_token, attempt, trigger, started_at, duration_us,
                      http_status, error_class, excerpt, worker_id, recorded_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?,
            find_attempt: db
                .prepare_cached("SELECT 1 FROM webhook_attempts WHERE event_key = ?1 AND lease_token = ?2")?,
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

    /// Returns whether an attempt is recorded under the transition's token: the settlement was applied before.
    fn is_recorded(&mut self, transition: &Transition) -> rusqlite::Result<bool> {
        self.find_attempt.exists((transition.key().0, transition.token().as_uuid().into_bytes()))
    }

    fn record_attempt(
        &mut self,
        transition: &Transition,
        lease: &SettledLease,
        started_at: Timestamp,
        now: Timestamp,
        worker: &WorkerId,
    ) -> rusqlite::Result<()> {
        let outcome = transition.outcome();
        self.record_attempt.execute((
            transition.key().0,
            lease.number,
            transition.token().as_uuid().into_bytes(),
            transition.attempt(),
            transition.trigger().as_str(),
            started_at.as_micros(),
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
