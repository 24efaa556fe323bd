//! What a service tells Prometheus of a delivery gone well or wrong.

use std::collections::BTreeMap;

use crate::stage::{Event, Home, Receiver, Reply};

on_each_store! {
    s1_queue_depth_of_a_service_rises_with_a_retry_and_falls_with_its_delivery,
    s1_phase3_anomaly_a_service_shows_retries_that_are_too_fast_and_those_that_are_not,
    s1_latency_of_a_service_is_measured_where_the_receiver_is_slow,
    s1_dead_letter_rate_of_a_service_can_be_read_from_its_counters,
}

fn s1_queue_depth_of_a_service_rises_with_a_retry_and_falls_with_its_delivery(home: Home) {
    let home = home.with_fast_retries();
    let receiver = Receiver::scripted(|_, before| match before {
        0..3 => Reply::Status(500),
        _ => Reply::Held(200),
    });
    let service = home.serve();
    let retried = |count| move |told: &BTreeMap<_, _>| told.get("webhook_retry_queue_depth") == Some(&count);
    service.metrics_when("none is retried", retried(0.0));
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 3]);
    service.metrics_when("three are retried", retried(3.0));
    assert_eq!(service.overview()["retrying_count"], 3);
    receiver.let_go();
    event_ids.iter().for_each(|event_id| drop(service.delivered(event_id)));
    service.metrics_when("none is retried any more", retried(0.0));
    service.stop();
}

/// Retries that were scheduled sooner than the contract allows.
fn under_the_floor(told: &BTreeMap<String, f64>) -> f64 {
    let bound = |name: &str| {
        let bound = name.strip_prefix("webhook_retry_delay_bucket{le=\"")?.strip_suffix("\"}")?;
        bound.parse::<f64>().ok().filter(|bound| (29.0..30.0).contains(bound))
    };
    let mut buckets = told.iter().filter(|(name, _)| bound(name).is_some());
    let (_, count) = buckets.next().expect("a bucket ends just under 30 s");
    *count
}

fn s1_phase3_anomaly_a_service_shows_retries_that_are_too_fast_and_those_that_are_not(home: Home) {
    let store = home.store;
    for (home, fast) in [(home, 0.0), (Home::on(store).with_fast_retries(), 1.0)] {
        let receiver = Receiver::scripted(|_, before| Reply::Status(if before == 0 { 500 } else { 200 }));
        let service = home.serve();
        service.attempted(&service.enqueue(&Event::to(&receiver)), 1);
        let told = service.metrics_when("a delay is counted", |told| told["webhook_retry_delay_count"] > 0.0);
        assert_eq!((under_the_floor(&told), told["webhook_retry_delay_count"]), (fast, 1.0));
        let delay = told["webhook_retry_delay_sum"];
        let expected = if fast > 0.0 { 1.0..=1.0 } else { 48.0..=72.0 };
        assert!(expected.contains(&delay), "{delay} s");
        service.stop();
    }
}

fn s1_latency_of_a_service_is_measured_where_the_receiver_is_slow(home: Home) {
    let home = home.with("WEBHOOK_TIMEOUT_SECONDS", "5");
    let (fast, silent) = (Receiver::answering(200), Receiver::holding(200));
    let service = home.serve();
    let mut events = vec![Event::to(&fast); 3];
    events.push(Event::to(&silent));
    for event_id in service.enqueue_all(&events) {
        service.attempted(&event_id, 1);
    }
    let told = service.metrics_when("all are counted", |told| told["webhook_delivery_latency_count"] == 4.0);
    let within = |seconds: &str| told[&format!("webhook_delivery_latency_bucket{{le=\"{seconds}\"}}")];
    assert_eq!(within("5.0"), 3.0, "three were answered at once");
    assert_eq!(within("+Inf"), 4.0, "one ran into its timeout");
    assert!(told["webhook_delivery_latency_sum"] >= 5.0);
    silent.let_go();
    service.stop();
}

fn s1_dead_letter_rate_of_a_service_can_be_read_from_its_counters(home: Home) {
    let receiver = Receiver::scripted(|request, _| match request.header("posthaste-event-type") {
        Some("invoice.void") => Reply::Status(410),
        Some("invoice.lost") => Reply::Status(500),
        _ => Reply::Status(200),
    });
    let service = home.serve();
    let event = Event::to(&receiver);
    let mut events = vec![event.clone(); 6];
    events.push(event.clone().with("event_type", "invoice.void"));
    events.push(event.clone().with("event_type", "invoice.lost").with("max_attempts", 1));
    service.enqueue_all(&events);
    let ended = |told: &BTreeMap<String, f64>| {
        let sum = |start: &str| -> f64 {
            told.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum()
        };
        (sum("webhook_dead_letters_total{"), sum("webhook_deliveries_total{outcome=\"delivered\"}"))
    };
    let told = service.metrics_when("all eight have ended", |told| {
        let (dead, delivered) = ended(told);
        dead + delivered == 8.0
    });
    let (dead, delivered) = ended(&told);
    assert_eq!(dead / (dead + delivered), 0.25);
    // What operators end by hand is no failure of a receiver.
    let retried = service.enqueue(&event.with("event_type", "invoice.lost"));
    service.attempted(&retried, 1);
    service.cancel(&retried, "").json(200);
    assert_eq!(ended(&service.metrics()), (dead, delivered));
    service.stop();
}
