//! The retry strategy `schedule`: exact delays, and the dead letter after the fifth failure.

use serde_json::{Value, json};

use crate::harness::{Event, Receiver, Sandbox};

on_each_store! {
    s4_s1_first_failure_of_a_service_is_due_again_in_exactly_30_seconds,
    s4_s2_fifth_failure_of_a_service_dead_letters_and_broadcasts,
}

fn s4_s1_first_failure_of_a_service_is_due_again_in_exactly_30_seconds(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("POSTHASTE_RETRY_STRATEGY", "schedule");
    let receiver = Receiver::responding(500);
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    let event = service.wait_for_attempts(&event_id, 1);
    assert_eq!((&event["delivery_status"], &event["attempts"]), (&json!("pending"), &json!(1)));
    assert_eq!((&event["max_attempts"], &event["last_error"]), (&json!(5), &json!("HTTP 500")));
    let time = |field: &str| event[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let delay = (time("next_attempt_at") - time("updated_at")).total(jiff::Unit::Second).unwrap();
    assert!(
        (15.0..=30.0).contains(&delay),
        "due {delay} s after the update; the schedule has 30 s from the end of the attempt"
    );
    service.stop();
}

/// Uses a schedule of one short step, which repeats.
fn s4_s2_fifth_failure_of_a_service_dead_letters_and_broadcasts(sandbox: Sandbox) {
    let sandbox = sandbox
        .with_env("POSTHASTE_RETRY_STRATEGY", "schedule")
        .with_env("POSTHASTE_RETRY_SCHEDULE_SECONDS", "1")
        .with_env("POSTHASTE_ALLOW_FAST_RETRIES", "true");
    let receiver = Receiver::responding(500);
    let service = sandbox.serve();
    let mut subscriber = service.subscribe(None);
    let event_id = service.enqueue(&Event::to(&receiver).with("session_id", "s_4"));
    let notice = subscriber.next_notice();
    assert_eq!((&notice["type"], &notice["topic"]), (&json!("WebhookDLQEvent"), &json!("gateway:webhooks")));
    assert_eq!((&notice["webhook_delivery_id"], &notice["session_id"]), (&json!(event_id), &json!("s_4")));
    let event = service.event(&event_id);
    assert_eq!((&event["delivery_status"], &event["attempts"]), (&json!("failed"), &json!(5)));
    assert_eq!((&event["failure_kind"], &event["next_attempt_at"]), (&json!("exhausted"), &Value::Null));
    service.stop();
    assert_eq!(receiver.requests().len(), 5);
}
