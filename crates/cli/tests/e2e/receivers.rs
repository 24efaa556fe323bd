//! Receivers that are slow, gone or failing, and their effect on other receivers.

use serde_json::json;

use crate::harness::{Event, Receiver, Reply, Sandbox, wait_until};

const UNSENT: &str = "requests were not sent for lack of a local resource; their events lose no attempt";

on_each_store! {
    receiver_that_never_responds_does_not_delay_others,
    lack_of_descriptors_costs_no_attempt_and_leaves_the_api_reachable,
    receiver_that_responds_gone_gets_one_request,
    receiver_that_sends_retry_after_gets_no_request_before_then,
    s1_circuit_service_stops_sending_to_a_failing_receiver_and_serves_others,
    events_that_an_open_circuit_holds_expire,
}

fn receiver_that_never_responds_does_not_delay_others(sandbox: Sandbox) {
    // The silent receiver has more events than there are slots.
    let sandbox = sandbox.with_env("POSTHASTE_CONCURRENCY", "12").with_env("HTTP_POOL_SIZE", "8");
    let (silent, healthy) = (Receiver::blocking(200), Receiver::responding(200));
    let service = sandbox.serve();
    let blocked = service.enqueue_all(&vec![Event::to(&silent); 40]);
    // The window of a receiver that has not answered yet.
    silent.wait_for_requests(2);
    for event_id in service.enqueue_all(&vec![Event::to(&healthy); 20]) {
        service.wait_until_delivered(&event_id);
    }
    assert_eq!(silent.requests().len(), 2, "the receiver got requests beyond its window");
    silent.release();
    blocked.iter().for_each(|event_id| drop(service.wait_until_delivered(event_id)));
    assert_eq!(silent.requests().len(), 40);
    assert!(silent.in_flight_max() <= 8, "{} requests in flight", silent.in_flight_max());
    service.stop();
}

fn lack_of_descriptors_costs_no_attempt_and_leaves_the_api_reachable(sandbox: Sandbox) {
    // Enough answers for the windows of the destinations and their host to grow beyond the descriptors.
    const ANSWERED: usize = 1_000;
    let receiver =
        Receiver::scripted(
            |_, earlier| {
                if earlier < ANSWERED { Reply::Status(200) } else { Reply::Blocked(200) }
            },
        );
    let service = sandbox.serve_with_open_files_max(128);
    let to = |number: usize| Event::to_url(&format!("{}/{}", receiver.url(), number % 20));
    for event_id in service.enqueue_all(&(0..ANSWERED).map(to).collect::<Vec<_>>()) {
        service.wait_until_delivered(&event_id);
    }
    let event_ids = service.enqueue_all(&(0..400).map(to).collect::<Vec<_>>());
    let unsent = service.wait_for_log(UNSENT, 1);
    assert_eq!((unsent.len(), &unsent[0]["resource"]), (1, &json!("open_files")), "{unsent:?}");
    let counter = "webhook_local_shortages_total{resource=\"open_files\"}";
    service.wait_for_metrics("the shortage is counted", |metrics| metrics[counter] > 0.0);
    let ready = service.get("/readyz").expect_json(200).to_string();
    assert!(ready.contains("slowed down"), "{ready}");
    receiver.release();
    for event_id in &event_ids {
        assert_eq!(service.wait_until_delivered(event_id)["attempts"], 1);
    }
    service.stop();
    assert_eq!(receiver.requests().len(), ANSWERED + 400);
}

fn receiver_that_responds_gone_gets_one_request(sandbox: Sandbox) {
    let receiver = Receiver::scripted(|_, _| Reply::Full(410, "content-type: text/plain", "moved out"));
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    let failed = service.wait_until_failed(&event_id);
    assert_eq!((&failed["failure_kind"], &failed["attempts"]), (&json!("gone"), &json!(1)));
    assert_eq!(failed["last_error"], "HTTP 410: moved out");
    let counter = "webhook_dead_letters_total{kind=\"gone\"}";
    service.wait_for_metrics("the dead letter is counted", |metrics| metrics[counter] == 1.0);
    service.stop();
    assert_eq!(receiver.requests().len(), 1);
}

fn receiver_that_sends_retry_after_gets_no_request_before_then(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries();
    let receiver = Receiver::scripted(|_, earlier| match earlier {
        0 => Reply::Full(503, "retry-after: 3", "come back later"),
        _ => Reply::Status(200),
    });
    let other = Receiver::responding(200);
    let service = sandbox.serve();
    let first = service.enqueue(&Event::to(&receiver));
    service.wait_for_attempts(&first, 1);
    // New events for this receiver wait too. Events for other receivers do not.
    let second = service.enqueue(&Event::to(&receiver));
    service.wait_until_delivered(&service.enqueue(&Event::to(&other)));
    service.wait_until_delivered(&first);
    service.wait_until_delivered(&second);
    let requests = receiver.wait_for_requests(3);
    for request in &requests[1..] {
        let after = request.received_at.duration_since(requests[0].received_at).as_secs_f64();
        assert!(after >= 2.9, "sent after {after} s, but Retry-After was 3 s");
    }
    service.stop();
}

fn s1_circuit_service_stops_sending_to_a_failing_receiver_and_serves_others(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("HTTP_POOL_SIZE", "4");
    let (broken, healthy) = (Receiver::responding(503), Receiver::responding(200));
    let service = sandbox.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&broken); 60]);
    service.wait_for_metrics("the circuit is open", |metrics| metrics["webhook_circuit_open"] == 1.0);
    for event_id in service.enqueue_all(&vec![Event::to(&healthy); 30]) {
        service.wait_until_delivered(&event_id);
    }
    let metrics =
        service.wait_for_metrics("no delivery is in flight", |metrics| metrics["webhook_in_flight"] == 0.0);
    assert_eq!(metrics["webhook_circuit_open"], 1.0);
    let sent = broken.requests().len();
    assert!(
        (10..20).contains(&sent),
        "ten failures in a row open the circuit, plus a few in flight: {sent} were sent"
    );
    let attempts = event_ids.iter().map(|event_id| service.event(event_id)["attempts"].as_u64().unwrap());
    assert_eq!(attempts.sum::<u64>(), sent as u64, "waiting for an open circuit consumed attempts");
    service.stop();
}

fn events_that_an_open_circuit_holds_expire(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("HTTP_POOL_SIZE", "4").with_env("POSTHASTE_EXPIRE_AFTER_SECONDS", "9");
    let broken = Receiver::responding(503);
    let service = sandbox.serve();
    service.enqueue_all(&vec![Event::to(&broken); 20]);
    // Workers report their circuits every five seconds. Only an event that expires after the report is known to be held.
    wait_until("the open circuit is reported", || {
        let listed = service.get("/v1/webhook-outbox/destinations?state=circuit_open").expect_json(200);
        (listed["destinations"].as_array().unwrap().len() == 1).then_some(())
    });
    let event_ids = service.enqueue_all(&vec![Event::to(&broken); 20]);
    let metrics = service.wait_for_metrics("every event has expired", |metrics| {
        metrics["webhook_dead_letters_total{kind=\"expired\"}"] == 40.0
    });
    assert_eq!(metrics["webhook_circuit_open"], 1.0);
    let sent = broken.requests().len();
    assert!(sent < 20, "the circuit was open, but {sent} requests were sent");
    for event_id in &event_ids {
        let event = service.event(event_id);
        assert_eq!(
            (&event["delivery_status"], &event["failure_kind"], &event["next_attempt_at"]),
            (&json!("failed"), &json!("expired"), &json!(null))
        );
        let last_error = event["last_error"].as_str().unwrap();
        assert!(last_error.starts_with("expired after 9 s"), "{last_error}");
        assert!(last_error.contains("held by the open circuit of its destination"), "{last_error}");
        let explanation = event["explanation"].as_str().unwrap();
        assert!(explanation.contains("because it had not been delivered in time"), "{explanation}");
    }
    let requeued = service.requeue(&event_ids[0]).expect_json(200);
    assert_eq!(requeued["delivery_status"], "pending", "the time starts over");
    service.stop();
}
