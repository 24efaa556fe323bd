//! A database that goes away and comes back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_postgres_server::{TEST_SETTINGS, PostgresServer, StopMode};
use serde_json::json;

use crate::stage::{EVENTS, Event, Home, Receiver, Service, until};

/// A server of the test's own, which it may stop. It ends with the test process.
fn own_server() -> &'static PostgresServer {
    Box::leak(Box::new(PostgresServer::start(TEST_SETTINGS).unwrap()))
}

#[test]
fn an_outage_of_the_database_is_told_and_survived() {
    let server = own_server();
    let home = Home::on_server(server);
    let (held, well) = (Receiver::holding(200), Receiver::answering(200));
    let service = home.serve();
    assert_eq!(service.get("/readyz").json(200)["status"], "ready");
    let in_flight = service.enqueue(&Event::to(&held));
    held.received(1);

    server.stop(StopMode::Fast).unwrap();
    let unavailable =
        until("not ready", || Some(service.get("/readyz")).filter(|answer| answer.status == 503));
    assert_eq!(unavailable.json(503)["status"], "unavailable");
    assert_eq!(service.get("/healthz").status, 200, "a restart would not help");
    service.post(EVENTS, &Event::to(&well).body()).refused(503, "unavailable");
    // The result of what was in flight comes while there is nowhere to write it.
    held.let_go();
    assert!(!service.metrics().contains_key("webhook_pending"), "an old number would be a lie");

    server.start_again().unwrap();
    until("ready", || (service.get("/readyz").status == 200).then_some(()));
    let after = service.enqueue(&Event::to(&well));
    service.delivered(&after);
    let delivered = service.delivered(&in_flight);
    assert_eq!(delivered["attempts"], 1);
    assert_eq!(held.requests().len(), 1, "the result was kept, so nothing was sent again");
    let overview = service.overview();
    assert_eq!(overview["delivered_count"], json!(2), "what was refused was not stored: {overview}");
    service.stop();
}

/// Enqueues under a key, again and again until that is acknowledged, as the API says to.
fn insist(service: &Service, key: &str, body: &str) -> String {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    until("an enqueue is acknowledged", || {
        let answer = service.ask("POST", EVENTS, &headers, body);
        match answer.status {
            200 | 202 => Some(answer.json(answer.status)["event_id"].as_str().unwrap().to_owned()),
            _ => {
                answer.refused(503, "unavailable");
                None
            }
        }
    })
}

#[test]
fn a_crash_of_the_database_costs_producers_who_insist_nothing() {
    const PRODUCERS: usize = 4;
    const EACH: usize = 40;
    let server = own_server();
    let home = Home::on_server(server).with("POSTHASTE_LEASE_SECONDS", "5");
    let receiver = Receiver::answering(200);
    let service = home.serve();
    let body = Event::to(&receiver).body();
    let acknowledged = AtomicUsize::new(0);
    let produce = |producer: usize| -> Vec<String> {
        let insist = |number| {
            let event_id = insist(&service, &format!("{producer}-{number}"), &body);
            acknowledged.fetch_add(1, Ordering::Relaxed);
            event_id
        };
        (0..EACH).map(insist).collect()
    };
    let event_ids: BTreeSet<String> = std::thread::scope(|scope| {
        let produce = &produce;
        let producers: Vec<_> = (0..PRODUCERS).map(|number| scope.spawn(move || produce(number))).collect();
        until("some are acknowledged", || (acknowledged.load(Ordering::Relaxed) >= EACH).then_some(()));
        server.stop(StopMode::Immediate).unwrap();
        server.start_again().unwrap();
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    assert_eq!(event_ids.len(), PRODUCERS * EACH);
    let overview = until("everything is delivered", || {
        Some(service.overview()).filter(|overview| overview["delivered_count"] == PRODUCERS * EACH)
    });
    assert_eq!(
        (&overview["pending_count"], &overview["failed_count"]),
        (&json!(0), &json!(0)),
        "and nothing twice"
    );
    service.stop();
    let sent: BTreeSet<_> = receiver.requests().iter().map(|request| request.event_id().to_owned()).collect();
    assert_eq!(sent, event_ids);
    for event_id in event_ids.iter().filter(|event_id| receiver.count_of(event_id) > 1) {
        assert!(
            receiver.count_of(event_id) <= home.claims(event_id),
            "{event_id} was sent more often than claimed"
        );
    }
}
