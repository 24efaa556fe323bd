//! The metrics, parsed as a scraper does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use http::Method;
use posthaste_domain::{
    ApplicationId, AttemptResult, DisableReason, Lease, Outcome, RandomDraw, RetryPolicy, RetryPolicySpec,
    Strategy, Transition,
};
use posthaste_engine::{AttemptEvent, LocalShortage, Observer as _};
use posthaste_store::{LayeredStore, SettleResult, Store, StoreLayer};

use crate::test_api::{
    EVENTS, Fault, FaultyStore, PanickingReadiness, TestApi, TestOptions, TestResponse, build_request,
    claim_all, event, event_to, header, http_status, pause_briefly,
};

/// Scrapes the metrics. Keys are names with labels, as they are written.
async fn scrape(api: &TestApi) -> BTreeMap<String, f64> {
    samples(&api.get("/metrics").await)
}

fn samples(response: &TestResponse) -> BTreeMap<String, f64> {
    assert_eq!(response.status.as_u16(), 200, "{}", response.text());
    let lines = response.text().lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

async fn lease(api: &TestApi) -> Lease {
    api.pending_event(&event()).await;
    claim_all(&api.store).await.remove(0)
}

/// Reports an attempt to the metrics, as a worker does.
fn record_attempt(
    api: &TestApi,
    lease: &Lease,
    outcome: Outcome,
    duration: Duration,
    policy: &RetryPolicy,
    settled: Option<SettleResult>,
) {
    let attempted = AttemptResult { outcome, duration };
    let transition = Transition::from_attempt(lease, attempted, policy, RandomDraw(1 << 63));
    api.metrics.on_attempt(&AttemptEvent { lease, app: None, transition: &transition, settled });
}

/// Reports an attempt for an endpoint of this application, whose receiver responded with this status.
fn record_attempt_of(
    api: &TestApi,
    app: ApplicationId,
    lease: &Lease,
    status: u16,
    settled: Option<SettleResult>,
) {
    let attempted = AttemptResult { outcome: http_status(status), duration: Duration::ZERO };
    let transition = Transition::from_attempt(lease, attempted, &policy_with_base(60), RandomDraw(1 << 63));
    api.metrics.on_attempt(&AttemptEvent { lease, app: Some(app), transition: &transition, settled });
}

/// The samples of the counter by application, without those of value 0.
fn application_samples(metrics: &BTreeMap<String, f64>) -> BTreeMap<&str, f64> {
    let samples = metrics.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix("webhook_application_deliveries_total")?, *value))
    });
    samples.filter(|(_, value)| *value > 0.0).collect()
}

/// A policy whose first retry is due after `base` seconds.
fn policy_with_base(base: u64) -> RetryPolicy {
    let spec = RetryPolicySpec {
        jitter_bps: Some(0),
        allow_fast_retries: true,
        ..RetryPolicySpec::for_strategy(Strategy::Exponential { base: Duration::from_secs(base) })
    };
    RetryPolicy::new(spec).unwrap()
}

#[tokio::test]
async fn s1_phase3_anomaly_a_retry_under_30_s_is_visible_in_the_delay_buckets() {
    let api = TestApi::on_memory().await;
    let lease = lease(&api).await;
    for base in [60, 30] {
        record_attempt(
            &api,
            &lease,
            http_status(500),
            Duration::ZERO,
            &policy_with_base(base),
            Some(SettleResult::Applied),
        );
    }
    let metrics = scrape(&api).await;
    assert_eq!(metrics["webhook_retry_delay_bucket{le=\"29.999\"}"], 0.0, "the contract allows 30 s");
    assert_eq!(metrics["webhook_retry_delay_bucket{le=\"30.0\"}"], 1.0);
    record_attempt(
        &api,
        &lease,
        http_status(500),
        Duration::ZERO,
        &policy_with_base(5),
        Some(SettleResult::Applied),
    );
    let metrics = scrape(&api).await;
    assert_eq!(metrics["webhook_retry_delay_bucket{le=\"29.999\"}"], 1.0);
    assert_eq!(metrics["webhook_retry_delay_bucket{le=\"5.0\"}"], 1.0);
    assert_eq!((metrics["webhook_retry_delay_count"], metrics["webhook_retry_delay_sum"]), (3.0, 95.0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn version_and_use_of_the_host_are_exposed_under_the_usual_names() {
    let api = TestApi::on_memory().await;
    let metrics = scrape(&api).await;
    assert_eq!(metrics[&format!("posthaste_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    let at_least = [
        ("process_cpu_seconds_total", 0.0),
        ("process_resident_memory_bytes", 1_000_000.0),
        ("process_virtual_memory_bytes", 1_000_000.0),
        ("process_threads", 1.0),
        ("process_open_fds", 3.0),
        ("process_max_fds", 3.0),
        ("process_start_time_seconds", 1_700_000_000.0),
    ];
    for (name, least) in at_least {
        assert!(metrics[name] >= least, "{name}: {}", metrics[name]);
    }
    assert_eq!(
        scrape(&api).await["process_start_time_seconds"],
        metrics["process_start_time_seconds"],
        "the start does not move"
    );
}

#[tokio::test]
async fn s1_queue_depth_is_the_number_of_retrying_events() {
    let api = TestApi::on_memory().await;
    api.retrying_event(&event()).await;
    api.retrying_event(&event()).await;
    api.delivered_event(&event()).await;
    api.dead_lettered_event(&event()).await;
    api.pending_event(&event()).await;
    let metrics = scrape(&api).await;
    let expected = [
        ("webhook_retry_queue_depth", 2.0),
        ("webhook_pending", 3.0),
        ("webhook_pending_ready", 1.0),
        ("webhook_failed", 1.0),
        ("webhook_delivered", 1.0),
        ("webhook_oldest_pending_age", 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(metrics[name], value, "{name}");
    }
}

#[tokio::test]
async fn s1_latency_p95_can_be_read_from_the_buckets() {
    let api = TestApi::on_memory().await;
    let lease = lease(&api).await;
    for number in 1..=100 {
        let duration = Duration::from_millis(if number <= 94 { 80 } else { 2_500 });
        record_attempt(
            &api,
            &lease,
            http_status(200),
            duration,
            &policy_with_base(60),
            Some(SettleResult::Applied),
        );
    }
    let metrics = scrape(&api).await;
    let below = |le: &str| metrics[&format!("webhook_delivery_latency_bucket{{le=\"{le}\"}}")];
    assert_eq!((below("0.05"), below("0.1"), below("2.0"), below("3.0")), (0.0, 94.0, 94.0, 100.0));
    assert_eq!(metrics["webhook_delivery_latency_count"], 100.0);
    assert!((metrics["webhook_delivery_latency_sum"] - 22.52).abs() < 1e-6);
}

#[tokio::test]
async fn s1_dead_letter_rate_is_dead_letters_over_all_terminal_events() {
    let api = TestApi::on_memory().await;
    let metrics = scrape(&api).await;
    for kind in ["exhausted", "gone", "abandoned", "expired"] {
        assert_eq!(
            metrics[&format!("webhook_dead_letters_total{{kind=\"{kind}\"}}")],
            0.0,
            "exported from the start"
        );
    }
    let lease = lease(&api).await;
    let last = Lease { attempts: 5, ..lease.clone() };
    let policy = policy_with_base(60);
    for (lease, status, count) in [(&lease, 200, 96), (&lease, 410, 1), (&last, 500, 2), (&lease, 500, 50)] {
        for _ in 0..count {
            record_attempt(
                &api,
                lease,
                http_status(status),
                Duration::ZERO,
                &policy,
                Some(SettleResult::Applied),
            );
        }
    }
    api.metrics.on_abandoned(1);
    let metrics = scrape(&api).await;
    let outcome = |label: &str| metrics[&format!("webhook_deliveries_total{{outcome=\"{label}\"}}")];
    assert_eq!(
        (outcome("delivered"), outcome("retried"), outcome("exhausted"), outcome("gone")),
        (96.0, 50.0, 2.0, 1.0)
    );
    let dead: f64 = metrics
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
async fn an_attempt_is_counted_by_its_settle_result() {
    let api = TestApi::on_memory().await;
    let lease = Lease { overdue: Duration::from_secs(7), ..lease(&api).await };
    let policy = policy_with_base(60);
    for settled in
        [Some(SettleResult::Applied), Some(SettleResult::Replayed), Some(SettleResult::Stale), None]
    {
        record_attempt(&api, &lease, http_status(500), Duration::from_secs(1), &policy, settled);
    }
    api.metrics.on_lease_lost();
    api.metrics.on_local_shortage(LocalShortage::Ports);
    let metrics = scrape(&api).await;
    let expected = [
        ("webhook_deliveries_total{outcome=\"retried\"}", 2.0),
        ("webhook_retry_delay_count", 2.0),
        ("webhook_stale_writes_total", 1.0),
        ("webhook_leases_lost_total", 1.0),
        ("webhook_local_shortages_total{resource=\"ports\"}", 1.0),
        ("webhook_local_shortages_total{resource=\"open_files\"}", 0.0),
        ("webhook_delivery_latency_count", 4.0),
        ("webhook_delivery_lag_count", 4.0),
        ("webhook_delivery_lag_sum", 28.0),
    ];
    for (name, value) in expected {
        assert_eq!(metrics[name], value, "{name}");
    }
}

#[tokio::test]
async fn attempts_of_endpoints_are_counted_by_application() {
    let api = TestApi::on_memory().await;
    let lease = lease(&api).await;
    let (shop, bank) = (ApplicationId(1), ApplicationId(2));
    let applied = Some(SettleResult::Applied);
    record_attempt(&api, &lease, http_status(200), Duration::ZERO, &policy_with_base(60), applied);
    assert_eq!(application_samples(&scrape(&api).await), BTreeMap::new(), "a URL has no application");
    let attempts = [(shop, 200), (shop, 200), (shop, 500), (bank, 410)];
    for (app, status) in attempts {
        record_attempt_of(&api, app, &lease, status, applied);
    }
    record_attempt_of(&api, shop, &lease, 200, Some(SettleResult::Stale));
    let metrics = scrape(&api).await;
    let expected = [
        (r#"{app="app_0000000000000001",outcome="delivered"}"#, 2.0),
        (r#"{app="app_0000000000000001",outcome="retried"}"#, 1.0),
        (r#"{app="app_0000000000000002",outcome="gone"}"#, 1.0),
    ];
    assert_eq!(application_samples(&metrics), BTreeMap::from(expected));
    let zero = r#"webhook_application_deliveries_total{app="app_0000000000000002",outcome="delivered"}"#;
    assert_eq!(metrics[zero], 0.0, "a rate needs a first sample");
}

#[tokio::test]
async fn only_the_first_hundred_applications_have_series_of_their_own() {
    let api = TestApi::on_memory().await;
    let lease = lease(&api).await;
    // The first hundred, thirty more, and the first hundred again.
    for number in (1..=130).chain(1..=100) {
        record_attempt_of(&api, ApplicationId(number), &lease, 200, Some(SettleResult::Applied));
    }
    let metrics = scrape(&api).await;
    let samples = application_samples(&metrics);
    assert_eq!(samples.len(), 101, "{samples:?}");
    assert_eq!(samples[r#"{app="other",outcome="delivered"}"#], 30.0);
    let named = samples.iter().filter(|(name, _)| !name.contains("other"));
    assert!(named.clone().all(|(_, value)| *value == 2.0), "{samples:?}");
    assert!(samples.contains_key(r#"{app="app_0000000000000064",outcome="delivered"}"#), "{samples:?}");
    let series = metrics.keys().filter(|name| name.starts_with("webhook_application_deliveries_total"));
    assert_eq!(series.count(), 101 * 4);
}

#[tokio::test(start_paused = true)]
async fn a_worker_reports_the_application_of_an_attempt_and_a_disabled_endpoint() {
    let api = TestApi::on_memory().await;
    let disabled = |metrics: &BTreeMap<String, f64>, reason: DisableReason| {
        metrics[&format!("webhook_endpoints_disabled_total{{reason=\"{}\"}}", reason.as_str())]
    };
    assert_eq!(disabled(&scrape(&api).await, DisableReason::Gone), 0.0);
    let app = api.publish_to_endpoint().await.app_id;
    let _engine = api.start_worker(Some(410));
    while disabled(&scrape(&api).await, DisableReason::Gone) < 1.0 {
        pause_briefly().await;
    }
    let metrics = scrape(&api).await;
    let counted = format!("{{app=\"{app}\",outcome=\"gone\"}}");
    assert_eq!(application_samples(&metrics), BTreeMap::from([(counted.as_str(), 1.0)]));
    assert_eq!(disabled(&metrics, DisableReason::Failing), 0.0);
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_exported() {
    let api = TestApi::on_memory().await;
    assert_eq!(scrape(&api).await["webhook_in_flight"], 0.0);
    api.enqueue(&event_to("https://silent.example/")).await.json(202);
    let engine = api.start_worker(None);
    while engine.in_flight() == 0 {
        pause_briefly().await;
    }
    let metrics = scrape(&api).await;
    assert_eq!((metrics["webhook_in_flight"], metrics["webhook_circuit_open"]), (1.0, 0.0));
    drop(engine);
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_exported() {
    let api = TestApi::on_memory().await;
    let many = serde_json::json!(vec![event(); 40]).to_string();
    api.post(EVENTS, many).await.json(202);
    let _engine = api.start_worker(Some(503));
    for metric in ["webhook_circuit_open", "webhook_deliveries_total{outcome=\"retried\"}"] {
        while scrape(&api).await[metric] < 1.0 {
            pause_briefly().await;
        }
    }
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status_never_by_client_input() {
    let api = TestApi::on_memory().await;
    api.pending_event(&event()).await;
    api.enqueue(&serde_json::json!({})).await.expect_error(400, "invalid_request");
    for name in ["a", "b", "c"] {
        api.get(&format!("{EVENTS}/{name}")).await.expect_error(404, "webhook_outbox_event_not_found");
        api.get(&format!("/{name}")).await.expect_error(404, "not_found");
    }
    api.send(build_request(Method::from_bytes(b"BREW").unwrap(), EVENTS, &[], Body::empty())).await;
    let panicking =
        api.with_options(TestOptions { readiness: Arc::new(PanickingReadiness), ..TestOptions::default() });
    panicking.get("/readyz").await.expect_error(500, "internal");
    let metrics = scrape(&api).await;
    let counted = |method: &str, route: &str, status: u16| {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
        metrics[&format!("webhook_api_requests_total{{{labels}}}")]
    };
    assert_eq!(counted("POST", EVENTS, 202), 1.0);
    assert_eq!(counted("POST", EVENTS, 400), 1.0);
    assert_eq!(counted("GET", "/v1/webhook-outbox/events/{event_id}", 404), 3.0);
    assert_eq!(counted("GET", "unmatched", 404), 3.0);
    assert_eq!(counted("other", EVENTS, 405), 1.0);
    let duration_count =
        "webhook_api_request_duration_count{method=\"POST\",route=\"/v1/webhook-outbox/events\"}";
    assert_eq!(metrics[duration_count], 2.0);
    let metrics = scrape(&panicking).await;
    let labels = "method=\"GET\",route=\"/readyz\",status=\"500\"";
    assert_eq!(metrics[&format!("webhook_api_requests_total{{{labels}}}")], 1.0, "panics are counted too");
}

/// A store with a write-ahead log of 4,152 bytes.
struct StoreWithLog(Arc<dyn Store>);

#[async_trait]
impl StoreLayer for StoreWithLog {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn wal_bytes(&self) -> Option<u64> {
        Some(4_152)
    }
}

#[tokio::test]
async fn the_size_of_the_write_ahead_log_is_a_gauge_if_the_store_has_one() {
    let (memory, _) = FaultyStore::create(Fault::None);
    let with_log = Arc::new(LayeredStore(StoreWithLog(Arc::clone(&memory))));
    let gauge = async |store| {
        let api = TestApi::new(store, Arc::new(()), TestOptions::default());
        scrape(&api).await.get("webhook_sqlite_wal_bytes").copied()
    };
    assert_eq!(gauge(with_log).await, Some(4_152.0));
    assert_eq!(gauge(memory).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_store_counts_at_most_once_a_second_for_scrapes() {
    let (store, overview_calls) = FaultyStore::create(Fault::None);
    let api = TestApi::new(store, Arc::new(()), TestOptions::default());
    futures_util::future::join_all((0..50).map(|_| api.get("/metrics"))).await;
    assert_eq!(overview_calls.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    scrape(&api).await;
    assert_eq!(overview_calls.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_scrape_works_while_the_store_is_unavailable() {
    for fault in [Fault::Unavailable, Fault::Rejected, Fault::NeverReturns] {
        let api = FaultyStore::api(fault);
        let metrics = scrape(&api).await;
        assert!(metrics.contains_key("webhook_in_flight"), "{fault:?}");
        for omitted in ["webhook_retry_queue_depth", "webhook_pending", "webhook_oldest_pending_age"] {
            assert!(!metrics.contains_key(omitted), "{fault:?}: {omitted} would be outdated");
        }
    }
}

#[tokio::test]
async fn unknown_query_parameters_are_accepted_in_a_scrape() {
    let api = TestApi::on_memory().await;
    assert_eq!(api.get("/metrics?format=prometheus").await.status.as_u16(), 200);
}

#[tokio::test]
async fn both_text_formats_declare_their_metrics() {
    let api = TestApi::on_memory().await;
    let classic = api.get("/metrics").await;
    assert_eq!(classic.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(classic.text().contains("# TYPE webhook_deliveries_total counter\n"), "{}", classic.text());
    assert!(classic.text().contains("# HELP webhook_deliveries_total Attempts"), "{}", classic.text());
    assert!(!classic.text().contains("# EOF"));
    let accept =
        header("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5");
    let open = api.send(build_request(Method::GET, "/metrics", &[accept], Body::empty())).await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().contains("# TYPE webhook_deliveries counter\n") && open.text().ends_with("# EOF\n"));
    // In both formats, every sample belongs to the metric that was declared last.
    for (response, classic) in [(&classic, true), (&open, false)] {
        let mut family = ("", "");
        for line in response.text().lines() {
            if let Some(declaration) = line.strip_prefix("# TYPE ") {
                family = declaration.split_once(' ').unwrap();
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
async fn every_metric_of_the_contract_is_exported_under_its_name() {
    let api = TestApi::on_memory().await;
    let response = api.get("/metrics").await;
    let declared: Vec<(&str, &str)> =
        response.text().lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
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
        ("webhook_unwritten_results", "gauge"),
        ("webhook_oldest_pending_age", "gauge"),
        ("webhook_circuit_open", "gauge"),
        ("webhook_clock_skew_seconds", "gauge"),
        ("posthaste_build_info", "gauge"),
    ];
    for metric in expected {
        assert!(declared.contains(&metric), "{metric:?} in {declared:?}");
    }
    let metrics = samples(&response);
    assert!(metrics.keys().any(|name| name.starts_with("posthaste_build_info{version=\"")), "{metrics:?}");
    assert!(response.text().lines().filter(|line| line.starts_with("# HELP")).count() >= expected.len());
}
