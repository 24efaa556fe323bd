//! Reports of workers: their rows, and the buckets of the history.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DestinationId, LatencyHistogram, Timestamp, WorkerId};
use posthaste_store::{
    AHEAD_MAX, Activity, ActivityBucket, ActivityCounts, ActivityReport, History, HistoryRange,
    RECEIVERS_SHOWN_FOR, REMOVED_MAX, ReceiverActivity, Resolution, StoreError, WORKER_KEPT_FOR,
    WORKER_LISTED_FOR, WORKERS_LISTED_MAX, WorkerStatus,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::SqliteStore;
use crate::command::CommandKind;
use crate::error::CallError;
use crate::row;

/// Reads the number of the last report of a process by primary key.
pub(crate) const LAST_SEQUENCE: &str = "SELECT last_sequence FROM webhook_workers WHERE process = ?1";

/// The columns that [`bucket`] reads, in its order.
macro_rules! bucket_columns {
    () => {
        "at, delivered_count, retried_count, failed_count, latency_counts, pending_count, dead_letter_count"
    };
}

/// Reads one bucket by primary key.
pub(crate) const BUCKET: &str =
    concat!("SELECT ", bucket_columns!(), " FROM webhook_activity WHERE step_seconds = ?1 AND at = ?2");

/// Reads the buckets of a period by primary key.
pub(crate) const BUCKETS: &str = concat!(
    "SELECT ",
    bucket_columns!(),
    " FROM webhook_activity WHERE step_seconds = ?1 AND at >= ?2 AND at <= ?3 ORDER BY at"
);

/// Deletes up to ?3 buckets that began before ?2, by primary key.
pub(crate) const REMOVE_OLD_BUCKETS: &str = "
    DELETE FROM webhook_activity
    WHERE step_seconds = ?1 AND at IN
        (SELECT at FROM webhook_activity WHERE step_seconds = ?1 AND at < ?2 ORDER BY at LIMIT ?3)";

/// Deletes up to ?3 buckets that begin after ?2, by primary key.
pub(crate) const REMOVE_BUCKETS_AHEAD: &str = "
    DELETE FROM webhook_activity
    WHERE step_seconds = ?1 AND at IN
        (SELECT at FROM webhook_activity WHERE step_seconds = ?1 AND at > ?2 ORDER BY at LIMIT ?3)";

/// Dates heartbeats that lie ahead now. Index: webhook_workers_heartbeat.
pub(crate) const DATE_HEARTBEATS: &str =
    "UPDATE webhook_workers SET heartbeat_at = ?2 WHERE heartbeat_at > ?1";

/// Deletes up to ?2 workers that have not reported since ?1. Index: webhook_workers_heartbeat.
pub(crate) const REMOVE_OLD_WORKERS: &str = "
    DELETE FROM webhook_workers WHERE process IN
        (SELECT process FROM webhook_workers WHERE heartbeat_at <= ?1 ORDER BY heartbeat_at LIMIT ?2)";

/// Lists up to ?2 workers that have reported since ?1, latest first. Index: webhook_workers_heartbeat.
pub(crate) const WORKERS: &str = "
    SELECT worker_id, version, started_at, heartbeat_at, in_flight
    FROM webhook_workers WHERE heartbeat_at > ?1 ORDER BY heartbeat_at DESC LIMIT ?2";

fn report(db: &Connection, now: Timestamp, report: &ActivityReport) -> Result<(), CallError> {
    let process = report.process.as_str();
    let last_sequence = db.prepare_cached(LAST_SEQUENCE)?.query_row([process], |row| row::unsigned(row, 0));
    let is_repeated = last_sequence.optional()?.is_some_and(|last| last >= report.sequence);
    if report.is_last {
        db.prepare_cached("DELETE FROM webhook_workers WHERE process = ?1")?.execute([process])?;
    }
    if is_repeated {
        return Ok(());
    }
    if !report.is_last {
        db.prepare_cached(
            "INSERT OR REPLACE INTO webhook_workers
                 (process, worker_id, version, started_at, heartbeat_at, in_flight, last_sequence, receivers)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            process,
            report.worker.as_str(),
            &report.version,
            now.before(report.running_for).as_micros(),
            now.as_micros(),
            signed(report.in_flight),
            signed(report.sequence),
            serde_json::to_string(&columns(&report.receivers)).expect("numbers always serialize"),
        ))?;
    }
    add_counts(db, now, &report.counts)?;
    remove_old(db, now)
}

/// Adds counts to one bucket of each resolution, with the number of pending events and of dead letters, without cancelled ones. The
/// write lock is held, so no other process adds to the bucket in between.
fn add_counts(db: &Connection, now: Timestamp, counts: &ActivityCounts) -> Result<(), CallError> {
    let (pending, dead_letters) = db
        .prepare_cached("SELECT pending, failed - cancelled FROM webhook_totals WHERE id = 1")?
        .query_row([], |row| Ok((row::unsigned(row, 0)?, row::unsigned(row, 1)?)))?;
    for resolution in Resolution::ALL {
        let (step, at) = (resolution.step_seconds(), resolution.bucket_start(now));
        let stored = db.prepare_cached(BUCKET)?.query_row((step, at.as_micros()), bucket).optional()?;
        let mut sum = stored.map(|bucket| bucket.counts).unwrap_or_default();
        sum.add(counts);
        db.prepare_cached(
            "INSERT OR REPLACE INTO webhook_activity
                 (step_seconds, at, delivered_count, retried_count, failed_count, latency_counts, pending_count,
                  dead_letter_count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            step,
            at.as_micros(),
            signed(sum.delivered),
            signed(sum.retried),
            signed(sum.failed),
            serde_json::to_string(sum.latency.counts()).expect("numbers always serialize"),
            signed(pending),
            signed(dead_letters),
        ))?;
    }
    Ok(())
}

/// Removes old rows, and repairs times that lie ahead because the clock has stepped back.
fn remove_old(db: &Connection, now: Timestamp) -> Result<(), CallError> {
    let ahead = now.after(AHEAD_MAX).as_micros();
    for resolution in Resolution::ALL {
        let (step, oldest) = (resolution.step_seconds(), resolution.oldest_kept(now).as_micros());
        db.prepare_cached(REMOVE_OLD_BUCKETS)?.execute((step, oldest, REMOVED_MAX))?;
        db.prepare_cached(REMOVE_BUCKETS_AHEAD)?.execute((step, ahead, REMOVED_MAX))?;
    }
    db.prepare_cached(DATE_HEARTBEATS)?.execute((ahead, now.as_micros()))?;
    let horizon = now.before(WORKER_KEPT_FOR).as_micros();
    db.prepare_cached(REMOVE_OLD_WORKERS)?.execute((horizon, REMOVED_MAX))?;
    Ok(())
}

/// Decodes the columns of `bucket_columns!`.
fn bucket(row: &Row<'_>) -> rusqlite::Result<ActivityBucket> {
    let latency: Vec<u64> = serde_json::from_str(row.get_ref(4)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(4, Type::Text, Box::new(error)))?;
    Ok(ActivityBucket {
        at: row::timestamp(row, 0)?,
        counts: ActivityCounts {
            delivered: row::unsigned(row, 1)?,
            retried: row::unsigned(row, 2)?,
            failed: row::unsigned(row, 3)?,
            latency: LatencyHistogram::from_counts(latency),
        },
        pending: row::unsigned(row, 5)?,
        dead_letters: row::unsigned(row, 6)?,
    })
}

fn history(db: &Connection, now: Timestamp, range: HistoryRange) -> Result<History, CallError> {
    let first = range.start(now);
    let mut buckets = db.prepare_cached(BUCKETS)?;
    let bounds = (range.resolution().step_seconds(), first.as_micros(), now.as_micros());
    let buckets = buckets.query_map(bounds, bucket)?.collect::<Result<Vec<_>, _>>()?;
    Ok(range.merge(now, buckets))
}

fn workers(db: &Connection, now: Timestamp) -> Result<Vec<WorkerStatus>, CallError> {
    let horizon = now.before(WORKER_LISTED_FOR).as_micros();
    let mut listed = db.prepare_cached(WORKERS)?;
    let rows = listed.query_map((horizon, WORKERS_LISTED_MAX), |row| {
        let heartbeat_at = row::timestamp(row, 3)?;
        Ok(WorkerStatus {
            worker: WorkerId::from_stored(row.get(0)?),
            version: row.get(1)?,
            started_at: row::timestamp(row, 2)?,
            heartbeat_at,
            heartbeat_age: now.since(heartbeat_at),
            in_flight: row::unsigned(row, 4)?,
        })
    })?;
    let mut workers = rows.collect::<Result<Vec<_>, _>>()?;
    WorkerStatus::sort(&mut workers);
    Ok(workers)
}

/// Reads the destinations of all workers that have reported since ?1. Index: webhook_workers_heartbeat.
pub(crate) const RECEIVERS: &str = "SELECT receivers FROM webhook_workers WHERE heartbeat_at > ?1";

/// The numbers of a destination in the column `receivers`.
type ReceiverColumns = (i64, u64, u64, u64, u64);

fn columns(receivers: &[ReceiverActivity]) -> Vec<ReceiverColumns> {
    let numbers = receivers.iter().map(|receiver| {
        let latency_us = u64::try_from(receiver.latency.as_micros()).unwrap_or(u64::MAX);
        (receiver.destination.0, receiver.window, receiver.requests, receiver.failures, latency_us)
    });
    numbers.collect()
}

fn parse_receivers(row: &Row<'_>) -> rusqlite::Result<Vec<ReceiverColumns>> {
    serde_json::from_str(row.get_ref(0)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

fn receivers(
    db: &Connection,
    now: Timestamp,
    destinations: &[DestinationId],
) -> Result<Vec<ReceiverActivity>, CallError> {
    let mut reported: Vec<ReceiverColumns> = Vec::new();
    let mut workers = db.prepare_cached(RECEIVERS)?;
    for of_worker in workers.query_map([now.before(RECEIVERS_SHOWN_FOR).as_micros()], parse_receivers)? {
        reported.extend(of_worker?.into_iter().filter(|(id, ..)| destinations.contains(&DestinationId(*id))));
    }
    let reported =
        reported.into_iter().map(|(id, window, requests, failures, latency_us)| ReceiverActivity {
            destination: DestinationId(id),
            window,
            requests,
            failures,
            latency: Duration::from_micros(latency_us),
        });
    Ok(ReceiverActivity::merge(reported))
}

/// Converts a count for a column, which is signed.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[async_trait]
impl Activity for SqliteStore {
    async fn report(&self, new: &ActivityReport) -> Result<(), StoreError> {
        let new = new.clone();
        self.write(CommandKind::Other, move |context| report(context.db, context.now, &new)).await
    }

    async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| history(db, clock.now(), range)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| workers(db, clock.now())).await
    }

    async fn receivers(&self, destinations: &[DestinationId]) -> Result<Vec<ReceiverActivity>, StoreError> {
        let (clock, destinations) = (Arc::clone(&self.shared.clock), destinations.to_vec());
        self.read(move |db| receivers(db, clock.now(), &destinations)).await
    }
}
