//! The operators' API of a running service, and what is written about it.

use serde_json::{Value, json};

use crate::stage::{DLQ, EVENTS, Event, Home, Receiver};

on_each_store! {
    s2_fr001_ac1_overview_of_a_service_counts_every_state,
    s2_fr001_ac2_oldest_pending_age_of_a_service_grows_and_is_null_when_nothing_is_pending,
    s2_fr006_ac1_a_service_publishes_the_document_that_the_command_prints,
}

/// A file at the root of the repository.
fn document(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn s2_fr001_ac1_overview_of_a_service_counts_every_state(home: Home) {
    let counts = ["pending_count", "pending_ready_count", "retrying_count", "failed_count", "delivered_count"];
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
    crate::stage::until("a second has passed", || age().as_u64().filter(|age| *age > 0));
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
fn s2_fr006_ac2_readme_shows_how_to_look_requeue_and_cancel_and_what_follows() {
    let readme = document("README.md");
    for command in ["posthaste overview", "posthaste dlq list", "posthaste dlq requeue", "posthaste events cancel"] {
        assert!(readme.contains(command), "README has no example of `{command}`");
    }
    for note in ["attempts", "409", "manual_cancelled"] {
        assert!(readme.contains(note), "README does not say what requeue and cancel do: {note:?} is missing");
    }
}

#[test]
fn s0_fr004_ac2_readme_has_jitter_and_budget_in_its_table_of_settings() {
    let readme = document("README.md");
    for (name, behaviour) in
        [("PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS", "10000"), ("PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET", "0")]
    {
        let row = readme.lines().find(|line| line.starts_with('|') && line.contains(name));
        let row = row.unwrap_or_else(|| panic!("README's table of settings has no row with {name}"));
        assert!(row.contains(behaviour), "what {name} does is not told: {row}");
    }
}
