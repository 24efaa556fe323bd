//! The history of activity: bounded in rows, and written by many processes at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ActivityCounts, ActivityReport, HistoryRange, Store};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::support::PostgresHarness;

pub(crate) fn report(process: &str, sequence: u64) -> ActivityReport {
    ActivityReport {
        process: worker(process),
        worker: worker("w"),
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
async fn rows_of_activity_are_bounded_by_time() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    let count = |table: &str| {
        query_text(PostgresServer::shared(), name, &format!("SELECT count(*) FROM app.{table}"))
    };
    // Buckets and workers of 90 days, as if nothing had been removed for as long.
    let fill = "
        INSERT INTO app.webhook_activity
        SELECT s.step, to_timestamp(floor(extract(epoch FROM now()) / s.step) * s.step - n * s.step * s.stride), 1, 0, 0, '{}', 0, 0
        FROM (VALUES (10, 1), (60, 1), (1800, 2)) AS s (step, stride), generate_series(1, 2000) AS n;
        INSERT INTO app.webhook_workers
        SELECT 'start-' || n, 'w', '0.1.0', now() - interval '2 days', now() - interval '25 hours', 0, 1, '{}', '{}', '{}', '{}', '{}'
        FROM generate_series(1, 900) AS n";
    query_text(PostgresServer::shared(), name, fill);
    for sequence in 1..=15 {
        store.activity().report(&report("p", sequence)).await.unwrap();
    }
    let rows: i64 = count("webhook_activity").parse().unwrap();
    assert!((2_500..=362 + 1_442 + 1_490).contains(&rows), "{rows} rows");
    assert_eq!(count("webhook_workers"), "1");
}

#[tokio::test]
async fn many_processes_that_report_at_once_neither_lose_counts_nor_fail() {
    let harness = PostgresHarness::start().await;
    let handles: [Arc<dyn Store>; 2] = [harness.store(), harness.second_handle()];
    let calls = (0..24_usize).map(|process| {
        let store = &handles[process % 2];
        async move {
            for sequence in 1..=10 {
                store.activity().report(&report(&format!("p-{process}"), sequence)).await.unwrap();
            }
        }
    });
    join_all(calls).await;
    let history = handles[0].activity().history(HistoryRange::Hour).await.unwrap();
    assert_eq!(history.points.iter().map(|point| point.counts.delivered).sum::<u64>(), 240);
}
