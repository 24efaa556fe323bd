//! Metrics of a running service after deliveries, retries and dead letters.

use std::collections::BTreeMap;

use crate::harness::{Event, Receiver, Reply, Sandbox};

on_each_store! {
    s1_queue_depth_of_a_service_rises_with_a_retry_and_falls_with_its_delivery,
    s1_phase3_anomaly_metrics_of_a_service_count_only_retries_under_the_floor,
    s1_latency_of_a_service_includes_a_slow_receiver,
    s1_dead_letter_rate_of_a_service_follows_from_its_counters,
}

fn s1_queue_depth_of_a_service_rises_with_a_retry_and_falls_with_its_delivery(sandbox: Sandbox) {
    let sandbox = sandbox.with_fast_retries();
    let receiver = Receiver::scripted(|_, earlier| match earlier {
        0..3 => Reply::Status(500),
        _ => Reply::Blocked(200),
    });
    let service = sandbox.serve();
    let has_depth =
        |count| move |metrics: &BTreeMap<_, _>| metrics.get("webhook_retry_queue_depth") == Some(&count);
    service.wait_for_metrics("no event waits for a retry", has_depth(0.0));
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 3]);
    service.wait_for_metrics("three events wait for a retry", has_depth(3.0));
    assert_eq!(service.overview()["retrying_count"], 3);
    receiver.release();
    event_ids.iter().for_each(|event_id| drop(service.wait_until_delivered(event_id)));
    service.wait_for_metrics("no event waits for a retry any more", has_depth(0.0));
    service.stop();
}

/// Returns the number of scheduled retries with a delay under 30 s, which the retry contract forbids.
fn count_delays_under_floor(metrics: &BTreeMap<String, f64>) -> f64 {
    let bound = |name: &str| {
        let bound = name.strip_prefix("webhook_retry_delay_bucket{le=\"")?.strip_suffix("\"}")?;
        bound.parse::<f64>().ok().filter(|bound| (29.0..30.0).contains(bound))
    };
    let mut buckets = metrics.iter().filter(|(name, _)| bound(name).is_some());
    let (_, count) = buckets.next().expect("no bucket ends just under 30 s");
    *count
}

fn s1_phase3_anomaly_metrics_of_a_service_count_only_retries_under_the_floor(sandbox: Sandbox) {
    let store = sandbox.store;
    for (sandbox, fast) in [(sandbox, 0.0), (Sandbox::new(store).with_fast_retries(), 1.0)] {
        let receiver = Receiver::scripted(|_, earlier| Reply::Status(if earlier == 0 { 500 } else { 200 }));
        let service = sandbox.serve();
        service.wait_for_attempts(&service.enqueue(&Event::to(&receiver)), 1);
        let metrics = service.wait_for_metrics("a retry delay is counted", |metrics| {
            metrics["webhook_retry_delay_count"] > 0.0
        });
        assert_eq!((count_delays_under_floor(&metrics), metrics["webhook_retry_delay_count"]), (fast, 1.0));
        let delay = metrics["webhook_retry_delay_sum"];
        let expected = if fast > 0.0 { 1.0..=1.0 } else { 48.0..=72.0 };
        assert!(expected.contains(&delay), "{delay} s");
        service.stop();
    }
}

fn s1_latency_of_a_service_includes_a_slow_receiver(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("WEBHOOK_TIMEOUT_SECONDS", "5");
    let (fast, silent) = (Receiver::responding(200), Receiver::blocking(200));
    let service = sandbox.serve();
    let mut events = vec![Event::to(&fast); 3];
    events.push(Event::to(&silent));
    for event_id in service.enqueue_all(&events) {
        service.wait_for_attempts(&event_id, 1);
    }
    let metrics = service.wait_for_metrics("all latencies are counted", |metrics| {
        metrics["webhook_delivery_latency_count"] == 4.0
    });
    let within = |seconds: &str| metrics[&format!("webhook_delivery_latency_bucket{{le=\"{seconds}\"}}")];
    assert_eq!(within("5.0"), 3.0, "three requests got a response within 5 s");
    assert_eq!(within("+Inf"), 4.0, "one request timed out");
    assert!(metrics["webhook_delivery_latency_sum"] >= 5.0);
    silent.release();
    service.stop();
}

fn s1_dead_letter_rate_of_a_service_follows_from_its_counters(sandbox: Sandbox) {
    let receiver = Receiver::scripted(|request, _| match request.header("posthaste-event-type") {
        Some("invoice.void") => Reply::Status(410),
        Some("invoice.lost") => Reply::Status(500),
        _ => Reply::Status(200),
    });
    let service = sandbox.serve();
    let event = Event::to(&receiver);
    let mut events = vec![event.clone(); 6];
    events.push(event.clone().with("event_type", "invoice.void"));
    events.push(event.clone().with("event_type", "invoice.lost").with("max_attempts", 1));
    service.enqueue_all(&events);
    let terminal_counts = |metrics: &BTreeMap<String, f64>| {
        let sum = |prefix: &str| -> f64 {
            metrics.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
        };
        (sum("webhook_dead_letters_total{"), sum("webhook_deliveries_total{outcome=\"delivered\"}"))
    };
    let metrics = service.wait_for_metrics("all eight events are delivered or dead", |metrics| {
        let (dead, delivered) = terminal_counts(metrics);
        dead + delivered == 8.0
    });
    let (dead, delivered) = terminal_counts(&metrics);
    assert_eq!(dead / (dead + delivered), 0.25);
    // An event that an operator cancels is not a failure of the receiver.
    let retried = service.enqueue(&event.with("event_type", "invoice.lost"));
    service.wait_for_attempts(&retried, 1);
    service.cancel(&retried, "").expect_json(200);
    assert_eq!(terminal_counts(&service.metrics()), (dead, delivered));
    service.stop();
}
