//! The topic, followed over a real connection where that matters.

mod client;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt as _;
use posthaste_engine::{Clock as _, TokioClock};
use serde_json::{Value, json};

use crate::stage::{
    DLQ, EVENTS, Fault, Faulty, STREAM, Stage, VIEWER, bearer, call, claim_all, event, header, memory_at,
    moment, settle, soon, status,
};
use client::Follower;

crate::on_every_store! {
    s4_a1_every_end_of_an_event_is_followed_over_http,
    a_follower_that_comes_back_gets_what_it_missed_once_and_in_order,
}

async fn s4_a1_every_end_of_an_event_is_followed_over_http(stage: Stage) {
    let mut follower = Follower::connect(&stage, None).await;
    let mut full = event();
    for reference in ["payment_request_id", "webhook_id", "session_id"] {
        full[reference] = json!(format!("{reference}-17"));
    }
    let delivered = stage.delivered(&full).await;
    let told = follower.next().await;
    assert_eq!(told.event, "WebhookDeliveredEvent");
    let mut notice = told.data.clone();
    let at = notice.as_object_mut().unwrap().remove("at").unwrap();
    assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
    assert_eq!(
        notice,
        json!({
            "topic": "gateway:webhooks", "type": "WebhookDeliveredEvent", "webhook_delivery_id": delivered,
            "webhook_id": "webhook_id-17", "session_id": "session_id-17",
            "payment_request_id": "payment_request_id-17", "attempts": 1,
        })
    );
    let dead = stage.dead_lettered(&event()).await;
    let told = follower.next().await;
    assert_eq!((told.event.as_str(), &told.data["webhook_delivery_id"]), ("WebhookDLQEvent", &json!(dead)));
    assert_eq!(told.data["webhook_id"], Value::Null);
    let cancelled = stage.pending(&event()).await;
    stage.act(&format!("{EVENTS}/{cancelled}/cancel")).await.json(200);
    let told = follower.next().await;
    assert_eq!(
        (told.event.as_str(), &told.data["webhook_delivery_id"]),
        ("WebhookDLQEvent", &json!(cancelled))
    );
    assert_eq!(told.data["attempts"], 0);
}

async fn a_follower_that_comes_back_gets_what_it_missed_once_and_in_order(stage: Stage) {
    stage.delivered(&event()).await;
    let mut first = Follower::connect(&stage, None).await;
    let seen = stage.delivered(&event()).await;
    let told = first.next().await;
    assert_eq!(told.data["webhook_delivery_id"], json!(seen), "nothing from before");
    drop(first);
    let mut missed = Vec::new();
    for _ in 0..5 {
        missed.push(stage.delivered(&event()).await);
    }
    let mut second = Follower::connect(&stage, Some(&told.id)).await;
    missed.push(stage.delivered(&event()).await);
    for event_id in &missed {
        assert_eq!(second.next().await.data["webhook_delivery_id"], json!(event_id));
    }
    missed.push(stage.delivered(&event()).await);
    assert_eq!(second.next().await.data["webhook_delivery_id"], json!(missed[6]), "and then what is new");
}

#[tokio::test]
async fn a_stream_begins_at_once_and_is_not_to_be_buffered() {
    let stage = Stage::on_memory().await;
    let follower = Follower::connect(&stage, None).await;
    let head = follower.head.to_ascii_lowercase();
    for part in
        ["200 ok", "content-type: text/event-stream", "x-accel-buffering: no", "cache-control: no-store"]
    {
        assert!(head.contains(part), "{head}");
    }
}

/// A response that is read frame by frame, without a connection.
async fn open(stage: &Stage) -> Body {
    use tower::ServiceExt as _;
    let request = call(Method::GET, STREAM, &[], Body::empty());
    let response = stage.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    response.into_body()
}

async fn frame(body: &mut Body) -> Option<String> {
    let frame = soon(body.frame()).await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(frame.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_says_something_every_15_seconds() {
    let stage = Stage::on_memory().await;
    let mut body = open(&stage).await;
    let hello = frame(&mut body).await.unwrap();
    assert!(hello.contains("retry: 1000\n") && hello.contains("id: 0:0\n"), "{hello}");
    let clock = TokioClock::start();
    for beat in 1..=3 {
        let comment = frame(&mut body).await.unwrap();
        assert!(comment.starts_with(':'), "{comment:?}");
        assert_eq!(clock.monotonic().as_secs(), 15 * beat);
    }
}

#[tokio::test]
async fn a_slow_follower_falls_back_to_the_log_and_misses_nothing() {
    let (store, _) = memory_at(1_700_000_000);
    let stage = Stage::over(Arc::new(store), Arc::new(()));
    let mut slow = open(&stage).await;
    let mut quick = Follower::connect(&stage, None).await;
    let count = 1_500;
    for _ in 0..3 {
        let many = json!(vec![event(); 500]).to_string();
        stage.post(EVENTS, many).await.json(202);
        for lease in claim_all(&stage.store).await {
            settle(&stage.store, &lease, status(200)).await;
        }
    }
    // Whoever reads has read all of it, and so it was all published past the one who does not.
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(quick.next().await.id);
    }
    frame(&mut slow).await.expect("a stream begins at once");
    let mut ids = Vec::new();
    while ids.len() < count {
        let text = frame(&mut slow).await.expect("the stream goes on");
        ids.extend(text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned));
    }
    let differs = ids.iter().zip(&all).find(|(slow, quick)| slow != quick);
    assert_eq!(differs, None, "both are told the same, in the same order");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_reads_nothing_is_let_go() {
    let stage = Stage::on_memory().await;
    let mut body = open(&stage).await;
    for _ in 0..100 {
        stage.delivered(&event()).await;
    }
    TokioClock::start().sleep(Duration::from_secs(60)).await;
    let mut told = 0;
    while frame(&mut body).await.is_some() {
        told += 1;
        assert!(told < 100, "what was queued, and then the end");
    }
    assert!(told > 0);
}

#[tokio::test]
async fn there_are_only_so_many_streams_and_a_place_is_given_back() {
    let stage = Stage::on_memory().await;
    let mut bodies = Vec::new();
    for _ in 0..256 {
        bodies.push(open(&stage).await);
    }
    let answer = stage.get(STREAM).await;
    let (message, _) = answer.refused(503, "unavailable");
    assert!(message.contains("as many streams"), "{message}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    bodies.pop();
    while stage.get_head(STREAM).await.status.as_u16() == 503 {
        moment().await;
    }
}

#[tokio::test]
async fn streams_end_when_the_service_does() {
    let stage = Stage::on_memory().await;
    let mut follower = Follower::connect(&stage, None).await;
    let mut body = open(&stage).await;
    frame(&mut body).await.unwrap();
    stage.streams.end();
    assert_eq!(frame(&mut body).await, None);
    assert!(follower.ended().await, "the connection is closed in good order");
    let (message, _) = stage.get(STREAM).await.refused(503, "unavailable");
    assert!(message.contains("shutting down"), "{message}");
    stage.get(DLQ).await.json(200);
}

#[tokio::test]
async fn a_graceful_shutdown_waits_for_no_stream() {
    let stage = Stage::on_memory().await;
    let (mut follower, serving) = Follower::connect_to_own_server(&stage).await;
    stage.streams.end();
    assert!(follower.ended().await);
    serving.stop().await;
}

#[tokio::test]
async fn a_follower_that_is_cut_off_before_the_first_notice_misses_none() {
    let stage = Stage::on_memory().await;
    stage.delivered(&event()).await;
    let first = Follower::connect(&stage, None).await;
    let place = first.began_at.clone();
    drop(first);
    let event_id = stage.delivered(&event()).await;
    let mut second = Follower::connect(&stage, Some(&place)).await;
    assert_eq!(second.next().await.data["webhook_delivery_id"], json!(event_id));
}

#[tokio::test]
async fn the_whole_log_is_there_for_whoever_asks_from_its_beginning() {
    let stage = Stage::on_memory().await;
    let mut all = Vec::new();
    for _ in 0..450 {
        all.push(stage.delivered(&event()).await);
    }
    let mut follower = Follower::connect(&stage, Some("0:0")).await;
    for event_id in all {
        assert_eq!(follower.next().await.data["webhook_delivery_id"], json!(event_id));
    }
}

#[tokio::test]
async fn a_place_that_is_none_is_refused() {
    let stage = Stage::on_memory().await;
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
        let request = call(Method::GET, STREAM, &[header("last-event-id", id)], Body::empty());
        let (_, details) = stage.send(request).await.refused(400, "invalid_request");
        assert_eq!(details, json!({ "header": "last-event-id" }), "{id}");
    }
}

#[tokio::test]
async fn a_place_beyond_the_end_of_the_log_follows_from_now_on() {
    let stage = Stage::on_memory().await;
    stage.delivered(&event()).await;
    let mut follower = Follower::connect(&stage, Some("9000000000:0")).await;
    let event_id = stage.delivered(&event()).await;
    assert_eq!(follower.next().await.data["webhook_delivery_id"], json!(event_id));
}

#[tokio::test]
async fn a_stream_needs_a_key_that_may_read() {
    let stage = Stage::on_memory().await.with_keys();
    stage.get(STREAM).await.refused(401, "unauthorized");
    stage.get_as(crate::stage::PRODUCER, STREAM).await.refused(403, "forbidden");
    let mut follower = Follower::connect_with(&stage, &[bearer(VIEWER)]).await;
    stage.streams.end();
    assert!(follower.ended().await);
}

#[tokio::test]
async fn a_stream_that_cannot_begin_is_an_error_like_any_other() {
    Faulty::stage(Fault::Unavailable).get(STREAM).await.refused(503, "unavailable");
}
