//! Local shortages: requests that were not sent for lack of a resource of the worker's own host.

use crate::fixture::{Fixture, Reply, millis, secs};
use posthaste_domain::DeliveryStatus;
use posthaste_engine::LocalShortage;

#[tokio::test(start_paused = true)]
async fn a_shortage_costs_neither_an_attempt_nor_a_lost_lease() {
    for shortage in LocalShortage::ALL.iter().copied() {
        let fixture = Fixture::new();
        let id = fixture.enqueue("up", 1).await.remove(0);
        // More often than the event may be attempted, and than its leases may be lost.
        fixture.receiver.script("up", vec![Reply::Unsent(shortage); 10]);
        let _engine = fixture.start(|_| {});
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
        let detail = fixture.event(&id).await;
        assert_eq!((detail.event.attempts, detail.event.lost_leases, detail.event.claims), (1, 0, 11));
        assert_eq!(detail.history.len(), 1);
        assert_eq!(fixture.receiver.requests_to("up"), 11);
    }
}

#[tokio::test(start_paused = true)]
async fn sending_slows_down_while_a_shortage_lasts_and_recovers_afterwards() {
    let fixture = Fixture::new();
    let shortage = Reply::Unsent(LocalShortage::OpenFiles);
    fixture.receiver.always_reply("up", shortage);
    fixture.enqueue("up", 400).await;
    let engine = fixture.start(|settings| settings.per_destination = 400);
    fixture.advance(secs(60)).await;
    let tried = fixture.receiver.requests_to("up");
    assert!((400..1_000).contains(&tried), "{tried} requests were tried in a minute");
    assert_eq!(engine.health().local_shortage(), Some(LocalShortage::OpenFiles));
    assert!(engine.health().since_claim().is_some_and(|age| age < secs(6)), "the worker is not stuck");
    fixture.receiver.always_reply("up", Reply::Status(200));
    let recovered_at = fixture.monotonic();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let took = fixture.monotonic() - recovered_at;
    assert!(took < secs(60), "400 events took {took:?} after the shortage");
    fixture.advance(secs(90)).await;
    assert_eq!(engine.health().local_shortage(), None);
}

#[tokio::test(start_paused = true)]
async fn lack_of_ports_for_one_receiver_does_not_delay_others() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("full", Reply::Unsent(LocalShortage::Ports));
    fixture.enqueue("full", 100).await;
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(5)).await;
    let tried = fixture.receiver.requests_to("full");
    assert!(
        tried <= 6 * 20,
        "{tried} requests were tried at a destination that is paused for a second each time"
    );
    let ids = fixture.enqueue("up", 100).await;
    fixture.advance(millis(1_100)).await;
    for id in &ids {
        assert_eq!(fixture.event(id).await.event.status, DeliveryStatus::Delivered);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_during_a_shortage_leaves_no_lease_behind() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("up", Reply::Unsent(LocalShortage::Memory));
    fixture.enqueue("up", 50).await;
    let engine = fixture.start(|_| {});
    fixture.wait_until("a request is tried", |_| fixture.receiver.requests_to("up") > 0).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!(drained.unreleased, 0);
    let leased =
        fixture.memory.with_state(|state| state.rows.values().filter(|row| row.lease.is_some()).count());
    assert_eq!(leased, 0);
}
