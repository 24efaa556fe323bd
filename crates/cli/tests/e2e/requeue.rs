//! Retries, dead letters, and requeues by an operator.

use serde_json::{Value, json};

use crate::delivery::verify_signature;
use crate::harness::{Event, Receiver, Reply, SECRET, Sandbox};

on_each_store! {
    s2_fr004_ac2_requeued_dead_letter_starts_over_and_is_delivered,
    s2_fr004_ac3_requeue_of_a_delivered_or_in_flight_event_is_a_conflict,
    s2_fr003_ac1_dead_letters_of_a_service_are_listed_latest_first_and_page_by_page,
}

/// Returns the seconds between two times of a response.
fn seconds_between(from: &Value, to: &Value) -> f64 {
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    (time(to) - time(from)).total(jiff::Unit::Second).unwrap()
}

fn s2_fr004_ac2_requeued_dead_letter_starts_over_and_is_delivered(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries();
    let receiver = Receiver::scripted(|_, earlier| match earlier {
        0..3 => Reply::Full(500, "content-type: text/plain", "the ledger is closed"),
        _ => Reply::Status(200),
    });
    let service = sandbox.serve();
    let mut subscriber = service.subscribe(None);
    let event_id = service.enqueue(&Event::to(&receiver).with("max_attempts", 3).with("session_id", "s_4"));

    let failed = service.wait_until_failed(&event_id);
    assert_eq!((&failed["attempts"], &failed["max_attempts"]), (&json!(3), &json!(3)));
    assert_eq!(failed["failure_kind"], "exhausted");
    assert_eq!(failed["last_error"], "HTTP 500: the ledger is closed");
    assert_eq!(failed["next_attempt_at"], Value::Null);
    let history = failed["history"].as_array().unwrap();
    for (retry, delay) in [(1, 1.0), (2, 2.0)] {
        let waited = seconds_between(&history[retry - 1]["started_at"], &history[retry]["started_at"]);
        assert!(waited >= delay, "retry {retry} after {waited} s");
    }
    let metrics = service.metrics();
    assert_eq!(
        (metrics["webhook_retry_delay_count"], metrics["webhook_retry_delay_sum"]),
        (2.0, 3.0),
        "1 s and 2 s"
    );
    let notice = subscriber.next_notice();
    assert_eq!((&notice["type"], &notice["attempts"]), (&json!("WebhookDLQEvent"), &json!(3)));
    assert_eq!((&notice["webhook_delivery_id"], &notice["session_id"]), (&json!(event_id), &json!("s_4")));

    let requeued = service.requeue(&event_id).expect_json(200);
    assert_eq!((&requeued["event_id"], &requeued["delivery_status"]), (&json!(event_id), &json!("pending")));
    let delivered = service.wait_until_delivered(&event_id);
    assert_eq!(delivered["attempts"], 1, "the attempts were not reset");
    assert_eq!((&delivered["last_error"], &delivered["failure_kind"]), (&Value::Null, &Value::Null));
    assert_eq!(subscriber.next_notice()["type"], "WebhookDeliveredEvent");

    let requests = receiver.wait_for_requests(4);
    let attempts: Vec<_> =
        requests.iter().map(|request| request.header("posthaste-attempt").unwrap()).collect();
    assert_eq!(attempts, ["1", "2", "3", "1"]);
    for request in &requests {
        verify_signature(request, SECRET);
        assert_eq!((request.event_id(), &request.body), (&*event_id, &requests[0].body));
    }
    service.stop();
    assert_eq!(receiver.requests().len(), 4);
}

fn s2_fr004_ac3_requeue_of_a_delivered_or_in_flight_event_is_a_conflict(sandbox: Sandbox) {
    let receiver =
        Receiver::scripted(|_, earlier| if earlier == 0 { Reply::Status(200) } else { Reply::Blocked(200) });
    let service = sandbox.serve();
    let delivered = service.enqueue(&Event::to(&receiver));
    service.wait_until_delivered(&delivered);
    let in_flight = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(2);
    for (event_id, state) in [(&delivered, "delivered"), (&in_flight, "pending")] {
        let message = service.requeue(event_id).expect_error(409, "webhook_outbox_event_not_requeueable");
        assert!(message.contains(state), "{message}");
    }
    service.requeue("unknown").expect_error(404, "webhook_outbox_event_not_found");
    receiver.release();
    service.wait_until_delivered(&in_flight);
    service.stop();
    assert_eq!(receiver.requests().len(), 2, "a refused requeue sent the event");
}

fn s2_fr003_ac1_dead_letters_of_a_service_are_listed_latest_first_and_page_by_page(sandbox: Sandbox) {
    let receiver = Receiver::responding(422);
    let service = sandbox.serve();
    let event = Event::to(&receiver).with("max_attempts", 1).with("payment_request_id", "pr_17");
    let event_ids: Vec<_> = (0..3)
        .map(|_| {
            let event_id = service.enqueue(&event);
            service.wait_until_failed(&event_id);
            event_id
        })
        .collect();
    let (mut listed, mut path) = (vec![], "/v1/webhook-outbox/dlq?limit=2".to_owned());
    loop {
        let page = service.get(&path).expect_json(200);
        let dead_letters = page["events"].as_array().unwrap();
        listed.extend(dead_letters.iter().map(|event| event["event_id"].as_str().unwrap().to_owned()));
        for event in dead_letters {
            assert_eq!((&event["last_error"], &event["attempts"]), (&json!("HTTP 422"), &json!(1)));
            assert_eq!(event["payment_request_id"], "pr_17");
            assert!(event.get("payload").is_none());
        }
        assert!(listed.len() <= event_ids.len(), "the pages repeat events: {listed:?}");
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/webhook-outbox/dlq?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert!(listed.iter().eq(event_ids.iter().rev()), "listed {listed:?}, enqueued {event_ids:?}");
    for limit in ["0", "201", "-1", "many"] {
        service.get(&format!("/v1/webhook-outbox/dlq?limit={limit}")).expect_error(400, "invalid_request");
    }
    service.stop();
}
