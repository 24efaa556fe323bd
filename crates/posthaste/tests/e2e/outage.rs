//! A database that goes away and comes back.

use posthaste_postgres_server::{FOR_TESTS, PostgresServer, StopMode};
use serde_json::json;

use crate::stage::{EVENTS, Event, Home, Receiver, until};

#[test]
fn an_outage_of_the_database_is_told_and_survived() {
    let server: &PostgresServer = Box::leak(Box::new(PostgresServer::start(FOR_TESTS).unwrap()));
    let home = Home::on_server(server);
    let (held, well) = (Receiver::holding(200), Receiver::answering(200));
    let service = home.serve();
    assert_eq!(service.get("/readyz").json(200)["status"], "ready");
    let in_flight = service.enqueue(&Event::to(&held));
    held.received(1);

    server.stop(StopMode::Fast).unwrap();
    let unavailable = until("not ready", || Some(service.get("/readyz")).filter(|answer| answer.status == 503));
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
