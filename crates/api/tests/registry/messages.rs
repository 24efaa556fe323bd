//! Messages over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{PRODUCER, TestRegistry};

async fn registry() -> TestRegistry {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry
}

#[tokio::test]
async fn a_message_is_published_to_matching_endpoints_and_its_bytes_are_kept() {
    let registry = registry().await;
    registry.endpoint("r").await;
    let text = r#"{"eventType":"a.b","payload":{ "n": 1.50, "b":[]  },"eventId":"e1","channels":["c"],"tags":["t"],"transformationsParams":null}"#;
    let headers = [("content-type", "application/json")];
    let published = registry.send(http::Method::POST, "/api/v1/app/shop/msg", &headers, text).await;
    assert!(published.text().contains(r#"{ "n": 1.50, "b":[]  }"#), "{}", published.text());
    let published = published.json(202);
    let expected = json!({
        "id": published["id"], "eventId": "e1", "eventType": "a.b", "payload": { "n": 1.5, "b": [] }, "channels": ["c"],
        "tags": ["t"], "timestamp": "2023-11-14T22:13:20.000000Z", "deliverAt": null,
    });
    assert_eq!(published, expected);
    for reference in ["e1", published["id"].as_str().unwrap()] {
        assert_eq!(registry.get(&format!("/app/shop/msg/{reference}")).await.json(200), expected);
        let without = registry.get(&format!("/app/shop/msg/{reference}?with_content=false")).await.json(200);
        assert_eq!(without["payload"], json!({}));
    }
    assert_eq!(registry.deliver(200, b"").await, 1);
    registry
        .post("/app/shop/msg", json!({ "eventType": "a", "payload": {}, "eventId": "e1" }))
        .await
        .error(409, "conflict");
}

#[tokio::test]
async fn a_message_without_a_subscriber_is_accepted_and_a_producer_may_publish_and_read() {
    let registry = registry().await.with_bearer(PRODUCER);
    let published = registry
        .post("/app/shop/msg?with_content=false", json!({ "eventType": "x", "payload": { "a": 1 } }))
        .await;
    let published = published.json(202);
    assert_eq!(
        (&published["payload"], &published["channels"], &published["tags"]),
        (&json!({}), &Value::Null, &Value::Null)
    );
    assert_eq!(registry.get("/app/shop/msg").await.json(200)["data"][0]["payload"], json!({ "a": 1 }));
    registry.get("/app/shop").await.error(403, "permission_denied");
    registry.delete("/app/shop").await.error(403, "permission_denied");
}

#[tokio::test]
async fn messages_are_listed_newest_first_and_filtered() {
    let registry = registry().await;
    for (number, event_type) in ["a", "b", "a"].into_iter().enumerate() {
        let body = json!({ "eventType": event_type, "payload": {}, "eventId": format!("e{number}"), "channels": [format!("c{number}")], "tags": [format!("t{number}")] });
        registry.post("/app/shop/msg", body).await.json(202);
        registry.clock.advance(Duration::from_secs(60));
    }
    let ids = async |query: &str| -> Vec<String> {
        let page = registry.get(&format!("/app/shop/msg{query}")).await.json(200);
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|msg| msg["eventId"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids("").await, ["e2", "e1", "e0"]);
    assert_eq!(ids("?event_types=a").await, ["e2", "e0"]);
    assert_eq!(ids("?event_types=a,b&limit=2").await, ["e2", "e1"]);
    assert_eq!(ids("?event_types=a&event_types=b").await, ["e2", "e1", "e0"]);
    assert_eq!(ids("?channel=c1").await, ["e1"]);
    assert_eq!(ids("?tag=t0").await, ["e0"]);
    assert_eq!(ids("?before=2023-11-14T22:14:00Z").await, ["e0"]);
    assert_eq!(ids("?after=2023-11-14T22:15:00%2B00:00").await, ["e2"]);
    assert_eq!(ids("?unknown=1").await, ["e2", "e1", "e0"]);
    registry.get("/app/shop/msg?event_types=a%20b").await.invalid(&["query", "event_types"]);
    registry.get("/app/shop/msg?channel=").await.invalid(&["query", "channel"]);
    registry.get("/app/shop/msg?before=now").await.error(400, "generic_error");
    registry.get("/app/shop/msg?with_content=no").await.error(400, "generic_error");
    registry.get("/app/shop/msg?iterator=app_0000000000000001").await.invalid(&["query", "iterator"]);
}

#[tokio::test]
async fn a_later_delivery_waits_and_a_past_one_does_not() {
    let registry = registry().await;
    registry.endpoint("r").await;
    let publish = async |at: &str| {
        registry.post("/app/shop/msg", json!({ "eventType": "a", "payload": {}, "deliverAt": at })).await
    };
    let later = publish("2023-11-14T23:13:20Z").await.json(202);
    assert!(later["deliverAt"].as_str().unwrap().starts_with("2023-11-14T23:13:"), "{later}");
    assert_eq!(registry.deliver(200, b"").await, 0);
    registry.clock.advance(Duration::from_secs(3_600));
    assert_eq!(registry.deliver(200, b"").await, 1);
    assert_eq!(publish("2020-01-01T00:00:00Z").await.json(202)["deliverAt"], Value::Null);
    assert_eq!(registry.deliver(200, b"").await, 1);
    publish("2024-11-14T23:13:20Z").await.invalid(&["body", "deliverAt"]);
    publish("soon").await.invalid(&["body", "deliverAt"]);
}

#[tokio::test]
async fn an_application_is_created_with_its_first_message_if_its_uid_is_that_of_the_path() {
    let registry = registry().await;
    let body =
        |uid: &str| json!({ "eventType": "a", "payload": {}, "application": { "name": "New", "uid": uid } });
    registry.post("/app/other/msg", body("mismatch")).await.invalid(&["body", "application", "uid"]);
    registry.post("/app/other/msg", json!({ "eventType": "a", "payload": {} })).await.error(404, "not_found");
    registry.post("/app/other/msg", body("other")).await.json(202);
    assert_eq!(registry.get("/app/other").await.json(200)["name"], "New");
    registry.post("/app/shop/msg", body("ignored")).await.json(202);
    assert_eq!(registry.get("/app/shop").await.json(200)["name"], "shop");
    registry.post("/app/next/msg", body("app_1")).await.invalid(&["body", "application", "uid"]);
}

#[tokio::test]
async fn an_expunged_payload_is_gone_and_cannot_be_sent_again() {
    let registry = registry().await;
    registry.endpoint("r").await;
    let id = registry.message("a").await;
    registry.delete(&format!("/app/shop/msg/{id}/content")).await.empty(204);
    assert_eq!(
        registry.get(&format!("/app/shop/msg/{id}")).await.json(200)["payload"],
        json!({ "expired": true })
    );
    assert_eq!(registry.deliver(200, b"").await, 0, "its pending events are cancelled");
    let resend = format!("/app/shop/msg/{id}/endpoint/r/resend");
    registry.post(&resend, json!({})).await.error(400, "missing_payload");
    let path = format!("/app/shop/msg/{id}/endpoint");
    let plain = registry.get(&path).await.json(200);
    assert_eq!((&plain["data"][0]["status"], &plain["data"][0]["statusText"]), (&json!(2), &json!("fail")));
    let expanded = registry.get(&format!("{path}?expanded_statuses=true")).await.json(200);
    assert_eq!(
        (&expanded["data"][0]["status"], &expanded["data"][0]["statusText"]),
        (&json!(4), &json!("canceled"))
    );
}

#[tokio::test]
async fn endpoints_of_a_message_and_messages_of_an_endpoint_have_the_state_of_the_event() {
    let registry = registry().await;
    let endpoint = registry.endpoint("r").await;
    let delivered = registry.message("a").await;
    registry.deliver(200, b"").await;
    let retrying = registry.message("b").await;
    registry.deliver(503, b"").await;
    let pending = registry.message("c").await;
    let listed = registry.get("/app/shop/endpoint/r/msg").await.json(200);
    let states: Vec<_> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|msg| (msg["id"].clone(), msg["status"].clone(), msg["statusText"].clone()))
        .collect();
    assert_eq!(
        states,
        [
            (json!(pending), json!(1), json!("pending")),
            (json!(retrying), json!(3), json!("sending")),
            (json!(delivered), json!(0), json!("success")),
        ]
    );
    assert!(listed["data"][1]["nextAttempt"].is_string() && listed["data"][2]["nextAttempt"].is_null());
    assert_eq!(listed["data"][0]["payload"], json!({ "n": 1 }));
    let sending = registry.get("/app/shop/endpoint/r/msg?status=3&with_content=false").await.json(200);
    assert_eq!((sending["data"].as_array().unwrap().len(), &sending["data"][0]["payload"]), (1, &json!({})));
    assert_eq!(sending["iterator"], json!(delivered), "the iterator is that of the whole page");
    let of_message = registry.get(&format!("/app/shop/msg/{retrying}/endpoint")).await.json(200);
    assert_eq!(
        (&of_message["data"][0]["id"], &of_message["data"][0]["status"]),
        (&json!(endpoint), &json!(3))
    );
    assert_eq!(of_message["data"][0]["version"], 1);
    registry.get("/app/shop/endpoint/r/msg?status=5").await.error(400, "generic_error");
}

#[tokio::test]
async fn every_refused_field_is_named() {
    let registry = registry().await;
    for (body, field) in [
        (json!({ "payload": {} }), "eventType"),
        (json!({ "eventType": "a b", "payload": {} }), "eventType"),
        (json!({ "eventType": "a" }), "payload"),
        (json!({ "eventType": "a", "payload": [] }), "payload"),
        (json!({ "eventType": "a", "payload": "text" }), "payload"),
        (json!({ "eventType": "a", "payload": {}, "eventId": "msg_1" }), "eventId"),
        (json!({ "eventType": "a", "payload": {}, "channels": [] }), "channels"),
        (json!({ "eventType": "a", "payload": {}, "channels": vec!["c"; 6] }), "channels"),
        (json!({ "eventType": "a", "payload": {}, "tags": vec!["t"; 11] }), "tags"),
        (json!({ "eventType": "a", "payload": {}, "tags": ["\u{e9}"] }), "tags"),
        (json!({ "eventType": "a", "payload": {}, "payloadRetentionPeriod": 4 }), "payloadRetentionPeriod"),
        (json!({ "eventType": "a", "payload": {}, "payloadRetentionPeriod": 91 }), "payloadRetentionPeriod"),
        (
            json!({ "eventType": "a", "payload": {}, "transformationsParams": { "rawPayload": "x" } }),
            "transformationsParams",
        ),
    ] {
        registry.post("/app/shop/msg", body).await.invalid(&["body", field]);
    }
}
