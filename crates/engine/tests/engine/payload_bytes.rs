//! Limits in bytes: of one claim, and of the payloads in flight.

use crate::fixture::{Call, Fixture, Reply, millis, secs, settings};
use posthaste_domain::DeliveryStatus;
use posthaste_engine::{Engine, Runtimes};

const LARGE: usize = 256 << 10;

#[tokio::test(start_paused = true)]
async fn large_events_are_delivered_over_a_slow_link_and_small_ones_beside_them() {
    let fixture = Fixture::new();
    fixture.test_store().set_link_speed(100_000);
    for host in ["large", "larger"] {
        fixture.enqueue_sized(host, 20, LARGE).await;
    }
    fixture.enqueue("small", 10).await;
    let _engine = fixture.start(|_| {});
    fixture.wait_until("the small ones", |_| fixture.receiver.requests_to("small") == 10).await;
    assert!(fixture.monotonic() < secs(1), "small events took {:?}", fixture.monotonic());
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    // Forty payloads take 105 seconds on this link.
    assert!(fixture.monotonic() < secs(110), "large events took {:?}", fixture.monotonic());
    let lost = fixture.memory.with_state(|state| state.rows.values().map(|row| row.lost_leases).sum::<u32>());
    assert_eq!(lost, 0, "no event waited for the end of a lease");
}

/// The store has granted the leases, but their payloads take longer than a call may. A repetition that returned all of them
/// would fail again.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_is_too_large_for_the_link_is_repeated_with_less() {
    let fixture = Fixture::new();
    fixture.test_store().set_link_speed(30_000);
    fixture.enqueue_sized("large", 4, LARGE).await;
    let engine = fixture.start(|settings| settings.inline_payload_bytes_max = LARGE);
    fixture.wait_until("a delivery", |_| fixture.receiver.requests_to("large") > 0).await;
    assert!(fixture.monotonic() < secs(60), "took {:?}", fixture.monotonic());
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    engine.drain(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn payload_bytes_in_flight_stay_within_the_limit() {
    let fixture = Fixture::new();
    for host in ["a", "b", "c"] {
        fixture.receiver.always_reply(host, Reply::After(millis(400), 200));
        fixture.enqueue_sized(host, 20, LARGE).await;
    }
    let limit = 2 << 20;
    let _engine = fixture.start(|settings| settings.in_flight_bytes_max = limit);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let most = fixture.receiver.most_bytes_in_flight();
    assert!(most <= limit + LARGE, "{most} bytes in flight");
    assert!(most >= limit - LARGE, "{most} bytes in flight: the limit is used");
    // Sixty events, nine at a time.
    assert!(fixture.monotonic() < secs(4), "took {:?}", fixture.monotonic());
}

#[tokio::test(start_paused = true)]
async fn an_event_larger_than_the_limit_is_delivered_alone() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("huge", Reply::After(millis(100), 200));
    fixture.enqueue_sized("huge", 3, LARGE).await;
    let _engine = fixture.start(|settings| settings.in_flight_bytes_max = 1_000);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.most_in_flight("huge"), 1);
}

#[tokio::test(start_paused = true)]
async fn large_events_that_hang_do_not_stop_small_ones() {
    let fixture = Fixture::new();
    for host in ["hangs-a", "hangs-b"] {
        fixture.receiver.always_reply(host, Reply::Hang);
        fixture.enqueue_sized(host, 20, LARGE).await;
    }
    let _engine = fixture.start(|settings| settings.in_flight_bytes_max = 2 << 20);
    fixture.advance(secs(2)).await;
    let most = fixture.receiver.most_bytes_in_flight();
    assert!(most >= 2 << 20, "the limit is reached: {most} bytes");
    let began_at = fixture.monotonic();
    fixture.enqueue("small", 100).await;
    fixture.wait_until("the small ones", |_| fixture.receiver.requests_to("small") == 100).await;
    let took = fixture.monotonic() - began_at;
    assert!(took < secs(1), "small events took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_cycle_delivers_more_bytes_than_may_be_in_flight() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("large", Reply::After(millis(50), 200));
    fixture.enqueue_sized("large", 12, LARGE).await;
    let limited = settings(|settings| settings.in_flight_bytes_max = 1 << 20);
    Engine::run_once(limited, fixture.ports(), &Runtimes::current()).await.unwrap();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.test_store().calls(Call::Claim) < 20, "claims are not made in vain");
}
