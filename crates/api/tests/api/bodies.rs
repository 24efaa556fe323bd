//! Invalid bodies and queries. Errors name the event, field, line and column, and the rule.

use axum::body::Body;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::test_api::{EVENTS, OVERVIEW, TestApi, build_request, claim_all, event, header};

/// An event with one field replaced.
fn with(field: &str, value: Value) -> String {
    let mut event = event();
    event[field] = value;
    event.to_string()
}

/// An event without one field.
fn without(field: &str) -> String {
    let mut event = event();
    event.as_object_mut().unwrap().remove(field);
    event.to_string()
}

/// Asserts that a body is a bad request whose message contains `expected` and whose details contain `at`.
async fn expect_invalid(api: &TestApi, body: impl Into<Bytes>, expected: &str, at: Value) {
    let body = body.into();
    let shown = String::from_utf8_lossy(&body).chars().take(120).collect::<String>();
    let (message, details) = api.post(EVENTS, body).await.expect_error(400, "invalid_request");
    assert!(message.contains(expected), "{shown}: {message}");
    for (name, value) in at.as_object().unwrap() {
        assert_eq!(&details[name], value, "{shown}: {name} of {details}");
    }
}

#[tokio::test]
async fn invalid_json_is_rejected_with_its_position() {
    let api = TestApi::on_memory().await;
    let cases: [(&[u8], &str, Value); 16] = [
        (b"", "EOF", json!({ "line": 1, "column": 0 })),
        (b" \n ", "EOF", json!({ "line": 2 })),
        (b"{", "EOF", json!({ "line": 1, "column": 1 })),
        (b"hello", "expected value", json!({ "line": 1, "column": 1 })),
        (b"{\n  'event_type': 1}", "key must be a string", json!({ "line": 2, "column": 3 })),
        (b"{\"event_type\": \"a\",}", "trailing comma", json!({ "column": 20 })),
        (b"[{]", "key must be a string", json!({ "index": 0, "column": 3 })),
        (b"\xef\xbb\xbf{}", "expected value", json!({ "line": 1, "column": 1 })),
        (
            b"{\"event_type\":\"\xff\"}",
            "event_type: invalid unicode code point",
            json!({ "field": "event_type" }),
        ),
        (b"{\"payload\":\"\xff\"}", "payload: invalid unicode code point", json!({ "field": "payload" })),
        (
            b"{\"payload\":\"a\nb\"}",
            "payload: control character",
            json!({ "field": "payload", "line": 1, "column": 13 }),
        ),
        (b"{\"payload\":01}", "payload: invalid number", json!({ "field": "payload" })),
        (b"{\"payload\":NaN}", "payload: expected value", json!({ "field": "payload" })),
        (b"{\"payload\":\"\\x\"}", "payload: invalid escape", json!({ "field": "payload" })),
        (b"{\"payload\":[1,2", "payload: EOF", json!({ "field": "payload" })),
        (
            b"{\"event_type\":\"\\ud800\"}",
            "event_type: unexpected end of hex escape",
            json!({ "field": "event_type" }),
        ),
    ];
    for (body, expected, at) in cases {
        expect_invalid(&api, Bytes::from_static(body), expected, at).await;
    }
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

#[tokio::test]
async fn json_that_is_not_an_event_is_rejected_with_the_rule() {
    let api = TestApi::on_memory().await;
    let expected = "expected an event object or an array of them";
    let cases = [
        ("null".to_owned(), expected, json!({})),
        ("5".to_owned(), expected, json!({ "line": 1, "column": 1 })),
        ("\"event\"".to_owned(), expected, json!({})),
        ("true".to_owned(), expected, json!({})),
        ("{}".to_owned(), "missing field `destination_url`", json!({ "field": "destination_url" })),
        ("[]".to_owned(), "the array is empty", json!({})),
        ("[5]".to_owned(), "event 0: invalid type: integer `5`, expected an object", json!({ "index": 0 })),
        ("[[]]".to_owned(), "event 0: invalid type: sequence", json!({ "index": 0 })),
        (format!("[{},null]", event()), "event 1: invalid type: null", json!({ "index": 1 })),
        (format!("{} {}", event(), event()), "trailing characters", json!({})),
        (format!("[{}] x", event()), "trailing characters", json!({})),
        (json!(vec![event(); 1_001]).to_string(), "at most 1000 events", json!({})),
        (
            without("destination_url"),
            "missing field `destination_url`",
            json!({ "field": "destination_url" }),
        ),
        (without("event_type"), "missing field `event_type`", json!({ "field": "event_type" })),
        (without("payload"), "missing field `payload`", json!({ "field": "payload" })),
        (
            format!("[{},{}]", event(), without("payload")),
            "event 1: missing field `payload`",
            json!({ "index": 1, "field": "payload" }),
        ),
        (
            with("colour", json!("red")),
            "unknown field `colour`, expected one of `destination_url`",
            json!({ "field": "colour" }),
        ),
        (
            with("content_type", json!("text/plain")),
            "unknown field `content_type`",
            json!({ "field": "content_type" }),
        ),
        (with("Event_Type", json!("a")), "unknown field `Event_Type`", json!({ "field": "Event_Type" })),
        (
            event().to_string().replace('}', "") + r#"},"event_type":"b"}"#,
            "duplicate field `event_type`",
            json!({ "field": "event_type" }),
        ),
        (
            event().to_string().replacen('{', r#"{"payload":1,"#, 1),
            "duplicate field `payload`",
            json!({ "field": "payload" }),
        ),
    ];
    for (body, expected, at) in cases {
        expect_invalid(&api, body, expected, at).await;
    }
}

#[tokio::test]
async fn a_value_of_the_wrong_type_or_range_is_rejected_by_the_name_of_its_field() {
    let api = TestApi::on_memory().await;
    let long = "x".repeat(257);
    let cases = [
        ("destination_url", json!(5), "destination_url: invalid type: integer `5`, expected a string"),
        ("destination_url", json!(null), "destination_url: invalid type: null, expected a string"),
        ("destination_url", json!(""), "not an absolute URL"),
        ("destination_url", json!("/hook"), "not an absolute URL"),
        ("destination_url", json!("ftp://receiver.example/"), "only http and https"),
        ("destination_url", json!("javascript:alert(1)"), "only http and https"),
        ("destination_url", json!("https://user:pw@receiver.example/"), "user name or password"),
        ("destination_url", json!("https://receiver.example/#top"), "fragment"),
        ("destination_url", json!(format!("https://receiver.example/{}", "a".repeat(2_048))), "at most 2048"),
        ("event_type", json!(["a"]), "event_type: invalid type: sequence, expected a string"),
        ("event_type", json!(""), "event_type must be 1 to 256 printable ASCII"),
        ("event_type", json!(" padded "), "event_type must be 1 to 256 printable ASCII"),
        ("event_type", json!("a\r\nx-evil: 1"), "event_type must be 1 to 256 printable ASCII"),
        ("event_type", json!("payé"), "event_type must be 1 to 256 printable ASCII"),
        ("event_type", json!(long), "event_type must be 1 to 256 printable ASCII"),
        ("event_id", json!(17), "event_id: invalid type: integer `17`, expected a string"),
        ("event_id", json!(""), "1 to 256 visible ASCII"),
        ("event_id", json!("a b"), "visible ASCII characters without spaces"),
        ("event_id", json!("a.b"), "full stop"),
        ("event_id", json!("é"), "visible ASCII"),
        ("event_id", json!(long), "1 to 256 visible ASCII"),
        ("payment_request_id", json!({}), "payment_request_id: invalid type: map, expected a string"),
        ("payment_request_id", json!(""), "payment_request_id must be 1 to 256"),
        ("webhook_id", json!("\u{0}"), "webhook_id must be 1 to 256"),
        ("webhook_id", json!(false), "webhook_id: invalid type: boolean `false`"),
        ("session_id", json!(long), "session_id must be 1 to 256"),
        ("max_attempts", json!(0), "max_attempts must be 1 to 1000, got 0"),
        ("max_attempts", json!(1_001), "max_attempts must be 1 to 1000, got 1001"),
        ("max_attempts", json!(-1), "max_attempts: must be a whole number from 1 to 1000, got -1 "),
        ("max_attempts", json!(1.5), "max_attempts: must be a whole number from 1 to 1000, got 1.5 "),
        ("max_attempts", json!("3"), "max_attempts: invalid type: string \"3\", expected a JSON number"),
        ("max_attempts", json!(1e300), "max_attempts: must be a whole number from 1 to 1000, got 1e+300 "),
        ("max_attempts", json!(0.0), "max_attempts must be 1 to 1000, got 0"),
        ("max_attempts", json!(-1.0), "max_attempts: must be a whole number from 1 to 1000, got -1.0 "),
        (
            "max_attempts",
            json!(4_294_967_296_u64),
            "max_attempts: must be a whole number from 1 to 1000, got 4294967296 ",
        ),
    ];
    for (field, value, expected) in cases {
        expect_invalid(&api, with(field, value), expected, json!({ "field": field })).await;
    }
}

#[tokio::test]
async fn a_whole_number_may_be_written_as_a_float() {
    let api = TestApi::on_memory().await;
    for (text, number) in [("3", 3), ("3.0", 3), ("3e0", 3), ("1.0e3", 1_000)] {
        let event = event().to_string().replacen('{', &format!(r#"{{"max_attempts":{text},"#), 1);
        api.post(EVENTS, event).await.json(202);
        assert_eq!(claim_all(&api.store).await.remove(0).max_attempts, number, "{text}");
    }
}

#[tokio::test]
async fn optional_fields_may_be_null() {
    let api = TestApi::on_memory().await;
    for field in ["event_id", "payment_request_id", "webhook_id", "session_id", "max_attempts"] {
        api.post(EVENTS, with(field, Value::Null)).await.json(202);
    }
    api.post(EVENTS, with("payload", Value::Null)).await.json(202);
    let leases = claim_all(&api.store).await;
    assert_eq!(leases.iter().filter(|lease| &lease.payload.expect_loaded()[..] == b"null").count(), 1);
}

#[tokio::test]
async fn a_long_value_is_truncated_in_the_error() {
    let api = TestApi::on_memory().await;
    let (message, details) =
        api.post(EVENTS, with(&"k".repeat(100_000), json!(1))).await.expect_error(400, "invalid_request");
    assert!(message.len() < 1_000 && message.contains("kkk…"), "{} bytes", message.len());
    assert_eq!(details["field"], format!("{}…", "k".repeat(64)));
    let (message, _) = api
        .post(EVENTS, with("max_attempts", json!("9".repeat(100_000))))
        .await
        .expect_error(400, "invalid_request");
    assert!(message.len() < 1_000 && message.contains("at line 1 column"), "{} bytes", message.len());
}

#[tokio::test]
async fn only_the_json_content_type_is_accepted() {
    let api = TestApi::on_memory().await;
    let send = async |content_types: &[&str]| {
        let headers: Vec<_> = content_types.iter().map(|sent| header("content-type", sent)).collect();
        api.send(build_request(Method::POST, EVENTS, &headers, Body::from(event().to_string()))).await
    };
    for good in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        " application/json ",
    ] {
        send(&[good]).await.json(202);
    }
    let bad: [&[&str]; 8] = [
        &[],
        &[""],
        &["text/plain"],
        &["application/x-www-form-urlencoded"],
        &["multipart/form-data; boundary=x"],
        &["application/jsonp"],
        &["text/json"],
        &["application/json", "application/json"],
    ];
    for content_types in bad {
        let (message, details) = send(content_types).await.expect_error(400, "invalid_request");
        assert!(message.contains("content-type: application/json"), "{message}");
        assert_eq!(details, json!({ "header": "content-type" }));
    }
}

#[tokio::test]
async fn a_compressed_body_is_rejected() {
    let api = TestApi::on_memory().await;
    for (encoding, status) in [("gzip", 400), ("br", 400), ("identity", 202)] {
        let headers = [header("content-encoding", encoding)];
        let response = api.post_with(EVENTS, &headers, event().to_string()).await;
        assert_eq!(response.status.as_u16(), status, "{encoding}: {}", response.text());
    }
}

#[tokio::test]
async fn queries_are_parsed_as_strictly_as_bodies() {
    let api = TestApi::on_memory().await;
    let event_id = api.pending_event(&event()).await;
    let one = format!("{EVENTS}/{event_id}");
    let cases = [
        (
            format!("{EVENTS}?page=2"),
            "unknown parameter \"page\"; allowed parameters: destination, app, event_type, failure_kind, error_class, since, \
             until, status, endpoint_id, event_id, payment_request_id, session_id, webhook_id, limit, cursor",
        ),
        (format!("{EVENTS}?limit=5&limit=6"), "\"limit\" appears twice"),
        (
            format!("{EVENTS}?status=lost"),
            "status must be pending, retrying, delivered or failed, got \"lost\"",
        ),
        (format!("{EVENTS}?status="), "status must be"),
        (format!("{EVENTS}?status=Pending"), "status must be"),
        (
            format!("{EVENTS}?destination=nowhere"),
            "destination must be a URL or the id of an endpoint, got \"nowhere\"",
        ),
        (format!("{EVENTS}?destination="), "destination must be a URL"),
        (format!("{EVENTS}?cursor=x"), "not a cursor of this listing"),
        (
            "/v1/webhook-outbox/dlq?status=failed".to_owned(),
            "unknown parameter \"status\"; allowed parameters: destination, app, event_type, failure_kind, error_class",
        ),
        (format!("{OVERVIEW}?x"), "unknown parameter \"x\"; allowed parameters: none"),
        (format!("{one}?verbose=1"), "unknown parameter \"verbose\""),
        ("/v1/webhook-outbox/stream?x=1".to_owned(), "unknown parameter \"x\""),
    ];
    for (path, expected) in cases {
        let (message, details) = api.get(&path).await.expect_error(400, "invalid_request");
        assert!(message.contains(expected), "{path}: {message}");
        assert!(details["parameter"].is_string(), "{path}: {details}");
    }
    for path in [format!("{EVENTS}?x=1"), format!("{one}/cancel?x=1")] {
        api.post(&path, event().to_string()).await.expect_error(400, "invalid_request");
    }
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1);
}
