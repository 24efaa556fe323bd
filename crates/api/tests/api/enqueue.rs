//! Enqueueing events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste_api::DestinationCheck;
use posthaste_domain::{DestinationUrl, EventId, Timestamp};
use serde_json::{Value, json};

use crate::test_api::{
    EVENTS, MAX_ATTEMPTS, OPERATOR, OVERVIEW, PRODUCER, TestApi, TestOptions, VIEWER, bearer, claim_all,
    event, header,
};

crate::on_every_store! {
    an_event_is_accepted_and_pending,
    every_field_is_stored,
    a_thousand_events_are_returned_in_their_order,
    one_invalid_event_rejects_the_whole_array,
    an_object_with_the_array_is_accepted_as_the_array_is,
    a_duplicate_event_id_is_a_conflict,
    a_traceparent_is_stored_with_the_event,
    an_event_with_a_later_time_waits_for_it,
    a_time_that_has_passed_means_now,
    a_time_that_is_no_time_or_too_far_ahead_is_refused,
}

async fn an_event_is_accepted_and_pending(api: TestApi) {
    let response = api.enqueue(&event()).await.json(202);
    let mut fields: Vec<&str> = response.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["created_at", "delivery_status", "event_id"]);
    assert_eq!(response["delivery_status"], "pending");
    let event_id = response["event_id"].as_str().unwrap();
    assert!(event_id.len() == 36 && event_id.starts_with("msg_"), "{event_id}");
    let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    assert_eq!(shown["created_at"], response["created_at"]);
    assert_eq!(shown["max_attempts"], MAX_ATTEMPTS);
    for absent in ["payment_request_id", "webhook_id", "session_id", "last_error"] {
        assert_eq!(shown[absent], Value::Null, "{absent}");
    }
}

async fn every_field_is_stored(api: TestApi) {
    let request = json!({
        "destination_url": "HTTPS://Receiver.Example:443/a/../hook?x=1", "event_type": "invoice paid",
        "payload": [1, null], "event_id": "order-17/created", "payment_request_id": "pr 17", "webhook_id": "wh-1",
        "session_id": "s-1", "max_attempts": 1000
    });
    let response = api.enqueue(&request).await.json(202);
    assert_eq!(response["event_id"], "order-17/created");
    let shown = api.get(&format!("{EVENTS}/order-17%2Fcreated")).await.json(200);
    for field in ["event_id", "event_type", "payment_request_id", "webhook_id", "session_id", "max_attempts"]
    {
        assert_eq!(shown[field], request[field], "{field}");
    }
    assert_eq!(shown["destination_url"], "https://receiver.example/hook?x=1", "the URL is normalized");
    let lease = claim_all(&api.store).await.remove(0);
    assert_eq!(&lease.payload.expect_loaded()[..], b"[1,null]");
    assert_eq!(lease.content_type, "application/json");
}

async fn an_object_with_the_array_is_accepted_as_the_array_is(api: TestApi) {
    let response = api.post(EVENTS, json!({ "events": [event(), event()] }).to_string()).await.json(202);
    assert_eq!(response["events"].as_array().unwrap().len(), 2);
    for (body, expected) in [
        (json!({ "events": [event()], "more": 1 }), "unknown field `more`, expected `events`"),
        (json!({ "events": [] }), "the array is empty"),
        (json!({ "events": event() }), "an array of event objects"),
        (json!({ "events": [event(), 7] }), "event 1: invalid type: integer `7`"),
        (json!({ "events": [event(), { "payload": 1, "event_id": 7 }] }), "event 1: event_id: invalid type"),
    ] {
        let (message, _) = api.post(EVENTS, body.to_string()).await.expect_error(400, "invalid_request");
        assert!(message.contains(expected), "{body}: {message}");
    }
}

/// Refuses every destination on one host.
struct OneHostIsRefused;

impl DestinationCheck for OneHostIsRefused {
    fn check(&self, destination: &DestinationUrl) -> Result<(), String> {
        let is_refused = destination.as_str().starts_with("http://192.168.1.5/");
        if is_refused { Err("this address is private".to_owned()) } else { Ok(()) }
    }
}

#[tokio::test]
async fn destination_that_can_never_be_sent_to_is_refused_at_once() {
    let options = TestOptions { destination_check: Arc::new(OneHostIsRefused), ..TestOptions::default() };
    let api = TestApi::on_memory().await.with_options(options);
    let mut refused = event();
    refused["destination_url"] = json!("http://192.168.1.5/hook");
    let (message, details) = api.enqueue(&refused).await.expect_error(400, "invalid_request");
    assert_eq!(message, "this address is private");
    assert_eq!(details["field"], "destination_url");
    let many = json!([event(), refused]).to_string();
    let (message, details) = api.post(EVENTS, many).await.expect_error(400, "invalid_request");
    assert_eq!((message.as_str(), &details["index"]), ("event 1: this address is private", &json!(1)));
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 0, "none was stored");
}

async fn a_thousand_events_are_returned_in_their_order(api: TestApi) {
    let named = |number: usize| {
        let mut event = event();
        event["event_id"] = json!(format!("n-{number}"));
        event
    };
    let many: Vec<Value> = (0..1_000).map(named).collect();
    let response = api.post(EVENTS, json!(many).to_string()).await.json(202);
    let ids: Vec<&str> = response["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 1_000);
    assert!(ids.iter().enumerate().all(|(number, id)| *id == format!("n-{number}")));
    assert_eq!(response.as_object().unwrap().len(), 1);
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1_000);
}

async fn one_invalid_event_rejects_the_whole_array(api: TestApi) {
    let mut bad = event();
    bad["max_attempts"] = json!(0);
    let (message, details) = api
        .post(EVENTS, json!([event(), event(), bad]).to_string())
        .await
        .expect_error(400, "invalid_request");
    assert_eq!(message, "event 2: max_attempts must be 1 to 1000, got 0");
    assert_eq!(details, json!({ "index": 2, "field": "max_attempts" }));
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

async fn a_duplicate_event_id_is_a_conflict(api: TestApi) {
    let mut named = event();
    named["event_id"] = json!("order-17");
    api.enqueue(&named).await.json(202);
    let (message, details) = api.enqueue(&named).await.expect_error(409, "event_id_taken");
    assert!(message.contains("order-17"), "{message}");
    assert_eq!(details, json!({ "field": "event_id" }));
    let (_, details) =
        api.post(EVENTS, json!([event(), named]).to_string()).await.expect_error(409, "event_id_taken");
    assert_eq!(details, json!({ "index": 1, "field": "event_id" }));
    let mut twice = event();
    twice["event_id"] = json!("order-18");
    let (_, details) = api
        .post(EVENTS, json!([twice, event(), twice]).to_string())
        .await
        .expect_error(409, "event_id_taken");
    assert_eq!(details, json!({ "index": 2, "field": "event_id" }), "the second of the two is the duplicate");
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1);
}

/// Returns an event with the time of its first attempt.
fn event_at(deliver_at: impl Into<Value>) -> Value {
    let mut event = event();
    event["deliver_at"] = deliver_at.into();
    event
}

/// Returns the time of the store's clock after a number of seconds, which may be negative.
async fn store_time_in(api: &TestApi, seconds: i64) -> Timestamp {
    let now = api.store.health().await.unwrap().now;
    Timestamp::from_micros(now.as_micros() + seconds * 1_000_000)
}

/// Writes a time as RFC 3339.
fn rfc_3339(time: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(time.as_micros()).unwrap().to_string()
}

async fn an_event_with_a_later_time_waits_for_it(api: TestApi) {
    let later = store_time_in(&api, 3_600).await;
    let many = json!([event(), event_at(rfc_3339(later)), event_at(Value::Null)]).to_string();
    let response = api.post(EVENTS, many).await.json(202);
    let id = |index: usize| response["events"][index]["event_id"].as_str().unwrap();
    assert_eq!(response["events"][1]["delivery_status"], "pending");
    let shown = api.get(&format!("{EVENTS}/{}", id(1))).await.json(200);
    let due: jiff::Timestamp = shown["next_attempt_at"].as_str().unwrap().parse().unwrap();
    let late_by = due.as_microsecond() - later.as_micros();
    assert!(late_by.abs() < 5_000_000, "due at {due}, {late_by} µs after the time that was asked for");
    let explanation = shown["explanation"].as_str().unwrap();
    assert_eq!(
        explanation,
        format!("Waiting for its first attempt, due at {due:.6}, as its producer asked.")
    );
    let stored = api.store.event(&EventId::new(id(1)).unwrap()).await.unwrap().event;
    assert_eq!((stored.claims, stored.lease_owner), (0, None));
    let overview = api.get(OVERVIEW).await.json(200);
    assert_eq!((&overview["pending_count"], &overview["pending_ready_count"]), (&json!(3), &json!(2)));
    let claimed: BTreeSet<String> =
        claim_all(&api.store).await.iter().map(|lease| lease.event_id.to_string()).collect();
    assert_eq!(claimed, [id(0), id(2)].map(str::to_owned).into(), "the others are due now");
}

async fn a_time_that_has_passed_means_now(api: TestApi) {
    let past = store_time_in(&api, -3_600).await;
    let with_offset = rfc_3339(past).replace('Z', "+00:00");
    for time in [rfc_3339(past), with_offset, "1970-01-01T00:00:00-23:59".to_owned()] {
        let response = api.enqueue(&event_at(time)).await.json(202);
        let lease = claim_all(&api.store).await.remove(0);
        assert_eq!(lease.event_id.as_str(), response["event_id"].as_str().unwrap());
        assert!(
            lease.overdue < Duration::from_secs(60),
            "it was due when it was stored: {:?}",
            lease.overdue
        );
    }
}

async fn a_time_that_is_no_time_or_too_far_ahead_is_refused(api: TestApi) {
    let no_time = "deliver_at: must be an RFC 3339 time with an offset, such as 2026-01-31T11:29:00Z, got ";
    for (deliver_at, shown) in [
        ("tomorrow", "\"tomorrow\""),
        ("", "\"\""),
        ("2026-01-31T11:29:00", "\"2026-01-31T11:29:00\""),
        ("2026-02-30T11:29:00Z", "\"2026-02-30T11:29:00Z\""),
    ] {
        let (message, details) =
            api.enqueue(&event_at(deliver_at)).await.expect_error(400, "invalid_request");
        assert!(message.contains(&format!("{no_time}{shown} at line 1")), "{message}");
        assert_eq!(details["field"], "deliver_at");
    }
    let (message, _) = api.enqueue(&event_at(1_700_000_000)).await.expect_error(400, "invalid_request");
    assert!(message.contains("deliver_at: invalid type: integer"), "{message}");

    let day = 86_400;
    api.enqueue(&event_at(rfc_3339(store_time_in(&api, 90 * day).await))).await.json(202);
    let too_far = store_time_in(&api, 90 * day + 60).await;
    let shown = jiff::Timestamp::from_microsecond(too_far.as_micros()).unwrap();
    let expected = format!("deliver_at must be at most 90 days ahead, got {shown:.6}");
    let (message, details) =
        api.enqueue(&event_at(rfc_3339(too_far))).await.expect_error(400, "invalid_request");
    assert_eq!((message, details), (expected.clone(), json!({ "field": "deliver_at" })));
    let many = json!({ "events": [event(), event_at(rfc_3339(too_far))] }).to_string();
    let (message, details) = api.post(EVENTS, many).await.expect_error(400, "invalid_request");
    assert_eq!(message, format!("event 1: {expected}"));
    assert_eq!(details, json!({ "index": 1, "field": "deliver_at" }));
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1, "only the one at the limit is stored");
}

async fn a_traceparent_is_stored_with_the_event(api: TestApi) {
    let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    // A future version is passed on as version 00.
    let future_version = format!("{}-{}", valid.replacen("00-", "cc-", 1), "x".repeat(500));
    let cases = [
        (valid, Some(valid)),
        (
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
            Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03"),
        ),
        ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some(valid)),
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-future-field", Some(valid)),
        (future_version.as_str(), Some(valid)),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None),
        ("00-4bf92f35-00f067aa0ba902b7-01", None),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None),
        ("not a traceparent", None),
        ("", None),
    ];
    for (sent, stored) in cases {
        api.post_with(EVENTS, &[header("traceparent", sent)], event().to_string()).await.json(202);
        let lease = claim_all(&api.store).await.remove(0);
        assert_eq!(lease.traceparent.as_deref(), stored, "{sent}");
    }
    let twice = [header("traceparent", valid), header("traceparent", valid)];
    api.post_with(EVENTS, &twice, event().to_string()).await.json(202);
    assert_eq!(claim_all(&api.store).await.remove(0).traceparent, None, "a repeated header is ignored");
    let many = json!([event(), event()]).to_string();
    api.post_with(EVENTS, &[header("traceparent", valid)], many).await.json(202);
    let leases = claim_all(&api.store).await;
    assert!(leases.len() == 2 && leases.iter().all(|lease| lease.traceparent.as_deref() == Some(valid)));
}

#[tokio::test]
async fn an_array_of_one_is_returned_as_an_array() {
    let api = TestApi::on_memory().await;
    let response = api.post(EVENTS, json!([event()]).to_string()).await.json(202);
    assert_eq!(response["events"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_producer_reads_its_event_without_the_names_of_operators() {
    let api = TestApi::on_memory().await.with_keys();
    let response = api.post_with(EVENTS, &[bearer(PRODUCER)], event().to_string()).await.json(202);
    let path = format!("{EVENTS}/{}", response["event_id"].as_str().unwrap());
    assert_eq!(api.get_as(PRODUCER, &path).await.json(200)["delivery_status"], "pending");
    let requeue = path.replace("events", "dlq") + "/requeue";
    let actions = [(path.clone() + "/cancel", "Cancelled"), (requeue, "Requeued")];
    for (count, (action, verb)) in (1..).zip(actions) {
        api.post_with(&action, &[bearer(OPERATOR)], "").await.json(200);
        let seen = api.get_as(VIEWER, &path).await.json(200);
        assert_eq!(seen["audit"].as_array().unwrap().len(), count);
        assert!(seen["explanation"].as_str().unwrap().starts_with(&format!("{verb} by ops at ")), "{seen}");
        let seen = api.get_as(PRODUCER, &path).await;
        assert!(!seen.text().contains("ops"), "{}", seen.text());
        let seen = seen.json(200);
        assert!(seen["explanation"].is_string() && seen["history"].is_array(), "{seen}");
        assert!(seen.get("audit").is_none(), "{seen}");
    }
}
