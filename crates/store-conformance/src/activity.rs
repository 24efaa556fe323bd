//! Reports of workers: the history that the store keeps of them, and the list of workers.

use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::{DestinationId, LatencyHistogram};
use posthaste_store::{
    ActivityCounts, ActivityReport, History, HistoryRange, ReceiverActivity, WorkerStatus,
};

use crate::Harness;
use crate::fixture::*;

/// The time that a worker of the cases has been running.
const RUNNING_FOR: Duration = HOUR;

/// The report of a process with this name, with one request of 40 ms for each event that it delivered.
fn report_of(process: &str, sequence: u64, delivered: u64) -> ActivityReport {
    let mut counts = ActivityCounts { delivered, retried: 2, failed: 1, ..ActivityCounts::default() };
    (0..delivered).for_each(|_| counts.latency.record(Duration::from_millis(40)));
    ActivityReport {
        process: worker(process),
        worker: worker(&format!("name-of-{process}")),
        version: "1.2.3".to_owned(),
        running_for: RUNNING_FOR,
        in_flight: 4,
        sequence,
        is_last: false,
        counts,
        receivers: Vec::new(),
    }
}

async fn report(store: &Handle, report: &ActivityReport) {
    store.activity().report(report).await.expect("the store is up");
}

async fn history(store: &Handle, range: HistoryRange) -> History {
    store.activity().history(range).await.expect("the store is up")
}

async fn workers(store: &Handle) -> Vec<WorkerStatus> {
    store.activity().workers().await.expect("the store is up")
}

/// The names of the listed workers.
async fn names(store: &Handle) -> Vec<String> {
    workers(store).await.iter().map(|listed| listed.worker.to_string()).collect()
}

/// The sum of all points: a case may run across the end of a step.
fn total(history: &History) -> ActivityCounts {
    let mut sum = ActivityCounts::default();
    history.points.iter().for_each(|point| sum.add(&point.counts));
    sum
}

async fn delivered(store: &Handle, range: HistoryRange) -> u64 {
    total(&history(store, range).await).delivered
}

pub async fn a_store_without_reports_has_no_history_and_no_workers(harness: &dyn Harness) {
    let store = harness.store();
    for range in HistoryRange::ALL {
        let history = history(&store, *range).await;
        assert_eq!((history.range, history.points), (*range, vec![]));
    }
    assert_eq!(workers(&store).await, []);
}

pub async fn every_range_has_the_counts_of_a_report(harness: &dyn Harness) {
    let store = harness.store();
    let new = report_of("a", 1, 5);
    report(&store, &new).await;
    for range in HistoryRange::ALL {
        let history = history(&store, *range).await;
        let [point] = &history.points[..] else { panic!("{history:?}") };
        assert_eq!((history.step_seconds, point.counts), (range.step_seconds(), new.counts), "{range:?}");
        let step_us = i64::from(history.step_seconds) * 1_000_000;
        assert_eq!(point.at.as_micros() % step_us, 0, "a point is at the start of its step");
        let now = store.health().await.expect("the store is up").now;
        assert!(now.since(point.at) < Duration::from_secs(history.step_seconds.into()) + MINUTE, "{range:?}");
    }
}

pub async fn latencies_of_all_processes_give_the_quantiles(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let of_latency = |process: &str, count: usize, millis: u64| {
        let mut latency = LatencyHistogram::default();
        (0..count).for_each(|_| latency.record(Duration::from_millis(millis)));
        ActivityReport {
            counts: ActivityCounts { latency, ..Default::default() },
            ..report_of(process, 1, 0)
        }
    };
    report(&store, &of_latency("fast", 90, 20)).await;
    report(&second, &of_latency("slow", 10, 9_000)).await;
    let latency = total(&history(&store, HistoryRange::Hour).await).latency;
    let quantile = |thousandths| latency.quantile(thousandths).expect("there were requests").as_millis();
    assert_eq!(latency.count(), 100);
    assert!((15..30).contains(&quantile(500)), "{}", quantile(500));
    assert!((7_000..12_000).contains(&quantile(990)), "{}", quantile(990));
}

pub async fn concurrent_reports_of_several_processes_add_up(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for sequence in 1..=5 {
        let calls = (0..8).map(|process| {
            let store = if process % 2 == 0 { &store } else { &second };
            let new = report_of(&format!("process-{process}"), sequence, 3);
            async move { report(store, &new).await }
        });
        join_all(calls).await;
    }
    for range in HistoryRange::ALL {
        let total = total(&history(&store, *range).await);
        assert_eq!((total.delivered, total.retried, total.failed, total.latency.count()), (120, 80, 40, 120));
    }
    assert_eq!(workers(&second).await.len(), 8);
}

pub async fn a_repeated_report_is_counted_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let (first, next) = (report_of("a", 1, 5), report_of("a", 2, 7));
    report(&store, &first).await;
    report(&second, &first).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 5);
    report(&store, &next).await;
    report(&store, &first).await;
    report(&store, &next).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 12);
    // Another start of the worker begins with the first number.
    report(&store, &report_of("b", 1, 1)).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 13);
    // The first of these repetitions must not remove what the second one is recognised by.
    harness.advance(3 * DAY).await;
    report(&store, &next).await;
    report(&store, &next).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 0);
}

pub async fn points_are_in_time_order_and_exist_only_for_reported_times(harness: &dyn Harness) {
    let store = harness.store();
    report(&store, &report_of("a", 1, 1)).await;
    harness.advance(20 * MINUTE).await;
    report(&store, &report_of("a", 2, 2)).await;
    harness.advance(10 * MINUTE).await;
    let history_of_hour = history(&store, HistoryRange::Hour).await;
    let [first, second] = &history_of_hour.points[..] else { panic!("{history_of_hour:?}") };
    assert_eq!((first.counts.delivered, second.counts.delivered), (1, 2));
    let apart = second.at.since(first.at);
    assert!((19 * MINUTE..22 * MINUTE).contains(&apart), "{apart:?}");
    assert_eq!(delivered(&store, HistoryRange::QuarterHour).await, 2);
}

pub async fn a_point_has_the_last_number_of_pending_events_and_of_dead_letters(harness: &dyn Harness) {
    let store = harness.store();
    report(&store, &report_of("a", 1, 0)).await;
    enqueue_dead_lettered(&store, event()).await;
    enqueue_all(&store, vec![event(); 3]).await;
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("it is pending");
    report(&harness.second_handle(), &report_of("b", 1, 0)).await;
    for range in HistoryRange::ALL {
        let history = history(&store, *range).await;
        let last = history.points.last().expect("a process has reported");
        assert_eq!((last.pending, last.dead_letters), (3, 1), "{range:?}");
    }
}

pub async fn history_ends_with_the_longest_time_that_its_buckets_are_kept(harness: &dyn Harness) {
    use HistoryRange::{Day, Hour, Month, QuarterHour, SixHours, Week};
    let store = harness.store();
    report(&store, &report_of("a", 1, 5)).await;
    for (advanced, without, with) in [
        (HOUR / 2, &[QuarterHour][..], &[Hour, SixHours][..]),
        (HOUR, &[QuarterHour, Hour], &[SixHours, Day, Week, Month]),
        (10 * HOUR, &[Hour, SixHours], &[Day, Week, Month]),
        (DAY, &[SixHours, Day], &[Week, Month]),
        (10 * DAY, &[Day, Week], &[Month]),
        (30 * DAY, &[Week, Month], &[]),
    ] {
        harness.advance(advanced).await;
        // Removes old buckets, and adds nothing.
        let idle = ActivityReport { counts: ActivityCounts::default(), ..report_of("idle", 1, 0) };
        report(&store, &ActivityReport { is_last: true, ..idle }).await;
        for (ranges, expected) in [(without, 0), (with, 5)] {
            for range in ranges {
                assert_eq!(delivered(&store, *range).await, expected, "{range:?} after {advanced:?}");
            }
        }
    }
}

pub async fn workers_are_listed_with_their_last_report(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    report(&store, &report_of("b", 1, 5)).await;
    report(&second, &report_of("a", 1, 5)).await;
    harness.advance(10 * MINUTE).await;
    let later = RUNNING_FOR + 10 * MINUTE;
    report(&second, &ActivityReport { running_for: later, in_flight: 9, ..report_of("b", 2, 0) }).await;
    let listed = workers(&store).await;
    let [a, b] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((a.worker.as_str(), b.worker.as_str()), ("name-of-a", "name-of-b"));
    assert_eq!((a.in_flight, b.in_flight, a.version.as_str()), (4, 9, "1.2.3"));
    assert!((10 * MINUTE..11 * MINUTE).contains(&a.heartbeat_age), "{a:?}");
    assert!(b.heartbeat_age < MINUTE, "{b:?}");
    let running = b.heartbeat_at.since(b.started_at);
    assert!((later - MINUTE..later + MINUTE).contains(&running), "{running:?}");
}

pub async fn two_processes_with_one_name_are_two_workers(harness: &dyn Harness) {
    let store = harness.store();
    for process in ["start-1", "start-2"] {
        report(&store, &ActivityReport { worker: worker("w"), ..report_of(process, 1, 1) }).await;
    }
    assert_eq!(names(&store).await, ["w", "w"]);
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 2);
}

pub async fn a_worker_that_reports_no_more_is_listed_for_an_hour(harness: &dyn Harness) {
    let store = harness.store();
    report(&store, &report_of("a", 1, 0)).await;
    harness.advance(50 * MINUTE).await;
    report(&store, &report_of("b", 1, 0)).await;
    assert_eq!(names(&store).await, ["name-of-a", "name-of-b"]);
    harness.advance(20 * MINUTE).await;
    assert_eq!(names(&store).await, ["name-of-b"]);
    harness.advance(2 * DAY).await;
    report(&store, &report_of("c", 1, 0)).await;
    assert_eq!(names(&store).await, ["name-of-c"]);
    // The row of the first process is gone, and so is the number of its last report.
    report(&store, &report_of("a", 1, 3)).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 3);
}

pub async fn a_worker_that_stops_is_not_listed_and_its_counts_stay(harness: &dyn Harness) {
    let store = harness.store();
    report(&store, &report_of("a", 1, 5)).await;
    report(&store, &ActivityReport { is_last: true, ..report_of("a", 1, 5) }).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 5, "the number of the report is known");
    report(&store, &report_of("b", 1, 5)).await;
    report(&store, &ActivityReport { is_last: true, ..report_of("b", 2, 7) }).await;
    report(&store, &ActivityReport { is_last: true, ..report_of("once", 1, 1) }).await;
    assert_eq!(delivered(&store, HistoryRange::Hour).await, 18);
    assert_eq!(names(&store).await, [""; 0]);
}

/// What a worker knows of a destination.
fn receiver(destination: i64, window: u64, requests: u64, failures: u64) -> ReceiverActivity {
    let (destination, latency) = (DestinationId(destination), Duration::from_micros(1_234));
    ReceiverActivity { destination, window, requests, failures, latency }
}

async fn receivers(store: &Handle, destinations: &[i64]) -> Vec<ReceiverActivity> {
    let destinations: Vec<DestinationId> = destinations.iter().copied().map(DestinationId).collect();
    store.activity().receivers(&destinations).await.expect("the store is up")
}

pub async fn what_workers_know_of_a_destination_adds_up(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let knows =
        |process, sequence, receivers| ActivityReport { receivers, ..report_of(process, sequence, 0) };
    report(&store, &knows("a", 1, vec![receiver(7, 20, 10, 1), receiver(8, 2, 0, 0)])).await;
    report(&second, &knows("b", 1, vec![receiver(7, 5, 30, 3), receiver(9, 1, 4, 4)])).await;
    assert_eq!(receivers(&store, &[9, 7]).await, [receiver(7, 25, 40, 4), receiver(9, 1, 4, 4)]);
    assert_eq!(receivers(&store, &[1]).await, []);
    // A later report replaces the earlier one, and a repeated one changes nothing.
    report(&store, &knows("a", 2, vec![receiver(7, 1, 12, 12)])).await;
    report(&store, &knows("a", 1, vec![receiver(7, 20, 10, 1)])).await;
    assert_eq!(receivers(&store, &[7, 8]).await, [receiver(7, 6, 42, 15)]);
    report(&store, &ActivityReport { is_last: true, ..knows("b", 2, Vec::new()) }).await;
    assert_eq!(receivers(&store, &[7, 9]).await, [receiver(7, 1, 12, 12)], "a stopped worker knows nothing");
}

pub async fn what_a_silent_worker_knew_is_shown_for_a_minute(harness: &dyn Harness) {
    let store = harness.store();
    report(&store, &ActivityReport { receivers: vec![receiver(7, 20, 10, 1)], ..report_of("a", 1, 0) }).await;
    harness.advance(Duration::from_secs(20)).await;
    assert_eq!(receivers(&store, &[7]).await, [receiver(7, 20, 10, 1)]);
    harness.advance(Duration::from_secs(60)).await;
    assert_eq!(receivers(&store, &[7]).await, []);
}

pub async fn reports_of_the_future_are_repaired_when_the_clock_steps_back(harness: &dyn Harness) {
    harness.advance(5 * HOUR).await;
    let store = harness.store();
    report(&store, &report_of("dead", 1, 100)).await;
    report(&store, &report_of("live", 1, 100)).await;
    harness.step_back(4 * HOUR).await;
    for range in HistoryRange::ALL {
        assert_eq!(history(&store, *range).await.points.len(), 0, "{range:?} has no point of the future");
    }
    report(&store, &report_of("live", 2, 5)).await;
    assert_eq!(delivered(&store, HistoryRange::SixHours).await, 5);
    assert_eq!(names(&store).await, ["name-of-dead", "name-of-live"]);
    harness.advance(2 * HOUR).await;
    report(&store, &report_of("live", 3, 2)).await;
    assert_eq!(names(&store).await, ["name-of-live"], "the heartbeat of a dead worker ages");
    harness.advance(3 * HOUR).await;
    for range in [HistoryRange::SixHours, HistoryRange::Day, HistoryRange::Week] {
        assert_eq!(delivered(&store, range).await, 7, "{range:?}");
    }
}
