//! Repairs times that lie too far ahead, because the host's clock has stepped back since they were written.
//!
//! A lease that was granted before the step would end late by the length of the step, and so would the delay of a retry and
//! a pause. No lease is taken over before its time: a lease that ends later than a full lease from now is shortened to end
//! then. A live worker renews its leases before that; the leases of a dead worker expire. A delay or a pause that began in
//! the future begins now. A resume in the future happened now. Circuit reports from the future are forgotten; live workers
//! repeat theirs.
//!
//! Times are compared with the clock at the start of the process and after every step back, in a walk of which each claim
//! does a part. Otherwise a command costs one comparison of two times.

use std::time::Duration;

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use rusqlite::Connection;

use crate::claims;
use crate::destination::DestinationUpdates;
use crate::destination_queue::{self, QueueEntry};
use crate::row;

/// Retries or deferred events that one claim examines, and paused destinations that it repairs.
const STEP_ROWS_MAX: i64 = 2_000;
/// Largest step back that is ignored. It delays retries by no more than this.
const IGNORED_STEP: Duration = Duration::from_millis(100);

/// The state of the repair. The writer thread keeps it in memory.
#[derive(Debug)]
pub(crate) struct ClockRepair {
    /// The latest time since the last step back.
    latest: Timestamp,
    /// The walk that compares times with the clock; none if it is complete.
    walk: Option<Walk>,
}

/// A walk: first leases and destinations, then retries and deferred events, each in the order of their primary key.
#[derive(Debug, Clone, Copy)]
struct Walk {
    /// Destination, due time and key of the last event examined; none if the walk of its queue has not begun.
    after: Option<(i64, i64, i64)>,
    queue: DelayedQueue,
    /// Whether this walk has repaired a time. Its transaction may have been rolled back, so another walk follows.
    has_repaired: bool,
}

/// A queue in the order of due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DelayedQueue {
    Retries,
    Deferred,
}

const NEW_WALK: Walk = Walk { after: None, queue: DelayedQueue::Retries, has_repaired: false };

impl Default for ClockRepair {
    fn default() -> Self {
        Self { latest: Timestamp::default(), walk: Some(NEW_WALK) }
    }
}

impl ClockRepair {
    /// Compares the clock with its latest time. A step back starts a new walk.
    pub(crate) fn observe(&mut self, now: Timestamp) {
        if now < self.latest.before(IGNORED_STEP) {
            *self = Self { latest: now, walk: Some(NEW_WALK) };
        }
        self.latest = self.latest.max(now);
    }

    /// Does the next part of the walk, if there is one.
    pub(crate) fn run(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        let Some(mut walk) = self.walk else { return Ok(()) };
        if walk.after.is_none() && walk.queue == DelayedQueue::Retries {
            walk.has_repaired |= shorten_leases(db, now)? | repair_destinations(db, now)?;
        }
        self.walk = restart_delays(db, now, walk)?;
        Ok(())
    }
}

/// Shortens leases that end later than a full lease from now. Reads all leases. Returns whether it shortened one.
fn shorten_leases(db: &Connection, now: Timestamp) -> rusqlite::Result<bool> {
    let mut shorten = db.prepare_cached(
        "UPDATE webhook_queue SET lease_until = ?3 WHERE id = ?1 AND lease_claim = ?2 AND lease_until > ?3",
    )?;
    let mut has_shortened = false;
    for (claim, lease) in claims::all_with_duration(db)? {
        let latest_end = now.after(lease);
        let mut shortened = 0;
        for key in claims::granted_events(db, claim)? {
            shortened += shorten.execute((key.0, claim.0, latest_end.as_micros()))?;
        }
        if shortened > 0 {
            claims::record_new_end(db, claim, lease, latest_end)?;
            has_shortened = true;
        }
    }
    Ok(has_shortened)
}

/// Restarts pauses that began later than now. Index: webhook_destinations_paused.
pub(crate) const RESTART_PAUSES: &str = "
    UPDATE webhook_destinations
    SET paused_until = CASE WHEN disabled_at IS NOT NULL THEN paused_until ELSE max(
            coalesce(receiver_paused_until - max(receiver_paused_at - ?1, 0), 0),
            CASE WHEN operator_paused_at IS NULL THEN 0
                 ELSE coalesce(operator_paused_until - max(operator_paused_at - ?1, 0), 9223372036854775807) END
        ) END,
        receiver_paused_until = receiver_paused_until - max(receiver_paused_at - ?1, 0),
        receiver_paused_at    = min(receiver_paused_at, ?1),
        operator_paused_until = operator_paused_until - max(operator_paused_at - ?1, 0),
        operator_paused_at    = min(operator_paused_at, ?1)
    WHERE id IN (SELECT id FROM webhook_destinations
                 WHERE paused_until > ?1 AND (receiver_paused_at > ?1 OR operator_paused_at > ?1)
                 LIMIT ?2)";

/// Dates resumes that lie in the future. Index: webhook_destinations_resumed.
pub(crate) const DATE_RESUMES: &str = "UPDATE webhook_destinations SET resumed_at = ?1 WHERE resumed_at > ?1";

/// Repairs pauses, resumes and circuit reports. Returns whether it changed one.
fn repair_destinations(db: &Connection, now: Timestamp) -> rusqlite::Result<bool> {
    let now = now.as_micros();
    let restarted = db.prepare_cached(RESTART_PAUSES)?.execute((now, STEP_ROWS_MAX))?;
    let dated = db.prepare_cached(DATE_RESUMES)?.execute([now])?;
    let forgotten =
        db.prepare_cached("DELETE FROM webhook_circuits WHERE reported_at > ?1")?.execute([now])?;
    Ok(restarted + dated + forgotten > 0)
}

/// Retries after a position, with the time when they were written. Both tables by primary key.
pub(crate) const RETRIES_AFTER: &str = "
    SELECT r.destination_id, r.next_attempt_at, r.id, q.updated_at, q.attempts
    FROM webhook_retries r
    CROSS JOIN webhook_queue q ON q.id = r.id
    WHERE (r.destination_id, r.next_attempt_at, r.id) > (?1, ?2, ?3)
    ORDER BY r.destination_id, r.next_attempt_at, r.id
    LIMIT ?4";

/// Deferred events after a position, with the time when they were written. Both tables by primary key.
pub(crate) const DEFERRED_AFTER: &str = "
    SELECT r.destination_id, r.next_attempt_at, r.id, q.updated_at, q.attempts
    FROM webhook_deferred r
    CROSS JOIN webhook_queue q ON q.id = r.id
    WHERE (r.destination_id, r.next_attempt_at, r.id) > (?1, ?2, ?3)
    ORDER BY r.destination_id, r.next_attempt_at, r.id
    LIMIT ?4";

/// Examines the next events of the walk, and restarts the delays of those that were written later than now. Returns where
/// the walk continues; none if it is complete and has repaired nothing.
fn restart_delays(db: &Connection, now: Timestamp, walk: Walk) -> rusqlite::Result<Option<Walk>> {
    let (destination, due, key) = walk.after.unwrap_or((i64::MIN, i64::MIN, i64::MIN));
    let mut examine = db.prepare_cached(match walk.queue {
        DelayedQueue::Retries => RETRIES_AFTER,
        DelayedQueue::Deferred => DEFERRED_AFTER,
    })?;
    let examined: Vec<(QueueEntry, Timestamp)> = examine
        .query_map((destination, due, key, STEP_ROWS_MAX), |row| {
            let entry = QueueEntry {
                key: EventKey(row.get(2)?),
                destination: DestinationId(row.get(0)?),
                attempts: row.get(4)?,
                due: row::timestamp(row, 1)?,
                requeued_at: None,
                is_deferred: walk.queue == DelayedQueue::Deferred,
                is_of_endpoint: false,
            };
            Ok((entry, row::timestamp(row, 3)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut destinations = DestinationUpdates::default();
    let mut restart =
        db.prepare_cached("UPDATE webhook_queue SET next_attempt_at = ?2, updated_at = ?3 WHERE id = ?1")?;
    let mut has_repaired = walk.has_repaired;
    for (entry, written_at) in examined.iter().filter(|(_, written_at)| *written_at > now) {
        let due = now.after(entry.due.since(*written_at));
        destination_queue::remove(db, entry)?;
        destination_queue::insert(db, &QueueEntry { due, ..*entry })?;
        restart.execute((entry.key.0, due.as_micros(), now.as_micros()))?;
        if entry.is_retry() {
            destinations.add_retry(entry.destination, due);
        }
        has_repaired = true;
    }
    destinations.write(db, now)?;
    let is_complete = i64::try_from(examined.len()).is_ok_and(|examined| examined < STEP_ROWS_MAX);
    Ok(match examined.last() {
        Some((last, _)) if !is_complete => {
            let after = Some((last.destination.0, last.due.as_micros(), last.key.0));
            Some(Walk { after, has_repaired, ..walk })
        }
        _ if walk.queue == DelayedQueue::Retries => {
            Some(Walk { after: None, queue: DelayedQueue::Deferred, has_repaired })
        }
        _ => has_repaired.then_some(NEW_WALK),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{connect, migrate};

    const HOUR: Duration = Duration::from_secs(3_600);
    const DELAY: Duration = Duration::from_secs(60);
    const RETRIES: i64 = 2 * STEP_ROWS_MAX + 500;

    /// A database with retries that were written at `written_at`.
    fn database(written_at: Timestamp) -> (Connection, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let db = connect::open_writer(&path, Duration::from_secs(5)).unwrap();
        migrate::migrate_to_latest(&db, &path).unwrap();
        let times = (RETRIES, written_at.as_micros(), written_at.after(DELAY).as_micros());
        for sql in [
            "INSERT INTO webhook_destinations (url, created_at, earliest_retry_at)
             SELECT 'https://a.example/', ?2, ?3 WHERE ?1 > 0",
            "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?1)
             INSERT INTO webhook_queue (id, destination_id, attempts, next_attempt_at, updated_at)
             SELECT id, 1, 1, ?3, ?2 FROM n",
            "INSERT INTO webhook_retries (destination_id, next_attempt_at, id)
             SELECT destination_id, ?3, id FROM webhook_queue WHERE updated_at = ?2 AND id <= ?1",
        ] {
            db.execute(sql, times).unwrap();
        }
        (db, directory)
    }

    /// Does one part of the walk in a transaction, which the statement ends.
    fn run(repair: &mut ClockRepair, db: &Connection, now: Timestamp, end: &str) {
        db.execute_batch("BEGIN").unwrap();
        repair.run(db, now).unwrap();
        db.execute_batch(end).unwrap();
    }

    /// Counts the retries that are due within their delay.
    fn repaired(db: &Connection, now: Timestamp) -> i64 {
        let sql = "SELECT count(*) FROM webhook_retries r JOIN webhook_queue q USING (id, next_attempt_at)
                   WHERE next_attempt_at <= ?1";
        db.query_row(sql, [now.after(DELAY).as_micros()], |row| row.get(0)).unwrap()
    }

    #[test]
    fn each_claim_repairs_a_bounded_number_of_retries_until_all_are_repaired() {
        let before = Timestamp::from_secs(1_700_000_000);
        let (db, _directory) = database(before);
        let mut repair = ClockRepair::default();
        let now = before.before(HOUR);
        let mut counts = Vec::new();
        for _ in 0..3 {
            repair.observe(now);
            run(&mut repair, &db, now, "COMMIT");
            counts.push(repaired(&db, now));
        }
        assert_eq!(counts, [STEP_ROWS_MAX, 2 * STEP_ROWS_MAX, RETRIES]);
        let earliest = "SELECT earliest_retry_at FROM webhook_destinations";
        let earliest: i64 = db.query_row(earliest, [], |row| row.get(0)).unwrap();
        assert_eq!(earliest, now.after(DELAY).as_micros());
    }

    #[test]
    fn only_the_start_and_a_step_back_cost_a_walk() {
        let written_at = Timestamp::from_secs(1_700_000_000);
        let (db, _directory) = database(written_at);
        let mut repair = ClockRepair::default();
        let mut walk_to_the_end = |now: Timestamp| {
            let mut steps = 0;
            repair.observe(now);
            while repair.walk.is_some() {
                run(&mut repair, &db, now, "COMMIT");
                steps += 1;
            }
            steps
        };
        // Three for the retries, and one that finds no deferred event.
        let steps_of_a_walk = 4;
        assert_eq!(walk_to_the_end(written_at.after(HOUR)), steps_of_a_walk);
        assert_eq!(walk_to_the_end(written_at.after(2 * HOUR)), 0);
        assert_eq!(walk_to_the_end(written_at.after(2 * HOUR).before(IGNORED_STEP)), 0);
        // The first walk repairs, and the second one finds nothing more.
        assert_eq!(walk_to_the_end(written_at.before(HOUR)), 2 * steps_of_a_walk);
        assert_eq!(repaired(&db, written_at.before(HOUR)), RETRIES);
    }

    #[test]
    fn a_repair_that_was_rolled_back_is_made_again() {
        let before = Timestamp::from_secs(1_700_000_000);
        let (db, _directory) = database(before);
        let (mut repair, now) = (ClockRepair::default(), before.before(HOUR));
        run(&mut repair, &db, now, "ROLLBACK");
        while repair.walk.is_some() {
            run(&mut repair, &db, now, "COMMIT");
        }
        assert_eq!(repaired(&db, now), RETRIES);
    }
}
