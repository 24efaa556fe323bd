//! Cancelling an event in each of its states.

use serde_json::{Value, json};

use crate::harness::{Event, Receiver, Sandbox};

on_each_store! {
    s2_fr005_ac1_cancel_through_a_service_takes_an_optional_reason,
    s2_fr005_ac2_cancelled_event_is_not_sent_again,
    s2_fr005_ac2_result_that_arrives_after_the_cancel_changes_nothing,
    s2_fr005_ac3_cancel_of_an_event_that_a_service_delivered_is_a_conflict,
}

fn s2_fr005_ac1_cancel_through_a_service_takes_an_optional_reason(sandbox: Sandbox) {
    let service = sandbox.serve_with(&["--no-worker"]);
    let event = Event::to(&Receiver::responding(200));
    for (body, last_error) in [
        (r#"{"reason":"  wrong\ncustomer "}"#, "manual_cancelled: wrong customer"),
        ("{}", "manual_cancelled"),
        ("", "manual_cancelled"),
    ] {
        let event_id = service.enqueue(&event);
        let cancelled = service.cancel(&event_id, body).expect_json(200);
        assert_eq!(
            (&cancelled["event_id"], &cancelled["delivery_status"]),
            (&json!(event_id), &json!("failed"))
        );
        assert_eq!(cancelled["last_error"], last_error);
    }
    let dead_letters = service.get("/v1/webhook-outbox/dlq").expect_json(200);
    let kinds: Vec<_> = dead_letters["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dead_letter| dead_letter["failure_kind"].clone())
        .collect();
    assert_eq!(kinds, ["cancelled"; 3]);
    service.stop();
}

fn s2_fr005_ac2_cancelled_event_is_not_sent_again(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries().with_env("BASE_RETRY_DELAY", "6");
    let receiver = Receiver::responding(500);
    let service = sandbox.serve();
    let cancelled = service.enqueue(&Event::to(&receiver));
    service.wait_for_attempts(&cancelled, 1);
    service.cancel(&cancelled, r#"{"reason":"wrong customer"}"#).expect_json(200);
    // Another event fails later and is retried. The retry of the cancelled event would have been due before that.
    let other = service.enqueue(&Event::to(&receiver));
    service.wait_for_attempts(&other, 2);
    let event = service.event(&cancelled);
    assert_eq!((&event["delivery_status"], &event["failure_kind"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!((&event["attempts"], &event["next_attempt_at"]), (&json!(1), &Value::Null));
    assert_eq!(receiver.count_requests_of(&cancelled), 1);
    service.stop();
}

fn s2_fr005_ac2_result_that_arrives_after_the_cancel_changes_nothing(sandbox: Sandbox) {
    let receiver = Receiver::blocking(200);
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(1);
    service.cancel(&event_id, "").expect_json(200);
    receiver.release();
    let metrics = service
        .wait_for_metrics("a stale write is counted", |metrics| metrics["webhook_stale_writes_total"] > 0.0);
    assert_eq!(metrics["webhook_deliveries_total{outcome=\"delivered\"}"], 0.0);
    let event = service.event(&event_id);
    assert_eq!(
        (&event["delivery_status"], &event["last_error"]),
        (&json!("failed"), &json!("manual_cancelled"))
    );
    let history = event["history"].as_array().unwrap();
    assert_eq!(history.len(), 1, "the result is shown: {history:?}");
    assert_eq!((&history[0]["http_status"], &history[0]["applied"]), (&json!(200), &json!(false)));
    assert_eq!((&event["attempts"], &event["last_attempted_at"]), (&json!(0), &Value::Null));
    let explanation = event["explanation"].as_str().unwrap();
    let in_flight = "while attempt 1 was in flight: the receiver answered HTTP 200, which was not applied.";
    assert!(explanation.contains(in_flight), "{explanation}");
    let exit = service.stop();
    assert!(exit.stderr.contains("stale write refused"), "the log does not show the refused write");
}

fn s2_fr005_ac3_cancel_of_an_event_that_a_service_delivered_is_a_conflict(sandbox: Sandbox) {
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    service.wait_until_delivered(&event_id);
    service.cancel(&event_id, "").expect_error(409, "webhook_outbox_event_not_cancellable");
    assert_eq!(service.event(&event_id)["delivery_status"], "delivered");
    service.stop();
}
