//! Liveness and readiness.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_api::{Check, Readiness};
use serde_json::json;

use crate::test_api::{FixedReadiness, TestApi, TestOptions, memory_at};

fn api(readiness: impl Readiness + 'static) -> TestApi {
    let options = TestOptions { readiness: Arc::new(readiness), ..TestOptions::default() };
    TestApi::new(Arc::new(memory_at(0).0), Arc::new(()), options)
}

fn check(name: &'static str, ok: bool) -> Check {
    Check { name, ok, detail: format!("{name} was checked") }
}

#[tokio::test]
async fn a_running_process_is_alive() {
    assert_eq!(TestApi::on_memory().await.get("/healthz").await.json(200), json!({ "status": "ok" }));
}

#[tokio::test]
async fn a_process_is_ready_if_every_check_passes() {
    let cases = [
        (vec![], 200, "ready"),
        (vec![check("store", true), check("worker", true)], 200, "ready"),
        (vec![check("store", false), check("worker", true)], 503, "unavailable"),
        (vec![check("store", true), check("worker", false)], 503, "unavailable"),
    ];
    for (checks, code, status) in cases {
        let expected: Vec<_> = checks
            .iter()
            .map(|check| json!({ "name": check.name, "ok": check.ok, "detail": check.detail }))
            .collect();
        let response = api(FixedReadiness(checks)).get("/readyz").await.json(code);
        assert_eq!(response, json!({ "status": status, "checks": expected }));
    }
}

#[derive(Clone, Default)]
/// Counts its calls.
struct CountingReadiness(Arc<AtomicUsize>);

#[async_trait]
impl Readiness for CountingReadiness {
    async fn check(&self) -> Vec<Check> {
        self.0.fetch_add(1, Ordering::SeqCst);
        vec![]
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_is_checked_at_most_once_a_second() {
    let counting = CountingReadiness::default();
    let api = api(counting.clone());
    let requests = (0..100).map(|_| api.get("/readyz"));
    futures_util::future::join_all(requests).await;
    assert_eq!(counting.0.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    api.get("/readyz").await.json(200);
    assert_eq!(counting.0.load(Ordering::SeqCst), 2);
}

/// A check that never completes.
struct HangingReadiness;

#[async_trait]
impl Readiness for HangingReadiness {
    async fn check(&self) -> Vec<Check> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_is_not_ready() {
    let response = api(HangingReadiness).get("/readyz").await.json(503);
    assert_eq!(response["checks"][0]["name"], "readiness");
    assert!(response["checks"][0]["detail"].as_str().unwrap().contains("5s"), "{response}");
}
