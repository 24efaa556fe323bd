//! Ending an event by hand, wherever it is.

use serde_json::{Value, json};

use crate::stage::{Event, Home, Receiver};

on_each_store! {
    s2_fr005_ac1_cancel_of_a_service_takes_an_optional_reason,
    s2_fr005_ac2_a_cancelled_event_is_not_sent_again,
    s2_fr005_ac2_a_result_that_comes_after_the_cancel_changes_nothing,
    s2_fr005_ac3_cancel_of_what_a_service_delivered_is_a_conflict,
}

fn s2_fr005_ac1_cancel_of_a_service_takes_an_optional_reason(home: Home) {
    let service = home.serve_with(&["--no-worker"]);
    let event = Event::to(&Receiver::answering(200));
    for (body, last_error) in [
        (r#"{"reason":"  wrong\ncustomer "}"#, "manual_cancelled: wrong customer"),
        ("{}", "manual_cancelled"),
        ("", "manual_cancelled"),
    ] {
        let event_id = service.enqueue(&event);
        let cancelled = service.cancel(&event_id, body).json(200);
        assert_eq!(
            (&cancelled["event_id"], &cancelled["delivery_status"]),
            (&json!(event_id), &json!("failed"))
        );
        assert_eq!(cancelled["last_error"], last_error);
    }
    let letters = service.get("/v1/webhook-outbox/dlq").json(200);
    let kinds: Vec<_> =
        letters["events"].as_array().unwrap().iter().map(|letter| letter["failure_kind"].clone()).collect();
    assert_eq!(kinds, ["cancelled"; 3]);
    service.stop();
}

fn s2_fr005_ac2_a_cancelled_event_is_not_sent_again(home: Home) {
    let home = home.with_fast_retries().with("BASE_RETRY_DELAY", "6");
    let receiver = Receiver::answering(500);
    let service = home.serve();
    let cancelled = service.enqueue(&Event::to(&receiver));
    service.attempted(&cancelled, 1);
    service.cancel(&cancelled, r#"{"reason":"wrong customer"}"#).json(200);
    // One that failed later gets its retry: by then the cancelled one would have had its own.
    let other = service.enqueue(&Event::to(&receiver));
    service.attempted(&other, 2);
    let shown = service.event(&cancelled);
    assert_eq!((&shown["delivery_status"], &shown["failure_kind"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!((&shown["attempts"], &shown["next_attempt_at"]), (&json!(1), &Value::Null));
    assert_eq!(receiver.count_of(&cancelled), 1);
    service.stop();
}

fn s2_fr005_ac2_a_result_that_comes_after_the_cancel_changes_nothing(home: Home) {
    let receiver = Receiver::holding(200);
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.received(1);
    service.cancel(&event_id, "").json(200);
    receiver.let_go();
    let metrics =
        service.metrics_when("a stale write is counted", |told| told["webhook_stale_writes_total"] > 0.0);
    assert_eq!(metrics["webhook_deliveries_total{outcome=\"delivered\"}"], 0.0);
    let shown = service.event(&event_id);
    assert_eq!(
        (&shown["delivery_status"], &shown["last_error"]),
        (&json!("failed"), &json!("manual_cancelled"))
    );
    let ended = service.stop();
    assert!(ended.stderr.contains("stale write refused"), "an operator can find out");
}

fn s2_fr005_ac3_cancel_of_what_a_service_delivered_is_a_conflict(home: Home) {
    let receiver = Receiver::answering(200);
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    service.delivered(&event_id);
    service.cancel(&event_id, "").refused(409, "webhook_outbox_event_not_cancellable");
    assert_eq!(service.event(&event_id)["delivery_status"], "delivered");
    service.stop();
}
