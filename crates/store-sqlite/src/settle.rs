//! Writing what attempts led to: the row, the attempt, the destination's health, the totals and the notice, together.

use posthaste_domain::{Decision, ErrorClass, FailureKind, Timestamp, Transition, WorkerId};
use posthaste_store::{Settled, Settlement};
use rusqlite::{CachedStatement, Connection};

use crate::destination::News;
use crate::fault::Fault;
use crate::notices;
use crate::totals::Change;

pub(crate) fn settle(
    db: &Connection,
    now: Timestamp,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<Settled>, Fault> {
    let mut writing = Statements::prepare(db)?;
    let (mut news, mut change) = (News::default(), Change::default());
    let last_attempt = last_attempt(db)?;
    let mut is_told = false;
    let mut settled = Vec::with_capacity(batch.len());
    for settlement in batch {
        let transition = settlement.transition.as_ref();
        let started_at = now.before(settlement.ended_ago).before(transition.duration());
        if !writing.apply(transition, started_at, now)? {
            settled.push(if writing.is_recorded(transition)? { Settled::Replayed } else { Settled::Stale });
            continue;
        }
        writing.record(transition, started_at, now, worker)?;
        tell(&mut news, &mut change, transition, now);
        is_told |= transition.notice().is_some();
        settled.push(Settled::Applied);
    }
    if is_told {
        notices::publish_attempts_after(db, now, last_attempt)?;
    }
    news.write(db, now)?;
    change.write(db)?;
    Ok(settled)
}

fn last_attempt(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT coalesce(max(id), 0) FROM webhook_attempts")?.query_row([], |row| row.get(0))
}

/// The row's count of attempts was that of the lease: nothing else changes it while the lease is held.
fn tell(news: &mut News, change: &mut Change, transition: &Transition, now: Timestamp) {
    let destination = transition.destination_id();
    let attempts_before = transition.attempt() - 1;
    match transition.decision() {
        Decision::Retry { after } => {
            change.retried(attempts_before);
            news.retry(destination, now.after(after));
        }
        Decision::Delivered | Decision::Failed(_) => change.ended(attempts_before, transition.status()),
    }
    if let Some(wait) = transition.pause() {
        news.pause(destination, wait);
    }
    news.health(destination, transition.outcome().health());
}

/// Prepared once for all of a batch.
struct Statements<'a> {
    retry: CachedStatement<'a>,
    end: CachedStatement<'a>,
    record: CachedStatement<'a>,
    find_record: CachedStatement<'a>,
}

impl<'a> Statements<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            // Two statements, because one that names the status rewrites the indexes by status, changed or not.
            retry: db.prepare_cached(
                "UPDATE webhook_outbox_events
                 SET attempts = ?3, lost_leases = 0, last_error = ?4, last_attempted_at = ?5,
                     next_attempt_at = ?6, updated_at = ?7,
                     lease_token = NULL, lease_claim = NULL, lease_owner = NULL, lease_until = NULL
                 WHERE id = ?1 AND lease_token = ?2",
            )?,
            end: db.prepare_cached(
                "UPDATE webhook_outbox_events
                 SET delivery_status = ?6, failure_kind = ?7, delivered_at = CASE ?6 WHEN 'delivered' THEN ?8 END,
                     attempts = ?3, lost_leases = 0, last_error = ?4, last_attempted_at = ?5,
                     next_attempt_at = NULL, updated_at = ?8,
                     lease_token = NULL, lease_claim = NULL, lease_owner = NULL, lease_until = NULL
                 WHERE id = ?1 AND lease_token = ?2",
            )?,
            record: db.prepare_cached(
                "INSERT INTO webhook_attempts
                     (event_key, lease_token, destination_id, attempt, trigger, started_at, duration_us,
                      http_status, error_class, excerpt, worker_id, recorded_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?,
            // Index: webhook_attempts_token.
            find_record: db
                .prepare_cached("SELECT 1 FROM webhook_attempts WHERE event_key = ?1 AND lease_token = ?2")?,
        })
    }

    /// True when the row was under the transition's token, and so was changed.
    fn apply(
        &mut self,
        transition: &Transition,
        started_at: Timestamp,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        let key = transition.key().0;
        let token = transition.token().as_uuid().into_bytes();
        let attempts = transition.attempt();
        let last_error = transition.last_error();
        let changed = match transition.decision() {
            Decision::Retry { after } => self.retry.execute((
                key,
                token,
                attempts,
                last_error,
                started_at.as_micros(),
                now.after(after).as_micros(),
                now.as_micros(),
            )),
            Decision::Delivered | Decision::Failed(_) => self.end.execute((
                key,
                token,
                attempts,
                last_error,
                started_at.as_micros(),
                transition.status().as_str(),
                transition.failure_kind().map(FailureKind::as_str),
                now.as_micros(),
            )),
        };
        Ok(changed? == 1)
    }

    fn is_recorded(&mut self, transition: &Transition) -> rusqlite::Result<bool> {
        self.find_record.exists((transition.key().0, transition.token().as_uuid().into_bytes()))
    }

    fn record(
        &mut self,
        transition: &Transition,
        started_at: Timestamp,
        now: Timestamp,
        worker: &WorkerId,
    ) -> rusqlite::Result<()> {
        let outcome = transition.outcome();
        self.record.execute((
            transition.key().0,
            transition.token().as_uuid().into_bytes(),
            transition.destination_id().0,
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
