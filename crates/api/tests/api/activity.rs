//! The history for charts and the list of workers.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::WorkerId;
use posthaste_store::{ActivityCounts, ActivityReport, HistoryRange, Store};
use serde_json::{Value, json};

use crate::test_api::{TestApi, event, memory_at};

const HISTORY: &str = "/v1/webhook-outbox/history";
const WORKERS: &str = "/v1/webhook-outbox/workers";

crate::on_every_store! {
    history_has_what_workers_reported,
    workers_are_listed_with_their_last_report,
}

/// Reports three deliveries, of which two took 40 ms and one took 900 ms.
async fn report(store: &dyn Store, process: &str, sequence: u64) {
    let mut counts = ActivityCounts { delivered: 3, retried: 2, failed: 1, ..ActivityCounts::default() };
    for millis in [40, 40, 900] {
        counts.latency.record(Duration::from_millis(millis));
    }
    let report = ActivityReport {
        process: WorkerId::new(process).unwrap(),
        worker: WorkerId::new("delivery-1").unwrap(),
        version: "0.1.0".to_owned(),
        running_for: Duration::from_secs(60),
        in_flight: 4,
        sequence,
        is_last: false,
        counts,
        receivers: Vec::new(),
    };
    store.activity().report(&report).await.unwrap();
}

async fn history_has_what_workers_reported(api: TestApi) {
    api.dead_lettered_event(&event()).await;
    api.pending_event(&event()).await;
    report(&*api.store, "a", 1).await;
    for range in HistoryRange::ALL {
        let history = api.get(&format!("{HISTORY}?range={}", range.as_str())).await.json(200);
        assert_eq!(
            (&history["range"], &history["step_seconds"]),
            (&json!(range.as_str()), &json!(range.step_seconds()))
        );
        let [point] = &history["points"].as_array().unwrap()[..] else { panic!("{history}") };
        assert_eq!(point["delivered_count"], 3);
        assert_eq!((&point["retried_count"], &point["failed_count"]), (&json!(2), &json!(1)));
        assert_eq!((&point["pending_count"], &point["dead_letter_count"]), (&json!(1), &json!(1)));
        let [p50, p95, p99] =
            ["latency_p50_ms", "latency_p95_ms", "latency_p99_ms"].map(|name| point[name].as_f64().unwrap());
        assert!((30.0..=42.0).contains(&p50), "{p50}");
        assert!((750.0..=1_000.0).contains(&p95) && p99 >= p95, "{p95} {p99}");
    }
}

async fn workers_are_listed_with_their_last_report(api: TestApi) {
    assert_eq!(api.get(WORKERS).await.json(200), json!({ "workers": [] }));
    report(&*api.store, "a", 1).await;
    let listed = api.get(WORKERS).await.json(200);
    let [worker] = &listed["workers"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&worker["worker_id"], &worker["version"]), (&json!("delivery-1"), &json!("0.1.0")));
    assert_eq!(worker["in_flight"], 4);
    assert!(worker["heartbeat_age_seconds"].as_u64().is_some_and(|age| age < 60), "{worker}");
    assert!(worker["started_at"].as_str() < worker["heartbeat_at"].as_str(), "{worker}");
}

#[tokio::test]
async fn points_are_in_steps_and_the_default_range_is_an_hour() {
    let (store, clock) = memory_at(1_700_000_000);
    let api = TestApi::on_store(Arc::new(store.clone()), Arc::new(()));
    assert_eq!(api.get(HISTORY).await.json(200), json!({ "range": "1h", "step_seconds": 10, "points": [] }));
    for sequence in 1..=3 {
        report(&store, "a", sequence).await;
        clock.advance(Duration::from_secs(25));
    }
    let history = api.get(HISTORY).await.json(200);
    let times: Vec<&Value> = history["points"].as_array().unwrap().iter().map(|point| &point["at"]).collect();
    let expected =
        ["2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:40.000000Z", "2023-11-14T22:14:10.000000Z"];
    assert_eq!(times, expected);
}

#[tokio::test]
async fn a_point_without_requests_has_no_latency() {
    let (store, clock) = memory_at(1_700_000_000);
    let api = TestApi::on_store(Arc::new(store.clone()), Arc::new(()));
    let idle = ActivityReport {
        process: WorkerId::new("p").unwrap(),
        worker: WorkerId::new("w").unwrap(),
        version: "0.1.0".to_owned(),
        running_for: Duration::from_secs(90),
        in_flight: 0,
        sequence: 1,
        is_last: false,
        counts: ActivityCounts::default(),
        receivers: Vec::new(),
    };
    store.activity().report(&idle).await.unwrap();
    clock.advance(Duration::from_millis(3_999));
    let point = &api.get(HISTORY).await.json(200)["points"][0];
    assert_eq!((&point["delivered_count"], &point["latency_p99_ms"]), (&json!(0), &Value::Null));
    let expected = json!({
        "worker_id": "w",
        "version": "0.1.0",
        "started_at": "2023-11-14T22:11:50.000000Z",
        "heartbeat_at": "2023-11-14T22:13:20.000000Z",
        "heartbeat_age_seconds": 3,
        "in_flight": 0,
    });
    assert_eq!(api.get(WORKERS).await.json(200)["workers"], json!([expected]));
}

#[tokio::test]
async fn a_range_that_does_not_exist_is_refused_with_the_value_and_the_rule() {
    let api = TestApi::on_memory().await;
    let (message, details) =
        api.get(&format!("{HISTORY}?range=2h")).await.expect_error(400, "invalid_request");
    assert_eq!(message, "range must be 15m, 1h, 6h, 24h, 7d or 30d, got \"2h\"");
    assert_eq!(details["parameter"], "range");
    for path in [format!("{HISTORY}?step=10"), format!("{WORKERS}?limit=1")] {
        api.get(&path).await.expect_error(400, "invalid_request");
    }
}
