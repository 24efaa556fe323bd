//! The sweep: reads the first claimable row of every destination, at the start of a process and periodically after.
//!
//! Discovery follows changes; the sweep finds rows that discovery has missed. Such rows belong to transactions that
//! were open when the process started or that committed very late, or were locked by a transaction that then rolled
//! back. The sweep first checks the oldest-pending watermark from which it reads, and repairs times that lie too far
//! ahead of the clock. It reads in small steps, concurrently with claims.

use std::sync::{Arc, Weak};
use std::time::Duration;

use posthaste_claimable::{PositionRange, RETRY_POSITION_MIN};
use posthaste_domain::DestinationId;
use posthaste_store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::claim::DiscoveryState;
use crate::discover::{READ_SNAPSHOT, SnapshotRow};
use crate::error::store_error;
use crate::session::{Session, Sql};
use crate::watermark::{self, StepSize};
use crate::{StoreState, sleep};

/// Time between two sweeps. A committed event must be found within 20 seconds; the sweep itself may take the rest.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Destinations read in one step.
const STEP_DESTINATIONS_MAX: i64 = 500;
/// Time between two steps: with very many destinations a sweep takes longer, but its load stays the same.
const STEP_INTERVAL: Duration = Duration::from_millis(20);
/// Steps of the first sweep that the first claim waits for. The background sweep takes the others, without intervals.
const FIRST_SWEEP_STEPS_MAX: usize = 40;
/// Rows of first attempts, and of retries, that the first claim reads instead of waiting for more steps.
const OLDEST_ROWS_MAX: i64 = 5_000;

/// Reads the first claimable row of each destination after $1: of first attempts, and of retries that are due. Uses
/// index webhook_queue_destination_position, once for a destination without events. First attempts are read from the
/// oldest-pending watermark on, above the dead index entries of delivered events.
static SWEEP_STEP: Sql = Sql {
    text: "
SELECT d.id,
       CASE WHEN earliest.queue_position < $3 THEN earliest.queue_position END,
       CASE WHEN earliest.queue_position < $3 THEN retry.queue_position
            WHEN earliest.queue_position <= (SELECT app.webhook_retry_position(app.webhook_now())) THEN earliest.queue_position
       END
FROM (
    SELECT d.id FROM app.webhook_destinations d WHERE d.id > $1 ORDER BY d.id LIMIT $2
) d
LEFT JOIN LATERAL (
    SELECT q.queue_position
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
          AND q.lease_until IS NULL
    ORDER BY q.queue_position
    LIMIT 1
) earliest ON true
LEFT JOIN LATERAL (
    SELECT q.queue_position
    FROM app.webhook_queue q
    WHERE earliest.queue_position < $3
          AND q.destination_id = d.id AND q.queue_position >= $3
          AND q.queue_position <= (SELECT app.webhook_retry_position(app.webhook_now()))
          AND q.lease_until IS NULL
    ORDER BY q.queue_position
    LIMIT 1
) retry ON true
ORDER BY d.id",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Reads the destinations of the oldest claimable rows, each with its first one: of the oldest $1 first attempts, and of the
/// $1 retries that have been due for longest. Uses indexes webhook_queue_id and webhook_queue_position.
static OLDEST_ROWS: Sql = Sql {
    text: "
SELECT r.destination_id, min(r.queue_position) FILTER (WHERE r.is_first), min(r.queue_position) FILTER (WHERE NOT r.is_first)
FROM (
    (
        SELECT q.destination_id, q.queue_position, true AS is_first
        FROM app.webhook_queue q
        WHERE q.id >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
              AND q.queue_position = q.id AND q.lease_until IS NULL
        ORDER BY q.id
        LIMIT $1
    )
    UNION ALL
    (
        SELECT q.destination_id, q.queue_position, false
        FROM app.webhook_queue q
        WHERE q.queue_position >= $2 AND q.queue_position <= app.webhook_retry_position(app.webhook_now())
              AND q.queue_position <> q.id AND q.lease_until IS NULL
        ORDER BY q.queue_position
        LIMIT $1
    )
) r
GROUP BY r.destination_id",
    types: &[Type::INT8, Type::INT8],
};

/// Runs the first sweep: fills the empty index of claimable rows and sets the cursors from which discovery continues.
///
/// With very many destinations it stops early, so that the first claim does not wait for all of them, and reads the
/// oldest rows of the queue instead. The background sweep then continues with the other destinations.
pub(crate) async fn start_discovery(
    session: &Session,
    store: &StoreState,
    discovery: &mut DiscoveryState,
) -> Result<(), tokio_postgres::Error> {
    let rows = session.query(&READ_SNAPSHOT, &[&0_i64, &Uuid::nil(), &0_i64]).await?;
    let SnapshotRow { snapshot, last_number, .. } = SnapshotRow::parse(&rows)?;
    discovery.cursors.start(last_number, snapshot.now);
    // Up to the last number, beyond the position from which discovery continues: a claim then takes the newest rows too.
    let (_, retries_to) = discovery.cursors.discovered_to();
    let ends = (last_number, retries_to);
    let mut after = i64::MIN;
    for _ in 0..FIRST_SWEEP_STEPS_MAX {
        let rows = read_step(session, after).await?;
        add_ranges(discovery, &rows, ends)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.try_get(0)?;
    }
    let rows = session.transact(&OLDEST_ROWS, &[&OLDEST_ROWS_MAX, &RETRY_POSITION_MIN]).await?;
    add_ranges(discovery, &rows, ends)?;
    discovery.unswept_after = Some(after);
    store.sweep_request.notify_one();
    Ok(())
}

async fn read_step(session: &Session, after: i64) -> Result<Vec<Row>, tokio_postgres::Error> {
    session.transact(&SWEEP_STEP, &[&after, &STEP_DESTINATIONS_MAX, &RETRY_POSITION_MIN]).await
}

/// Adds two ranges for each destination: its first attempts and its retries, each from the first row up to the position
/// that discovery has reached. Discovery finds the rows beyond it. Returns whether there was a row.
fn add_ranges(
    discovery: &mut DiscoveryState,
    rows: &[Row],
    (first_attempts_to, retries_to): (i64, i64),
) -> Result<bool, tokio_postgres::Error> {
    let mut is_any_claimable = false;
    let range = |position: i64, end: i64| PositionRange { low: position - 1, high: end.max(position) };
    for row in rows {
        let destination = DestinationId(row.try_get(0)?);
        for (column, end) in [(1, first_attempts_to), (2, retries_to)] {
            if let Some(position) = row.try_get::<_, Option<i64>>(column)? {
                discovery.claimable.record_range(destination, range(position, end));
                is_any_claimable = true;
            }
        }
    }
    Ok(is_any_claimable)
}

/// Sweeps periodically, and on request, until the store is dropped.
pub(crate) async fn run(store: Weak<StoreState>) {
    let mut check_step = StepSize::default();
    loop {
        let Some(request) = store.upgrade().map(|store| Arc::clone(&store.sweep_request)) else { return };
        tokio::select! {
            biased;
            () = request.notified() => {}
            () = sleep(SWEEP_INTERVAL) => {}
        }
        let Some(store) = store.upgrade() else { return };
        let unswept_after = store.discovery.lock().await.unswept_after.take();
        if let Some(after) = unswept_after {
            report(sweep(&store, after, Duration::ZERO).await);
            continue;
        }
        if let Err(error) = watermark::check(&store, &mut check_step).await {
            tracing::debug!(code = error.code(), %error, "oldest-pending watermark not checked; the next sweep checks it");
        }
        if let Err(error) = store.clock_repair.run(&store).await {
            tracing::debug!(code = error.code(), %error, "times not compared with the clock; the next sweep compares them");
        }
        report(sweep(&store, i64::MIN, STEP_INTERVAL).await);
    }
}

fn report(swept: Result<(), StoreError>) {
    if let Err(error) = swept {
        tracing::debug!(code = error.code(), %error, "sweep interrupted; the next sweep starts over");
    }
}

/// Reads the destinations after this id, in steps, and wakes the workers for what they have to claim.
async fn sweep(store: &StoreState, mut after: i64, step_interval: Duration) -> Result<(), StoreError> {
    loop {
        // Read without the lock, so that claims go on meanwhile.
        let rows = store.sessions.operate.with(async |session| read_step(session, after).await).await?;
        let mut discovery = store.discovery.lock().await;
        if !discovery.cursors.has_started() {
            return Ok(());
        }
        if after == i64::MIN {
            discovery.cursors.restart_expiry_checks();
        }
        let discovered_to = discovery.cursors.discovered_to();
        let is_any_claimable =
            add_ranges(&mut discovery, &rows, discovered_to).map_err(|error| store_error(&error))?;
        drop(discovery);
        if is_any_claimable {
            store.waker.wake();
        }
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.try_get(0).map_err(|error| store_error(&error))?;
        sleep(step_interval).await;
    }
}
