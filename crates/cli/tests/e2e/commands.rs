//! Commands that open the database themselves, API keys, and starts that fail.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::harness::{
    CLOSED_ADDRESS, DLQ, EVENTS, Event, Receiver, Sandbox, Store, send_request, wait_until,
};

on_each_store! {
    api_and_worker_can_run_as_two_processes,
    worker_with_a_listen_address_serves_only_probes_and_metrics,
    configured_api_keys_are_required,
    newer_schema_is_refused_with_the_advice_to_upgrade,
}

#[test]
fn second_migration_changes_nothing() {
    for store in [Store::Sqlite, Store::Postgres] {
        let sandbox = Sandbox::with_empty_database(store);
        let (first, second) = (sandbox.run(&["migrate"]), sandbox.run(&["migrate"]));
        assert_eq!(
            (first.code, second.code),
            (Some(0), Some(0)),
            "{store:?}: {}{}",
            first.stderr,
            second.stderr
        );
        assert!(first.stdout.starts_with("created the schema, version "), "{}", first.stdout);
        assert!(second.stdout.starts_with("nothing to do: the schema is at version "), "{}", second.stdout);
        let receiver = Receiver::responding(200);
        let service = sandbox.serve();
        service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
        service.stop();
    }
}

fn api_and_worker_can_run_as_two_processes(sandbox: Sandbox) {
    let receiver = Receiver::responding(200);
    let service = sandbox.serve_with(&["--no-worker"]);
    let mut subscriber = service.subscribe(None);
    let enqueued_before = service.enqueue(&Event::to(&receiver));
    assert_eq!(service.overview()["pending_ready_count"], 1);
    assert!(receiver.requests().is_empty(), "an event was sent although no worker runs");
    let worker = sandbox.start_worker();
    let delivered = |event_id: &str| (event_id.to_owned(), "WebhookDeliveredEvent".to_owned());
    assert_eq!(subscriber.next_notices(1), [delivered(&enqueued_before)]);
    let enqueued_after = service.enqueue(&Event::to(&receiver));
    assert_eq!(subscriber.next_notices(1), [delivered(&enqueued_after)]);
    assert_eq!(service.get("/readyz").status, 200);
    worker.stop();
    service.stop();
    assert_eq!(receiver.requests().len(), 2);
}

fn worker_with_a_listen_address_serves_only_probes_and_metrics(mut sandbox: Sandbox) {
    const LISTENING: &str = "listening for probes and scrapes";
    let receiver = Receiver::responding(200);
    let service = sandbox.serve_with(&["--no-worker"]);
    let worker = sandbox.start_worker();
    let address = worker.wait_for_log(LISTENING, 1)[0]["address"].as_str().unwrap().parse().unwrap();
    let get = |path: &str| send_request(address, "GET", path, &[], "").unwrap();
    assert_eq!((get("/healthz").status, get("/readyz").status), (200, 200));
    service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
    let delivered = "\nwebhook_deliveries_total{outcome=\"delivered\"} 1\n";
    wait_until("the metrics of the worker count the delivery", || {
        get("/metrics").body.contains(delivered).then_some(())
    });
    assert_eq!((get(EVENTS).status, get("/").status), (404, 404));
    worker.stop();

    sandbox.remove_env("POSTHASTE_LISTEN");
    let worker = sandbox.start_worker();
    assert_eq!(worker.count_log_lines(LISTENING), 0, "a worker without a listen address listens");
    worker.stop();
    service.stop();
}

fn newer_schema_is_refused_with_the_advice_to_upgrade(mut sandbox: Sandbox) {
    sandbox.remove_env("POSTHASTE_SIGNING_SECRET");
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    sandbox.sql("UPDATE webhook_migrations SET version = 9999 WHERE version = 1");
    for command in ["secret", "migrate"] {
        let exit = sandbox.run(&[command]);
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{command}: {}", exit.stderr);
        for text in ["version 9999", "upgrade"] {
            assert!(exit.stderr.contains(text), "{command}: {text:?} is not in: {}", exit.stderr);
        }
        assert!(
            !exit.stderr.contains("posthaste migrate"),
            "`posthaste migrate` would refuse this schema: {}",
            exit.stderr
        );
    }
}

fn configured_api_keys_are_required(sandbox: Sandbox) {
    let keys = "orders:producer:the-key-that-must-not-be-printed-1,ops:operator:the-key-that-must-not-be-printed-2,\
                eyes:viewer:the-key-that-must-not-be-printed-3,billing:producer:the-key-that-must-not-be-printed-5";
    let sandbox = sandbox
        .with_env("POSTHASTE_API_KEYS", keys)
        .with_env("POSTHASTE_ALLOW_PRIVATE_NETWORKS", "127.0.0.0/8");
    let receiver = Receiver::responding(410);
    let service = sandbox.serve();
    let body = Event::to(&receiver).request_body();
    let enqueue = |key: Option<&str>| {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("authorization", key)));
        service.request("POST", EVENTS, &headers, &body)
    };
    enqueue(None).expect_error(401, "unauthorized");
    enqueue(Some("Bearer the-key-that-must-not-be-printed-4")).expect_error(401, "unauthorized");
    enqueue(Some("Bearer the-key-that-must-not-be-printed-3")).expect_error(403, "forbidden");
    let producer = "Bearer the-key-that-must-not-be-printed-1";
    let event_id = enqueue(Some(producer)).expect_json(202)["event_id"].as_str().unwrap().to_owned();
    let operator = [("authorization", "Bearer the-key-that-must-not-be-printed-2")];
    let path = format!("{EVENTS}/{event_id}");
    wait_until("the event has failed", || {
        let event = service.request("GET", &path, &operator, "").expect_json(200);
        (event["delivery_status"] == "failed").then_some(())
    });
    let requeue = format!("{DLQ}/{event_id}/requeue");
    service.request("POST", &requeue, &operator, "").expect_json(200);
    let event = service.request("GET", &path, &operator, "").expect_json(200);
    assert_eq!(
        (&event["audit"][0]["action"], &event["audit"][0]["actor"]),
        (&json!("requeue"), &json!("ops"))
    );
    assert_eq!(event["stored_by"], "orders");
    let as_producer = |key| service.request("GET", &path, &[("authorization", key)], "");
    let event = as_producer(producer).expect_json(200);
    assert_eq!(event["history"][0]["http_status"], 410);
    assert_eq!(event["history"][0].get("excerpt"), None, "{event}");
    as_producer("Bearer the-key-that-must-not-be-printed-5")
        .expect_error(404, "webhook_outbox_event_not_found");
    assert_eq!((service.get("/healthz").status, service.get("/readyz").status), (200, 200));
    service.stop();
}

#[test]
fn without_a_terminal_every_line_of_a_service_is_json() {
    let sandbox = Sandbox::new(Store::Sqlite);
    let service = sandbox.serve();
    let address = service.address;
    let exit = service.stop();
    for line in exit.stderr.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line["message"].is_string()), "{line}");
    }
    let banner: Value = serde_json::from_str(&exit.stdout).unwrap();
    assert_eq!(banner["url"], format!("http://{address}/"));
    assert!(banner["data"].as_str().unwrap().ends_with("/outbox.db (SQLite)"), "{banner}");

    let exit = sandbox.with_env("POSTHASTE_LOG_FORMAT", "pretty").serve().stop();
    assert!(exit.stdout.contains("\n  data     ") && exit.stdout.contains("curl http://"), "{}", exit.stdout);
}

#[test]
fn port_in_use_ends_a_start_with_advice() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_LISTEN", &address);
    let exit = sandbox.run(&["serve"]);
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{}", exit.stderr);
    for text in [&*address, "--listen", "cannot listen"] {
        assert!(exit.stderr.contains(text), "{text:?} is not in: {}", exit.stderr);
    }
    assert!(sandbox.has_no_files(), "the failed start created files");
}

#[test]
fn non_loopback_address_needs_api_keys() {
    let sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_LISTEN", "0.0.0.0:0");
    for arguments in [&["serve"][..], &[]] {
        let exit = sandbox.run(arguments);
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(2), ""), "{}", exit.stderr);
        for text in ["POSTHASTE_LISTEN=0.0.0.0:0", "POSTHASTE_API_KEYS", "loopback"] {
            assert!(exit.stderr.contains(text), "{text:?} is not in: {}", exit.stderr);
        }
    }
    assert!(sandbox.has_no_files(), "the refused start created files");
}

#[test]
fn unreachable_database_ends_a_command_that_runs_once() {
    let url = format!("postgres://postgres@{CLOSED_ADDRESS}/posthaste");
    let sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_DATABASE_URL", &url);
    for arguments in [&["dispatch", "--once"][..], &["migrate"]] {
        let exit = sandbox.run(arguments);
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", exit.stderr);
        assert!(exit.stderr.contains("PostgreSQL could not be reached"), "{}", exit.stderr);
    }
}
