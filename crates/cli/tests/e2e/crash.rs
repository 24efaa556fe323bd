//! Processes that are killed while they deliver or enqueue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::delivery::verify_signature;
use crate::harness::{EVENTS, Event, Receiver, Reply, SECRET, Sandbox, Store, send_request, wait_until};

on_each_store! {
    deliveries_in_flight_of_a_killed_process_are_sent_by_the_next_process,
    acknowledged_events_survive_a_killed_process,
}

/// Counts the requests per event.
fn count_requests(receiver: &Receiver) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in receiver.requests() {
        *counts.entry(request.event_id().to_owned()).or_default() += 1;
    }
    counts
}

fn deliveries_in_flight_of_a_killed_process_are_sent_by_the_next_process(sandbox: Sandbox) {
    const IN_FLIGHT: usize = 20;
    // Enough answers for the window of the receiver to grow to its full size.
    const ANSWERED: usize = 1_000;
    let sandbox = sandbox.with_env("POSTHASTE_LEASE_SECONDS", "10");
    let receiver = Receiver::scripted(|_, earlier| {
        if (ANSWERED..ANSWERED + IN_FLIGHT).contains(&earlier) {
            Reply::Blocked(200)
        } else {
            Reply::Status(200)
        }
    });
    let service = sandbox.serve();
    for event_id in service.enqueue_all(&vec![Event::to(&receiver); ANSWERED]) {
        service.wait_until_delivered(&event_id);
    }
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); IN_FLIGHT + 10]);
    let requests = receiver.wait_for_requests(ANSWERED + IN_FLIGHT);
    let in_flight: BTreeSet<_> =
        requests[ANSWERED..].iter().map(|request| request.event_id().to_owned()).collect();
    assert_eq!(in_flight.len(), IN_FLIGHT);
    service.kill();

    let service = sandbox.serve();
    for event_id in &event_ids {
        let delivered = service.wait_until_delivered(event_id);
        assert_eq!(delivered["attempts"], 1, "a crash consumed an attempt");
    }
    service.stop();
    let sent = count_requests(&receiver);
    for event_id in &event_ids {
        let expected = if in_flight.contains(event_id) { 2 } else { 1 };
        assert_eq!(sent[event_id], expected);
        assert!(
            sent[event_id] <= sandbox.count_claims(event_id),
            "{event_id} was sent more often than it was claimed"
        );
    }
    receiver.requests().iter().for_each(|request| verify_signature(request, SECRET));
}

fn acknowledged_events_survive_a_killed_process(sandbox: Sandbox) {
    const ACKNOWLEDGED_MIN: usize = 100;
    const PRODUCERS: usize = 4;
    let sandbox = sandbox.with_env("POSTHASTE_LEASE_SECONDS", "5");
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let (address, body) = (service.address, Event::to(&receiver).request_body());
    let count = AtomicUsize::new(0);
    // Each producer enqueues until a request gets no response, because the process was killed.
    let produce = || {
        let mut acknowledged = vec![];
        while let Ok(response) =
            send_request(address, "POST", EVENTS, &[("content-type", "application/json")], &body)
        {
            acknowledged.push(response.expect_json(202)["event_id"].as_str().unwrap().to_owned());
            count.fetch_add(1, Ordering::Relaxed);
        }
        acknowledged
    };
    let acknowledged: BTreeSet<String> = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS).map(|_| scope.spawn(produce)).collect();
        wait_until("enough events are acknowledged", || {
            (count.load(Ordering::Relaxed) >= ACKNOWLEDGED_MIN).then_some(())
        });
        service.kill();
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    assert!(acknowledged.len() >= ACKNOWLEDGED_MIN);

    let service = sandbox.serve();
    let overview = wait_until("every event is delivered", || {
        Some(service.overview()).filter(|overview| overview["pending_count"] == 0)
    });
    assert_eq!(overview["failed_count"], 0);
    assert!(overview["delivered_count"].as_u64().unwrap() >= acknowledged.len() as u64, "{overview}");
    for event_id in &acknowledged {
        assert_eq!(service.event(event_id)["delivery_status"], "delivered");
    }
    service.stop();
    let sent = count_requests(&receiver);
    for event_id in &acknowledged {
        assert!(sent[event_id] >= 1, "{event_id} is marked as delivered, but the receiver did not get it");
    }
    for (event_id, times) in sent.iter().filter(|(_, times)| **times > 1) {
        assert!(
            *times <= sandbox.count_claims(event_id),
            "{event_id} was sent more often than it was claimed"
        );
    }
}

#[test]
fn worker_takes_over_the_events_of_a_killed_worker() {
    let mut sandbox = Sandbox::new(Store::Postgres).with_env("POSTHASTE_LEASE_SECONDS", "10");
    let receiver =
        Receiver::scripted(|_, earlier| if earlier < 2 { Reply::Blocked(200) } else { Reply::Status(200) });
    let service = sandbox.serve_with(&["--no-worker"]);
    sandbox.set_env("POSTHASTE_WORKER_ID", "first");
    let first = sandbox.start_worker();
    sandbox.set_env("POSTHASTE_WORKER_ID", "second");
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 2]);
    receiver.wait_for_requests(2);
    let second = sandbox.start_worker();
    first.kill();

    receiver.wait_for_requests(4);
    for event_id in &event_ids {
        let delivered = service.wait_until_delivered(event_id);
        let history = delivered["history"].as_array().unwrap();
        assert_eq!((history.len(), &history[0]["worker_id"]), (1, &"second".into()));
        assert_eq!((receiver.count_requests_of(event_id), sandbox.count_claims(event_id)), (2, 2));
    }
    second.stop();
    service.stop();
}
