//! Outages of the PostgreSQL server.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_postgres_server::{PostgresServer, StopMode, TEST_SETTINGS};
use serde_json::json;

use crate::harness::{EVENTS, Event, Receiver, Sandbox, Service, send_request, wait_until};

/// Starts a PostgreSQL server that the test may stop. It ends with the test process.
fn start_own_server() -> &'static PostgresServer {
    Box::leak(Box::new(PostgresServer::start(TEST_SETTINGS).unwrap()))
}

#[test]
fn service_reports_and_survives_a_database_outage() {
    let server = start_own_server();
    let sandbox = Sandbox::on_server(server);
    let (blocked, healthy) = (Receiver::blocking(200), Receiver::responding(200));
    let service = sandbox.serve();
    assert_eq!(service.get("/readyz").expect_json(200)["status"], "ready");
    let in_flight = service.enqueue(&Event::to(&blocked));
    blocked.wait_for_requests(1);

    server.stop(StopMode::Fast).unwrap();
    let unavailable = wait_until("the service is not ready", || {
        Some(service.get("/readyz")).filter(|response| response.status == 503)
    });
    assert_eq!(unavailable.expect_json(503)["status"], "unavailable");
    assert_eq!(
        service.get("/healthz").status,
        200,
        "the liveness probe must not fail, because a restart would not help"
    );
    service.post(EVENTS, &Event::to(&healthy).request_body()).expect_error(503, "unavailable");
    // The delivery in flight finishes while the store cannot write its result.
    blocked.release();
    assert!(!service.metrics().contains_key("webhook_pending"), "the metrics show an outdated count");

    server.start_again().unwrap();
    wait_until("the service is ready", || (service.get("/readyz").status == 200).then_some(()));
    let enqueued_after = service.enqueue(&Event::to(&healthy));
    service.wait_until_delivered(&enqueued_after);
    let delivered = service.wait_until_delivered(&in_flight);
    assert_eq!(delivered["attempts"], 1);
    assert_eq!(blocked.requests().len(), 1, "the result was lost, so the event was sent again");
    let overview = service.overview();
    assert_eq!(overview["delivered_count"], json!(2), "a refused event was stored: {overview}");
    service.stop();
}

#[test]
fn processes_that_start_during_an_outage_wait_for_the_database() {
    const WAITING: &str = "waiting for the database";
    let server = start_own_server();
    let sandbox = Sandbox::on_server(server);
    server.stop(StopMode::Fast).unwrap();
    let worker = sandbox.start(&["worker"]);
    let log = worker.wait_for_log("listening for probes and scrapes", 1);
    let address = log[0]["address"].as_str().unwrap().parse().unwrap();
    worker.wait_for_log(WAITING, 2);
    let status_of = |path| send_request(address, "GET", path, &[], "").unwrap().status;
    assert_eq!((status_of("/healthz"), status_of("/readyz"), status_of("/metrics")), (200, 503, 503));
    let service = sandbox.start(&["serve", "--no-worker"]);
    service.wait_for_log(WAITING, 1);

    server.start_again().unwrap();
    let service = Service::start(service);
    worker.wait_for_log("delivering", 1);
    wait_until("the worker is ready", || (status_of("/readyz") == 200).then_some(()));
    let receiver = Receiver::responding(200);
    service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
    service.stop();
    worker.stop();
}

#[test]
fn process_that_waits_for_the_database_can_be_stopped() {
    let server = start_own_server();
    let sandbox = Sandbox::on_server(server);
    server.stop(StopMode::Fast).unwrap();
    let worker = sandbox.start(&["worker"]);
    worker.wait_for_log("waiting for the database", 1);
    worker.signal("TERM");
    let exit = worker.wait_for_exit();
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(exit.stderr.contains("stopped by SIGTERM before"), "{}", exit.stderr);
}

/// Enqueues an event with an idempotency key, and retries until the service acknowledges it.
fn enqueue_with_retries(service: &Service, key: &str, body: &str) -> String {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    wait_until("the enqueue is acknowledged", || {
        let response = service.request("POST", EVENTS, &headers, body);
        match response.status {
            200 | 202 => Some(response.expect_json(response.status)["event_id"].as_str().unwrap().to_owned()),
            _ => {
                response.expect_error(503, "unavailable");
                None
            }
        }
    })
}

#[test]
fn producers_that_retry_lose_no_event_in_a_database_crash() {
    const PRODUCERS: usize = 4;
    const EVENTS_PER_PRODUCER: usize = 40;
    let server = start_own_server();
    let sandbox = Sandbox::on_server(server).with_env("POSTHASTE_LEASE_SECONDS", "5");
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let body = Event::to(&receiver).request_body();
    let acknowledged = AtomicUsize::new(0);
    let produce = |producer: usize| -> Vec<String> {
        let enqueue = |number| {
            let event_id = enqueue_with_retries(&service, &format!("{producer}-{number}"), &body);
            acknowledged.fetch_add(1, Ordering::Relaxed);
            event_id
        };
        (0..EVENTS_PER_PRODUCER).map(enqueue).collect()
    };
    let event_ids: BTreeSet<String> = std::thread::scope(|scope| {
        let produce = &produce;
        let producers: Vec<_> = (0..PRODUCERS).map(|number| scope.spawn(move || produce(number))).collect();
        wait_until("some events are acknowledged", || {
            (acknowledged.load(Ordering::Relaxed) >= EVENTS_PER_PRODUCER).then_some(())
        });
        server.stop(StopMode::Immediate).unwrap();
        server.start_again().unwrap();
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    assert_eq!(event_ids.len(), PRODUCERS * EVENTS_PER_PRODUCER);
    let overview = wait_until("every event is delivered", || {
        Some(service.overview())
            .filter(|overview| overview["delivered_count"] == PRODUCERS * EVENTS_PER_PRODUCER)
    });
    assert_eq!(
        (&overview["pending_count"], &overview["failed_count"]),
        (&json!(0), &json!(0)),
        "an event was stored twice"
    );
    service.stop();
    let sent: BTreeSet<_> = receiver.requests().iter().map(|request| request.event_id().to_owned()).collect();
    assert_eq!(sent, event_ids);
    // Claims do not wait for the disk: the crash can lose the last claim of an event that is being sent, and only that one.
    const LOST_CLAIMS: usize = 1;
    for event_id in event_ids.iter().filter(|event_id| receiver.count_requests_of(event_id) > 1) {
        assert!(
            receiver.count_requests_of(event_id) <= sandbox.count_claims(event_id) + LOST_CLAIMS,
            "{event_id} was sent more often than it was claimed, and than one crash explains"
        );
    }
}
