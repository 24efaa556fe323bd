//! Listing events of any state, and showing one event.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{Outcome, WorkerId};
use posthaste_store::{CircuitReport, OpenCircuitReport, Store as _};
use serde_json::{Value, json};

use crate::test_api::{
    DLQ, EVENTS, TestApi, TestOptions, claim_all, event, event_to, http_status, memory_at,
    policy_with_budget, settle, settle_with_policy,
};

crate::on_every_store! {
    events_are_listed_newest_first_with_their_status,
    events_are_filtered_by_state_and_destination,
    events_are_found_by_conditions_that_combine,
    a_bad_condition_is_named_with_its_rule,
    an_event_names_its_destination_and_its_endpoint,
    an_event_shows_its_attempts,
    every_state_is_explained,
    an_unknown_or_invalid_event_id_is_not_found,
}

async fn an_event_names_its_destination_and_its_endpoint(api: TestApi) {
    let endpoint_id = api.publish_to_endpoint().await.endpoint_id;
    api.pending_event(&event()).await;
    let page = api.get(EVENTS).await.json(200);
    let events = page["events"].as_array().unwrap();
    let endpoints: Vec<_> = events.iter().map(|event| &event["webhook_id"]).collect();
    assert_eq!(endpoints, [&Value::Null, &json!(endpoint_id)]);
    for shown in events {
        let id = shown["destination_id"].as_str().unwrap();
        let destination = api.get(&format!("/v1/webhook-outbox/destinations/{id}")).await.json(200);
        assert_eq!(
            (&destination["url"], &destination["endpoint_id"]),
            (&shown["destination_url"], &shown["webhook_id"])
        );
    }
}

fn ids(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap()).collect()
}

async fn events_are_listed_newest_first_with_their_status(api: TestApi) {
    let delivered = api.delivered_event(&event()).await;
    let retrying = api.retrying_event(&event()).await;
    let pending = api.pending_event(&event()).await;
    let page = api.get(EVENTS).await.json(200);
    assert_eq!(ids(&page), [&pending, &retrying, &delivered]);
    assert_eq!(page["next_cursor"], Value::Null);
    let fields: Vec<&str> = page["events"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let dead_letter =
        ["event_id", "event_type", "payment_request_id", "webhook_id", "session_id", "destination_url"];
    let more = [
        "stored_by",
        "replay_of",
        "destination_id",
        "attempts",
        "max_attempts",
        "last_error",
        "failure_kind",
        "updated_at",
        "created_at",
    ];
    let status_fields = ["delivery_status", "next_attempt_at", "last_attempted_at", "delivered_at"];
    for field in dead_letter.iter().chain(&more).chain(&status_fields) {
        assert!(fields.contains(field), "{field}");
    }
    assert_eq!(fields.len(), 19);
    let statuses: Vec<(&str, bool, bool, bool)> = page["events"]
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
        statuses,
        [("pending", true, false, false), ("pending", true, true, false), ("delivered", false, true, true)]
    );
    let first = api.get(&format!("{EVENTS}?limit=2")).await.json(200);
    let rest = api.get(&format!("{EVENTS}?limit=2&cursor={}", first["next_cursor"].as_str().unwrap())).await;
    assert_eq!(ids(&rest.json(200)), [&delivered]);
}

async fn events_are_filtered_by_state_and_destination(api: TestApi) {
    let (here, there) = ("https://here.example/hook", "https://there.example/hook?a=1&b=2");
    let delivered = api.delivered_event(&event_to(here)).await;
    let failed = api.dead_lettered_event(&event_to(there)).await;
    let pending = api.pending_event(&event_to(there)).await;
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
        let page = api.get(&format!("{EVENTS}?{query}")).await.json(200);
        assert_eq!(ids(&page), expected, "{query}");
    }
}

async fn events_are_found_by_conditions_that_combine(api: TestApi) {
    let with = |id: &str, fields: Value| {
        let mut new = event();
        new["event_id"] = json!(id);
        new.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        new
    };
    api.dead_lettered_event(&with("gone", json!({"event_type": "order.lost", "session_id": "se-1"}))).await;
    api.pending_event(&with("new", json!({"event_type": "order.made", "session_id": "se-1"}))).await;
    api.pending_event(&with("paid", json!({"payment_request_id": "pr-1", "webhook_id": "wh-1"}))).await;
    let cases: [(&str, &[&str]); 12] = [
        ("event_type=order.made", &["new"]),
        ("event_type=order", &[]),
        ("failure_kind=gone", &["gone"]),
        ("error_class=http_4xx", &["gone"]),
        ("event_id=paid", &["paid"]),
        ("session_id=se-1", &["new", "gone"]),
        ("session_id=se-1&status=failed", &["gone"]),
        ("payment_request_id=pr-1", &["paid"]),
        ("webhook_id=wh-1", &["paid"]),
        ("webhook_id=ep_0000000000000011", &[]),
        ("app=app_0000000000000099", &[]),
        ("since=2000-01-01T00:00:00Z&until=2000-01-02T00:00:00Z", &[]),
    ];
    for (query, expected) in cases {
        let page = api.get(&format!("{EVENTS}?{query}")).await.json(200);
        assert_eq!(ids(&page), expected, "{query}");
        assert_eq!((&page["next_cursor"], &page["searched_until"]), (&Value::Null, &Value::Null), "{query}");
    }
    let first = api.get(&format!("{EVENTS}?since=2000-01-01T00:00:00%2B02:00&limit=1")).await.json(200);
    assert_eq!(ids(&first), ["paid"]);
    assert_eq!(first["searched_until"], first["events"][0]["created_at"]);
}

async fn a_bad_condition_is_named_with_its_rule(api: TestApi) {
    let long = "x".repeat(257);
    for (query, rule) in [
        ("app=a%20b", "app must be the id or the uid of an application, got \"a b\""),
        ("app=unknown", "app must be the id or the uid of an existing application, got \"unknown\""),
        ("event_type=", "event_type must be 1 to 256 characters"),
        (&format!("session_id={long}"), "session_id must be 1 to 256 characters"),
        ("failure_kind=dead", "failure_kind must be exhausted, cancelled,"),
        ("failure_kind=not_cancelled", "failure_kind must be one kind in a list of events"),
        ("error_class=http_200", "error_class must be an error class such as timeout"),
        ("since=yesterday", "since must be an RFC 3339 time with an offset"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "since must not be later than until"),
        ("event_id=a.b", "a full stop separates it"),
        (
            "endpoint_id=ep_0000000000000011&webhook_id=ep_0000000000000012",
            "must not name different endpoints",
        ),
    ] {
        let refused = api.get(&format!("{EVENTS}?{query}")).await.json(400);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(rule), "{query}: {message}");
        let name = query.split('=').next().unwrap();
        assert_eq!(refused["error"]["details"]["parameter"], name, "{query}");
    }
}

async fn an_event_shows_its_attempts(api: TestApi) {
    let event_id = api.pending_event(&event()).await;
    let lease = claim_all(&api.store).await.remove(0);
    settle(&api.store, &lease, Outcome::response(503, None, b"<b>try\n later</b>")).await;
    api.post_empty(&format!("{EVENTS}/{event_id}/cancel")).await.json(200);
    api.post_empty(&format!("{DLQ}/{event_id}/requeue")).await.json(200);
    let lease = claim_all(&api.store).await.remove(0);
    let timeout = Outcome::no_response(posthaste_domain::ErrorClass::Timeout, "no response within 30s");
    settle(&api.store, &lease, timeout).await;
    let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    let history = shown["history"].as_array().unwrap();
    assert_eq!(history.len(), 2);
    let mut fields: Vec<&str> = history[0].as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "applied",
            "attempt",
            "duration_ms",
            "error_class",
            "excerpt",
            "http_status",
            "started_at",
            "worker_id"
        ]
    );
    let values = |entry: &Value| {
        ["attempt", "duration_ms", "http_status", "error_class", "excerpt", "worker_id"]
            .map(|field| entry[field].clone())
    };
    assert_eq!(
        values(&history[0]),
        [json!(1), json!(128), json!(503), Value::Null, json!("<b>try later</b>"), json!("worker-a")]
    );
    assert_eq!(
        values(&history[1]),
        [
            json!(1),
            json!(128),
            Value::Null,
            json!("timeout"),
            json!("no response within 30s"),
            json!("worker-a")
        ],
        "attempt numbers restart after a requeue"
    );
    assert_eq!(shown["attempts"], 1, "attempts is a count");
    assert_eq!(shown["last_error"], "timeout: no response within 30s");
}

/// Returns the explanation of an event.
async fn explanation(api: &TestApi, event_id: &str) -> String {
    let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    shown["explanation"].as_str().unwrap().to_owned()
}

async fn every_state_is_explained(api: TestApi) {
    let delivered = api.delivered_event(&event()).await;
    let gone = api.dead_lettered_event(&event()).await;
    let retrying = api.retrying_event(&event()).await;
    let mut once = event();
    once["max_attempts"] = json!(1);
    let exhausted = api.attempted_event(&once, http_status(500)).await;
    let sending = api.pending_event(&event_to("https://slow.example/")).await;
    claim_all(&api.store).await;
    let pending = api.pending_event(&event()).await;
    let cancelled = api.pending_event(&event()).await;
    api.post(&format!("{EVENTS}/{cancelled}/cancel"), r#"{"reason":"wrong customer"}"#).await.json(200);
    let paused = api.pending_event(&event_to("https://busy.example/")).await;
    let other = claim_all(&api.store).await;
    for lease in &other {
        let outcome = if lease.event_id.as_str() == paused {
            Outcome::response(429, Some(Duration::from_secs(900)), b"")
        } else {
            continue;
        };
        settle(&api.store, lease, outcome).await;
    }
    let held = api.pending_event(&event_to("https://busy.example/")).await;
    let requeued = api.pending_event(&event_to("https://busy.example/")).await;
    api.post_empty(&format!("{EVENTS}/{requeued}/cancel")).await.json(200);
    api.post_empty(&format!("{DLQ}/{requeued}/requeue")).await.json(200);

    let cases = [
        (&delivered, "Delivered at ", "on attempt 1 of 6."),
        (&gone, "Dead-lettered at ", "permanently gone (HTTP 410)"),
        (&retrying, "Retry 1 of 5 is due at ", "after HTTP 503: try later."),
        (&exhausted, "Dead-lettered at ", ", after 1 attempt; the last error was: HTTP 500."),
        (&sending, "Attempt 1 of 6 is being made by worker worker-a", "another worker takes over"),
        (&pending, "Attempt 1 of 6 is being made by worker worker-a", "under a lease until"),
        (&cancelled, "Cancelled by local at ", "(wrong customer), before any attempt."),
        (&paused, "Retry 1 of 5 is due at ", "after HTTP 429."),
        (
            &held,
            "Waiting for its first attempt, due at ",
            "Held because the destination requested a pause until ",
        ),
        (&requeued, "Requeued by local at ", "waiting for its first attempt since, due at "),
    ];
    for (event_id, start, within) in cases {
        let text = explanation(&api, event_id).await;
        assert!(text.starts_with(start) && text.contains(within), "{text}");
    }
}

async fn an_unknown_or_invalid_event_id_is_not_found(api: TestApi) {
    let long = "x".repeat(300);
    for name in
        ["missing", "a.b", "%FF", "%00", "caf%C3%A9", "a%20b", "%2E%2E", &long, "order-17%2Fcreated", "%"]
    {
        let (message, _) =
            api.get(&format!("{EVENTS}/{name}")).await.expect_error(404, "webhook_outbox_event_not_found");
        assert!(message.starts_with("there is no event "), "{message}");
        assert!(message.len() < 200 && !message.contains("webhook-outbox"), "{message}");
    }
    for path in [format!("{EVENTS}/%FF"), format!("{DLQ}/%FF/requeue"), format!("{EVENTS}/%FF/cancel")] {
        let response = if path.ends_with("FF") { api.get(&path).await } else { api.post_empty(&path).await };
        let (message, _) = response.expect_error(404, "webhook_outbox_event_not_found");
        assert_eq!(message, "there is no event \"%FF\"", "{path}");
    }
}

#[tokio::test]
async fn the_explanation_mentions_a_retry_budget_that_limits_the_retries() {
    let (store, clock) = memory_at(1_700_000_000);
    let options = TestOptions { retry_policy: policy_with_budget(1), ..TestOptions::default() };
    let api = TestApi::new(Arc::new(store), Arc::new(()), options);
    let event_id = api.pending_event(&event()).await;
    let fail = async || {
        let lease = claim_all(&api.store).await.remove(0);
        settle_with_policy(&policy_with_budget(1), &api.store, &lease, http_status(500)).await;
        explanation(&api, &event_id).await
    };
    let text = fail().await;
    assert!(text.starts_with("Retry 1 of 1 is due at "), "{text}");
    assert!(text.ends_with(" The retry budget now allows 1 of its 5 retries."), "{text}");
    clock.advance(Duration::from_secs(60));
    let text = fail().await;
    assert!(text.contains("after 2 attempts of 6, because the retry budget allowed no more;"), "{text}");
}

#[tokio::test]
async fn of_a_long_history_the_latest_100_entries_are_shown() {
    let api = TestApi::on_memory().await;
    let event_id = api.pending_event(&event()).await;
    let one = format!("{EVENTS}/{event_id}");
    for status in 300..403 {
        let lease = claim_all(&api.store).await.remove(0);
        settle(&api.store, &lease, Outcome::response(status, None, b"")).await;
        api.post_empty(&format!("{one}/cancel")).await.json(200);
        api.post_empty(&format!("{DLQ}/{event_id}/requeue")).await.json(200);
    }
    api.post_empty(&format!("{one}/cancel")).await.json(200);
    let shown = api.get(&one).await.json(200);
    let statuses: Vec<u64> = shown["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["http_status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, (303..403).collect::<Vec<u64>>(), "the latest 100, oldest first");
    let audit = shown["audit"].as_array().unwrap();
    assert_eq!((audit.len(), &audit[0]["action"]), (100, &json!("requeue")));
    assert_eq!((&audit[98]["action"], &audit[99]["action"]), (&json!("requeue"), &json!("cancel")));
}

#[tokio::test]
async fn an_open_circuit_is_explained() {
    let (store, _) = memory_at(1_700_000_000);
    let api = TestApi::on_store(Arc::new(store.clone()), Arc::new(()));
    let event_id = api.pending_event(&event()).await;
    let destination = store.with_state(|state| *state.destinations.keys().next().unwrap());
    let open = OpenCircuitReport {
        open_for: Duration::from_secs(20),
        next_probe_in: Duration::from_secs(10),
        last_error: Some("HTTP 500".to_owned()),
        expires_in: Duration::from_secs(60),
    };
    let report = CircuitReport { worker: WorkerId::new("worker-a").unwrap(), destination, open: Some(open) };
    store.report_circuits(&[report]).await.unwrap();
    let explained = explanation(&api, &event_id).await;
    let expected = "Held because the destination's circuit breaker has been open since 2023-11-14T22:13:00.000000Z after \
                    repeated failures, with the next probe at 2023-11-14T22:13:30.000000Z; this does not use up attempts.";
    assert!(explained.contains(expected), "{explained}");
}

#[tokio::test]
async fn timestamps_are_rfc_3339_with_microseconds() {
    let (store, clock) = memory_at(1_700_000_000);
    clock.advance(Duration::from_micros(1));
    let api = TestApi::on_store(Arc::new(store), Arc::new(()));
    let created_at = &api.enqueue(&event()).await.json(202)["created_at"];
    assert_eq!(created_at, "2023-11-14T22:13:20.000001Z");
}
