//! Limits are in bytes, and hold exactly.

use http::Method;
use serde_json::json;

use crate::fixture::{PAYLOAD_BYTES_MAX, TestRegistry};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// The text of a message whose payload has this many bytes, most of them in characters of two bytes.
fn message(payload_bytes: usize) -> String {
    let text = payload_bytes - r#"{"t":""}"#.len();
    let payload = format!(r#"{{"t":"{}{}"}}"#, "\u{e9}".repeat(text / 2), "a".repeat(text % 2));
    assert_eq!(payload.len(), payload_bytes);
    format!(r#"{{"eventType":"a","payload":{payload}}}"#)
}

#[tokio::test]
async fn a_payload_has_its_limit_in_bytes() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    let publish = async |body: String| registry.send(Method::POST, "/api/v1/app/shop/msg", &JSON, body).await;
    publish(message(PAYLOAD_BYTES_MAX)).await.json(202);
    let detail = publish(message(PAYLOAD_BYTES_MAX + 1)).await.error(413, "payload_too_large");
    assert!(detail.contains(&PAYLOAD_BYTES_MAX.to_string()), "{detail}");
    let padded = message(10).replacen('{', &format!("{{{}", " ".repeat(PAYLOAD_BYTES_MAX + (64 << 10))), 1);
    publish(padded).await.error(413, "payload_too_large");
}

#[tokio::test]
async fn other_bodies_have_their_limit_too() {
    let registry = TestRegistry::new();
    let of = |bytes: usize| format!(r#"{{"name":"n"{}}}"#, " ".repeat(bytes - r#"{"name":"n"}"#.len()));
    let create = async |bytes: usize| registry.send(Method::POST, "/api/v1/app", &JSON, of(bytes)).await;
    create(512 << 10).await.json(201);
    create((512 << 10) + 1).await.error(413, "payload_too_large");
}

#[tokio::test]
async fn names_and_metadata_have_their_limits() {
    let registry = TestRegistry::new();
    registry.post("/app", json!({ "name": "\u{e9}".repeat(256) })).await.json(201);
    registry.post("/app", json!({ "name": "n".repeat(257) })).await.invalid(&["body", "name"]);
    registry.post("/app", json!({ "name": "n", "uid": "u".repeat(256) })).await.json(201);
    registry.post("/app", json!({ "name": "n", "uid": "u".repeat(257) })).await.invalid(&["body", "uid"]);
    registry.post("/app", json!({ "name": "n", "metadata": { "k": "v".repeat(4_095) } })).await.json(201);
    let large = json!({ "name": "n", "metadata": { "k": "\u{e9}".repeat(2_048) } });
    registry.post("/app", large).await.invalid(&["body", "metadata"]);
    registry.post("/app", json!({ "name": "a\u{0}b" })).await.invalid(&["body", "name"]);
}
