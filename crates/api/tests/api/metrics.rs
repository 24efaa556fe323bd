//! Metrics, as a scraper reads them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use http::Method;
use posthaste_domain::{Attempted, Lease, Outcome, RetryPolicy, RetryPolicySpec, Roll, Strategy, Transition};
use posthaste_engine::{AttemptSeen, Observer as _};
use posthaste_store::Settled;

use crate::stage::{
    Answer, EVENTS, Fault, Faulty, Panicking, Setting, Stage, call, claim_all, event, event_to, header,
    moment, status,
};

/// Samples by name and labels, as they are written.
async fn scrape(stage: &Stage) -> BTreeMap<String, f64> {
    samples(&stage.get("/metrics").await)
}

fn samples(answer: &Answer) -> BTreeMap<String, f64> {
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    let lines = answer.text().lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

async fn lease(stage: &Stage) -> Lease {
    stage.pending(&event()).await;
    claim_all(&stage.store).await.remove(0)
}

/// What a worker would tell of an attempt.
fn tell(
    stage: &Stage,
    lease: &Lease,
    outcome: Outcome,
    took: Duration,
    policy: &RetryPolicy,
    settled: Option<Settled>,
) {
    let attempted = Attempted { outcome, duration: took };
    let transition = Transition::of(lease, attempted, policy, Roll(1 << 63));
    stage.metrics.attempted(&AttemptSeen { lease, transition: &transition, settled });
}

fn starting_with(base: u64) -> RetryPolicy {
    let spec = RetryPolicySpec {
        jitter_bps: Some(0),
        allow_fast_retries: true,
        ..RetryPolicySpec::of(Strategy::Exponential { base: Duration::from_secs(base) })
    };
    RetryPolicy::new(spec).unwrap()
}

#[tokio::test]
async fn s1_phase3_anomaly_a_retry_under_the_floor_shows_in_the_delays() {
    let stage = Stage::on_memory().await;
    let lease = lease(&stage).await;
    for base in [60, 30] {
        tell(&stage, &lease, status(500), Duration::ZERO, &starting_with(base), Some(Settled::Applied));
    }
    let told = scrape(&stage).await;
    assert_eq!(told["webhook_retry_delay_bucket{le=\"29.999\"}"], 0.0, "30 s is what the contract allows");
    assert_eq!(told["webhook_retry_delay_bucket{le=\"30.0\"}"], 1.0);
    tell(&stage, &lease, status(500), Duration::ZERO, &starting_with(5), Some(Settled::Applied));
    let told = scrape(&stage).await;
    assert_eq!(told["webhook_retry_delay_bucket{le=\"29.999\"}"], 1.0);
    assert_eq!(told["webhook_retry_delay_bucket{le=\"5.0\"}"], 1.0);
    assert_eq!((told["webhook_retry_delay_count"], told["webhook_retry_delay_sum"]), (3.0, 95.0));
}

#[tokio::test]
async fn s1_queue_depth_is_the_number_of_events_that_are_retried() {
    let stage = Stage::on_memory().await;
    stage.retrying(&event()).await;
    stage.retrying(&event()).await;
    stage.delivered(&event()).await;
    stage.dead_lettered(&event()).await;
    stage.pending(&event()).await;
    let told = scrape(&stage).await;
    let expected = [
        ("webhook_retry_queue_depth", 2.0),
        ("webhook_pending", 3.0),
        ("webhook_pending_ready", 1.0),
        ("webhook_failed", 1.0),
        ("webhook_delivered", 1.0),
        ("webhook_oldest_pending_age", 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(told[name], value, "{name}");
    }
}

#[tokio::test]
async fn s1_latency_has_a_95th_percentile_that_can_be_read() {
    let stage = Stage::on_memory().await;
    let lease = lease(&stage).await;
    for number in 1..=100 {
        let took = Duration::from_millis(if number <= 94 { 80 } else { 2_500 });
        tell(&stage, &lease, status(200), took, &starting_with(60), Some(Settled::Applied));
    }
    let told = scrape(&stage).await;
    let below = |le: &str| told[&format!("webhook_delivery_latency_bucket{{le=\"{le}\"}}")];
    assert_eq!((below("0.05"), below("0.1"), below("2.0"), below("3.0")), (0.0, 94.0, 94.0, 100.0));
    assert_eq!(told["webhook_delivery_latency_count"], 100.0);
    assert!((told["webhook_delivery_latency_sum"] - 22.52).abs() < 1e-6);
}

#[tokio::test]
async fn s1_dead_letter_rate_is_dead_letters_over_everything_that_ended() {
    let stage = Stage::on_memory().await;
    let told = scrape(&stage).await;
    for kind in ["exhausted", "gone", "abandoned"] {
        assert_eq!(
            told[&format!("webhook_dead_letters_total{{kind=\"{kind}\"}}")],
            0.0,
            "there from the start"
        );
    }
    let lease = lease(&stage).await;
    let last = Lease { attempts: 5, ..lease.clone() };
    let policy = starting_with(60);
    for (lease, answer, count) in [(&lease, 200, 96), (&lease, 410, 1), (&last, 500, 2), (&lease, 500, 50)] {
        for _ in 0..count {
            tell(&stage, lease, status(answer), Duration::ZERO, &policy, Some(Settled::Applied));
        }
    }
    stage.metrics.abandoned(1);
    let told = scrape(&stage).await;
    let outcome = |label: &str| told[&format!("webhook_deliveries_total{{outcome=\"{label}\"}}")];
    assert_eq!(
        (outcome("delivered"), outcome("retried"), outcome("exhausted"), outcome("gone")),
        (96.0, 50.0, 2.0, 1.0)
    );
    let dead: f64 = told
        .iter()
        .filter(|(name, _)| name.starts_with("webhook_dead_letters_total"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(
        dead / (outcome("delivered") + dead),
        0.04,
        "four of a hundred: above 2 %, below the 5 % that pages"
    );
}

#[tokio::test]
async fn an_attempt_counts_by_what_became_of_it() {
    let stage = Stage::on_memory().await;
    let lease = Lease { overdue: Duration::from_secs(7), ..lease(&stage).await };
    let policy = starting_with(60);
    for settled in [Some(Settled::Applied), Some(Settled::Replayed), Some(Settled::Stale), None] {
        tell(&stage, &lease, status(500), Duration::from_secs(1), &policy, settled);
    }
    stage.metrics.lease_lost();
    let told = scrape(&stage).await;
    let expected = [
        ("webhook_deliveries_total{outcome=\"retried\"}", 2.0),
        ("webhook_retry_delay_count", 2.0),
        ("webhook_stale_writes_total", 1.0),
        ("webhook_leases_lost_total", 1.0),
        ("webhook_delivery_latency_count", 4.0),
        ("webhook_delivery_lag_count", 4.0),
        ("webhook_delivery_lag_sum", 28.0),
    ];
    for (name, value) in expected {
        assert_eq!(told[name], value, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_seen_while_it_works() {
    let stage = Stage::on_memory().await;
    assert_eq!(scrape(&stage).await["webhook_in_flight"], 0.0);
    stage.enqueue(&event_to("https://silent.example/")).await.json(202);
    let engine = stage.worker(None);
    while engine.in_flight() == 0 {
        moment().await;
    }
    let told = scrape(&stage).await;
    assert_eq!((told["webhook_in_flight"], told["webhook_circuit_open"]), (1.0, 0.0));
    drop(engine);
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_seen() {
    let stage = Stage::on_memory().await;
    let many = serde_json::json!(vec![event(); 40]).to_string();
    stage.post(EVENTS, many).await.json(202);
    let _engine = stage.worker(Some(503));
    for seen in ["webhook_circuit_open", "webhook_deliveries_total{outcome=\"retried\"}"] {
        while scrape(&stage).await[seen] < 1.0 {
            moment().await;
        }
    }
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status_and_not_by_what_clients_write() {
    let stage = Stage::on_memory().await;
    stage.pending(&event()).await;
    stage.enqueue(&serde_json::json!({})).await.refused(400, "invalid_request");
    for name in ["a", "b", "c"] {
        stage.get(&format!("{EVENTS}/{name}")).await.refused(404, "webhook_outbox_event_not_found");
        stage.get(&format!("/{name}")).await.refused(404, "not_found");
    }
    stage.send(call(Method::from_bytes(b"BREW").unwrap(), EVENTS, &[], Body::empty())).await;
    let panicking = stage.with(Setting { readiness: Arc::new(Panicking), ..Setting::default() });
    panicking.get("/readyz").await.refused(500, "internal");
    let told = scrape(&stage).await;
    let counted = |method: &str, route: &str, status: u16| {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
        told[&format!("webhook_api_requests_total{{{labels}}}")]
    };
    assert_eq!(counted("POST", EVENTS, 202), 1.0);
    assert_eq!(counted("POST", EVENTS, 400), 1.0);
    assert_eq!(counted("GET", "/v1/webhook-outbox/events/{event_id}", 404), 3.0);
    assert_eq!(counted("GET", "unmatched", 404), 3.0);
    assert_eq!(counted("other", EVENTS, 405), 1.0);
    let took = "webhook_api_request_duration_count{method=\"POST\",route=\"/v1/webhook-outbox/events\"}";
    assert_eq!(told[took], 2.0);
    let told = scrape(&panicking).await;
    let labels = "method=\"GET\",route=\"/readyz\",status=\"500\"";
    assert_eq!(told[&format!("webhook_api_requests_total{{{labels}}}")], 1.0, "panics are counted too");
}

#[tokio::test(start_paused = true)]
async fn whoever_scrapes_often_costs_the_store_one_count_a_second() {
    let (store, overviews) = Faulty::store(Fault::None);
    let stage = Stage::set(store, Arc::new(()), Setting::default());
    futures_util::future::join_all((0..50).map(|_| stage.get("/metrics"))).await;
    assert_eq!(overviews.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    scrape(&stage).await;
    assert_eq!(overviews.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_scrape_is_answered_while_the_store_is_away() {
    for fault in [Fault::Unavailable, Fault::Rejected, Fault::NeverAnswers] {
        let stage = Faulty::stage(fault);
        let told = scrape(&stage).await;
        assert!(told.contains_key("webhook_in_flight"), "{fault:?}");
        for left_out in ["webhook_retry_queue_depth", "webhook_pending", "webhook_oldest_pending_age"] {
            assert!(!told.contains_key(left_out), "{fault:?}: an old number would be a lie");
        }
    }
}

#[tokio::test]
async fn a_scraper_may_send_parameters_of_its_own() {
    let stage = Stage::on_memory().await;
    assert_eq!(stage.get("/metrics?format=prometheus").await.status.as_u16(), 200);
}

#[tokio::test]
async fn both_text_formats_announce_what_they_hold() {
    let stage = Stage::on_memory().await;
    let classic = stage.get("/metrics").await;
    assert_eq!(classic.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(classic.text().contains("# TYPE webhook_deliveries_total counter\n"), "{}", classic.text());
    assert!(classic.text().contains("# HELP webhook_deliveries_total Attempts"), "{}", classic.text());
    assert!(!classic.text().contains("# EOF"));
    let accept =
        header("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5");
    let open = stage.send(call(Method::GET, "/metrics", &[accept], Body::empty())).await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().contains("# TYPE webhook_deliveries counter\n") && open.text().ends_with("# EOF\n"));
    // Every sample belongs to a family that is announced just before it, in either format.
    for (answer, classic) in [(&classic, true), (&open, false)] {
        let mut family = ("", "");
        for line in answer.text().lines() {
            if let Some(announced) = line.strip_prefix("# TYPE ") {
                family = announced.split_once(' ').unwrap();
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let suffix = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line} under {family:?}"));
                let allowed: &[&str] = match family.1 {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    "counter" if !classic => &["_total"],
                    _ => &[""],
                };
                assert!(allowed.contains(&suffix), "{line} under {family:?}");
            }
        }
    }
}

#[tokio::test]
async fn every_metric_of_the_contract_is_there_under_its_name() {
    let stage = Stage::on_memory().await;
    let answer = stage.get("/metrics").await;
    let announced: Vec<(&str, &str)> =
        answer.text().lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let expected = [
        ("webhook_retry_queue_depth", "gauge"),
        ("webhook_retry_delay", "histogram"),
        ("webhook_delivery_latency", "histogram"),
        ("webhook_delivery_lag", "histogram"),
        ("webhook_deliveries_total", "counter"),
        ("webhook_dead_letters_total", "counter"),
        ("webhook_leases_lost_total", "counter"),
        ("webhook_stale_writes_total", "counter"),
        ("webhook_in_flight", "gauge"),
        ("webhook_oldest_pending_age", "gauge"),
        ("webhook_circuit_open", "gauge"),
        ("posthaste_build_info", "gauge"),
    ];
    for metric in expected {
        assert!(announced.contains(&metric), "{metric:?} in {announced:?}");
    }
    let told = samples(&answer);
    assert!(told.keys().any(|name| name.starts_with("posthaste_build_info{version=\"")), "{told:?}");
    assert!(answer.text().lines().filter(|line| line.starts_with("# HELP")).count() >= expected.len());
}
