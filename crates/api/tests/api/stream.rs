//! The notice stream, over a real connection where that matters.

mod client;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt as _;
use posthaste_engine::{Clock as _, TokioClock};
use serde_json::{Value, json};

use crate::test_api::{
    DLQ, EVENTS, Fault, FaultyStore, STREAM, TestApi, VIEWER, bearer, build_request, claim_all, event,
    header, http_status, memory_at, pause_briefly, settle, within_a_minute,
};
use client::StreamClient;

crate::on_every_store! {
    s4_a1_every_terminal_state_is_streamed_over_http,
    a_client_that_reconnects_gets_missed_notices_once_and_in_order,
    a_disabled_endpoint_is_streamed_with_its_application_and_the_reason,
}

async fn s4_a1_every_terminal_state_is_streamed_over_http(api: TestApi) {
    let mut client = StreamClient::connect(&api, None).await;
    let mut full = event();
    for reference in ["payment_request_id", "webhook_id", "session_id"] {
        full[reference] = json!(format!("{reference}-17"));
    }
    let delivered = api.delivered_event(&full).await;
    let received = client.next().await;
    assert_eq!(received.event, "WebhookDeliveredEvent");
    let mut notice = received.data.clone();
    let at = notice.as_object_mut().unwrap().remove("at").unwrap();
    assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
    assert_eq!(
        notice,
        json!({
            "topic": "gateway:webhooks", "type": "WebhookDeliveredEvent", "webhook_delivery_id": delivered,
            "event_type": full["event_type"], "destination_url": full["destination_url"],
            "webhook_id": "webhook_id-17", "session_id": "session_id-17",
            "payment_request_id": "payment_request_id-17", "attempts": 1, "failure_kind": null,
        })
    );
    let dead = api.dead_lettered_event(&event()).await;
    let received = client.next().await;
    assert_eq!(
        (received.event.as_str(), &received.data["webhook_delivery_id"]),
        ("WebhookDLQEvent", &json!(dead))
    );
    assert_eq!(received.data["webhook_id"], Value::Null);
    assert_eq!(received.data["failure_kind"], "gone");
    let cancelled = api.pending_event(&event()).await;
    api.post_empty(&format!("{EVENTS}/{cancelled}/cancel")).await.json(200);
    let received = client.next().await;
    assert_eq!(
        (received.event.as_str(), &received.data["webhook_delivery_id"]),
        ("WebhookDLQEvent", &json!(cancelled))
    );
    assert_eq!(received.data["attempts"], 0);
    assert_eq!(received.data["failure_kind"], "cancelled");
}

async fn a_client_that_reconnects_gets_missed_notices_once_and_in_order(api: TestApi) {
    api.delivered_event(&event()).await;
    let mut first = StreamClient::connect(&api, None).await;
    let seen = api.delivered_event(&event()).await;
    let received = first.next().await;
    assert_eq!(
        received.data["webhook_delivery_id"],
        json!(seen),
        "notices from before the connection are not sent"
    );
    drop(first);
    let mut missed = Vec::new();
    for _ in 0..5 {
        missed.push(api.delivered_event(&event()).await);
    }
    let mut second = StreamClient::connect(&api, Some(&received.id)).await;
    missed.push(api.delivered_event(&event()).await);
    for event_id in &missed {
        assert_eq!(second.next().await.data["webhook_delivery_id"], json!(event_id));
    }
    missed.push(api.delivered_event(&event()).await);
    assert_eq!(
        second.next().await.data["webhook_delivery_id"],
        json!(missed[6]),
        "missed notices are followed by new ones"
    );
}

async fn a_disabled_endpoint_is_streamed_with_its_application_and_the_reason(api: TestApi) {
    let mut client = StreamClient::connect(&api, None).await;
    let published = api.publish_to_endpoint().await;
    let lease = claim_all(&api.store).await.remove(0);
    settle(&api.store, &lease, http_status(410)).await;
    let dead = client.next().await;
    assert_eq!(dead.event, "WebhookDLQEvent");
    let of_disabled = ["endpoint_id", "app_id", "reason"];
    assert!(of_disabled.iter().all(|field| dead.data.get(field).is_none()), "{}", dead.data);
    let disabled = client.next().await;
    assert_eq!(disabled.event, "WebhookEndpointDisabledEvent");
    let mut notice = disabled.data;
    assert!(notice.as_object_mut().unwrap().remove("at").unwrap().is_string());
    assert_eq!(
        notice,
        json!({
            "topic": "gateway:webhooks", "type": "WebhookEndpointDisabledEvent",
            "webhook_delivery_id": lease.event_id.as_str(), "webhook_id": published.endpoint_id,
            "event_type": "invoice.paid", "destination_url": "https://shop.example/hook",
            "session_id": null, "payment_request_id": null, "attempts": 1, "failure_kind": null,
            "endpoint_id": published.endpoint_id, "app_id": published.app_id, "reason": "gone",
        })
    );
}

#[tokio::test]
async fn a_stream_begins_immediately_and_forbids_buffering() {
    let api = TestApi::on_memory().await;
    let client = StreamClient::connect(&api, None).await;
    let head = client.head.to_ascii_lowercase();
    for part in
        ["200 ok", "content-type: text/event-stream", "x-accel-buffering: no", "cache-control: no-store"]
    {
        assert!(head.contains(part), "{head}");
    }
}

/// Opens a stream without a connection. The test reads it frame by frame.
async fn open(api: &TestApi) -> Body {
    use tower::ServiceExt as _;
    let request = build_request(Method::GET, STREAM, &[], Body::empty());
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    response.into_body()
}

async fn frame(body: &mut Body) -> Option<String> {
    let frame = within_a_minute(body.frame()).await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(frame.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_a_comment_every_15_seconds() {
    let api = TestApi::on_memory().await;
    let mut body = open(&api).await;
    let first_block = frame(&mut body).await.unwrap();
    assert!(first_block.contains("retry: 1000\n") && first_block.contains("id: 0:0\n"), "{first_block}");
    let clock = TokioClock::start();
    for beat in 1..=3 {
        let comment = frame(&mut body).await.unwrap();
        assert!(comment.starts_with(':'), "{comment:?}");
        assert_eq!(clock.monotonic().as_secs(), 15 * beat);
    }
}

#[tokio::test]
async fn a_slow_client_falls_back_to_the_log_and_misses_nothing() {
    let (store, _) = memory_at(1_700_000_000);
    let api = TestApi::on_store(Arc::new(store), Arc::new(()));
    let mut slow = open(&api).await;
    let mut fast = StreamClient::connect(&api, None).await;
    let count = 1_500;
    for _ in 0..3 {
        let many = json!(vec![event(); 500]).to_string();
        api.post(EVENTS, many).await.json(202);
        for lease in claim_all(&api.store).await {
            settle(&api.store, &lease, http_status(200)).await;
        }
    }
    // The fast client has received everything, so the publisher has overtaken the slow one.
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(fast.next().await.id);
    }
    frame(&mut slow).await.expect("a stream sends its first block immediately");
    let mut ids = Vec::new();
    while ids.len() < count {
        let text = frame(&mut slow).await.expect("the stream continues");
        ids.extend(text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned));
    }
    let first_difference = ids.iter().zip(&all).find(|(slow, fast)| slow != fast);
    assert_eq!(first_difference, None, "both clients must receive the same notices in the same order");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_disconnected() {
    let api = TestApi::on_memory().await;
    let mut body = open(&api).await;
    for _ in 0..100 {
        api.delivered_event(&event()).await;
    }
    TokioClock::start().sleep(Duration::from_secs(60)).await;
    let mut received = 0;
    while frame(&mut body).await.is_some() {
        received += 1;
        assert!(received < 100, "only queued notices may arrive before the end");
    }
    assert!(received > 0);
}

#[tokio::test]
async fn the_number_of_streams_is_limited_and_a_closed_stream_frees_its_permit() {
    let api = TestApi::on_memory().await;
    let mut bodies = Vec::new();
    for _ in 0..256 {
        bodies.push(open(&api).await);
    }
    let response = api.get(STREAM).await;
    let (message, _) = response.expect_error(503, "unavailable");
    assert!(message.contains("maximum number of streams"), "{message}");
    assert_eq!(response.header("retry-after"), Some("1"));
    bodies.pop();
    while api.get_head(STREAM).await.status.as_u16() == 503 {
        pause_briefly().await;
    }
}

#[tokio::test]
async fn ending_the_streams_closes_them_and_rejects_new_ones() {
    let api = TestApi::on_memory().await;
    let mut client = StreamClient::connect(&api, None).await;
    let mut body = open(&api).await;
    frame(&mut body).await.unwrap();
    api.streams.end();
    assert_eq!(frame(&mut body).await, None);
    assert!(client.wait_for_end().await, "the connection is closed cleanly");
    let (message, _) = api.get(STREAM).await.expect_error(503, "unavailable");
    assert!(message.contains("shutting down"), "{message}");
    api.get(DLQ).await.json(200);
}

#[tokio::test]
async fn a_graceful_shutdown_does_not_wait_for_ended_streams() {
    let api = TestApi::on_memory().await;
    let (mut client, server) = StreamClient::connect_to_own_server(&api).await;
    api.streams.end();
    assert!(client.wait_for_end().await);
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_disconnects_before_the_first_notice_misses_none() {
    let api = TestApi::on_memory().await;
    api.delivered_event(&event()).await;
    let first = StreamClient::connect(&api, None).await;
    let resume_from = first.first_id.clone();
    drop(first);
    let event_id = api.delivered_event(&event()).await;
    let mut second = StreamClient::connect(&api, Some(&resume_from)).await;
    assert_eq!(second.next().await.data["webhook_delivery_id"], json!(event_id));
}

#[tokio::test]
async fn the_id_zero_streams_the_whole_log() {
    let api = TestApi::on_memory().await;
    let mut all = Vec::new();
    for _ in 0..450 {
        all.push(api.delivered_event(&event()).await);
    }
    let mut client = StreamClient::connect(&api, Some("0:0")).await;
    for event_id in all {
        assert_eq!(client.next().await.data["webhook_delivery_id"], json!(event_id));
    }
}

#[tokio::test]
async fn an_invalid_last_event_id_is_rejected() {
    let api = TestApi::on_memory().await;
    for id in [
        "yesterday",
        "",
        "1",
        "1:",
        ":1",
        "1:2:3",
        "1.5:2",
        "99999999999999999999:1",
        "-1:0",
        "0:-1",
        " ",
        "1:x",
    ] {
        let request = build_request(Method::GET, STREAM, &[header("last-event-id", id)], Body::empty());
        let (_, details) = api.send(request).await.expect_error(400, "invalid_request");
        assert_eq!(details, json!({ "header": "last-event-id" }), "{id}");
    }
}

#[tokio::test]
async fn an_id_beyond_the_end_of_the_log_is_reported_and_streams_new_notices_only() {
    let api = TestApi::on_memory().await;
    api.delivered_event(&event()).await;
    let mut client = StreamClient::connect(&api, Some("9000000000:0")).await;
    let reset = client.next().await;
    assert_eq!((&*reset.event, &reset.id), ("NoticeLogResetEvent", &client.first_id));
    assert_eq!(reset.data["type"], json!("NoticeLogResetEvent"));
    let event_id = api.delivered_event(&event()).await;
    assert_eq!(client.next().await.data["webhook_delivery_id"], json!(event_id));
}

#[tokio::test]
async fn a_stream_needs_a_key_with_read_permission() {
    let api = TestApi::on_memory().await.with_keys();
    api.get(STREAM).await.expect_error(401, "unauthorized");
    api.get_as(crate::test_api::PRODUCER, STREAM).await.expect_error(403, "forbidden");
    let mut client = StreamClient::connect_with(&api, &[bearer(VIEWER)]).await;
    api.streams.end();
    assert!(client.wait_for_end().await);
}

#[tokio::test]
async fn a_stream_that_cannot_begin_returns_an_error() {
    FaultyStore::api(Fault::Unavailable).get(STREAM).await.expect_error(503, "unavailable");
}
