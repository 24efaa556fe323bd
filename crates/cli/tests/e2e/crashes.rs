//! Processes that are killed at the worst moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::delivery::verify;
use crate::stage::{EVENTS, Event, Home, Moment, Receiver, Reply, SECRET, Store, ask, until};

on_each_store! {
    what_was_in_flight_when_the_process_was_killed_is_delivered_by_the_next,
    every_enqueue_that_was_acknowledged_outlives_the_process,
}

/// Requests by event.
fn counts(receiver: &Receiver) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in receiver.requests() {
        *counts.entry(request.event_id().to_owned()).or_default() += 1;
    }
    counts
}

fn what_was_in_flight_when_the_process_was_killed_is_delivered_by_the_next(home: Home) {
    const IN_FLIGHT: usize = 20;
    let home = home.with("POSTHASTE_LEASE_SECONDS", "5");
    let receiver = Receiver::scripted(
        |_, before| if before < IN_FLIGHT { Reply::Held(200) } else { Reply::Status(200) },
    );
    let service = home.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); IN_FLIGHT + 10]);
    let in_flight: BTreeSet<_> =
        receiver.received(IN_FLIGHT).iter().map(|request| request.event_id().to_owned()).collect();
    assert_eq!(in_flight.len(), IN_FLIGHT);
    service.kill();

    let service = home.serve();
    for event_id in &event_ids {
        let delivered = service.delivered(event_id);
        assert_eq!(delivered["attempts"], 1, "a crash eats no attempt");
    }
    service.stop();
    let sent = counts(&receiver);
    for event_id in &event_ids {
        let expected = if in_flight.contains(event_id) { 2 } else { 1 };
        assert_eq!(sent[event_id], expected);
        assert!(
            sent[event_id] <= home.claims(event_id),
            "{event_id} was sent more often than it was claimed"
        );
    }
    receiver.requests().iter().for_each(|request| verify(request, SECRET));
}

fn every_enqueue_that_was_acknowledged_outlives_the_process(home: Home) {
    const ACKNOWLEDGED_MIN: usize = 100;
    const PRODUCERS: usize = 4;
    let home = home.with("POSTHASTE_LEASE_SECONDS", "5");
    let receiver = Receiver::answering(200);
    let service = home.serve();
    let (address, body) = (service.address, Event::to(&receiver).body());
    let count = AtomicUsize::new(0);
    // Each goes on until it is not answered any more: the process is killed in the midst of it.
    let produce = || {
        let mut acknowledged = vec![];
        while let Ok(answer) = ask(address, "POST", EVENTS, &[("content-type", "application/json")], &body) {
            acknowledged.push(answer.json(202)["event_id"].as_str().unwrap().to_owned());
            count.fetch_add(1, Ordering::Relaxed);
        }
        acknowledged
    };
    let acknowledged: BTreeSet<String> = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS).map(|_| scope.spawn(produce)).collect();
        until("enough is acknowledged", || (count.load(Ordering::Relaxed) >= ACKNOWLEDGED_MIN).then_some(()));
        service.kill();
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    assert!(acknowledged.len() >= ACKNOWLEDGED_MIN);

    let service = home.serve();
    let overview = until("everything is delivered", || {
        Some(service.overview()).filter(|overview| overview["pending_count"] == 0)
    });
    assert_eq!(overview["failed_count"], 0);
    assert!(overview["delivered_count"].as_u64().unwrap() >= acknowledged.len() as u64, "{overview}");
    for event_id in &acknowledged {
        assert_eq!(service.event(event_id)["delivery_status"], "delivered");
    }
    service.stop();
    let sent = counts(&receiver);
    for event_id in &acknowledged {
        assert!(sent[event_id] >= 1, "{event_id} is said to be delivered, and never came");
    }
    for (event_id, times) in sent.iter().filter(|(_, times)| **times > 1) {
        assert!(*times <= home.claims(event_id), "{event_id} was sent more often than it was claimed");
    }
}

#[test]
fn a_worker_takes_over_what_another_left_when_it_was_killed() {
    const LEASE: Duration = Duration::from_secs(5);
    /// What a busy machine may add.
    const NOISE: Duration = Duration::from_secs(15);
    let mut home = Home::on(Store::Postgres).with("POSTHASTE_LEASE_SECONDS", "5");
    let receiver =
        Receiver::scripted(|_, before| if before < 5 { Reply::Held(200) } else { Reply::Status(200) });
    let service = home.serve_with(&["--no-worker"]);
    home.set("POSTHASTE_WORKER_ID", "first");
    let first = home.worker();
    home.set("POSTHASTE_WORKER_ID", "second");
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 5]);
    receiver.received(5);
    let second = home.worker();
    first.kill();
    let killed = Moment::now();

    let requests = receiver.received(10);
    let poll = Duration::from_millis(100);
    let took = requests[9].at.since(killed);
    assert!(took <= LEASE + poll + NOISE, "the other worker took {took:?}");
    for event_id in &event_ids {
        let delivered = service.delivered(event_id);
        let history = delivered["history"].as_array().unwrap();
        assert_eq!((history.len(), &history[0]["worker_id"]), (1, &"second".into()));
        assert_eq!((receiver.count_of(event_id), home.claims(event_id)), (2, 2));
    }
    second.stop();
    service.stop();
}
