//! Commands that work on the database themselves, and starts that are refused.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::stage::{DLQ, EVENTS, Event, Home, NOBODY, Receiver, Store, ask, until};

on_each_store! {
    an_api_and_a_worker_are_two_processes_where_that_is_wanted,
    a_worker_that_is_told_to_listen_answers_probes_and_scrapes_and_nothing_else,
    keys_are_asked_for_where_they_are_set,
    a_schema_of_a_newer_posthaste_is_not_to_be_migrated,
}

#[test]
fn a_second_migration_finds_nothing_to_do() {
    for store in [Store::Sqlite, Store::Postgres] {
        let home = Home::on_empty(store);
        let (first, second) = (home.run(&["migrate"]), home.run(&["migrate"]));
        assert_eq!(
            (first.code, second.code),
            (Some(0), Some(0)),
            "{store:?}: {}{}",
            first.stderr,
            second.stderr
        );
        assert!(first.stdout.starts_with("created the schema, version "), "{}", first.stdout);
        assert!(second.stdout.starts_with("nothing to do: the schema is at version "), "{}", second.stdout);
        let receiver = Receiver::answering(200);
        let service = home.serve();
        service.delivered(&service.enqueue(&Event::to(&receiver)));
        service.stop();
    }
}

fn an_api_and_a_worker_are_two_processes_where_that_is_wanted(home: Home) {
    let receiver = Receiver::answering(200);
    let service = home.serve_with(&["--no-worker"]);
    let mut follower = service.follow(None);
    let before = service.enqueue(&Event::to(&receiver));
    assert_eq!(service.overview()["pending_ready_count"], 1);
    assert!(receiver.requests().is_empty(), "nobody delivers yet");
    let worker = home.worker();
    let delivered = |event_id: &str| (event_id.to_owned(), "WebhookDeliveredEvent".to_owned());
    assert_eq!(follower.next_ids(1), [delivered(&before)]);
    let after = service.enqueue(&Event::to(&receiver));
    assert_eq!(follower.next_ids(1), [delivered(&after)]);
    assert_eq!(service.get("/readyz").status, 200);
    worker.stop();
    service.stop();
    assert_eq!(receiver.requests().len(), 2);
}

fn a_worker_that_is_told_to_listen_answers_probes_and_scrapes_and_nothing_else(mut home: Home) {
    const LISTENING: &str = "listening for probes and scrapes";
    let receiver = Receiver::answering(200);
    let service = home.serve_with(&["--no-worker"]);
    let worker = home.worker();
    let address = worker.logged(LISTENING, 1)[0]["address"].as_str().unwrap().parse().unwrap();
    let get = |path: &str| ask(address, "GET", path, &[], "").unwrap();
    assert_eq!((get("/healthz").status, get("/readyz").status), (200, 200));
    service.delivered(&service.enqueue(&Event::to(&receiver)));
    let delivered = "\nwebhook_deliveries_total{outcome=\"delivered\"} 1\n";
    until("its deliveries are scraped", || get("/metrics").body.contains(delivered).then_some(()));
    assert_eq!((get(EVENTS).status, get("/").status), (404, 404));
    worker.stop();

    home.unset("POSTHASTE_LISTEN");
    let worker = home.worker();
    assert_eq!(worker.logged_by_now(LISTENING), 0, "many workers may share a host");
    worker.stop();
    service.stop();
}

fn a_schema_of_a_newer_posthaste_is_not_to_be_migrated(mut home: Home) {
    home.unset("POSTHASTE_SIGNING_SECRET");
    assert_eq!(home.run(&["migrate"]).code, Some(0));
    home.sql("UPDATE webhook_migrations SET version = 9999 WHERE version = 1");
    for command in ["secret", "migrate"] {
        let ended = home.run(&[command]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{command}: {}", ended.stderr);
        for told in ["version 9999", "upgrade"] {
            assert!(ended.stderr.contains(told), "{command}: {told:?} is not in: {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("posthaste migrate"), "it would refuse: {}", ended.stderr);
    }
}

fn keys_are_asked_for_where_they_are_set(home: Home) {
    let keys = "orders:producer:the-key-that-nobody-may-print-1,ops:operator:the-key-that-nobody-may-print-2";
    let home = home.with("POSTHASTE_API_KEYS", keys);
    let receiver = Receiver::answering(410);
    let service = home.serve();
    let body = Event::to(&receiver).body();
    let enqueue = |key: Option<&str>| {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("authorization", key)));
        service.ask("POST", EVENTS, &headers, &body)
    };
    enqueue(None).refused(401, "unauthorized");
    enqueue(Some("Bearer the-key-that-nobody-may-print-3")).refused(401, "unauthorized");
    enqueue(Some("Bearer the-key-that-nobody-may-print-2")).refused(403, "forbidden");
    let producer = Some("Bearer the-key-that-nobody-may-print-1");
    let event_id = enqueue(producer).json(202)["event_id"].as_str().unwrap().to_owned();
    let operator = [("authorization", "Bearer the-key-that-nobody-may-print-2")];
    let path = format!("{}/{event_id}", EVENTS);
    until("it has failed", || {
        let shown = service.ask("GET", &path, &operator, "").json(200);
        (shown["delivery_status"] == "failed").then_some(())
    });
    let requeue = format!("{}/{event_id}/requeue", DLQ);
    service.ask("POST", &requeue, &operator, "").json(200);
    let shown = service.ask("GET", &path, &operator, "").json(200);
    assert_eq!(
        (&shown["audit"][0]["action"], &shown["audit"][0]["actor"]),
        (&json!("requeue"), &json!("ops"))
    );
    assert_eq!((service.get("/healthz").status, service.get("/readyz").status), (200, 200));
    service.stop();
}

#[test]
fn where_nobody_watches_every_line_of_a_service_is_json() {
    let home = Home::on(Store::Sqlite);
    let service = home.serve();
    let address = service.address;
    let ended = service.stop();
    for line in ended.stderr.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line["message"].is_string()), "{line}");
    }
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(told["url"], format!("http://{address}/"));
    assert!(told["data"].as_str().unwrap().ends_with("/outbox.db (SQLite)"), "{told}");

    let ended = home.with("POSTHASTE_LOG_FORMAT", "pretty").serve().stop();
    assert!(
        ended.stdout.contains("\n  data     ") && ended.stdout.contains("curl http://"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_port_that_is_taken_is_told_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::on(Store::Sqlite).with("POSTHASTE_LISTEN", &address);
    let ended = home.run(&["serve"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    for told in [&*address, "--listen", "cannot listen"] {
        assert!(ended.stderr.contains(told), "{told:?} is not in: {}", ended.stderr);
    }
    assert!(home.is_untouched(), "nothing is made by a start that fails");
}

#[test]
fn an_address_that_others_can_reach_needs_keys() {
    let home = Home::on(Store::Sqlite).with("POSTHASTE_LISTEN", "0.0.0.0:0");
    for arguments in [&["serve"][..], &[]] {
        let ended = home.run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        for told in ["POSTHASTE_LISTEN=0.0.0.0:0", "POSTHASTE_API_KEYS", "loopback"] {
            assert!(ended.stderr.contains(told), "{told:?} is not in: {}", ended.stderr);
        }
    }
    assert!(home.is_untouched());
}

#[test]
fn a_database_that_does_not_answer_ends_a_start() {
    let url = format!("postgres://postgres@{NOBODY}/posthaste");
    let home = Home::on(Store::Sqlite).with("POSTHASTE_DATABASE_URL", &url);
    for arguments in [&["serve"][..], &["worker"], &["dispatch", "--once"], &["migrate"]] {
        let ended = home.run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("PostgreSQL could not be reached"), "{}", ended.stderr);
    }
}
