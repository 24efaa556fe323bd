//! Receivers that make trouble, and those beside them.

use serde_json::json;

use crate::stage::{Event, Home, Receiver, Reply};

on_each_store! {
    a_receiver_that_never_answers_does_not_delay_another,
    an_endpoint_that_is_gone_gets_one_request,
    a_receiver_that_asks_to_be_left_alone_is_left_alone,
    s1_circuit_a_service_stops_sending_to_a_receiver_that_fails_and_serves_the_others,
}

fn a_receiver_that_never_answers_does_not_delay_another(home: Home) {
    // Fewer slots than the silent receiver could fill.
    let home = home.with("POSTHASTE_CONCURRENCY", "12").with("HTTP_POOL_SIZE", "8");
    let (silent, well) = (Receiver::holding(200), Receiver::answering(200));
    let service = home.serve();
    let stuck = service.enqueue_all(&vec![Event::to(&silent); 40]);
    silent.received(8);
    for event_id in service.enqueue_all(&vec![Event::to(&well); 20]) {
        service.delivered(&event_id);
    }
    assert_eq!(silent.requests().len(), 8, "nothing was answered, so nothing more was sent");
    silent.let_go();
    stuck.iter().for_each(|event_id| drop(service.delivered(event_id)));
    assert_eq!((silent.requests().len(), silent.in_flight_max()), (40, 8));
    service.stop();
}

fn an_endpoint_that_is_gone_gets_one_request(home: Home) {
    let receiver = Receiver::scripted(|_, _| Reply::With(410, "content-type: text/plain", "moved out"));
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    let failed = service.failed(&event_id);
    assert_eq!((&failed["failure_kind"], &failed["attempts"]), (&json!("gone"), &json!(1)));
    assert_eq!(failed["last_error"], "HTTP 410: moved out");
    let counted = "webhook_dead_letters_total{kind=\"gone\"}";
    service.metrics_when("it is counted", |told| told[counted] == 1.0);
    service.stop();
    assert_eq!(receiver.requests().len(), 1);
}

fn a_receiver_that_asks_to_be_left_alone_is_left_alone(home: Home) {
    let home = home.with_fast_retries();
    let receiver = Receiver::scripted(|_, before| match before {
        0 => Reply::With(503, "retry-after: 3", "come back later"),
        _ => Reply::Status(200),
    });
    let other = Receiver::answering(200);
    let service = home.serve();
    let first = service.enqueue(&Event::to(&receiver));
    service.attempted(&first, 1);
    // New events for that receiver wait as well, those for others do not.
    let second = service.enqueue(&Event::to(&receiver));
    service.delivered(&service.enqueue(&Event::to(&other)));
    service.delivered(&first);
    service.delivered(&second);
    let requests = receiver.received(3);
    for again in &requests[1..] {
        let after = again.at.since(requests[0].at).as_secs_f64();
        assert!(after >= 2.9, "sent again after {after} s, though the receiver asked for 3 s");
    }
    service.stop();
}

fn s1_circuit_a_service_stops_sending_to_a_receiver_that_fails_and_serves_the_others(home: Home) {
    let home = home.with("HTTP_POOL_SIZE", "4");
    let (broken, well) = (Receiver::answering(503), Receiver::answering(200));
    let service = home.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&broken); 60]);
    service.metrics_when("the circuit is open", |told| told["webhook_circuit_open"] == 1.0);
    for event_id in service.enqueue_all(&vec![Event::to(&well); 30]) {
        service.delivered(&event_id);
    }
    let told = service.metrics_when("nothing is in flight", |told| told["webhook_in_flight"] == 0.0);
    assert_eq!(told["webhook_circuit_open"], 1.0);
    let sent = broken.requests().len();
    assert!((10..20).contains(&sent), "ten failures in a row open it, and a few were on their way: {sent}");
    let attempts = event_ids.iter().map(|event_id| service.event(event_id)["attempts"].as_u64().unwrap());
    assert_eq!(attempts.sum::<u64>(), sent as u64, "waiting for a circuit is no attempt");
    service.stop();
}
