//! The content of an event: its payload and headers, for operators alone, with a record of each look.

use http::Method;
use posthaste_domain::EndpointId;
use posthaste_domain::seal::{MasterKeys, NONCE_BYTES, SealedId};
use serde_json::json;

use crate::test_api::{
    EVENTS, OPERATOR, PRODUCER, TestApi, TestOptions, VIEWER, bearer, build_request, claim_all, event,
};

crate::on_every_store! {
    the_content_of_an_event_is_shown_and_each_look_is_recorded,
    a_long_payload_is_cut,
    a_payload_is_shown_without_headers_that_cannot_be_opened,
}

async fn the_content_of_an_event_is_shown_and_each_look_is_recorded(api: TestApi) {
    let mut new = event();
    new["payload"] = json!({"caf\u{e9}": 17});
    let event_id = api.pending_event(&new).await;
    let path = format!("{EVENTS}/{event_id}/content");
    let response = api.get(&path).await;
    assert_eq!(response.headers["cache-control"], "no-store");
    let content = response.json(200);
    let payload = content["payload"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(payload).unwrap(), new["payload"]);
    assert_eq!((&content["payload_encoding"], &content["truncated"]), (&json!("utf8"), &json!(false)));
    assert_eq!(content["payload_bytes"], payload.len());
    let headers = &content["headers"];
    assert_eq!((&headers["webhook-id"], &headers["idempotency-key"]), (&json!(event_id), &json!(event_id)));
    assert_eq!(headers["posthaste-event-type"], new["event_type"]);
    assert_eq!(
        (&content["content_type"], &headers["content-type"]),
        (&json!("application/json"), &json!("application/json"))
    );
    assert!(!content.to_string().contains("signature"), "{content}");
    assert_eq!(content["headers_error"], serde_json::Value::Null);
    api.get(&path).await.json(200);
    let audit = api.get(&format!("{EVENTS}/{event_id}")).await.json(200)["audit"].clone();
    let looks: Vec<_> =
        audit.as_array().unwrap().iter().map(|entry| (&entry["action"], &entry["actor"])).collect();
    assert_eq!(looks, [(&json!("view_content"), &json!("local")); 2]);
    api.get(&format!("{EVENTS}/unknown/content")).await.expect_error(404, "webhook_outbox_event_not_found");
    api.get(&format!("{path}?raw=1")).await.expect_error(400, "invalid_request");
}

async fn a_long_payload_is_cut(api: TestApi) {
    let mut new = event();
    new["payload"] = json!("x".repeat(300 << 10));
    let api = api.with_options(TestOptions { payload_bytes_max: 512 << 10, ..TestOptions::default() });
    let event_id = api.pending_event(&new).await;
    let content = api.get(&format!("{EVENTS}/{event_id}/content")).await.json(200);
    assert_eq!(content["truncated"], true);
    assert_eq!(content["payload"].as_str().unwrap().len(), 256 << 10);
    assert_eq!(content["payload_bytes"], (300 << 10) + 2);
}

async fn a_payload_is_shown_without_headers_that_cannot_be_opened(api: TestApi) {
    let endpoint_id = api.publish_to_endpoint().await.endpoint_id;
    let endpoint = EndpointId::parse(&endpoint_id).unwrap();
    let lost_key = MasterKeys::parse(&format!("lost:{}", "A".repeat(43) + "=")).unwrap();
    let sealed = lost_key.seal(SealedId::random([9; 16]), b"{}", [7; NONCE_BYTES]);
    api.store.endpoints().set_headers(endpoint.0, None, Some(&sealed)).await.unwrap();
    let event_id = claim_all(&api.store).await[0].event_id.to_string();
    let content = api.get(&format!("{EVENTS}/{event_id}/content")).await.json(200);
    assert_eq!(content["payload"], json!({ "amount": 1 }).to_string());
    assert!(content["headers_error"].as_str().unwrap().contains("cannot be opened"), "{content}");
    assert_eq!(content["headers"]["posthaste-event-type"], "invoice.paid");
}

#[tokio::test]
async fn only_operators_see_the_content() {
    let api = TestApi::on_memory().await.with_keys();
    let stored = api.post_with(EVENTS, &[bearer(PRODUCER)], event().to_string()).await.json(202);
    let path = format!("{EVENTS}/{}/content", stored["event_id"].as_str().unwrap());
    let get =
        async |key| api.send(build_request(Method::GET, &path, &[bearer(key)], String::new().into())).await;
    get(VIEWER).await.expect_error(403, "forbidden");
    get(PRODUCER).await.expect_error(403, "forbidden");
    get(OPERATOR).await.json(200);
}
