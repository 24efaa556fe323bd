//! Writing what attempts led to: the row, the attempt, the destination's health, the totals and the notice, together.

use posthaste_domain::{Decision, ErrorClass, Timestamp, Transition, WorkerId};
use posthaste_store::{Settled, Settlement};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::claims::{ClaimNumber, Ended};
use crate::destination::News;
use crate::fault::Fault;
use crate::notices::{Entries, Entry};
use crate::totals::Change;

pub(crate) fn settle(
    db: &Connection,
    now: Timestamp,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<Settled>, Fault> {
    let mut writing = Statements::prepare(db)?;
    let (mut news, mut change) = (News::default(), Change::default());
    let (mut ended, mut entries) = (Ended::default(), Entries::default());
    let mut settled = Vec::with_capacity(batch.len());
    for settlement in batch {
        let transition = settlement.transition.as_ref();
        let Some(held) = writing.held(transition)? else {
            settled.push(if writing.is_recorded(transition)? { Settled::Replayed } else { Settled::Stale });
            continue;
        };
        let started_at = now.before(settlement.ended_ago).before(transition.duration());
        writing.apply(transition, &held, started_at, now)?;
        writing.record(transition, &held, started_at, now, worker)?;
        tell(&mut news, &mut change, transition, now);
        ended.count(held.claim, transition.attempt() > 1);
        entries.push(&Entry {
            key: transition.key(),
            kind: transition.notice(),
            attempts: transition.attempt(),
            lease: held.lease,
        });
        settled.push(Settled::Applied);
    }
    entries.write(db, now)?;
    ended.write(db)?;
    news.write(db, now)?;
    change.write(db)?;
    Ok(settled)
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

/// The lease that a transition was made under.
struct Held {
    /// How many leases the event had been granted when this one was.
    lease: u32,
    claim: ClaimNumber,
}

/// Prepared once for all of a batch.
struct Statements<'a> {
    held: CachedStatement<'a>,
    retry: CachedStatement<'a>,
    put_in_line: CachedStatement<'a>,
    fail: CachedStatement<'a>,
    leave: CachedStatement<'a>,
    record: CachedStatement<'a>,
    find_record: CachedStatement<'a>,
}

impl<'a> Statements<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            held: db.prepare_cached(
                "SELECT claims, lease_claim FROM webhook_queue WHERE id = ?1 AND lease_token = ?2",
            )?,
            retry: db.prepare_cached(
                "UPDATE webhook_queue
                 SET attempts = ?2, lost_leases = 0, last_error = ?3, last_attempted_at = ?4,
                     next_attempt_at = ?5, updated_at = ?6,
                     lease_token = NULL, lease_claim = NULL, lease_until = NULL
                 WHERE id = ?1",
            )?,
            put_in_line: db.prepare_cached(
                "INSERT INTO webhook_retries (destination_id, next_attempt_at, id) VALUES (?1, ?2, ?3)",
            )?,
            fail: db.prepare_cached(
                "INSERT INTO webhook_failures
                     (id, destination_id, failure_kind, attempts, claims, lost_leases, last_attempted_at,
                      last_error, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8)",
            )?,
            leave: db.prepare_cached("DELETE FROM webhook_queue WHERE id = ?1")?,
            record: db.prepare_cached(
                "INSERT INTO webhook_attempts
                     (event_key, lease, lease_token, attempt, trigger, started_at, duration_us,
                      http_status, error_class, excerpt, worker_id, recorded_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?,
            find_record: db
                .prepare_cached("SELECT 1 FROM webhook_attempts WHERE event_key = ?1 AND lease_token = ?2")?,
        })
    }

    /// The fence: none when the event is no longer under the transition's token.
    fn held(&mut self, transition: &Transition) -> rusqlite::Result<Option<Held>> {
        let by = (transition.key().0, transition.token().as_uuid().into_bytes());
        self.held
            .query_row(by, |row| Ok(Held { lease: row.get(0)?, claim: ClaimNumber(row.get(1)?) }))
            .optional()
    }

    fn apply(
        &mut self,
        transition: &Transition,
        held: &Held,
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
                self.put_in_line.execute((destination, due, key))?;
            }
            Decision::Delivered => {
                self.leave.execute([key])?;
            }
            Decision::Failed(kind) => {
                self.fail.execute((
                    key,
                    destination,
                    kind.as_str(),
                    attempts,
                    held.lease,
                    started_at.as_micros(),
                    transition.last_error(),
                    now.as_micros(),
                ))?;
                self.leave.execute([key])?;
            }
        }
        Ok(())
    }

    fn is_recorded(&mut self, transition: &Transition) -> rusqlite::Result<bool> {
        self.find_record.exists((transition.key().0, transition.token().as_uuid().into_bytes()))
    }

    fn record(
        &mut self,
        transition: &Transition,
        held: &Held,
        started_at: Timestamp,
        now: Timestamp,
        worker: &WorkerId,
    ) -> rusqlite::Result<()> {
        let outcome = transition.outcome();
        self.record.execute((
            transition.key().0,
            held.lease,
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
