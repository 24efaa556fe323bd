//! Failing, backing off, ending as a dead letter, and being sent again by an operator.

use serde_json::{Value, json};

use crate::delivery::verify;
use crate::stage::{Event, Home, Receiver, Reply, SECRET};

on_each_store! {
    s2_fr004_ac2_a_dead_letter_that_is_requeued_starts_over_and_is_delivered,
    s2_fr004_ac3_requeue_of_what_a_service_delivers_is_a_conflict,
    s2_fr003_ac1_dead_letters_of_a_service_are_listed_latest_first_and_page_by_page,
}

/// Between two moments of an answer, in seconds.
fn seconds(from: &Value, to: &Value) -> f64 {
    let moment = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    (moment(to) - moment(from)).total(jiff::Unit::Second).unwrap()
}

fn s2_fr004_ac2_a_dead_letter_that_is_requeued_starts_over_and_is_delivered(home: Home) {
    let home = home.with_fast_retries();
    let receiver = Receiver::scripted(|_, before| match before {
        0..3 => Reply::With(500, "content-type: text/plain", "the ledger is closed"),
        _ => Reply::Status(200),
    });
    let service = home.serve();
    let mut follower = service.follow(None);
    let event_id = service.enqueue(&Event::to(&receiver).with("max_attempts", 3).with("session_id", "s_4"));

    let failed = service.failed(&event_id);
    assert_eq!((&failed["attempts"], &failed["max_attempts"]), (&json!(3), &json!(3)));
    assert_eq!(failed["failure_kind"], "exhausted");
    assert_eq!(failed["last_error"], "HTTP 500: the ledger is closed");
    assert_eq!(failed["next_attempt_at"], Value::Null);
    let history = failed["history"].as_array().unwrap();
    for (retry, delay) in [(1, 1.0), (2, 2.0)] {
        let waited = seconds(&history[retry - 1]["started_at"], &history[retry]["started_at"]);
        assert!(waited >= delay, "retry {retry} after {waited} s");
    }
    let told = service.metrics();
    assert_eq!(
        (told["webhook_retry_delay_count"], told["webhook_retry_delay_sum"]),
        (2.0, 3.0),
        "1 s and 2 s"
    );
    let notice = follower.next();
    assert_eq!((&notice["type"], &notice["attempts"]), (&json!("WebhookDLQEvent"), &json!(3)));
    assert_eq!((&notice["webhook_delivery_id"], &notice["session_id"]), (&json!(event_id), &json!("s_4")));

    let requeued = service.requeue(&event_id).json(200);
    assert_eq!((&requeued["event_id"], &requeued["delivery_status"]), (&json!(event_id), &json!("pending")));
    let delivered = service.delivered(&event_id);
    assert_eq!(delivered["attempts"], 1, "it started over");
    assert_eq!((&delivered["last_error"], &delivered["failure_kind"]), (&Value::Null, &Value::Null));
    assert_eq!(follower.next()["type"], "WebhookDeliveredEvent");

    let requests = receiver.received(4);
    let attempts: Vec<_> =
        requests.iter().map(|request| request.header("posthaste-attempt").unwrap()).collect();
    assert_eq!(attempts, ["1", "2", "3", "1"]);
    for request in &requests {
        verify(request, SECRET);
        assert_eq!((request.event_id(), &request.body), (&*event_id, &requests[0].body));
    }
    service.stop();
    assert_eq!(receiver.requests().len(), 4);
}

fn s2_fr004_ac3_requeue_of_what_a_service_delivers_is_a_conflict(home: Home) {
    let receiver =
        Receiver::scripted(|_, before| if before == 0 { Reply::Status(200) } else { Reply::Held(200) });
    let service = home.serve();
    let delivered = service.enqueue(&Event::to(&receiver));
    service.delivered(&delivered);
    let in_flight = service.enqueue(&Event::to(&receiver));
    receiver.received(2);
    for (event_id, state) in [(&delivered, "delivered"), (&in_flight, "pending")] {
        let message = service.requeue(event_id).refused(409, "webhook_outbox_event_not_requeueable");
        assert!(message.contains(state), "{message}");
    }
    service.requeue("nobody").refused(404, "webhook_outbox_event_not_found");
    receiver.let_go();
    service.delivered(&in_flight);
    service.stop();
    assert_eq!(receiver.requests().len(), 2, "a conflict sends nothing");
}

fn s2_fr003_ac1_dead_letters_of_a_service_are_listed_latest_first_and_page_by_page(home: Home) {
    let receiver = Receiver::answering(422);
    let service = home.serve();
    let event = Event::to(&receiver).with("max_attempts", 1).with("payment_request_id", "pr_17");
    let event_ids: Vec<_> = (0..3)
        .map(|_| {
            let event_id = service.enqueue(&event);
            service.failed(&event_id);
            event_id
        })
        .collect();
    let (mut listed, mut path) = (vec![], "/v1/webhook-outbox/dlq?limit=2".to_owned());
    loop {
        let page = service.get(&path).json(200);
        let letters = page["events"].as_array().unwrap();
        listed.extend(letters.iter().map(|letter| letter["event_id"].as_str().unwrap().to_owned()));
        for letter in letters {
            assert_eq!((&letter["last_error"], &letter["attempts"]), (&json!("HTTP 422"), &json!(1)));
            assert_eq!(letter["payment_request_id"], "pr_17");
            assert!(letter.get("payload").is_none());
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/webhook-outbox/dlq?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert!(listed.iter().eq(event_ids.iter().rev()), "{listed:?} of {event_ids:?}");
    for limit in ["0", "201", "-1", "many"] {
        service.get(&format!("/v1/webhook-outbox/dlq?limit={limit}")).refused(400, "invalid_request");
    }
    service.stop();
}
