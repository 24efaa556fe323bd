//! Operator actions on one event: requeue, cancel and discard.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use crate::test_api::{
    DLQ, EVENTS, KEYS, OPERATOR, OVERVIEW, PRODUCER, TestApi, bearer, build_request, claim_all, event,
    http_status, settle,
};

crate::on_every_store! {
    s2_fr004_ac1_requeue_over_http_moves_only_failed_to_pending,
    s2_fr004_ac2_requeue_over_http_resets_the_event,
    s2_fr004_ac3_requeue_over_http_of_a_non_failed_event_is_a_conflict,
    s2_fr005_ac1_cancel_takes_an_optional_reason,
    s2_fr005_ac2_cancel_over_http_fails_pending_and_keeps_failed,
    s2_fr005_ac3_cancel_over_http_of_delivered_is_a_conflict,
    actions_are_recorded_with_the_name_of_the_key,
    a_discarded_event_is_gone_and_the_error_says_who_discarded_it,
    only_a_failed_event_can_be_discarded_over_http,
    a_replay_adds_an_event_with_the_same_webhook_id,
    only_a_delivered_event_can_be_replayed_over_http,
}

fn requeue(event_id: &str) -> String {
    format!("{DLQ}/{event_id}/requeue")
}

fn cancel(event_id: &str) -> String {
    format!("{EVENTS}/{event_id}/cancel")
}

fn discard(event_id: &str) -> String {
    format!("{DLQ}/{event_id}/discard")
}

fn fields(response: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = response.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

async fn s2_fr004_ac1_requeue_over_http_moves_only_failed_to_pending(api: TestApi) {
    let event_id = api.dead_lettered_event(&event()).await;
    let response = api.post_empty(&requeue(&event_id)).await.json(200);
    assert_eq!(fields(&response), ["delivery_status", "event_id", "held", "updated_at"]);
    assert_eq!((&response["event_id"], &response["delivery_status"]), (&json!(event_id), &json!("pending")));
    assert_eq!(response["held"], json!(null));
    assert_eq!(api.get(DLQ).await.json(200)["events"], json!([]));
}

async fn s2_fr004_ac2_requeue_over_http_resets_the_event(api: TestApi) {
    let event_id = api.dead_lettered_event(&event()).await;
    let requeued = api.post_empty(&requeue(&event_id)).await.json(200);
    let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    assert_eq!(shown["attempts"], 0);
    assert_eq!(shown["last_error"], Value::Null);
    assert_eq!(shown["failure_kind"], Value::Null);
    assert_eq!(shown["updated_at"], requeued["updated_at"]);
    assert_eq!(shown["next_attempt_at"], requeued["updated_at"], "the event is due now");
    assert_eq!(shown["destination_url"], "https://receiver.example/hook");
    assert_eq!(shown["history"].as_array().unwrap().len(), 1, "the history survives a requeue");
    assert_eq!(claim_all(&api.store).await.len(), 1);
}

async fn s2_fr004_ac3_requeue_over_http_of_a_non_failed_event_is_a_conflict(api: TestApi) {
    let delivered = api.delivered_event(&event()).await;
    let pending = api.pending_event(&event()).await;
    for (event_id, state) in [(&delivered, "delivered"), (&pending, "pending")] {
        let (message, _) = api
            .post_empty(&requeue(event_id))
            .await
            .expect_error(409, "webhook_outbox_event_not_requeueable");
        assert!(message.contains(state) && message.contains(event_id.as_str()), "{message}");
    }
    let (message, _) =
        api.post_empty(&requeue("missing")).await.expect_error(404, "webhook_outbox_event_not_found");
    assert!(message.contains("missing"), "{message}");
}

async fn s2_fr005_ac1_cancel_takes_an_optional_reason(api: TestApi) {
    let cases: [(&str, &str); 7] = [
        (r#"{"reason":"wrong customer"}"#, "manual_cancelled: wrong customer"),
        (r#"{"reason":"  wrong\n\tcustomer  "}"#, "manual_cancelled: wrong customer"),
        (r#"{"reason":""}"#, "manual_cancelled"),
        (r#"{"reason":null}"#, "manual_cancelled"),
        (r#"{}"#, "manual_cancelled"),
        (" \n", "manual_cancelled"),
        ("", "manual_cancelled"),
    ];
    for (body, last_error) in cases {
        let event_id = api.pending_event(&event()).await;
        let response = api.post(&cancel(&event_id), body).await.json(200);
        assert_eq!(fields(&response), ["delivery_status", "event_id", "last_error", "updated_at"]);
        assert_eq!(response["event_id"], json!(event_id), "{body}");
        assert_eq!(response["delivery_status"], "failed", "{body}");
        assert_eq!(response["last_error"], last_error, "{body}");
    }
}

async fn s2_fr005_ac2_cancel_over_http_fails_pending_and_keeps_failed(api: TestApi) {
    let failed = api.dead_lettered_event(&event()).await;
    let in_flight = api.pending_event(&event()).await;
    let lease = claim_all(&api.store).await.remove(0);
    let pending = api.pending_event(&event()).await;
    for event_id in [&failed, &in_flight, &pending] {
        let response = api.post(&cancel(event_id), r#"{"reason":"enough"}"#).await.json(200);
        assert_eq!(response["delivery_status"], "failed");
        let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
        assert_eq!(shown["failure_kind"], "cancelled");
        assert_eq!(shown["last_error"], "manual_cancelled: enough");
        assert_eq!(shown["next_attempt_at"], Value::Null);
    }
    let lost = api.store.renew(&[(&lease).into()], std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(lost, [(&lease).into()], "the worker that was sending it has lost its lease");
    assert_eq!(api.get(OVERVIEW).await.json(200)["failed_count"], 3);
    api.post(&cancel(&pending), r#"{"reason":"once more"}"#).await.json(200);
}

async fn s2_fr005_ac3_cancel_over_http_of_delivered_is_a_conflict(api: TestApi) {
    let event_id = api.delivered_event(&event()).await;
    let (message, _) =
        api.post_empty(&cancel(&event_id)).await.expect_error(409, "webhook_outbox_event_not_cancellable");
    assert!(message.contains("delivered") && message.contains(&event_id), "{message}");
    assert_eq!(api.get(&format!("{EVENTS}/{event_id}")).await.json(200)["delivery_status"], "delivered");
    api.post_empty(&cancel("missing")).await.expect_error(404, "webhook_outbox_event_not_found");
}

async fn actions_are_recorded_with_the_name_of_the_key(api: TestApi) {
    assert!(KEYS.contains("ops:operator:"));
    let event_id = api.dead_lettered_event(&event()).await;
    api.post_empty(&requeue(&event_id)).await.json(200);
    let keyed = api.with_keys();
    keyed.post_with(&cancel(&event_id), &[bearer(OPERATOR)], r#"{"reason":"enough"}"#).await.json(200);
    keyed
        .send(build_request(Method::POST, &requeue(&event_id), &[bearer(OPERATOR)], Body::empty()))
        .await
        .json(200);
    let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    let audit: Vec<(&str, &str, &Value)> = shown["audit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            assert_eq!(fields(entry), ["action", "actor", "at", "reason"]);
            (entry["action"].as_str().unwrap(), entry["actor"].as_str().unwrap(), &entry["reason"])
        })
        .collect();
    let expected = [
        ("requeue", "local", &Value::Null),
        ("cancel", "ops", &json!("enough")),
        ("requeue", "ops", &Value::Null),
    ];
    assert_eq!(audit, expected);
}

#[tokio::test]
async fn a_reason_has_at_most_500_printable_characters() {
    let api = TestApi::on_memory().await;
    let event_id = api.pending_event(&event()).await;
    let long = "é".repeat(501);
    let cases = [
        (long.as_str(), "reason must have at most 500 characters, got 501"),
        ("bell\u{7}", "reason must be printable, but contains the character U+0007"),
        ("\0", "reason must be printable, but contains the character U+0000"),
        ("escape\u{1b}[31m", "reason must be printable, but contains the character U+001B"),
        ("\u{9b}1m", "reason must be printable, but contains the character U+009B"),
    ];
    for (reason, expected) in cases {
        let body = json!({ "reason": reason }).to_string();
        let (message, details) =
            api.post(&cancel(&event_id), body).await.expect_error(400, "invalid_request");
        assert_eq!(message, expected);
        assert_eq!(details, json!({ "field": "reason" }));
    }
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1, "the event must still be pending");
    let response =
        api.post(&cancel(&event_id), json!({ "reason": "é".repeat(500) }).to_string()).await.json(200);
    assert_eq!(
        response["last_error"],
        format!("manual_cancelled: {}", "é".repeat(200)),
        "the first 200 characters are kept"
    );
}

#[tokio::test]
async fn bodies_of_actions_are_parsed_strictly() {
    let api = TestApi::on_memory().await;
    let event_id = api.dead_lettered_event(&event()).await;
    let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(20_000));
    let not_an_object = "invalid type: sequence, expected an object at line 1";
    let field = |name: &str| json!(name);
    let cases: [(&str, &str, u16, &str, Value); 14] = [
        ("cancel", r#"{"raeson":"typo"}"#, 400, "unknown field `raeson`, expected `reason`", field("raeson")),
        (
            "cancel",
            r#"{"reason":5}"#,
            400,
            "reason: invalid type: integer `5`, expected a string",
            field("reason"),
        ),
        ("cancel", r#"{"reason":"a","reason":"b"}"#, 400, "duplicate field `reason`", field("reason")),
        ("cancel", r#"{"reason":"#, 400, "EOF", field("reason")),
        ("cancel", r#"{} {}"#, 400, "trailing characters", Value::Null),
        ("cancel", r#""enough""#, 400, "expected an object at line 1 column 8", Value::Null),
        ("cancel", r#"["sneaky"]"#, 400, not_an_object, Value::Null),
        ("cancel", " null", 400, "invalid type: null, expected an object", Value::Null),
        ("cancel", &long, 413, "larger than 16384 bytes, the maximum for this request", Value::Null),
        ("requeue", r#"{"reason":"x"}"#, 400, "unknown field `reason`, there are no fields", field("reason")),
        ("requeue", "[]", 400, not_an_object, Value::Null),
        ("requeue", "[1]", 400, not_an_object, Value::Null),
        ("requeue", "null", 400, "expected an object", Value::Null),
        ("requeue", &long, 413, "larger than 16384 bytes, the maximum for this request", Value::Null),
    ];
    for (action, body, status, expected, field) in cases {
        let path = if action == "cancel" { cancel(&event_id) } else { requeue(&event_id) };
        let code = if status == 400 { "invalid_request" } else { "payload_too_large" };
        let (message, details) = api.post(&path, body.to_owned()).await.expect_error(status, code);
        assert!(message.contains(expected), "{action} {body:.40}: {message}");
        assert_eq!(details["field"], field, "{action} {body:.40}");
        for internal in ["struct", "Request", "events"] {
            assert!(!message.contains(internal), "{action} {body:.40}: {message}");
        }
    }
    assert_eq!(api.get(OVERVIEW).await.json(200)["failed_count"], 1, "the event must still be failed");
    api.post(&requeue(&event_id), "{}").await.json(200);
}

#[tokio::test]
async fn an_action_with_a_body_needs_the_json_content_type() {
    let api = TestApi::on_memory().await;
    let event_id = api.pending_event(&event()).await;
    let body = || Body::from(r#"{"reason":"x"}"#);
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        let headers = [crate::test_api::header("content-type", content_type)];
        let request = build_request(Method::POST, &cancel(&event_id), &headers, body());
        api.send(request).await.expect_error(400, "invalid_request");
    }
    api.send(build_request(Method::POST, &cancel(&event_id), &[], body()))
        .await
        .expect_error(400, "invalid_request");
}

#[tokio::test]
async fn a_cancelled_and_requeued_event_is_claimed_with_a_new_lease() {
    let api = TestApi::on_memory().await;
    let event_id = api.pending_event(&event()).await;
    let lease = claim_all(&api.store).await.remove(0);
    api.post_empty(&cancel(&event_id)).await.json(200);
    api.post_empty(&requeue(&event_id)).await.json(200);
    let fresh = claim_all(&api.store).await.remove(0);
    assert_ne!(fresh.token, lease.token);
    settle(&api.store, &fresh, http_status(200)).await;
    assert_eq!(api.get(&format!("{EVENTS}/{event_id}")).await.json(200)["delivery_status"], "delivered");
}

async fn a_discarded_event_is_gone_and_the_error_says_who_discarded_it(api: TestApi) {
    let stored = api.with_keys().post_with(EVENTS, &[bearer(PRODUCER)], event().to_string()).await.json(202);
    let event_id = stored["event_id"].as_str().unwrap();
    settle(&api.store, &claim_all(&api.store).await[0], http_status(410)).await;
    let response = api.post(&discard(event_id), r#"{"reason":"paid by other means"}"#).await.json(200);
    assert_eq!(fields(&response), ["discarded_at", "event_id"]);
    assert_eq!(response["event_id"], json!(event_id));
    assert_eq!(api.get(DLQ).await.json(200)["events"], json!([]));
    assert_eq!(api.get(OVERVIEW).await.json(200)["failed_count"], 0);
    let at = response["discarded_at"].as_str().unwrap();
    let shown = format!("{EVENTS}/{event_id}");
    let calls = [
        api.get(&shown).await,
        api.post_empty(&discard(event_id)).await,
        api.post_empty(&requeue(event_id)).await,
        api.post_empty(&cancel(event_id)).await,
    ];
    let as_producer = build_request(Method::GET, &shown, &[bearer(PRODUCER)], Body::empty());
    let (message, _) =
        api.with_keys().send(as_producer).await.expect_error(404, "webhook_outbox_event_not_found");
    assert_eq!(message, format!("there is no event {event_id}"), "a producer does not see operators");
    for response in calls {
        let (message, _) = response.expect_error(404, "webhook_outbox_event_not_found");
        let expected = format!("event {event_id} was discarded at {at} by local (paid by other means)");
        assert_eq!(message, expected);
    }
}

async fn only_a_failed_event_can_be_discarded_over_http(api: TestApi) {
    let failed = api.dead_lettered_event(&event()).await;
    let delivered = api.delivered_event(&event()).await;
    let pending = api.pending_event(&event()).await;
    for (event_id, state) in [(&delivered, "delivered"), (&pending, "pending")] {
        let (message, _) = api
            .post_empty(&discard(event_id))
            .await
            .expect_error(409, "webhook_outbox_event_not_discardable");
        assert!(message.contains(state) && message.contains(event_id.as_str()), "{message}");
    }
    api.post_empty(&discard("missing")).await.expect_error(404, "webhook_outbox_event_not_found");
    let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(501));
    for body in [r#"{"cause":"x"}"#.to_owned(), long] {
        api.post(&discard(&failed), body).await.expect_error(400, "invalid_request");
    }
    api.post_empty(&discard(&failed)).await.json(200);
}

async fn a_replay_adds_an_event_with_the_same_webhook_id(api: TestApi) {
    let event_id = api.delivered_event(&event()).await;
    let replay = format!("{EVENTS}/{event_id}/replay");
    let response = api.post_empty(&replay).await.json(200);
    assert_eq!(fields(&response), ["created_at", "delivery_status", "event_id", "held", "replay_of"]);
    let new_id = format!("{event_id}-r1");
    assert_eq!((&response["event_id"], &response["replay_of"]), (&json!(new_id), &json!(event_id)));
    assert_eq!((&response["delivery_status"], &response["held"]), (&json!("pending"), &Value::Null));
    let lease = claim_all(&api.store).await.remove(0);
    assert_eq!((lease.event_id.as_str(), lease.wire_id.as_str()), (&*new_id, &*event_id));
    let shown = api.get(&format!("{EVENTS}/{new_id}")).await.json(200);
    assert_eq!((&shown["replay_of"], &shown["max_attempts"]), (&json!(event_id), &json!(1)));
    assert_eq!(shown["audit"][0]["action"], "replay");
    let original = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    assert_eq!((&original["replay_of"], &original["delivery_status"]), (&Value::Null, &json!("delivered")));
    assert_eq!(original["audit"][0]["action"], "replay");
}

async fn only_a_delivered_event_can_be_replayed_over_http(api: TestApi) {
    let failed = api.dead_lettered_event(&event()).await;
    let response = api.post_empty(&format!("{EVENTS}/{failed}/replay")).await;
    let (message, _) = response.expect_error(409, "webhook_outbox_event_not_replayable");
    assert!(message.contains("is failed; requeue it"), "{message}");
    let pending = api.pending_event(&event()).await;
    let response = api.post_empty(&format!("{EVENTS}/{pending}/replay")).await;
    let (message, _) = response.expect_error(409, "webhook_outbox_event_not_replayable");
    assert!(message.contains("only a delivered event"), "{message}");
    let unknown = api.post_empty(&format!("{EVENTS}/unknown/replay")).await;
    unknown.expect_error(404, "webhook_outbox_event_not_found");
}
