//! The history of activity: bounded in rows, and kept when the file is opened again.

use std::time::Duration;

use posthaste_domain::WorkerId;
use posthaste_store::{ActivityCounts, ActivityReport, HistoryRange, Store as _};
use posthaste_store_sqlite::{Options, SqliteStore};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::support::{Fixture, HOUR};

fn report(process: &str, sequence: u64) -> ActivityReport {
    ActivityReport {
        process: WorkerId::new(process).unwrap(),
        worker: WorkerId::new("w").unwrap(),
        version: "0.1.0".to_owned(),
        running_for: Duration::ZERO,
        in_flight: 0,
        sequence,
        is_last: false,
        counts: ActivityCounts { delivered: 1, ..ActivityCounts::default() },
        receivers: Vec::new(),
    }
}

#[tokio::test]
async fn rows_of_activity_are_bounded_however_long_workers_run() {
    let fixture = Fixture::new();
    let db = fixture.sql();
    let rows = |step: u32| -> i64 {
        db.query_row("SELECT count(*) FROM webhook_activity WHERE step_seconds = ?1", [step], |row| {
            row.get(0)
        })
        .unwrap()
    };
    let mut sequence = 0;
    for (step, reports, bound) in [(10, 450, 361), (60, 1_600, 1_441), (1_800, 1_700, 1_489)] {
        for _ in 0..reports {
            sequence += 1;
            fixture.store.activity().report(&report("p", sequence)).await.unwrap();
            fixture.clock.advance(Duration::from_secs(step.into()));
        }
        assert!((bound - 1..=bound).contains(&rows(step)), "{} rows of {step} s", rows(step));
    }
    // The buckets of finer steps are older than they are kept.
    assert!(rows(10) <= 3 && rows(60) <= 49, "{} and {} rows", rows(10), rows(60));
}

#[tokio::test]
async fn rows_of_workers_that_report_no_more_are_removed_after_a_day() {
    let fixture = Fixture::new();
    for number in 0..300 {
        fixture.store.activity().report(&report(&format!("start-{number}"), 1)).await.unwrap();
    }
    fixture.clock.advance(25 * HOUR);
    for number in 0..2 {
        fixture.store.activity().report(&report(&format!("later-{number}"), 1)).await.unwrap();
    }
    let workers: i64 =
        fixture.sql().query_row("SELECT count(*) FROM webhook_workers", [], |row| row.get(0)).unwrap();
    assert_eq!(workers, 2);
}

#[tokio::test]
async fn history_and_workers_are_kept_when_the_file_is_opened_again() {
    let Fixture { store, clock, path, _directory } = Fixture::new();
    store.activity().report(&report("p", 1)).await.unwrap();
    let before = store.activity().history(HistoryRange::Hour).await.unwrap();
    assert!(store.close());
    let opened = SqliteStore::open(&path, clock, StdRng::seed_from_u64(2), Options::default()).unwrap();
    assert_eq!(opened.activity().history(HistoryRange::Hour).await.unwrap(), before);
    assert_eq!(opened.activity().workers().await.unwrap().len(), 1);
    // A repetition after the restart of the store is still known.
    opened.activity().report(&report("p", 1)).await.unwrap();
    assert_eq!(opened.activity().history(HistoryRange::Hour).await.unwrap(), before);
}
