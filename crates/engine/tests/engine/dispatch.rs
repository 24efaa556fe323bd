//! Slots, limits, wake-ups and batches of a worker.

use std::time::Duration;

use crate::fixture::{Call, Fixture, Reply, millis, secs, settings};
use posthaste_domain::{BreakerPolicy, DeliveryStatus, EventId, RetryPolicy, RetryPolicySpec, Strategy};
use posthaste_engine::InvalidSettings;

#[tokio::test(start_paused = true)]
async fn released_slot_is_refilled_at_once() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(25), 200));
    fixture.receiver.always_reply("quick", Reply::After(secs(1), 200));
    fixture.enqueue("slow", 1).await;
    fixture.enqueue("quick", 12).await;
    let _engine = fixture.start(|settings| (settings.concurrency, settings.per_destination) = (8, 1));
    fixture.wait_until("all quick requests are sent", |_| fixture.receiver.requests_to("quick") == 12).await;
    let done_at = fixture.monotonic();
    assert!(done_at < secs(13), "twelve requests of one second took {done_at:?}");
}

#[tokio::test(start_paused = true)]
async fn one_hanging_receiver_does_not_delay_another() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 500).await;
    fixture.enqueue("quick", 50).await;
    let _engine = fixture.start(|settings| {
        settings.concurrency = 30;
        settings.per_destination = 5;
    });
    fixture.wait_until("all quick requests are sent", |_| fixture.receiver.requests_to("quick") == 50).await;
    assert!(fixture.monotonic() < secs(1), "took {:?}", fixture.monotonic());
    assert_eq!(fixture.receiver.most_in_flight("hangs"), 5);
}

#[tokio::test(start_paused = true)]
async fn concurrency_limits_are_never_exceeded() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("a", Reply::After(millis(70), 200));
    fixture.receiver.always_reply("b", Reply::After(millis(30), 200));
    fixture.enqueue("a", 40).await;
    fixture.enqueue("b", 40).await;
    let _engine = fixture.start(|settings| {
        settings.concurrency = 7;
        settings.per_destination = 4;
    });
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.most_in_flight("a"), 4, "the limit per destination");
    assert!(fixture.receiver.most_in_flight("b") <= 4, "the limit per destination");
    assert_eq!(fixture.receiver.most_in_flight_in_all(), 7, "the total limit");
}

#[tokio::test(start_paused = true)]
async fn retries_never_crowd_out_first_attempts() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..30).map(|_| Reply::Status(500)));
    fixture.receiver.always_reply("down", Reply::After(secs(10), 200));
    fixture.enqueue("down", 30).await;
    let _engine = fixture.start(|settings| {
        settings.retry_batch = 2;
        settings.breaker =
            BreakerPolicy::new(secs(60), 1_000, 10_000, 1_000, secs(1)).expect("a valid policy");
    });
    fixture.wait_until("all failed once", |_| fixture.receiver.requests_to("down") == 30).await;
    fixture.wait_until("the first retries are sent", |_| fixture.receiver.requests_to("down") > 30).await;
    let began_at = fixture.monotonic();
    fixture.enqueue("fresh", 50).await;
    fixture.wait_until("all first attempts are sent", |_| fixture.receiver.requests_to("fresh") == 50).await;
    assert!(fixture.monotonic() - began_at < secs(1));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.most_retries_in_flight(), 2);
}

#[tokio::test(start_paused = true)]
async fn results_that_finish_together_are_settled_together() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("up", Reply::After(secs(1), 200));
    fixture.enqueue("up", 400).await;
    let _engine = fixture.start(|settings| settings.per_destination = 400);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(
        fixture.test_store().calls(Call::Settle) <= 2,
        "{} settles",
        fixture.test_store().calls(Call::Settle)
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_result_does_not_affect_others_in_its_batch() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("up", Reply::After(secs(1), 200));
    fixture.enqueue("up", 20).await;
    fixture.test_store().reject_settle_of(&EventId::new("up-7").unwrap());
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(3)).await;
    let delivered = fixture.memory.with_state(|state| {
        state.rows.values().filter(|row| row.status == DeliveryStatus::Delivered).count()
    });
    assert_eq!(delivered, 19);
}

#[tokio::test(start_paused = true)]
async fn busy_destination_is_refilled_during_slow_claims() {
    let fixture = Fixture::new();
    // Replies arrive one by one, while claims are in progress.
    fixture.receiver.script("busy", (0..400).map(|number| Reply::After(millis(10 + number % 7), 200)));
    fixture.enqueue("busy", 400).await;
    fixture.test_store().set_claim_latency(millis(5));
    let _engine = fixture.start(|settings| settings.per_destination = 4);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    // A hundred rounds of about twenty milliseconds, without waiting for a poll interval.
    assert!(fixture.monotonic() < secs(4), "took {:?}", fixture.monotonic());
}

#[tokio::test(start_paused = true)]
async fn a_quarter_of_the_slots_is_reserved_for_first_attempts() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..20).map(|_| Reply::Status(500)));
    fixture.receiver.always_reply("down", Reply::After(secs(20), 200));
    fixture.enqueue("down", 20).await;
    let _engine = fixture.start(|settings| {
        settings.concurrency = 8;
        settings.breaker =
            BreakerPolicy::new(secs(60), 1_000, 10_000, 1_000, secs(1)).expect("a valid policy");
    });
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.most_retries_in_flight(), 6);
}

#[tokio::test(start_paused = true)]
async fn event_that_keeps_crashing_workers_is_abandoned() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("deadly", 1).await.remove(0);
    fixture.receiver.always_reply("deadly", Reply::Hang);
    for crash in 1..=5 {
        let engine = fixture.start(|_| {});
        fixture.wait_until("it is being sent", |_| fixture.receiver.requests_to("deadly") == crash).await;
        drop(engine);
    }
    let _survivor = fixture.start(|_| {});
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    let event = fixture.event(&id).await.event;
    assert_eq!(event.failure_kind, Some(posthaste_domain::FailureKind::Abandoned));
    assert_eq!((event.attempts, event.claims), (0, 5), "crashes consumed no attempts");
    assert_eq!(fixture.receiver.requests_to("deadly"), 5);
}

#[tokio::test(start_paused = true)]
async fn enqueue_wakes_a_sleeping_worker() {
    let fixture = Fixture::new();
    let _engine = fixture.start(|settings| settings.poll_interval = secs(3_600));
    fixture.advance(secs(60)).await;
    let enqueued_at = fixture.monotonic();
    fixture.enqueue("up", 1).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(fixture.monotonic() - enqueued_at < millis(50));
}

/// Fails `count` events once on `workers` workers whose polls are far apart. Returns when each retry was sent.
async fn times_of_first_retries(workers: usize, count: usize) -> Vec<Duration> {
    let fixture = Fixture::new();
    fixture.receiver.script("shaky", (0..count).map(|_| Reply::Status(500)));
    let start = |_| {
        fixture.start(|settings| {
            let mut spec = RetryPolicySpec::for_strategy(Strategy::Schedule { steps: vec![secs(1)] });
            spec.allow_fast_retries = true;
            settings.policy = RetryPolicy::new(spec).expect("fast retries are allowed");
            settings.poll_interval = secs(600);
            settings.per_destination = count.div_ceil(workers);
        })
    };
    let _engines: Vec<_> = (0..workers).map(start).collect();
    fixture.enqueue("shaky", count).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let requests = fixture.receiver.requests();
    requests.into_iter().filter(|(_, _, attempt)| *attempt == 2).map(|(at, ..)| at).collect()
}

#[tokio::test(start_paused = true)]
async fn retry_is_sent_when_it_is_due_without_waiting_for_a_poll() {
    for (workers, count) in [(1, 1), (1, 10), (3, 12)] {
        let times = times_of_first_retries(workers, count).await;
        assert_eq!(times.len(), count);
        let on_time = |at: &Duration| (secs(1)..secs(1) + millis(100)).contains(at);
        assert!(times.iter().all(on_time), "{workers} workers: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn engine_with_invalid_settings_does_not_start() {
    let fixture = Fixture::new();
    let settings = settings(|settings| settings.per_destination = 0);
    let result =
        posthaste_engine::Engine::start(settings, fixture.ports(), &posthaste_engine::Runtimes::current());
    let InvalidSettings { setting, value, .. } = result.err().unwrap();
    assert_eq!((setting, value.as_str()), ("per_destination", "0"));
}
