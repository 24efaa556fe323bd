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
use crate::session::{Session, Sql};
use crate::watermark::{self, StepSize};
use crate::{StoreState, sleep};

/// Time between two sweeps. A committed event must be found within 20 seconds; the sweep itself may take the rest.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Destinations read in one step.
const STEP_DESTINATIONS_MAX: i64 = 500;
/// Time between two steps: with very many destinations a sweep takes longer, but its load stays the same.
const STEP_INTERVAL: Duration = Duration::from_millis(20);
/// Steps of the first sweep that the first claim waits for.
const FIRST_SWEEP_STEPS_MAX: usize = 40;

/// Reads the first claimable row of each destination after $1: of first attempts, and of retries that are due. Uses
/// index webhook_queue_destination_position. First attempts are read from the oldest-pending watermark on, above the
/// dead index entries of delivered events.
static SWEEP_STEP: Sql = Sql {
    text: "
SELECT d.id, first.queue_position, retry.queue_position
FROM (
    SELECT d.id FROM app.webhook_destinations d WHERE d.id > $1 ORDER BY d.id LIMIT $2
) d
LEFT JOIN LATERAL (
    SELECT q.queue_position
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w) AND q.queue_position < $3
          AND q.lease_until IS NULL
    ORDER BY q.queue_position
    LIMIT 1
) first ON true
LEFT JOIN LATERAL (
    SELECT q.queue_position
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.queue_position >= $3 AND q.queue_position <= app.webhook_retry_position(app.webhook_now())
          AND q.lease_until IS NULL
    ORDER BY q.queue_position
    LIMIT 1
) retry ON true
ORDER BY d.id",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Result of the first sweep of a process: whether it read every destination, or stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSweep {
    Complete,
    Partial,
}

/// Runs the first sweep: fills the empty index of claimable rows and sets the cursors from which discovery continues.
/// With very many destinations it stops early, so that the first claim does not wait for all of them; a background
/// sweep then reads the others.
pub(crate) async fn start_discovery(
    session: &Session,
    discovery: &mut DiscoveryState,
) -> Result<FirstSweep, tokio_postgres::Error> {
    let rows = session.query(&READ_SNAPSHOT, &[&0_i64, &Uuid::nil(), &0_i64]).await?;
    let SnapshotRow { snapshot, last_number, .. } = SnapshotRow::parse(&rows)?;
    discovery.cursors.start(last_number, snapshot.now);
    let (_, retries_to) = discovery.cursors.discovered_to();
    let mut after = i64::MIN;
    for _ in 0..FIRST_SWEEP_STEPS_MAX {
        let rows =
            session.transact(&SWEEP_STEP, &[&after, &STEP_DESTINATIONS_MAX, &RETRY_POSITION_MIN]).await?;
        add_ranges(discovery, &rows, (last_number, retries_to))?;
        let Some(last) = rows.last() else { return Ok(FirstSweep::Complete) };
        after = last.try_get(0)?;
    }
    Ok(FirstSweep::Partial)
}

/// Adds two ranges for each destination: its first attempts and its retries, each from the first row up to the position
/// that discovery has reached. Discovery finds the rows beyond it.
fn add_ranges(
    discovery: &mut DiscoveryState,
    rows: &[Row],
    (first_attempts_to, retries_to): (i64, i64),
) -> Result<(), tokio_postgres::Error> {
    let range = |position: i64, end: i64| PositionRange { low: position - 1, high: end.max(position) };
    for row in rows {
        let destination = DestinationId(row.try_get(0)?);
        if let Some(position) = row.try_get::<_, Option<i64>>(1)? {
            discovery.claimable.record_range(destination, range(position, first_attempts_to));
        }
        if let Some(position) = row.try_get::<_, Option<i64>>(2)? {
            discovery.claimable.record_range(destination, range(position, retries_to));
        }
    }
    Ok(())
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
        if let Err(error) = watermark::check(&store, &mut check_step).await {
            tracing::debug!(code = error.code(), %error, "oldest-pending watermark not checked; the next sweep checks it");
        }
        if let Err(error) = store.clock_repair.run(&store).await {
            tracing::debug!(code = error.code(), %error, "times not compared with the clock; the next sweep compares them");
        }
        if let Err(error) = sweep(&store).await {
            tracing::debug!(code = error.code(), %error, "sweep interrupted; the next sweep starts over");
        }
    }
}

async fn sweep(store: &StoreState) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    loop {
        // Read without the lock, so that claims go on meanwhile.
        let rows = store
            .sessions
            .operate
            .with(async |session| {
                session.transact(&SWEEP_STEP, &[&after, &STEP_DESTINATIONS_MAX, &RETRY_POSITION_MIN]).await
            })
            .await?;
        let mut discovery = store.discovery.lock().await;
        if !discovery.cursors.has_started() {
            return Ok(());
        }
        if after == i64::MIN {
            discovery.cursors.restart_expiry_checks();
        }
        let discovered_to = discovery.cursors.discovered_to();
        let last = add_ranges(&mut discovery, &rows, discovered_to)
            .and_then(|()| rows.last().map(|row| row.try_get(0)).transpose());
        drop(discovery);
        match last.map_err(|error| crate::error::store_error(&error))? {
            Some(last) => after = last,
            None => return Ok(()),
        }
        sleep(STEP_INTERVAL).await;
    }
}
