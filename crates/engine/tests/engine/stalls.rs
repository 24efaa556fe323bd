//! Hosts that have always answered at once, and then stop answering at the same moment.

use std::time::Duration;

use crate::fixture::{Fixture, Reply, event, millis, secs};
use posthaste_domain::DeliveryStatus;
use posthaste_engine::{Engine, Settings};
use posthaste_store::{EnqueueRequest, Store as _};

const HOSTS: usize = 6;
const CONCURRENCY: usize = 32;

fn hosts() -> Vec<String> {
    (0..HOSTS).map(|number| format!("h{number}")).collect()
}

async fn enqueue(fixture: &Fixture, host: &str, numbers: std::ops::Range<usize>) {
    let events = numbers.map(|number| event(host, number)).collect();
    fixture.memory.enqueue(EnqueueRequest::new(events)).await.expect("the ids are new");
}

/// Starts a worker, lets all hosts answer once, and then lets those of [`hosts`] stop answering with more events each than the
/// worker has places.
async fn let_hosts_stall(fixture: &Fixture, change: impl FnOnce(&mut Settings)) -> Engine {
    let engine = fixture.start(|settings| {
        settings.concurrency = CONCURRENCY;
        change(settings);
    });
    for host in hosts() {
        enqueue(fixture, &host, 0..1).await;
    }
    enqueue(fixture, "up", 0..1).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    for host in hosts() {
        fixture.receiver.always_reply(&host, Reply::Hang);
        enqueue(fixture, &host, 1..41).await;
    }
    fixture.advance(millis(100)).await;
    let held = fixture.receiver.requests().len() - HOSTS - 1;
    assert!((CONCURRENCY * 7 / 8..CONCURRENCY).contains(&held), "the hosts hold {held} places");
    engine
}

/// Enqueues events for the host that answers, and returns how long they took to arrive.
async fn send_to_healthy_host(fixture: &Fixture, numbers: std::ops::Range<usize>) -> Duration {
    let (enqueued_at, all) = (fixture.monotonic(), numbers.end);
    enqueue(fixture, "up", numbers).await;
    fixture.wait_until("the events arrive", |_| fixture.receiver.requests_to("up") == all).await;
    fixture.monotonic() - enqueued_at
}

#[tokio::test(start_paused = true)]
async fn hosts_that_stop_answering_together_do_not_delay_a_host_that_goes_on_answering() {
    let fixture = Fixture::new();
    let _engine = let_hosts_stall(&fixture, |_| {}).await;
    for number in (1..20).step_by(2) {
        let lag = send_to_healthy_host(&fixture, number..number + 2).await;
        assert!(lag < millis(50), "event {number} took {lag:?}");
        fixture.advance(millis(700)).await;
    }
    assert!(fixture.monotonic() < secs(30), "no request has reached its timeout");
    assert!(fixture.receiver.most_in_flight_in_all() <= CONCURRENCY + CONCURRENCY / 4);
    let is_leased = |row: &&posthaste_store_memory::Row| row.lease.is_some();
    let leased = fixture.memory.with_state(|state| state.rows.values().filter(is_leased).count());
    assert!(leased <= CONCURRENCY, "{leased} events are leased: those that waited for the hosts went back");
}

#[tokio::test(start_paused = true)]
async fn hosts_that_stop_answering_together_do_not_delay_a_host_that_was_quiet() {
    let fixture = Fixture::new();
    let _engine = let_hosts_stall(&fixture, |_| {}).await;
    fixture.advance(secs(5)).await;
    let lag = send_to_healthy_host(&fixture, 1..6).await;
    assert!(lag < millis(50), "the events took {lag:?}");
}

#[tokio::test(start_paused = true)]
async fn hosts_that_answer_again_get_all_their_events() {
    let fixture = Fixture::new();
    let _engine = let_hosts_stall(&fixture, |settings| settings.timeout = secs(5)).await;
    for host in hosts() {
        fixture.receiver.always_reply(&host, Reply::Status(200));
    }
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.monotonic() < secs(600), "{:?}", fixture.monotonic());
}
