//! The operators' API of a running service, and its own description of it.

use serde_json::{Value, json};

use crate::stage::{DLQ, EVENTS, Event, Home, Receiver, Store, until};

on_each_store! {
    s2_fr001_ac1_overview_of_a_service_counts_every_state,
    s2_fr001_ac2_oldest_pending_age_of_a_service_grows_and_is_null_when_nothing_is_pending,
    s2_fr006_ac1_a_service_publishes_the_document_that_the_command_prints,
}

fn s2_fr001_ac1_overview_of_a_service_counts_every_state(home: Home) {
    let counts =
        ["pending_count", "pending_ready_count", "retrying_count", "failed_count", "delivered_count"];
    let service = home.serve_with(&["--no-worker"]);
    let counted = || counts.map(|count| service.overview()[count].as_u64().unwrap());
    assert_eq!(counted(), [0; 5]);
    let (well, broken) = (Receiver::answering(200), Receiver::answering(500));
    let mut events = vec![Event::to(&well); 3];
    events.push(Event::to(&broken));
    events.push(Event::to(&broken).with("max_attempts", 1));
    service.enqueue_all(&events);
    assert_eq!(counted(), [5, 5, 0, 0, 0]);
    assert_eq!(home.run(&["dispatch", "--once"]).code, Some(0));
    assert_eq!(counted(), [1, 0, 1, 1, 3], "what another process did is seen at once");
    service.stop();
}

fn s2_fr001_ac2_oldest_pending_age_of_a_service_grows_and_is_null_when_nothing_is_pending(home: Home) {
    let service = home.serve_with(&["--no-worker"]);
    let age = || service.overview()["oldest_pending_age_seconds"].clone();
    assert_eq!(age(), Value::Null);
    let event_id = service.enqueue(&Event::to(&Receiver::answering(200)));
    assert!(age().is_u64());
    until("a second has passed", || age().as_u64().filter(|age| *age > 0));
    service.cancel(&event_id, "").json(200);
    assert_eq!(age(), Value::Null);
    service.stop();
}

fn s2_fr006_ac1_a_service_publishes_the_document_that_the_command_prints(home: Home) {
    let service = home.serve();
    let published = service.get("/openapi.json").json(200);
    let printed: Value = serde_json::from_str(&home.run(&["openapi"]).stdout).unwrap();
    assert_eq!(published, printed);
    for (path, method) in [
        ("/v1/webhook-outbox/overview", "get"),
        (DLQ, "get"),
        ("/v1/webhook-outbox/dlq/{event_id}/requeue", "post"),
        ("/v1/webhook-outbox/events/{event_id}/cancel", "post"),
        (EVENTS, "post"),
    ] {
        assert!(published["paths"][path][method].is_object(), "{method} {path}");
    }
    assert_eq!(published["openapi"], json!("3.1.0"));
    service.stop();
}

#[test]
fn the_page_and_the_reference_are_served() {
    let home = Home::on(Store::Sqlite);
    let service = home.serve();
    for path in ["/", "/docs"] {
        let page = service.get(path);
        assert!(page.status == 200 && page.body.to_ascii_lowercase().contains("<!doctype html>"), "{path}");
    }
    service.get("/nothing").refused(404, "not_found");
    service.stop();
}
