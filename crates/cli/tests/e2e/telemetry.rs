//! What a worker says about its work.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::stage::{EVENTS, Event, Home, NOBODY, Receiver, Reply};

const CYCLE: &str = "dispatch cycle complete";

/// What a cycle's report has, by the contract.
const FIELDS: [&str; 12] = [
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
    s2_fr002_ac2_cycle_lines_of_a_service_add_up_to_what_it_did,
    s2_nfr005_a_service_logs_every_cycle_also_an_idle_one,
    s0_nfr003_nothing_that_a_service_prints_tells_of_a_payload_or_a_secret,
    s3_flow_1_a_send_longer_than_its_lease_is_sent_once_beside_another_worker,
}

fn s2_fr002_ac1_dispatch_once_prints_one_line_with_every_bucket(home: Home) {
    let service = home.serve_with(&["--no-worker"]);
    let mut events = vec![Event::to_url(&format!("http://{NOBODY}/"))];
    for status in [200, 201, 302, 404, 410, 503] {
        events.push(Event::to(&Receiver::answering(status)));
    }
    events.push(Event::to(&Receiver::answering(500)).with("max_attempts", 1));
    service.enqueue_all(&events);

    let ended = home.run(&["dispatch", "--once"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (line, rest) = ended.stdout.split_once('\n').unwrap();
    assert_eq!(rest, "", "one line");
    let report: Value = serde_json::from_str(line).unwrap();
    let fields: BTreeSet<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, BTreeSet::from(FIELDS));
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
    let logged: Vec<Value> =
        ended.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let cycle = logged.iter().find(|line| line["message"] == CYCLE).expect("the log has it too");
    for field in FIELDS {
        assert_eq!(cycle[field], report[field], "{field}");
    }

    let again = home.run(&["dispatch", "--once"]);
    let report: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(report["claimed_count"], 0, "retries are not due yet: {report}");
    service.stop();
}

/// The sum of a counter over cycles.
fn sum(cycles: &[Value], counter: &str) -> u64 {
    cycles.iter().map(|cycle| cycle[counter].as_u64().unwrap()).sum()
}

fn s2_fr002_ac2_cycle_lines_of_a_service_add_up_to_what_it_did(home: Home) {
    let home = home.with_fast_retries().with("POSTHASTE_CYCLE_SECONDS", "1");
    let receiver = Receiver::scripted(|_, before| Reply::Status(if before == 0 { 500 } else { 200 }));
    let service = home.serve();
    service.delivered(&service.enqueue(&Event::to(&receiver)));
    let ended = service.stop();
    let cycles: Vec<Value> = ended
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["message"] == CYCLE)
        .collect();
    for cycle in &cycles {
        assert!(FIELDS.iter().all(|field| !cycle[field].is_null()), "{cycle}");
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

fn s2_nfr005_a_service_logs_every_cycle_also_an_idle_one(home: Home) {
    let home = home.with("POSTHASTE_CYCLE_SECONDS", "1");
    let service = home.serve();
    for cycle in service.logged(CYCLE, 2) {
        assert_eq!(cycle["claimed_count"], 0);
        assert!((500..25_000).contains(&cycle["duration_ms"].as_u64().unwrap()), "{cycle}");
    }
    service.stop();
}

/// The promise is kept by every process of every test here; this one goes where most is said.
fn s0_nfr003_nothing_that_a_service_prints_tells_of_a_payload_or_a_secret(home: Home) {
    for (log, format) in [("trace", "json"), ("trace", "pretty")] {
        let home = Home::on(home.store).with("POSTHASTE_LOG", log).with("POSTHASTE_LOG_FORMAT", format);
        let receiver = Receiver::scripted(|_, before| Reply::Status([200, 500, 410][before % 3]));
        let service = home.serve();
        let event = Event::to(&receiver);
        let event_ids = service.enqueue_all(&vec![event.clone(); 3]);
        event_ids.iter().for_each(|event_id| drop(service.attempted(event_id, 1)));
        let refused = event.payload("{\"payload-that-nobody-may-print\":");
        service.post(EVENTS, &refused.body()).refused(400, "invalid_request");
        let ended = service.stop();
        assert!(ended.stderr.contains("attempt"), "something was said");
        if format == "json" {
            let mut lines = ended.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let attempt = lines.find(|line| line["message"] == "attempt").expect("each attempt is a line");
            assert!(attempt["duration_ms"].is_u64() && attempt["lag_ms"].is_u64(), "{attempt}");
        }
    }
    for command in ["config", "doctor"] {
        home.run(&[command]);
    }
}

/// Longer than the lease; the cycle lines are the clock.
fn s3_flow_1_a_send_longer_than_its_lease_is_sent_once_beside_another_worker(home: Home) {
    let home = home.with("POSTHASTE_LEASE_SECONDS", "6").with("POSTHASTE_CYCLE_SECONDS", "1");
    let receiver = Receiver::holding(200);
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.received(1);
    let other = home.worker();
    other.logged(CYCLE, 7);
    service.logged(CYCLE, service.logged_by_now(CYCLE) + 1);
    receiver.let_go();
    service.delivered(&event_id);
    assert_eq!((receiver.requests().len(), home.claims(&event_id)), (1, 1));
    assert_eq!(service.metrics()["webhook_leases_lost_total"], 0.0);
    other.stop();
    service.stop();
}
