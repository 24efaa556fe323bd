//! Delivered requests: headers, signatures, payload bytes, and that each event is sent once.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use standardwebhooks::Webhook;

use crate::harness::{Event, ReceivedRequest, Receiver, SECRET, Sandbox, wait_until};

on_each_store! {
    s0_fr003_ac1_event_enqueued_over_http_is_delivered_once_and_signed,
    payloads_reach_receivers_byte_for_byte,
    workers_that_share_a_database_send_each_event_once,
    generated_secret_is_created_once_and_kept,
}

/// Verifies the signature of a request with an independent implementation.
pub(crate) fn verify_signature(request: &ReceivedRequest, secret: &str) {
    let headers: HeaderMap = request
        .headers()
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
        .collect();
    Webhook::new(secret).unwrap().verify(request.body.as_bytes(), &headers).unwrap();
}

fn s0_fr003_ac1_event_enqueued_over_http_is_delivered_once_and_signed(sandbox: Sandbox) {
    let receiver = Receiver::responding(204);
    let service = sandbox.serve();
    let mut subscriber = service.subscribe(None);
    let event = Event::to(&receiver).with("payment_request_id", "pr_17").with("session_id", "s_4");
    let event_id = service.enqueue(&event);

    let request = receiver.wait_for_requests(1).remove(0);
    verify_signature(&request, SECRET);
    assert_eq!(request.line, "POST /hook HTTP/1.1");
    for (name, value) in [
        ("content-type", "application/json"),
        ("webhook-id", &event_id),
        ("idempotency-key", &event_id),
        ("posthaste-event-type", "invoice.paid"),
        ("posthaste-attempt", "1"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    assert_eq!(request.header("accept-encoding"), None);
    assert_eq!(request.header("traceparent"), None, "the event has no traceparent");

    let notice = subscriber.next_notice();
    assert_eq!(notice["topic"], "gateway:webhooks");
    assert_eq!(notice["type"], "WebhookDeliveredEvent");
    assert_eq!(notice["webhook_delivery_id"], event_id.as_str());
    assert_eq!((&notice["payment_request_id"], &notice["session_id"]), (&json!("pr_17"), &json!("s_4")));
    assert_eq!(notice["attempts"], 1);

    let event = service.event(&event_id);
    assert_eq!((&event["delivery_status"], &event["attempts"]), (&json!("delivered"), &json!(1)));
    let history = event["history"].as_array().unwrap();
    assert_eq!((history.len(), &history[0]["http_status"]), (1, &json!(204)));
    service.stop();
    assert_eq!(receiver.requests().len(), 1, "the event was sent again after a 2xx response");
}

fn payloads_reach_receivers_byte_for_byte(sandbox: Sandbox) {
    let payloads = [
        r#"{"z":1,"a":2,"m":{"y":0,"b":0}}"#,
        r#"{"one":1,"same":1.0,"longer":1.00,"short":1e2,"shout":1E+2,"zero":-0.0,"half":5e-1}"#,
        r#"{"beyond":123456789012345678901234567890,"fine":0.1000000000000000055511151231257827}"#,
        "{ \"spaced\" :\t[ 1 ,\n\t2 ] ,\r\n  \"end\" : null }",
        r#"{"escaped":"caf\u00e9 \/ \ud83d\ude00","plain":"café / 😀"}"#,
        r#"{"twice":1,"twice":2}"#,
        r#"[]"#,
        r#""only text""#,
        r#"null"#,
        r#"-12.50"#,
    ];
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let events = payloads.map(|payload| Event::to(&receiver).with_payload(payload));
    let event_ids = service.enqueue_all(&events);
    let single = service.enqueue(&events[3]);
    let requests = receiver.wait_for_requests(payloads.len() + 1);
    for (event_id, payload) in event_ids.iter().zip(payloads).chain([(&single, payloads[3])]) {
        let request = requests.iter().find(|request| request.event_id() == event_id).unwrap();
        assert_eq!(request.body, payload);
        verify_signature(request, SECRET);
    }
    service.stop();
}

fn workers_that_share_a_database_send_each_event_once(sandbox: Sandbox) {
    const EVENTS_EACH: usize = 100;
    let receivers: Vec<_> = (0..5).map(|_| Receiver::responding(200)).collect();
    let service = sandbox.serve();
    let others = [sandbox.start_worker(), sandbox.start_worker()];
    let events: Vec<_> =
        receivers.iter().flat_map(|receiver| vec![Event::to(receiver); EVENTS_EACH]).collect();
    let event_ids: BTreeSet<_> = service.enqueue_all(&events).into_iter().collect();
    wait_until("all events are delivered", || {
        (service.overview()["delivered_count"] == events.len()).then_some(())
    });
    let requests: Vec<_> = receivers.iter().flat_map(Receiver::requests).collect();
    let sent: BTreeSet<_> = requests.iter().map(|request| request.event_id().to_owned()).collect();
    assert_eq!(sent, event_ids);
    assert_eq!(requests.len(), events.len(), "an event was sent more than once");
    others.into_iter().for_each(|worker| drop(worker.stop()));
    service.stop();
}

fn generated_secret_is_created_once_and_kept(mut sandbox: Sandbox) {
    sandbox.remove_env("POSTHASTE_SIGNING_SECRET");
    let receiver = Receiver::responding(200);
    for round in 1..=2 {
        let service = sandbox.serve();
        service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
        assert_eq!(receiver.wait_for_requests(round).len(), round);
        service.stop();
    }
    let secret = sandbox.start(&["secret"]).allow_secrets().wait_for_exit().stdout;
    receiver.requests().iter().for_each(|request| verify_signature(request, secret.trim_end()));
}
