//! Requests are dated by the store's clock, whatever the clock of the worker's host shows.

use crate::fixture::{Fixture, millis, secs};
use posthaste_domain::{DeliveryStatus, EventId, Timestamp};

/// Delivers one event and returns the time of its signature and the store's time when it was sent.
async fn deliver(fixture: &Fixture, host: &str) -> (Timestamp, Timestamp) {
    let id: EventId = fixture.enqueue(host, 1).await.remove(0);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let started_at = fixture.event(&id).await.history[0].started_at;
    (fixture.receiver.signed_at().pop().expect("a request was sent"), started_at)
}

fn difference(a: Timestamp, b: Timestamp) -> std::time::Duration {
    a.since(b).max(b.since(a))
}

#[tokio::test(start_paused = true)]
async fn worker_whose_host_is_an_hour_behind_signs_with_the_stores_time() {
    let fixture = Fixture::new();
    fixture.clock.set_ahead(-3_600);
    let engine = fixture.start(|_| {});
    let (signed_at, sent_at) = deliver(&fixture, "up").await;
    assert!(difference(signed_at, sent_at) <= millis(10), "signed at {signed_at:?}, sent at {sent_at:?}");
    let skew = engine.health().clock_skew().expect("the worker has claimed");
    assert!(!skew.is_tolerable() && !skew.host_is_ahead, "{skew:?}");
    assert!(
        difference(Timestamp::default().after(skew.difference), Timestamp::from_secs(3_600)) <= millis(10)
    );
}

#[tokio::test(start_paused = true)]
async fn step_of_the_hosts_clock_between_claims_does_not_change_signatures() {
    let fixture = Fixture::new();
    let engine = fixture.start(|_| {});
    for (host, ahead) in [("a", 0), ("b", 7_200), ("c", -7_200), ("d", 0)] {
        fixture.clock.set_ahead(ahead);
        let (signed_at, sent_at) = deliver(&fixture, host).await;
        assert!(difference(signed_at, sent_at) <= millis(10), "{host}: {signed_at:?} {sent_at:?}");
        fixture.advance(secs(2)).await;
        let skew = engine.health().clock_skew().expect("the worker has claimed");
        assert_eq!(skew.is_tolerable(), ahead == 0, "{host}: {skew:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_claim_shifts_signatures_by_less_than_its_round_trip() {
    let fixture = Fixture::new();
    fixture.test_store().set_claim_latency(secs(4));
    let _engine = fixture.start(|_| {});
    let (signed_at, sent_at) = deliver(&fixture, "up").await;
    assert!(difference(signed_at, sent_at) <= secs(2), "signed at {signed_at:?}, sent at {sent_at:?}");
}
