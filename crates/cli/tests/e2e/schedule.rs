//! The exact schedule, and the dead letter at its end.

use serde_json::{Value, json};

use crate::stage::{Event, Home, Receiver};

on_each_store! {
    s4_s1_first_failure_of_a_service_is_due_again_in_exactly_30_seconds,
    s4_s2_fifth_failure_of_a_service_dead_letters_and_broadcasts,
}

fn s4_s1_first_failure_of_a_service_is_due_again_in_exactly_30_seconds(home: Home) {
    let home = home.with("POSTHASTE_RETRY_STRATEGY", "schedule");
    let receiver = Receiver::answering(500);
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    let shown = service.attempted(&event_id, 1);
    assert_eq!((&shown["delivery_status"], &shown["attempts"]), (&json!("pending"), &json!(1)));
    assert_eq!((&shown["max_attempts"], &shown["last_error"]), (&json!(5), &json!("HTTP 500")));
    let moment = |field: &str| shown[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let delay = (moment("next_attempt_at") - moment("updated_at")).total(jiff::Unit::Second).unwrap();
    assert!((15.0..=30.0).contains(&delay), "due in {delay} s; from the end of the attempt it is 30 s");
    service.stop();
}

/// The shape of the schedule with shorter steps: its last one repeats.
fn s4_s2_fifth_failure_of_a_service_dead_letters_and_broadcasts(home: Home) {
    let home = home
        .with("POSTHASTE_RETRY_STRATEGY", "schedule")
        .with("POSTHASTE_RETRY_SCHEDULE_SECONDS", "1")
        .with("POSTHASTE_ALLOW_FAST_RETRIES", "true");
    let receiver = Receiver::answering(500);
    let service = home.serve();
    let mut follower = service.follow(None);
    let event_id = service.enqueue(&Event::to(&receiver).with("session_id", "s_4"));
    let notice = follower.next();
    assert_eq!((&notice["type"], &notice["topic"]), (&json!("WebhookDLQEvent"), &json!("gateway:webhooks")));
    assert_eq!((&notice["webhook_delivery_id"], &notice["session_id"]), (&json!(event_id), &json!("s_4")));
    let shown = service.event(&event_id);
    assert_eq!((&shown["delivery_status"], &shown["attempts"]), (&json!("failed"), &json!(5)));
    assert_eq!((&shown["failure_kind"], &shown["next_attempt_at"]), (&json!("exhausted"), &Value::Null));
    service.stop();
    assert_eq!(receiver.requests().len(), 5);
}
