//! Log lines and reports of dispatch cycles, and the absence of payloads and secrets in all output.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::{CLOSED_ADDRESS, EVENTS, Event, Receiver, Reply, Sandbox};

const CYCLE: &str = "dispatch cycle complete";

/// Fields of a cycle report, from the contract.
const CYCLE_FIELDS: [&str; 12] = [
    "worker_id",
    "claimed_count",
    "delivered_count",
    "retried_count",
    "failed_count",
    "stale_write_count",
    "http_2xx_count",
    "http_3xx_count",
    "http_4xx_count",
    "http_5xx_count",
    "network_error_count",
    "duration_ms",
];

on_each_store! {
    s2_fr002_ac1_dispatch_once_prints_one_line_with_every_bucket,
    s2_fr002_ac2_cycle_lines_of_a_service_add_up_to_its_attempts,
    s2_nfr005_service_logs_every_cycle_even_when_idle,
    s0_nfr003_service_prints_no_payload_and_no_secret,
    s3_flow_1_send_longer_than_its_lease_is_not_repeated_by_another_worker,
}

fn s2_fr002_ac1_dispatch_once_prints_one_line_with_every_bucket(sandbox: Sandbox) {
    let service = sandbox.serve_with(&["--no-worker"]);
    let mut events = vec![Event::to_url(&format!("http://{CLOSED_ADDRESS}/"))];
    for status in [200, 201, 302, 404, 410, 503] {
        events.push(Event::to(&Receiver::responding(status)));
    }
    events.push(Event::to(&Receiver::responding(500)).with("max_attempts", 1));
    service.enqueue_all(&events);

    let exit = sandbox.run(&["dispatch", "--once"]);
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let (line, rest) = exit.stdout.split_once('\n').unwrap();
    assert_eq!(rest, "", "stdout has more than one line");
    let report: Value = serde_json::from_str(line).unwrap();
    let fields: BTreeSet<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, BTreeSet::from(CYCLE_FIELDS));
    let expected = [
        ("claimed_count", 8),
        ("delivered_count", 2),
        ("retried_count", 4),
        ("failed_count", 2),
        ("stale_write_count", 0),
        ("http_2xx_count", 2),
        ("http_3xx_count", 1),
        ("http_4xx_count", 2),
        ("http_5xx_count", 2),
        ("network_error_count", 1),
    ];
    for (name, count) in expected {
        assert_eq!(report[name], count, "{name} in {report}");
    }
    let log: Vec<Value> = exit.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let cycle = log.iter().find(|line| line["message"] == CYCLE).expect("the log has no line for the cycle");
    for field in CYCLE_FIELDS {
        assert_eq!(cycle[field], report[field], "{field}");
    }

    let second = sandbox.run(&["dispatch", "--once"]);
    let report: Value = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!(report["claimed_count"], 0, "a retry was claimed before it was due: {report}");
    service.stop();
}

/// Returns the sum of a counter over several cycles.
fn sum(cycles: &[Value], counter: &str) -> u64 {
    cycles.iter().map(|cycle| cycle[counter].as_u64().unwrap()).sum()
}

fn s2_fr002_ac2_cycle_lines_of_a_service_add_up_to_its_attempts(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries().with_env("POSTHASTE_CYCLE_SECONDS", "1");
    let receiver = Receiver::scripted(|_, earlier| Reply::Status(if earlier == 0 { 500 } else { 200 }));
    let service = sandbox.serve();
    service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
    let exit = service.stop();
    let cycles: Vec<Value> = exit
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["message"] == CYCLE)
        .collect();
    for cycle in &cycles {
        assert!(CYCLE_FIELDS.iter().all(|field| !cycle[field].is_null()), "{cycle}");
        assert_eq!(cycle["level"], "INFO");
    }
    let counters = [
        "claimed_count",
        "delivered_count",
        "retried_count",
        "failed_count",
        "http_2xx_count",
        "http_5xx_count",
    ];
    assert_eq!(counters.map(|counter| sum(&cycles, counter)), [2, 1, 1, 0, 1, 1]);
}

fn s2_nfr005_service_logs_every_cycle_even_when_idle(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("POSTHASTE_CYCLE_SECONDS", "1");
    let service = sandbox.serve();
    for cycle in service.wait_for_log(CYCLE, 2) {
        assert_eq!(cycle["claimed_count"], 0);
        assert!((500..25_000).contains(&cycle["duration_ms"].as_u64().unwrap()), "{cycle}");
    }
    service.stop();
}

/// Every test checks the output of its processes. This test uses the most verbose log level in both formats.
fn s0_nfr003_service_prints_no_payload_and_no_secret(sandbox: Sandbox) {
    for (log, format) in [("trace", "json"), ("trace", "pretty")] {
        let sandbox = Sandbox::new(sandbox.store)
            .with_env("POSTHASTE_LOG", log)
            .with_env("POSTHASTE_LOG_FORMAT", format);
        let receiver = Receiver::scripted(|_, earlier| Reply::Status([200, 500, 410][earlier % 3]));
        let service = sandbox.serve();
        let event = Event::to(&receiver);
        let event_ids = service.enqueue_all(&vec![event.clone(); 3]);
        event_ids.iter().for_each(|event_id| drop(service.wait_for_attempts(event_id, 1)));
        let invalid = event.with_payload("{\"payload-that-must-not-be-printed\":");
        service.post(EVENTS, &invalid.request_body()).expect_error(400, "invalid_request");
        let exit = service.stop();
        assert!(exit.stderr.contains("attempt"), "the log has no attempts");
        if format == "json" {
            let mut lines = exit.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let attempt =
                lines.find(|line| line["message"] == "attempt").expect("the log has no line for an attempt");
            assert!(attempt["duration_ms"].is_u64() && attempt["lag_ms"].is_u64(), "{attempt}");
        }
    }
    for command in ["config", "doctor"] {
        sandbox.run(&[command]);
    }
}

/// The send takes longer than the lease. The test measures time by the cycle lines of the workers.
fn s3_flow_1_send_longer_than_its_lease_is_not_repeated_by_another_worker(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("POSTHASTE_LEASE_SECONDS", "10").with_env("POSTHASTE_CYCLE_SECONDS", "1");
    let receiver = Receiver::blocking(200);
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(1);
    let other = sandbox.start_worker();
    other.wait_for_log(CYCLE, 11);
    service.wait_for_log(CYCLE, service.count_log_lines(CYCLE) + 1);
    receiver.release();
    service.wait_until_delivered(&event_id);
    assert_eq!((receiver.requests().len(), sandbox.count_claims(&event_id)), (1, 1));
    assert_eq!(service.metrics()["webhook_leases_lost_total"], 0.0);
    other.stop();
    service.stop();
}
