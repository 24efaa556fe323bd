//! Compares the rate of claims and settles at a small backlog with the rates at a large one, with a snapshot held open,
//! and after millions of deliveries.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use posthaste_store::Store;

use crate::clock::now;
use crate::options::StoreKind;
use crate::rate;
use crate::run::Run;
use crate::store::load::{DESTINATIONS, preload};
use crate::store::measure::drain;
use crate::store::subject::Subject;

const SMALL: usize = 200_000;
const LARGE: usize = 5_000_000;
const DELIVERED: usize = 4_000_000;
const BATCH: usize = 500;
/// Events that are drained first and not measured.
const WARM_UP: usize = 20_000;
const SNAPSHOT_HELD_FOR: Duration = Duration::from_secs(60);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let subject = Subject::create(kind).await;
    let store = &subject.store;
    let (small, large) = (run.scale.count(SMALL), run.scale.count(LARGE));
    preload(store, small + WARM_UP, 0..DESTINATIONS).await;
    drain(store, WARM_UP, BATCH, None, 1).await;
    let small_rate = rate(small, drain(store, small, BATCH, None, 3).await);

    preload(store, large, 0..DESTINATIONS).await;
    // Finish the background work of the enqueues, so that it does not affect the measurement.
    subject.sql("VACUUM ANALYZE; CHECKPOINT;");
    run.record(kind, "backlog_large", rate(small, drain(store, small, BATCH, None, 5).await) / small_rate);

    if let Some(snapshot) = HeldSnapshot::open(&subject) {
        let step = small / 4;
        let (started, mut held) = (now(), 0);
        while now() - started < SNAPSHOT_HELD_FOR && held + step <= large / 2 {
            drain(store, step, BATCH, None, 100 + held as u64).await;
            held += step;
        }
        run.record(kind, "backlog_snapshot", rate(held, now() - started) / small_rate);
        snapshot.release();
    }

    let delivered = delivered(store).await;
    let missing = run.scale.count(DELIVERED).saturating_sub(delivered);
    drain(store, missing, BATCH, None, 11).await;
    run.record(kind, "backlog_late", rate(small, drain(store, small, BATCH, None, 13).await) / small_rate);

    let started = now();
    store.overview().await.expect("the store is up");
    run.record(kind, "overview", (now() - started).as_secs_f64() * 1_000.0);
}

async fn delivered(store: &Arc<dyn Store>) -> usize {
    let overview = store.overview().await.expect("the store is up");
    usize::try_from(overview.delivered).unwrap_or(usize::MAX)
}

/// An open transaction in another session. Its snapshot keeps PostgreSQL from removing dead rows.
struct HeldSnapshot(Child);

impl HeldSnapshot {
    /// Opens the transaction; `None` for SQLite.
    fn open(subject: &Subject) -> Option<Self> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", subject.url()?]);
        let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql is installed");
        let input = psql.stdin.as_mut().expect("stdin and stdout are piped");
        writeln!(input, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;")
            .expect("psql reads its input");
        let mut line = String::new();
        BufReader::new(psql.stdout.as_mut().expect("stdin and stdout are piped"))
            .read_line(&mut line)
            .expect("psql prints the count");
        Some(Self(psql))
    }

    fn release(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("psql exits at the end of its input");
    }
}
