//! The server's own checks, for operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_api::{Finding, SelfChecks, Verdict};
use serde_json::json;

use crate::test_api::{TestApi, TestOptions, memory_at};

const DOCTOR: &str = "/v1/webhook-outbox/doctor";

/// Returns one finding and counts its calls, or never completes.
#[derive(Clone, Default)]
struct CountingChecks {
    calls: Arc<AtomicUsize>,
    hangs: bool,
}

#[async_trait]
impl SelfChecks for CountingChecks {
    fn worker_id(&self) -> String {
        "host-7".to_owned()
    }

    async fn run(&self) -> Vec<Finding> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        vec![Finding::new("disk", Verdict::Broken, "free some space")]
    }
}

fn api(checks: &CountingChecks) -> TestApi {
    let options = TestOptions { self_checks: Arc::new(checks.clone()), ..TestOptions::default() };
    TestApi::new(Arc::new(memory_at(0).0), Arc::new(()), options)
}

#[tokio::test]
async fn findings_name_the_process_that_was_checked() {
    let response = api(&CountingChecks::default()).get(DOCTOR).await.json(200);
    assert_eq!(
        response,
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "worker_id": "host-7",
            "process_id": std::process::id(),
            "findings": [{ "check": "disk", "verdict": "broken", "finding": "free some space" }],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn checks_run_at_most_once_in_ten_seconds_however_many_callers_request_them() {
    let checks = CountingChecks::default();
    let api = api(&checks);
    futures_util::future::join_all((0..100).map(|_| api.get(DOCTOR))).await;
    tokio::time::advance(Duration::from_secs(9)).await;
    api.get(DOCTOR).await.json(200);
    assert_eq!(checks.calls.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    api.get(DOCTOR).await.json(200);
    assert_eq!(checks.calls.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn checks_that_hang_end_with_a_finding() {
    let checks = CountingChecks { hangs: true, ..CountingChecks::default() };
    let response = api(&checks).get(DOCTOR).await.json(200);
    assert_eq!(response["findings"][0]["verdict"], "broken", "{response}");
    assert!(response["findings"][0]["finding"].as_str().unwrap().contains("15s"), "{response}");
}
