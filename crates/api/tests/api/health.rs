//! Alive, and able to work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_api::{Check, Readiness};
use serde_json::json;

use crate::stage::{Ready, Setting, Stage, memory_at};

fn stage(readiness: impl Readiness + 'static) -> Stage {
    let setting = Setting { readiness: Arc::new(readiness), ..Setting::default() };
    Stage::set(Arc::new(memory_at(0).0), Arc::new(()), setting)
}

fn check(name: &'static str, ok: bool) -> Check {
    Check { name, ok, detail: format!("{name} was asked") }
}

#[tokio::test]
async fn a_process_that_answers_is_alive() {
    assert_eq!(Stage::on_memory().await.get("/healthz").await.json(200), json!({ "status": "ok" }));
}

#[tokio::test]
async fn readiness_is_that_of_every_part() {
    let cases = [
        (vec![], 200, "ready"),
        (vec![check("store", true), check("worker", true)], 200, "ready"),
        (vec![check("store", false), check("worker", true)], 503, "unavailable"),
        (vec![check("store", true), check("worker", false)], 503, "unavailable"),
    ];
    for (checks, code, status) in cases {
        let told: Vec<_> = checks
            .iter()
            .map(|check| json!({ "name": check.name, "ok": check.ok, "detail": check.detail }))
            .collect();
        let answer = stage(Ready(checks)).get("/readyz").await.json(code);
        assert_eq!(answer, json!({ "status": status, "checks": told }));
    }
}

#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

#[async_trait]
impl Readiness for Counting {
    async fn check(&self) -> Vec<Check> {
        self.0.fetch_add(1, Ordering::SeqCst);
        vec![]
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_often_costs_one_check_a_second() {
    let asked = Counting::default();
    let stage = stage(asked.clone());
    let often = (0..100).map(|_| stage.get("/readyz"));
    futures_util::future::join_all(often).await;
    assert_eq!(asked.0.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    stage.get("/readyz").await.json(200);
    assert_eq!(asked.0.load(Ordering::SeqCst), 2);
}

struct Stuck;

#[async_trait]
impl Readiness for Stuck {
    async fn check(&self) -> Vec<Check> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_end_is_not_ready() {
    let answer = stage(Stuck).get("/readyz").await.json(503);
    assert_eq!(answer["checks"][0]["name"], "readiness");
    assert!(answer["checks"][0]["detail"].as_str().unwrap().contains("5s"), "{answer}");
}
