//! Events of any state, listed and one by one.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{Outcome, WorkerId};
use posthaste_store::{CircuitReport, CircuitState, Store as _};
use serde_json::{Value, json};

use crate::stage::{
    DLQ, EVENTS, Setting, Stage, budget, claim_all, event, event_to, memory_at, settle, settle_under, status,
};

crate::on_every_store! {
    events_are_listed_newest_first_with_where_they_stand,
    events_are_filtered_by_state_and_destination,
    an_event_shows_its_attempts,
    every_state_is_explained,
    what_is_no_event_is_not_found,
}

fn ids(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap()).collect()
}

async fn events_are_listed_newest_first_with_where_they_stand(stage: Stage) {
    let delivered = stage.delivered(&event()).await;
    let retrying = stage.retrying(&event()).await;
    let pending = stage.pending(&event()).await;
    let page = stage.get(EVENTS).await.json(200);
    assert_eq!(ids(&page), [&pending, &retrying, &delivered]);
    assert_eq!(page["next_cursor"], Value::Null);
    let fields: Vec<&str> = page["events"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let letter =
        ["event_id", "event_type", "payment_request_id", "webhook_id", "session_id", "destination_url"];
    let more = ["attempts", "max_attempts", "last_error", "failure_kind", "updated_at", "created_at"];
    let standing = ["delivery_status", "next_attempt_at", "last_attempted_at", "delivered_at"];
    for field in letter.iter().chain(&more).chain(&standing) {
        assert!(fields.contains(field), "{field}");
    }
    assert_eq!(fields.len(), 16);
    let standings: Vec<(&str, bool, bool, bool)> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let has = |field: &str| event[field].is_string();
            let state = event["delivery_status"].as_str().unwrap();
            (state, has("next_attempt_at"), has("last_attempted_at"), has("delivered_at"))
        })
        .collect();
    assert_eq!(
        standings,
        [("pending", true, false, false), ("pending", true, true, false), ("delivered", false, true, true)]
    );
    let first = stage.get(&format!("{EVENTS}?limit=2")).await.json(200);
    let rest =
        stage.get(&format!("{EVENTS}?limit=2&cursor={}", first["next_cursor"].as_str().unwrap())).await;
    assert_eq!(ids(&rest.json(200)), [&delivered]);
}

async fn events_are_filtered_by_state_and_destination(stage: Stage) {
    let (here, there) = ("https://here.example/hook", "https://there.example/hook?a=1&b=2");
    let delivered = stage.delivered(&event_to(here)).await;
    let failed = stage.dead_lettered(&event_to(there)).await;
    let pending = stage.pending(&event_to(there)).await;
    let encoded = "https%3A%2F%2Fthere.example%2Fhook%3Fa%3D1%26b%3D2";
    let cases: [(String, &[&String]); 9] = [
        ("status=pending".into(), &[&pending]),
        ("status=delivered".into(), &[&delivered]),
        ("status=failed".into(), &[&failed]),
        (format!("destination={here}"), &[&delivered]),
        ("destination=HTTPS://Here.Example:443/hook".into(), &[&delivered]),
        (format!("destination={encoded}"), &[&pending, &failed]),
        (format!("destination={encoded}&status=failed"), &[&failed]),
        (format!("destination={here}&status=failed"), &[]),
        ("destination=https://nowhere.example/".into(), &[]),
    ];
    for (query, expected) in cases {
        let page = stage.get(&format!("{EVENTS}?{query}")).await.json(200);
        assert_eq!(ids(&page), expected, "{query}");
    }
}

async fn an_event_shows_its_attempts(stage: Stage) {
    let event_id = stage.pending(&event()).await;
    let lease = claim_all(&stage.store).await.remove(0);
    settle(&stage.store, &lease, Outcome::response(503, None, b"<b>try\n later</b>")).await;
    stage.act(&format!("{EVENTS}/{event_id}/cancel")).await.json(200);
    stage.act(&format!("{DLQ}/{event_id}/requeue")).await.json(200);
    let lease = claim_all(&stage.store).await.remove(0);
    let timeout = Outcome::no_response(posthaste_domain::ErrorClass::Timeout, "no answer within 30s");
    settle(&stage.store, &lease, timeout).await;
    let shown = stage.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    let history = shown["history"].as_array().unwrap();
    assert_eq!(history.len(), 2);
    let mut fields: Vec<&str> = history[0].as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["attempt", "duration_ms", "error_class", "excerpt", "http_status", "started_at", "worker_id"]
    );
    let told = |entry: &Value| {
        ["attempt", "duration_ms", "http_status", "error_class", "excerpt", "worker_id"]
            .map(|field| entry[field].clone())
    };
    assert_eq!(
        told(&history[0]),
        [json!(1), json!(128), json!(503), Value::Null, json!("<b>try later</b>"), json!("worker-a")]
    );
    assert_eq!(
        told(&history[1]),
        [
            json!(1),
            json!(128),
            Value::Null,
            json!("timeout"),
            json!("no answer within 30s"),
            json!("worker-a")
        ],
        "numbers start again after a requeue"
    );
    assert_eq!(shown["attempts"], 1, "the count, not the attempts");
    assert_eq!(shown["last_error"], "timeout: no answer within 30s");
}

/// What the explanation of an event says, apart from moments.
async fn explanation(stage: &Stage, event_id: &str) -> String {
    let shown = stage.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    shown["explanation"].as_str().unwrap().to_owned()
}

async fn every_state_is_explained(stage: Stage) {
    let delivered = stage.delivered(&event()).await;
    let gone = stage.dead_lettered(&event()).await;
    let retrying = stage.retrying(&event()).await;
    let mut once = event();
    once["max_attempts"] = json!(1);
    let exhausted = stage.attempted(&once, status(500)).await;
    let sending = stage.pending(&event_to("https://slow.example/")).await;
    claim_all(&stage.store).await;
    let pending = stage.pending(&event()).await;
    let cancelled = stage.pending(&event()).await;
    stage.post(&format!("{EVENTS}/{cancelled}/cancel"), r#"{"reason":"wrong customer"}"#).await.json(200);
    let paused = stage.pending(&event_to("https://busy.example/")).await;
    let other = claim_all(&stage.store).await;
    for lease in &other {
        let outcome = if lease.event_id.as_str() == paused {
            Outcome::response(429, Some(Duration::from_secs(900)), b"")
        } else {
            continue;
        };
        settle(&stage.store, lease, outcome).await;
    }
    let behind = stage.pending(&event_to("https://busy.example/")).await;
    let requeued = stage.pending(&event_to("https://busy.example/")).await;
    stage.act(&format!("{EVENTS}/{requeued}/cancel")).await.json(200);
    stage.act(&format!("{DLQ}/{requeued}/requeue")).await.json(200);

    let cases = [
        (&delivered, "Delivered at ", "on attempt 1 of 6."),
        (&gone, "Dead-lettered at ", "gone for good (HTTP 410)"),
        (&retrying, "Retry 1 of 5 is due at ", "after HTTP 503: try later."),
        (&exhausted, "Dead-lettered at ", ", after 1 attempt; the last error was: HTTP 500."),
        (&sending, "Attempt 1 of 6 is being made by worker worker-a", "another worker takes over"),
        (&pending, "Attempt 1 of 6 is being made by worker worker-a", "under a lease until"),
        (&cancelled, "Cancelled by local at ", "(wrong customer), before any attempt."),
        (&paused, "Retry 1 of 5 is due at ", "after HTTP 429."),
        (
            &behind,
            "Waiting for its first attempt, due at ",
            "Held because the destination asked for a pause until ",
        ),
        (&requeued, "Requeued by local at ", "waiting for its first attempt since, due at "),
    ];
    for (event_id, start, within) in cases {
        let told = explanation(&stage, event_id).await;
        assert!(told.starts_with(start) && told.contains(within), "{told}");
    }
}

async fn what_is_no_event_is_not_found(stage: Stage) {
    let long = "x".repeat(300);
    for name in
        ["nobody", "a.b", "%FF", "%00", "caf%C3%A9", "a%20b", "%2E%2E", &long, "order-17%2Fcreated", "%"]
    {
        let (message, _) =
            stage.get(&format!("{EVENTS}/{name}")).await.refused(404, "webhook_outbox_event_not_found");
        assert!(message.starts_with("there is no event "), "{message}");
        assert!(message.len() < 200 && !message.contains("webhook-outbox"), "{message}");
    }
    for path in [format!("{EVENTS}/%FF"), format!("{DLQ}/%FF/requeue"), format!("{EVENTS}/%FF/cancel")] {
        let answer = if path.ends_with("FF") { stage.get(&path).await } else { stage.act(&path).await };
        let (message, _) = answer.refused(404, "webhook_outbox_event_not_found");
        assert_eq!(message, "there is no event \"%FF\"", "{path}");
    }
}

#[tokio::test]
async fn a_retry_budget_is_told_as_the_limit_that_it_is() {
    let (store, clock) = memory_at(1_700_000_000);
    let setting = Setting { retry_policy: budget(1), ..Setting::default() };
    let stage = Stage::set(Arc::new(store), Arc::new(()), setting);
    let event_id = stage.pending(&event()).await;
    let fail = async || {
        let lease = claim_all(&stage.store).await.remove(0);
        settle_under(&budget(1), &stage.store, &lease, status(500)).await;
        explanation(&stage, &event_id).await
    };
    let told = fail().await;
    assert!(told.starts_with("Retry 1 of 1 is due at "), "{told}");
    assert!(told.ends_with(" The retry budget now allows 1 of its 5 retries."), "{told}");
    clock.advance(Duration::from_secs(60));
    let told = fail().await;
    assert!(told.contains("after 2 attempts of 6, because the retry budget allowed no more;"), "{told}");
}

#[tokio::test]
async fn of_a_long_life_the_latest_is_shown() {
    let stage = Stage::on_memory().await;
    let event_id = stage.pending(&event()).await;
    let one = format!("{EVENTS}/{event_id}");
    for status in 300..403 {
        let lease = claim_all(&stage.store).await.remove(0);
        settle(&stage.store, &lease, Outcome::response(status, None, b"")).await;
        stage.act(&format!("{one}/cancel")).await.json(200);
        stage.act(&format!("{DLQ}/{event_id}/requeue")).await.json(200);
    }
    stage.act(&format!("{one}/cancel")).await.json(200);
    let shown = stage.get(&one).await.json(200);
    let statuses: Vec<u64> = shown["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["http_status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, (303..403).collect::<Vec<u64>>(), "the latest hundred, oldest first");
    let audit = shown["audit"].as_array().unwrap();
    assert_eq!((audit.len(), &audit[0]["action"]), (100, &json!("requeue")));
    assert_eq!((&audit[98]["action"], &audit[99]["action"]), (&json!("requeue"), &json!("cancel")));
}

#[tokio::test]
async fn an_open_circuit_is_explained() {
    let (store, _) = memory_at(1_700_000_000);
    let stage = Stage::over(Arc::new(store.clone()), Arc::new(()));
    let event_id = stage.pending(&event()).await;
    let destination = store.with_state(|state| *state.destinations.keys().next().unwrap());
    for (state, told) in [
        (
            CircuitState::Open,
            "Held because the destination's circuit is open after repeated failures; this uses up no attempts.",
        ),
        (CircuitState::HalfOpen, "lets single requests through"),
    ] {
        let worker = WorkerId::new("worker-a").unwrap();
        let report = CircuitReport { worker, destination, state, expires_in: Duration::from_secs(60) };
        store.report_circuits(&[report]).await.unwrap();
        let explained = explanation(&stage, &event_id).await;
        assert!(explained.contains(told), "{explained}");
    }
}

#[tokio::test]
async fn moments_are_rfc_3339_with_microseconds() {
    let (store, clock) = memory_at(1_700_000_000);
    clock.advance(Duration::from_micros(1));
    let stage = Stage::over(Arc::new(store), Arc::new(()));
    let created_at = &stage.enqueue(&event()).await.json(202)["created_at"];
    assert_eq!(created_at, "2023-11-14T22:13:20.000001Z");
}
