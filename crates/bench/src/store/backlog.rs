//! Compares the rate of claims and settles at a small backlog with the rates at a large one, with a snapshot held open,
//! and after millions of deliveries.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::Store;
use posthaste_store_postgres::tokio_postgres::{Client, NoTls, connect};

use crate::clock::now;
use crate::options::StoreKind;
use crate::rate;
use crate::run::Run;
use crate::store::load::{DESTINATIONS, preload, preload_within};
use crate::store::measure::drain;
use crate::store::subject::Subject;

const SMALL: usize = 200_000;
const LARGE: usize = 5_000_000;
const DELIVERED: usize = 4_000_000;
const BATCH: usize = 500;
/// Events that are drained first and not measured.
const WARM_UP: usize = 20_000;
const SNAPSHOT_HELD_FOR: Duration = Duration::from_secs(60);
/// Upper bound of the time in which the store is filled, and of that of the deliveries without a figure.
const PHASE_TIME_MAX: Duration = Duration::from_secs(300);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let subject = Subject::create(kind).await;
    let store = &subject.store;
    let (small, large) = (run.scale.count(SMALL), run.scale.count(LARGE));
    preload(store, small + WARM_UP, 0..DESTINATIONS).await;
    drain(store, WARM_UP, BATCH, None, 1).await;
    // Both backlogs begin in the same state: the background work of their enqueues is done.
    subject.sql("VACUUM ANALYZE; CHECKPOINT;");
    let small_rate = rate(small, drain(store, small, BATCH, None, 3).await);

    let stored = preload_within(store, large, 0..DESTINATIONS, PHASE_TIME_MAX).await;
    if stored < large {
        println!("  only {stored} of {large} events could be stored in {} s", PHASE_TIME_MAX.as_secs());
        return run.record(kind, "backlog_large", f64::INFINITY);
    }
    subject.sql("VACUUM ANALYZE; CHECKPOINT;");
    run.record(kind, "backlog_large", rate(small, drain(store, small, BATCH, None, 5).await) / small_rate);

    if let Some(snapshot) = HeldSnapshot::open(&subject).await {
        let started = now();
        let held = drain_within(store, small / 4, large / 2, SNAPSHOT_HELD_FOR).await;
        run.record(kind, "backlog_snapshot", rate(held, now() - started) / small_rate);
        snapshot.release().await;
    }

    let delivered = delivered(store).await;
    let missing = run.scale.count(DELIVERED).saturating_sub(delivered);
    if drain_within(store, small, missing, PHASE_TIME_MAX).await >= missing {
        let late_rate = rate(small, drain(store, small, BATCH, None, 13).await);
        run.record(kind, "backlog_late", late_rate / small_rate);
    } else {
        println!("  {missing} events could not be delivered in {} s", PHASE_TIME_MAX.as_secs());
        run.record(kind, "backlog_late", f64::INFINITY);
    }

    let started = now();
    store.overview().await.expect("the store is up");
    run.record(kind, "overview", (now() - started).as_secs_f64() * 1_000.0);
}

/// Drains up to `count` events in steps until the time has passed. Returns how many were drained.
async fn drain_within(store: &Arc<dyn Store>, step: usize, count: usize, time_max: Duration) -> usize {
    let (started, mut drained) = (now(), 0);
    while drained < count && now() - started < time_max {
        let step = step.min(count - drained);
        drain(store, step, BATCH, None, 100 + drained as u64).await;
        drained += step;
    }
    drained
}

async fn delivered(store: &Arc<dyn Store>) -> usize {
    let overview = store.overview().await.expect("the store is up");
    usize::try_from(overview.delivered).unwrap_or(usize::MAX)
}

/// An open transaction in another session. Its snapshot keeps PostgreSQL from removing dead rows.
struct HeldSnapshot(Client);

impl HeldSnapshot {
    /// Opens the transaction; `None` for SQLite.
    async fn open(subject: &Subject) -> Option<Self> {
        let (client, connection) = connect(subject.url()?, NoTls).await.expect("the server is up");
        // The connection ends with its client.
        tokio::spawn(connection);
        let begun =
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;");
        begun.await.expect("the server is up");
        Some(Self(client))
    }

    async fn release(self) {
        self.0.batch_execute("COMMIT").await.expect("the transaction is open");
    }
}
