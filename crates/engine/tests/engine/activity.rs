//! Reports of a worker's activity: the history and the list of workers.

use posthaste_domain::{DeliveryStatus, WorkerId};
use posthaste_engine::{Engine, Runtimes};
use posthaste_store::{ActivityCounts, HistoryRange, Store as _, WorkerStatus};

use crate::fixture::{Call, Fixture, Reply, millis, secs, settings};

/// Returns the counts of all points of an hour, which ends now.
async fn reported(fixture: &Fixture) -> ActivityCounts {
    let history = fixture.memory.activity().history(HistoryRange::Hour).await.expect("memory never fails");
    let mut sum = ActivityCounts::default();
    history.points.iter().for_each(|point| sum.add(&point.counts));
    sum
}

async fn workers(fixture: &Fixture) -> Vec<WorkerStatus> {
    fixture.memory.activity().workers().await.expect("memory never fails")
}

#[tokio::test(start_paused = true)]
async fn a_worker_reports_results_and_durations() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("up", Reply::After(millis(200), 200));
    fixture.receiver.always_reply("gone", Reply::Status(410));
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("up", 5).await;
    fixture.enqueue("gone", 2).await;
    fixture.enqueue("down", 3).await;
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(25)).await;
    let counts = reported(&fixture).await;
    assert_eq!((counts.delivered, counts.retried, counts.failed), (5, 3, 2));
    assert_eq!(counts.latency.count(), 10);
    let slowest = counts.latency.quantile(1_000).expect("there were requests");
    assert!((millis(180)..=millis(240)).contains(&slowest), "{slowest:?}");
}

#[tokio::test(start_paused = true)]
async fn events_that_expire_are_reported_as_failed() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 3).await;
    let _engine = fixture.start(|settings| settings.expire_after = Some(secs(5)));
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    fixture.advance(secs(20)).await;
    let counts = reported(&fixture).await;
    assert_eq!((counts.retried, counts.failed), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_reports_at_once_and_every_ten_seconds() {
    let fixture = Fixture::new();
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(1)).await;
    let listed = workers(&fixture).await;
    let [worker] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((worker.worker.as_str(), worker.version.as_str()), ("worker-a", env!("CARGO_PKG_VERSION")));
    fixture.advance(secs(3_600)).await;
    let worker = workers(&fixture).await.remove(0);
    assert!(worker.heartbeat_age <= secs(10), "{worker:?}");
    assert_eq!(worker.heartbeat_at.since(worker.started_at).as_secs() / 100, 36);
    let calls = fixture.test_store().calls(Call::Report);
    assert!((355..=365).contains(&calls), "{calls} reports in an hour");
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_reported() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(25), 200));
    fixture.enqueue("slow", 4).await;
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(15)).await;
    assert_eq!(workers(&fixture).await[0].in_flight, 4);
    fixture.advance(secs(30)).await;
    assert_eq!(workers(&fixture).await[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn counts_of_an_outage_are_reported_after_it() {
    let fixture = Fixture::new();
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(1)).await;
    fixture.test_store().fail(&[Call::Report]);
    fixture.enqueue("before", 2).await;
    fixture.advance(secs(600)).await;
    fixture.enqueue("after", 3).await;
    fixture.advance(secs(600)).await;
    assert_eq!(reported(&fixture).await.delivered, 0);
    fixture.test_store().recover();
    fixture.advance(secs(11)).await;
    assert_eq!(reported(&fixture).await.delivered, 5);
}

#[tokio::test(start_paused = true)]
async fn a_report_with_a_lost_reply_is_counted_once() {
    let fixture = Fixture::new();
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(1)).await;
    fixture.test_store().lose_replies(Call::Report, 3);
    fixture.enqueue("up", 4).await;
    fixture.advance(secs(25)).await;
    fixture.enqueue("more", 2).await;
    fixture.advance(secs(60)).await;
    assert_eq!(reported(&fixture).await.delivered, 6);
}

#[tokio::test(start_paused = true)]
async fn a_drained_worker_reports_its_last_counts_and_is_no_longer_listed() {
    let fixture = Fixture::new();
    let engine = fixture.start(|_| {});
    fixture.advance(secs(1)).await;
    // The report before the last one gets no answer either.
    fixture.test_store().lose_replies(Call::Report, 1);
    fixture.enqueue("up", 3).await;
    fixture.advance(secs(10)).await;
    fixture.enqueue("last", 2).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    engine.drain(secs(10)).await;
    assert_eq!(reported(&fixture).await.delivered, 5);
    assert_eq!(workers(&fixture).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_a_report_delays_the_drain_by_two_seconds_at_most() {
    let fixture = Fixture::new();
    let engine = fixture.start(|_| {});
    fixture.advance(secs(1)).await;
    fixture.test_store().hang(Call::Report);
    fixture.advance(secs(20)).await;
    let before = fixture.monotonic();
    engine.drain(secs(10)).await;
    assert!(fixture.monotonic() - before <= secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_single_cycle_reports_its_counts() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 3).await;
    Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await.expect("the store is up");
    assert_eq!(reported(&fixture).await.delivered, 3);
    assert_eq!(workers(&fixture).await, []);
}

#[tokio::test(start_paused = true)]
async fn the_counts_of_two_workers_add_up() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("up", Reply::After(secs(1), 200));
    fixture.enqueue("up", 40).await;
    let _first = fixture.start(|settings| settings.concurrency = 4);
    let _second = fixture.start(|settings| {
        settings.concurrency = 4;
        settings.lease_owner = WorkerId::new("another-start").expect("visible ASCII");
    });
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture.advance(secs(11)).await;
    assert_eq!(reported(&fixture).await.delivered, 40);
    assert_eq!(workers(&fixture).await.len(), 2);
}
