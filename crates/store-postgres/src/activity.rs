//! Reports of workers: their rows, and the buckets of the history.
//!
//! A report locks the row of its own process, then the buckets in the order of their lengths. Removals and repairs skip locked
//! rows. Therefore two reports never wait for each other in a circle.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DestinationId, LatencyHistogram, WorkerId};
use posthaste_store::{
    AHEAD_MAX, Activity, ActivityBucket, ActivityCounts, ActivityReport, History, HistoryRange,
    RECEIVERS_SHOWN_FOR, REMOVED_MAX, ReceiverActivity, Resolution, StoreError, WORKER_KEPT_FOR,
    WORKER_LISTED_FOR, WORKERS_LISTED_MAX, WorkerStatus,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::convert::{PgTimestamp, micros};
use crate::session::{Params, Session, Sql};

/// Adds counts to one bucket of each length in $3, and returns these lengths, if `accepted` has a row. The last report decides
/// how many events are pending and how many are dead letters, without cancelled ones. Uses index webhook_activity_at.
macro_rules! add_to_buckets {
    () => {
        "
INSERT INTO app.webhook_activity AS a (
    step_seconds, at, delivered_count, retried_count, failed_count, latency_counts, pending_count, dead_letter_count
)
SELECT s.step_seconds,
       to_timestamp((floor(extract(epoch FROM app.webhook_now()) / s.step_seconds) * s.step_seconds)::double precision),
       $4, $5, $6, $7, c.pending, c.dead_letters
FROM accepted
CROSS JOIN (
    SELECT greatest(coalesce(sum(n.pending), 0), 0)::bigint AS pending,
           greatest(coalesce(sum(n.failed - n.cancelled), 0), 0)::bigint AS dead_letters
    FROM app.webhook_counts n
) c
CROSS JOIN unnest($3::integer[]) AS s (step_seconds)
ORDER BY s.step_seconds
ON CONFLICT (step_seconds, at) DO UPDATE
SET delivered_count = a.delivered_count + excluded.delivered_count,
    retried_count = a.retried_count + excluded.retried_count,
    failed_count = a.failed_count + excluded.failed_count,
    latency_counts = ARRAY(
        SELECT coalesce(u.stored, 0) + coalesce(u.added, 0)
        FROM unnest(a.latency_counts, excluded.latency_counts) WITH ORDINALITY AS u (stored, added, bucket)
        ORDER BY u.bucket
    ),
    pending_count = excluded.pending_count,
    dead_letter_count = excluded.dead_letter_count
RETURNING a.step_seconds"
    };
}

/// Writes the worker's row and adds its counts, unless the row has the number $2 of the report already. Uses index
/// webhook_workers_process.
static REPORT: Sql = Sql {
    text: concat!(
        "
WITH accepted AS (
    INSERT INTO app.webhook_workers AS w (
        process, worker_id, version, started_at, heartbeat_at, in_flight, last_sequence,
        receiver_ids, receiver_windows, receiver_requests, receiver_failures, receiver_latencies_us
    )
    VALUES ($1, $8, $9, app.webhook_now() - $10 * interval '1 microsecond', app.webhook_now(), $11, $2, $12, $13, $14, $15, $16)
    ON CONFLICT (process) DO UPDATE
    SET worker_id = excluded.worker_id, version = excluded.version, started_at = excluded.started_at,
        heartbeat_at = excluded.heartbeat_at, in_flight = excluded.in_flight, last_sequence = excluded.last_sequence,
        receiver_ids = excluded.receiver_ids, receiver_windows = excluded.receiver_windows,
        receiver_requests = excluded.receiver_requests, receiver_failures = excluded.receiver_failures,
        receiver_latencies_us = excluded.receiver_latencies_us
    WHERE w.last_sequence < excluded.last_sequence
    RETURNING 1
)",
        add_to_buckets!()
    ),
    types: &[
        Type::TEXT,
        Type::INT8,
        Type::INT4_ARRAY,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8_ARRAY,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// Removes the worker's row and adds its last counts, unless the row has the number $2 of the report already. Uses index
/// webhook_workers_process.
static LAST_REPORT: Sql = Sql {
    text: concat!(
        "
WITH removed AS (
    DELETE FROM app.webhook_workers w WHERE w.process = $1 RETURNING w.last_sequence
),
accepted AS (
    SELECT 1 WHERE NOT EXISTS (SELECT FROM removed r WHERE r.last_sequence >= $2)
)",
        add_to_buckets!()
    ),
    types: &[Type::TEXT, Type::INT8, Type::INT4_ARRAY, Type::INT8, Type::INT8, Type::INT8, Type::INT8_ARRAY],
};

/// Deletes up to $5 buckets of each length that are older than $2 microseconds or lie more than $3 microseconds ahead, and up
/// to $5 workers that have not reported for $4 microseconds. Dates heartbeats that lie ahead now. Uses indexes
/// webhook_activity_at and webhook_workers_heartbeat_at.
static REMOVE_OLD: Sql = Sql {
    text: "
WITH old_buckets AS (
    DELETE FROM app.webhook_activity a
    USING (
        SELECT o.step_seconds, o.at
        FROM unnest($1::integer[], $2::bigint[]) AS r (step_seconds, kept_us)
        CROSS JOIN LATERAL (
            SELECT x.step_seconds, x.at
            FROM app.webhook_activity x
            WHERE x.step_seconds = r.step_seconds
                  AND x.at < app.webhook_now() - (r.kept_us + 1000000 * r.step_seconds::bigint) * interval '1 microsecond'
            LIMIT $5
            FOR UPDATE SKIP LOCKED
        ) o
    ) old
    WHERE a.step_seconds = old.step_seconds AND a.at = old.at
),
buckets_ahead AS (
    DELETE FROM app.webhook_activity a
    USING (
        SELECT o.step_seconds, o.at
        FROM unnest($1::integer[]) AS r (step_seconds)
        CROSS JOIN LATERAL (
            SELECT x.step_seconds, x.at
            FROM app.webhook_activity x
            WHERE x.step_seconds = r.step_seconds AND x.at > app.webhook_now() + $3 * interval '1 microsecond'
            LIMIT $5
            FOR UPDATE SKIP LOCKED
        ) o
    ) ahead
    WHERE a.step_seconds = ahead.step_seconds AND a.at = ahead.at
),
dated AS (
    UPDATE app.webhook_workers w
    SET heartbeat_at = app.webhook_now()
    WHERE w.process = ANY (ARRAY(
        SELECT x.process
        FROM app.webhook_workers x
        WHERE x.heartbeat_at > app.webhook_now() + $3 * interval '1 microsecond'
        LIMIT $5
        FOR UPDATE SKIP LOCKED
    ))
)
DELETE FROM app.webhook_workers w
WHERE w.process = ANY (ARRAY(
    SELECT x.process
    FROM app.webhook_workers x
    WHERE x.heartbeat_at <= app.webhook_now() - $4 * interval '1 microsecond'
    LIMIT $5
    FOR UPDATE SKIP LOCKED
))",
    types: &[Type::INT4_ARRAY, Type::INT8_ARRAY, Type::INT8, Type::INT8, Type::INT8],
};

/// Reads the buckets of the length $1 that began within the last $2 microseconds, and the clock. Uses index
/// webhook_activity_at.
static BUCKETS: Sql = Sql {
    text: "
SELECT app.webhook_now(), a.at, a.delivered_count, a.retried_count, a.failed_count, a.latency_counts, a.pending_count,
       a.dead_letter_count
FROM app.webhook_activity a
WHERE a.step_seconds = $1 AND a.at >= app.webhook_now() - $2 * interval '1 microsecond' AND a.at <= app.webhook_now()
ORDER BY a.at",
    types: &[Type::INT4, Type::INT8],
};

/// Lists up to $2 workers that have reported within $1 microseconds, latest first. Uses index webhook_workers_heartbeat_at.
static WORKERS: Sql = Sql {
    text: "
SELECT app.webhook_now(), w.worker_id, w.version, w.started_at, w.heartbeat_at, w.in_flight
FROM app.webhook_workers w
WHERE w.heartbeat_at > app.webhook_now() - $1 * interval '1 microsecond'
ORDER BY w.heartbeat_at DESC
LIMIT $2",
    types: &[Type::INT8, Type::INT8],
};

/// Reads what workers that have reported within $2 microseconds know of the destinations $1. Uses index
/// webhook_workers_heartbeat_at.
static RECEIVERS: Sql = Sql {
    text: "
SELECT r.id, r.window_size, r.requests, r.failures, r.latency_us
FROM app.webhook_workers w
CROSS JOIN LATERAL unnest(w.receiver_ids, w.receiver_windows, w.receiver_requests, w.receiver_failures,
                          w.receiver_latencies_us) AS r (id, window_size, requests, failures, latency_us)
WHERE w.heartbeat_at > app.webhook_now() - $2 * interval '1 microsecond' AND r.id = ANY ($1)",
    types: &[Type::INT8_ARRAY, Type::INT8],
};

/// Adds a report, then removes old rows in a second transaction. A repeated report removes none: it would remove the row of its own
/// process, which recognises the next repetition.
async fn report(session: &Session, report: &ActivityReport) -> Result<(), tokio_postgres::Error> {
    let steps = Resolution::ALL.map(step);
    let ActivityCounts { delivered, retried, failed, latency } = &report.counts;
    let (delivered, retried, failed) = (signed(*delivered), signed(*retried), signed(*failed));
    let latency: Vec<i64> = latency.counts().iter().copied().map(signed).collect();
    let (process, sequence) = (report.process.as_str(), signed(report.sequence));
    let (worker, version) = (report.worker.as_str(), report.version.as_str());
    let (running_for, in_flight) = (micros(report.running_for), signed(report.in_flight));
    let of_receivers = |number: fn(&ReceiverActivity) -> u64| -> Vec<i64> {
        report.receivers.iter().map(|receiver| signed(number(receiver))).collect()
    };
    let ids: Vec<i64> = report.receivers.iter().map(|receiver| receiver.destination.0).collect();
    let windows = of_receivers(|receiver| receiver.window);
    let requests = of_receivers(|receiver| receiver.requests);
    let failures = of_receivers(|receiver| receiver.failures);
    let latencies: Vec<i64> = report.receivers.iter().map(|receiver| micros(receiver.latency)).collect();
    let counts: Params<'_> = &[
        &process,
        &sequence,
        &&steps[..],
        &delivered,
        &retried,
        &failed,
        &latency,
        &worker,
        &version,
        &running_for,
        &in_flight,
        &ids,
        &windows,
        &requests,
        &failures,
        &latencies,
    ];
    let add = if report.is_last { &LAST_REPORT } else { &REPORT };
    let kept = Resolution::ALL.map(|resolution| micros(resolution.kept_for()));
    let (ahead, worker_kept, removed_max) =
        (micros(AHEAD_MAX), micros(WORKER_KEPT_FOR), i64::from(REMOVED_MAX));
    let removal: Params<'_> = &[&&steps[..], &&kept[..], &ahead, &worker_kept, &removed_max];
    if session.transact(add, &counts[..add.types.len()]).await?.is_empty() {
        return Ok(());
    }
    session.transact(&REMOVE_OLD, removal).await.map(drop)
}

/// Parses a row of [`BUCKETS`], with the time at which it was read.
fn parse_bucket(row: &Row) -> Result<ActivityBucket, tokio_postgres::Error> {
    let latency: Vec<i64> = row.try_get(5)?;
    Ok(ActivityBucket {
        at: row.try_get::<_, PgTimestamp>(1)?.0,
        counts: ActivityCounts {
            delivered: unsigned(row.try_get(2)?),
            retried: unsigned(row.try_get(3)?),
            failed: unsigned(row.try_get(4)?),
            latency: LatencyHistogram::from_counts(latency.into_iter().map(unsigned)),
        },
        pending: unsigned(row.try_get(6)?),
        dead_letters: unsigned(row.try_get(7)?),
    })
}

async fn history(session: &Session, range: HistoryRange) -> Result<History, tokio_postgres::Error> {
    let params: Params<'_> = &[&step(range.resolution()), &micros(range.duration())];
    let rows = session.transact(&BUCKETS, params).await?;
    let now = rows.first().map(|row| row.try_get::<_, PgTimestamp>(0)).transpose()?;
    let buckets = rows.iter().map(parse_bucket).collect::<Result<Vec<_>, _>>()?;
    Ok(range.merge(now.map(|PgTimestamp(now)| now).unwrap_or_default(), buckets))
}

fn parse_worker(row: &Row) -> Result<WorkerStatus, tokio_postgres::Error> {
    let (now, heartbeat_at) = (row.try_get::<_, PgTimestamp>(0)?.0, row.try_get::<_, PgTimestamp>(4)?.0);
    Ok(WorkerStatus {
        worker: WorkerId::from_stored(row.try_get(1)?),
        version: row.try_get(2)?,
        started_at: row.try_get::<_, PgTimestamp>(3)?.0,
        heartbeat_at,
        heartbeat_age: now.since(heartbeat_at),
        in_flight: unsigned(row.try_get(5)?),
    })
}

async fn workers(session: &Session) -> Result<Vec<WorkerStatus>, tokio_postgres::Error> {
    let params: Params<'_> = &[&micros(WORKER_LISTED_FOR), &i64::from(WORKERS_LISTED_MAX)];
    let rows = session.transact(&WORKERS, params).await?;
    let mut workers = rows.iter().map(parse_worker).collect::<Result<Vec<_>, _>>()?;
    WorkerStatus::sort(&mut workers);
    Ok(workers)
}

async fn receivers(
    session: &Session,
    destinations: &[DestinationId],
) -> Result<Vec<ReceiverActivity>, tokio_postgres::Error> {
    let ids: Vec<i64> = destinations.iter().map(|destination| destination.0).collect();
    let rows = session.transact(&RECEIVERS, &[&ids, &micros(RECEIVERS_SHOWN_FOR)]).await?;
    let reported = rows.iter().map(|row| {
        Ok(ReceiverActivity {
            destination: DestinationId(row.try_get(0)?),
            window: unsigned(row.try_get(1)?),
            requests: unsigned(row.try_get(2)?),
            failures: unsigned(row.try_get(3)?),
            latency: Duration::from_micros(unsigned(row.try_get(4)?)),
        })
    });
    Ok(ReceiverActivity::merge(reported.collect::<Result<Vec<_>, tokio_postgres::Error>>()?))
}

fn step(resolution: Resolution) -> i32 {
    i32::try_from(resolution.step_seconds()).expect("a step is half an hour at most")
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[async_trait]
impl Activity for PostgresStore {
    async fn report(&self, new: &ActivityReport) -> Result<(), StoreError> {
        self.shared.sessions.operate.with(async |session| report(session, new).await).await
    }

    async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
        self.shared.sessions.operate.with(async |session| history(session, range).await).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.shared.sessions.operate.with(async |session| workers(session).await).await
    }

    async fn receivers(&self, destinations: &[DestinationId]) -> Result<Vec<ReceiverActivity>, StoreError> {
        self.shared.sessions.operate.with(async |session| receivers(session, destinations).await).await
    }
}
