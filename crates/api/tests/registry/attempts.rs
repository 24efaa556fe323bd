//! Attempts and resends over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::TestRegistry;

async fn registry() -> TestRegistry {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry.endpoint("r").await;
    registry
}

#[tokio::test]
async fn an_attempt_has_every_key_that_old_and_new_sdks_need() {
    let registry = registry().await;
    let endpoint = registry.get("/app/shop/endpoint/r").await.json(200)["id"].clone();
    let message = registry.message("a.b").await;
    assert_eq!(registry.deliver(503, b"<b>try later</b>").await, 1);
    let listed = registry.get(&format!("/app/shop/attempt/msg/{message}")).await.json(200);
    let attempt = &listed["data"][0];
    let expected = json!({
        "id": attempt["id"], "msgId": message, "endpointId": endpoint, "url": "https://r.example/hook",
        "response": "<b>try later</b>", "responseStatusCode": 503, "responseDurationMs": 128, "status": 2,
        "statusText": "fail", "triggerType": 0, "timestamp": attempt["timestamp"],
    });
    assert_eq!(*attempt, expected);
    let id = attempt["id"].as_str().unwrap();
    assert!(id.starts_with("atmpt_"));
    assert_eq!(registry.get(&format!("/app/shop/msg/{message}/attempt/{id}")).await.json(200), expected);
    registry.get(&format!("/app/shop/msg/{message}/attempt/atmpt_1")).await.error(404, "not_found");
    let other = registry.message("a.b").await;
    registry.get(&format!("/app/shop/msg/{other}/attempt/{id}")).await.error(404, "not_found");
    let of_endpoint = registry.get("/app/shop/attempt/endpoint/r?with_msg=true").await.json(200);
    assert_eq!(of_endpoint["data"][0]["msg"]["payload"], json!({ "n": 1 }));
    let of_endpoint =
        registry.get("/app/shop/attempt/endpoint/r?with_msg=true&with_content=false").await.json(200);
    assert_eq!(of_endpoint["data"][0]["msg"]["payload"], json!({}));
}

#[tokio::test]
async fn attempts_are_filtered_and_paged() {
    let registry = registry().await;
    let body = json!({ "eventType": "a", "payload": {}, "channels": ["c"], "eventId": "e" });
    registry.post("/app/shop/msg", body).await.json(202);
    registry.deliver(503, b"").await;
    registry.clock.advance(Duration::from_secs(3_600));
    registry.deliver(200, b"").await;
    let codes = async |path: &str| -> Vec<Value> {
        let page = registry.get(path).await.json(200);
        page["data"].as_array().unwrap().iter().map(|attempt| attempt["responseStatusCode"].clone()).collect()
    };
    for base in ["/app/shop/attempt/msg/e", "/app/shop/attempt/endpoint/r"] {
        let filtered = async |filter: &str| codes(&format!("{base}?{filter}")).await;
        assert_eq!(filtered("").await, [200, 503]);
        assert_eq!(filtered("status=0").await, [200]);
        assert_eq!(filtered("status=2").await, [503]);
        for status in [1, 3, 4] {
            assert_eq!(filtered(&format!("status={status}")).await, [0; 0]);
        }
        assert_eq!(filtered("status_code_class=500").await, [503]);
        assert_eq!(filtered("status_code_class=0").await, [0; 0]);
        assert_eq!(filtered("channel=c").await, [200, 503]);
        assert_eq!(filtered("channel=d").await, [0; 0]);
        assert_eq!(filtered("event_types=b").await, [0; 0]);
        assert_eq!(filtered("before=2023-11-14T23:00:00Z").await, [503]);
        assert_eq!(filtered("after=2023-11-14T23:00:00Z").await, [200]);
        let first = registry.get(&format!("{base}?limit=1")).await.json(200);
        let iterator = first["iterator"].as_str().unwrap();
        assert_eq!(filtered(&format!("iterator={iterator}")).await, [503]);
        registry.get(&format!("{base}?status_code_class=7")).await.error(400, "generic_error");
        registry.get(&format!("{base}?iterator=x")).await.invalid(&["query", "iterator"]);
    }
    assert_eq!(codes("/app/shop/attempt/msg/e?endpoint_id=r").await, [200, 503]);
    registry.endpoint("s").await;
    assert_eq!(codes("/app/shop/attempt/msg/e?endpoint_id=s").await, [0; 0]);
    registry.get("/app/shop/attempt/msg/e?endpoint_id=ep_x").await.error(404, "not_found");
    registry.get("/app/shop/attempt/msg/missing?status=1").await.error(404, "not_found");
}

#[tokio::test]
async fn a_resend_is_one_manual_attempt_whatever_the_subscription() {
    let registry = registry().await;
    registry.endpoint("other").await;
    registry.patch("/app/shop/endpoint/other", json!({ "channels": ["never"] })).await.json(200);
    let message = registry.message("a").await;
    assert_eq!(registry.deliver(200, b"").await, 1);
    for endpoint in ["r", "other"] {
        let path = format!("/app/shop/msg/{message}/endpoint/{endpoint}/resend");
        let resent = registry
            .send(http::Method::POST, &format!("/api/v1{path}"), &[], axum::body::Body::empty())
            .await;
        assert_eq!(resent.json(202), json!({}));
        assert_eq!(registry.deliver(200, b"").await, 1, "{endpoint}");
    }
    let newest = registry.get("/app/shop/attempt/endpoint/r").await.json(200);
    assert_eq!(
        (&newest["data"][0]["triggerType"], &newest["data"][1]["triggerType"]),
        (&json!(1), &json!(0))
    );
    registry.patch("/app/shop/endpoint/r", json!({ "disabled": true })).await.json(200);
    registry
        .post(&format!("/app/shop/msg/{message}/endpoint/r/resend"), json!({}))
        .await
        .error(400, "endpoint_disabled");
    registry.post("/app/shop/msg/missing/endpoint/r/resend", json!({})).await.error(404, "not_found");
}

#[tokio::test]
async fn an_example_goes_to_one_endpoint_with_a_payload_of_the_schema() {
    let registry = registry().await;
    registry.endpoint("other").await;
    let schemas =
        json!({ "1": { "examples": [{ "old": 1 }] }, "2": { "examples": [{ "a": 1 }, { "a": 2 }] } });
    registry
        .post("/event-type", json!({ "name": "known", "description": "", "schemas": schemas }))
        .await
        .json(201);
    let send = async |body: Value| registry.post("/app/shop/endpoint/r/send-example", body).await;
    assert_eq!(send(json!({ "eventType": "known" })).await.json(202)["payload"], json!({ "a": 1 }));
    assert_eq!(
        send(json!({ "eventType": "known", "exampleIndex": 1 })).await.json(202)["payload"],
        json!({ "a": 2 })
    );
    let general = send(json!({ "eventType": "unknown" })).await.json(202);
    assert_eq!(general["payload"], json!({ "type": "unknown", "example": true }));
    assert_eq!(
        send(json!({ "eventType": "x", "payload": { "own": 1 } })).await.json(202)["payload"],
        json!({ "own": 1 })
    );
    assert_eq!(registry.deliver(200, b"").await, 4, "only this endpoint gets them");
    send(json!({ "eventType": "a b" })).await.invalid(&["body", "eventType"]);
    registry.patch("/app/shop/endpoint/r", json!({ "disabled": true })).await.json(200);
    send(json!({ "eventType": "x" })).await.error(400, "endpoint_disabled");
}
