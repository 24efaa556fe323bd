//! Outages: a store that fails, panics, is slow or loses its replies.

use crate::circuits::sensitive_breaker;
use crate::fixture::{ALL_CALLS, Call, Fixture, Reply, event, millis, secs};
use posthaste_domain::DeliveryStatus;
use posthaste_store::{EnqueueRequest, Store as _};

#[tokio::test(start_paused = true)]
async fn results_survive_an_outage_and_nothing_is_sent_twice() {
    for phase in 0..12 {
        let fixture = Fixture::new();
        fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
        fixture.enqueue("slow", 3).await;
        let engine = fixture.start(|_| {});
        fixture.wait_until("the requests are sent", |_| fixture.receiver.requests_to("slow") == 3).await;
        fixture.test_store().fail(&ALL_CALLS);
        fixture.advance(secs(3 * 3_600) + millis(phase * 450)).await;
        fixture.test_store().recover();
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
        assert_eq!(fixture.receiver.requests_to("slow"), 3, "phase {phase}");
        drop(engine);
    }
}

#[tokio::test(start_paused = true)]
async fn results_delayed_by_an_outage_are_written_before_new_claims() {
    for (concurrency, phase) in [(4, 0), (4, 7), (64, 0), (64, 3), (64, 9)] {
        let fixture = Fixture::new();
        // The requests end one after the other, so that each result is a batch of its own.
        fixture.receiver.script("slow", (0..12).map(|number| Reply::After(secs(5 + number), 200)));
        fixture.enqueue("slow", 12).await;
        let _engine = fixture.start(|settings| settings.concurrency = concurrency);
        let at_once = concurrency.min(12);
        fixture
            .wait_until("the requests are sent", |_| fixture.receiver.requests_to("slow") == at_once)
            .await;
        fixture.test_store().fail(&ALL_CALLS);
        fixture.advance(secs(300) + millis(phase * 450)).await;
        fixture.test_store().recover();
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
        assert_eq!(fixture.receiver.requests_to("slow"), 12, "{concurrency} slots, phase {phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_store_adapter_fails_only_that_call() {
    for call in ALL_CALLS {
        let fixture = Fixture::new();
        fixture.receiver.always_reply("slow", Reply::After(secs(25), 200));
        let engine = fixture.start(|settings| settings.retention = None);
        let mut notices = engine.publisher().subscribe().await.unwrap();
        fixture.enqueue("slow", 2).await;
        fixture.wait_until("the requests are sent", |_| fixture.receiver.requests_to("slow") == 2).await;
        fixture.test_store().panic_once(call);
        let request = EnqueueRequest::new(vec![event("more", 0)]);
        let enqueue = || {
            let (store, request) = (std::sync::Arc::clone(&fixture.store), request.clone());
            tokio::spawn(async move { store.enqueue(request).await })
        };
        // A panic of an enqueue reaches only its own caller.
        while !matches!(enqueue().await, Ok(Ok(_))) {}
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
        assert_eq!(fixture.receiver.requests_to("slow"), 2, "a panic of {call:?} aborted requests in flight");
        for _ in 0..3 {
            notices.next().await.unwrap();
        }
        fixture.advance(secs(90)).await;
        fixture.enqueue("after", 1).await;
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
    }
}

#[tokio::test(start_paused = true)]
async fn outage_of_hours_ends_no_loop() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..3).map(|_| Reply::Status(500)));
    fixture.enqueue("down", 3).await;
    let engine = fixture.start(sensitive_breaker);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    fixture.advance(secs(3)).await;
    fixture.test_store().fail(&ALL_CALLS);
    fixture.advance(secs(3 * 3_600)).await;
    fixture.receiver.always_reply("slow", Reply::After(secs(25), 200));
    fixture.enqueue_sized("slow", 1, 100_000).await;
    let before = ALL_CALLS.map(|call| fixture.test_store().calls(call));
    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture.receiver.always_reply("ill", Reply::Status(500));
    fixture.enqueue("ill", 5).await;
    fixture.advance(secs(120)).await;
    for _ in 0..4 {
        notices.next().await.unwrap();
    }
    for (call, before) in ALL_CALLS.into_iter().zip(before) {
        // These workers have no key ring to reload and no endpoints; `signing.rs` and `profiles.rs` have their outages.
        let needed = !matches!(
            call,
            Call::Enqueue | Call::Release | Call::CheckWrites | Call::SigningSecrets | Call::Endpoints
        );
        assert!(!needed || fixture.test_store().calls(call) > before, "{call:?} is not called any more");
    }
}

#[tokio::test(start_paused = true)]
async fn claim_with_a_lost_reply_costs_no_lease() {
    let fixture = Fixture::new();
    let ids = fixture.enqueue("up", 5).await;
    fixture.test_store().lose_replies(Call::Claim, 6);
    let _engine = fixture.start(|_| {});
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    for id in &ids {
        let event = fixture.event(id).await.event;
        assert_eq!((event.claims, event.attempts), (1, 1), "the repeated claim returned the same leases");
    }
    assert!(fixture.monotonic() < secs(30), "no lease had to expire");
}

#[tokio::test(start_paused = true)]
async fn settle_with_a_lost_reply_counts_once() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("up", 1).await.remove(0);
    fixture.test_store().lose_replies(Call::Settle, 3);
    let engine = fixture.start(|_| {});
    fixture
        .wait_until("the event is settled and its slot released", |_| {
            fixture.test_store().calls(Call::Settle) == 4 && engine.in_flight() == 0
        })
        .await;
    assert_eq!(fixture.event(&id).await.history.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_granted_too_late_are_released_unsent() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("up", 1).await.remove(0);
    fixture.test_store().set_claim_latency(secs(25));
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(26)).await;
    let event = fixture.event(&id).await.event;
    assert_eq!((event.claims, event.lease_until, event.lost_leases), (1, None, 0));
    assert_eq!(fixture.receiver.requests_to("up"), 0);
    fixture.test_store().set_claim_latency(secs(0));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
}
