//! Limits of request bodies: size, time, and the number of large bodies in memory.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use posthaste_engine::{Clock as _, TokioClock};
use serde_json::{Value, json};

use crate::test_api::{EVENTS, OVERVIEW, PAYLOAD_BYTES_MAX, TestApi, event, pause_briefly};

/// An event with this payload.
fn with_payload(payload: Value) -> String {
    let mut event = event();
    event["payload"] = payload;
    event.to_string()
}

#[tokio::test]
async fn a_payload_up_to_its_maximum_size_is_accepted() {
    let api = TestApi::on_memory().await;
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    api.post(EVENTS, with_payload(text(PAYLOAD_BYTES_MAX))).await.json(202);
    let (message, details) = api
        .post(EVENTS, with_payload(text(PAYLOAD_BYTES_MAX + 1)))
        .await
        .expect_error(413, "payload_too_large");
    assert_eq!(message, "payload is 4097 bytes; at most 4096 are accepted");
    assert_eq!(details, json!({ "field": "payload" }));
    let many = format!("[{},{}]", event(), with_payload(text(PAYLOAD_BYTES_MAX + 1)));
    let (message, details) = api.post(EVENTS, many).await.expect_error(413, "payload_too_large");
    assert!(message.starts_with("event 1: payload is 4097 bytes"), "{message}");
    assert_eq!(details, json!({ "index": 1, "field": "payload" }));
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1);
}

#[tokio::test]
async fn a_body_up_to_its_maximum_size_is_accepted() {
    let api = TestApi::on_memory().await;
    let limit = 16 << 20;
    let padded = |bytes: usize| {
        let event = event().to_string();
        let padding = " ".repeat(bytes - event.len());
        event + &padding
    };
    api.post(EVENTS, padded(limit)).await.json(202);
    let (message, details) = api.post(EVENTS, padded(limit + 1)).await.expect_error(413, "payload_too_large");
    assert_eq!(message, "the body is larger than 16777216 bytes, the maximum for this request");
    assert_eq!(details, json!({ "bytes_max": limit }));
    // A chunked body without a length and without an end.
    let endless =
        Body::from_stream(stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20]))));
    api.post(EVENTS, endless).await.expect_error(413, "payload_too_large");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_rejected() {
    let api = TestApi::on_memory().await;
    let pieces = [Ok(Bytes::from_static(b"{\"event_type\"")), Err(std::io::Error::other("reset"))];
    let (message, _) =
        api.post(EVENTS, Body::from_stream(stream::iter(pieces))).await.expect_error(400, "invalid_request");
    assert!(message.contains("broke off"), "{message}");
}

/// A body that begins with `first_bytes` bytes and then sends one byte after every pause.
fn slow_body(first_bytes: usize, pause: Duration) -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b' '; first_bytes]))]);
    let more = stream::repeat(()).then(move |()| async move {
        TokioClock::start().sleep(pause).await;
        Ok(Bytes::from_static(b" "))
    });
    Body::from_stream(first.chain(more))
}

#[tokio::test(start_paused = true)]
async fn large_bodies_are_limited_and_small_ones_do_not_wait_for_them() {
    let api = TestApi::on_memory().await;
    let many = (0..17).map(|_| api.post(EVENTS, slow_body(2 << 20, Duration::from_secs(4))));
    let held = futures_util::future::join_all(many);
    let small = async {
        pause_briefly().await;
        api.enqueue(&event()).await.json(202);
    };
    let (responses, ()) = tokio::join!(held, small);
    let codes: Vec<u16> = responses.iter().map(|response| response.status.as_u16()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 408).count(), 16, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 503).count(), 1, "{codes:?}");
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_unfinished_bodies_do_not_stop_small_requests() {
    let api = TestApi::on_memory().await;
    let many = (0..300).map(|_| api.post(EVENTS, slow_body(1 << 20, Duration::from_secs(3_600))));
    let held = futures_util::future::join_all(many);
    let small = async {
        pause_briefly().await;
        for _ in 0..20 {
            api.enqueue(&event()).await.json(202);
        }
    };
    let (responses, ()) = tokio::join!(held, small);
    let codes: Vec<u16> = responses.iter().map(|response| response.status.as_u16()).collect();
    let held = codes.iter().filter(|code| **code == 408).count();
    assert!((40..=50).contains(&held), "{held} bodies were held until they had paused for too long");
    assert_eq!(codes.iter().filter(|code| **code == 503).count(), 300 - held, "{codes:?}");
    let refused = responses.iter().find(|response| response.status == 503).expect("most are refused");
    assert!(refused.headers.contains_key("retry-after"));
}

#[tokio::test(start_paused = true)]
async fn stalled_large_bodies_release_their_permits() {
    let api = TestApi::on_memory().await;
    let clock = TokioClock::start();
    let stalled = (0..16).map(|_| api.post(EVENTS, slow_body(2 << 20, Duration::from_secs(3_600))));
    let stalled = futures_util::future::join_all(stalled);
    let padded = event().to_string() + &" ".repeat(2 << 20);
    let whole = async {
        pause_briefly().await;
        api.post(EVENTS, padded).await.json(202);
        clock.monotonic()
    };
    let (responses, waited) = tokio::join!(stalled, whole);
    assert_eq!(waited.as_secs(), 5);
    for response in responses {
        response.expect_error(408, "request_timeout");
    }
    assert_eq!(clock.monotonic().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_small_body_may_pause() {
    let api = TestApi::on_memory().await;
    let whole = event().to_string();
    let (before, after) = whole.split_at(20);
    let pieces = [before, after].map(|piece| Bytes::from(piece.to_owned()));
    let slow = stream::iter(pieces).then(|piece| async move {
        TokioClock::start().sleep(Duration::from_secs(20)).await;
        Ok::<_, std::io::Error>(piece)
    });
    api.post(EVENTS, Body::from_stream(slow)).await.json(202);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out_after_a_minute() {
    let api = TestApi::on_memory().await;
    let stuck = || Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let clock = TokioClock::start();
    api.post(EVENTS, stuck()).await.expect_error(408, "request_timeout");
    assert_eq!(clock.monotonic().as_secs(), 60);
}
