//! The operator API of a running service, its OpenAPI document and its pages.

use serde_json::{Value, json};

use crate::harness::{DLQ, EVENTS, Event, Receiver, Sandbox, Store, wait_until};

on_each_store! {
    s2_fr001_ac1_overview_of_a_service_counts_every_state,
    s2_fr001_ac2_oldest_pending_age_of_a_service_grows_and_is_null_when_nothing_is_pending,
    s2_fr006_ac1_service_publishes_the_openapi_document_that_the_command_prints,
}

fn s2_fr001_ac1_overview_of_a_service_counts_every_state(sandbox: Sandbox) {
    let counts =
        ["pending_count", "pending_ready_count", "retrying_count", "failed_count", "delivered_count"];
    let service = sandbox.serve_with(&["--no-worker"]);
    let read_counts = || counts.map(|count| service.overview()[count].as_u64().unwrap());
    assert_eq!(read_counts(), [0; 5]);
    let (healthy, broken) = (Receiver::responding(200), Receiver::responding(500));
    let mut events = vec![Event::to(&healthy); 3];
    events.push(Event::to(&broken));
    events.push(Event::to(&broken).with("max_attempts", 1));
    service.enqueue_all(&events);
    assert_eq!(read_counts(), [5, 5, 0, 0, 0]);
    assert_eq!(sandbox.run(&["dispatch", "--once"]).code, Some(0));
    assert_eq!(read_counts(), [1, 0, 1, 1, 3], "the overview does not show the changes of another process");
    service.stop();
}

fn s2_fr001_ac2_oldest_pending_age_of_a_service_grows_and_is_null_when_nothing_is_pending(sandbox: Sandbox) {
    let service = sandbox.serve_with(&["--no-worker"]);
    let age = || service.overview()["oldest_pending_age_seconds"].clone();
    assert_eq!(age(), Value::Null);
    let event_id = service.enqueue(&Event::to(&Receiver::responding(200)));
    assert!(age().is_u64());
    wait_until("the oldest pending age is at least a second", || age().as_u64().filter(|age| *age > 0));
    service.cancel(&event_id, "").expect_json(200);
    assert_eq!(age(), Value::Null);
    service.stop();
}

fn s2_fr006_ac1_service_publishes_the_openapi_document_that_the_command_prints(sandbox: Sandbox) {
    let service = sandbox.serve();
    let published = service.get("/openapi.json").expect_json(200);
    let printed: Value = serde_json::from_str(&sandbox.run(&["openapi"]).stdout).unwrap();
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
fn dashboard_and_api_reference_are_served() {
    let sandbox = Sandbox::new(Store::Sqlite);
    let service = sandbox.serve();
    for path in ["/", "/docs"] {
        let page = service.get(path);
        assert!(page.status == 200 && page.body.to_ascii_lowercase().contains("<!doctype html>"), "{path}");
    }
    service.get("/unknown").expect_error(404, "not_found");
    service.stop();
}
