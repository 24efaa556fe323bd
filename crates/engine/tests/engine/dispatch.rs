//! Slots, isolation, circuits, outages and draining.

use std::time::Duration;

use crate::fixture::{ALL_CALLS, Call, Fixture, Reply, event, millis, secs, settings};
use posthaste_domain::{BreakerPolicy, DeliveryStatus, EventId, RetryPolicy, RetryPolicySpec, Strategy};
use posthaste_engine::{Engine, InvalidSettings, Settings};
use posthaste_store::{DestinationState, EnqueueRequest, Store as _};

#[tokio::test(start_paused = true)]
async fn released_slot_is_refilled_at_once() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(25), 200));
    fixture.receiver.always_reply("quick", Reply::After(secs(1), 200));
    fixture.enqueue("slow", 1).await;
    fixture.enqueue("quick", 12).await;
    let _engine = fixture.start(|settings| settings.concurrency = 2);
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
    fixture.receiver.always_reply("a", Reply::After(millis(700), 200));
    fixture.receiver.always_reply("b", Reply::After(millis(300), 200));
    fixture.enqueue("a", 40).await;
    fixture.enqueue("b", 40).await;
    let _engine = fixture.start(|settings| {
        settings.concurrency = 7;
        settings.per_destination = 4;
    });
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.most_in_flight("a"), 4, "the limit per destination");
    assert_eq!(fixture.receiver.most_in_flight("b"), 3, "the rest of the total limit");
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

/// Opens a circuit after three failures in a row, for thirty seconds.
fn sensitive_breaker(settings: &mut Settings) {
    settings.breaker = BreakerPolicy::new(secs(60), 1_000, 10_000, 3, secs(30)).expect("a valid policy");
    settings.per_destination = 1;
}

#[tokio::test(start_paused = true)]
async fn s1_circuit_an_open_circuit_defers_without_consuming_attempts() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 50).await;
    fixture.enqueue("up", 5).await;
    let _engine = fixture.start(sensitive_breaker);
    fixture.advance(secs(20)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 3, "three failures opened the circuit");
    assert_eq!(fixture.receiver.requests_to("up"), 5);
    let untouched = fixture.memory.with_state(|state| {
        let of_down = state.rows.values().filter(|row| row.event_id.as_str().starts_with("down"));
        of_down.filter(|row| (row.attempts, row.status) == (0, DeliveryStatus::Pending)).count()
    });
    assert_eq!(untouched, 47);
    let destination = fixture.memory.destination_status(posthaste_domain::DestinationId(1)).await.unwrap();
    let circuit = destination.circuit.expect("the open circuit is reported to the store");
    assert_eq!(circuit.last_error.as_deref(), Some("HTTP 500: scripted"));
    let cool_down = circuit.next_probe_at.since(circuit.since);
    assert!(cool_down.abs_diff(secs(30)) < millis(10), "{cool_down:?}");
}

#[tokio::test(start_paused = true)]
async fn s1_circuit_half_open_sends_a_single_probe_and_closes_when_it_succeeds() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..4).map(|_| Reply::Status(500)));
    fixture.receiver.always_reply("down", Reply::After(secs(2), 200));
    fixture.enqueue("down", 20).await;
    let _engine = fixture.start(|settings| {
        sensitive_breaker(settings);
        settings.per_destination = 10;
    });
    // Ten requests were sent at once; four of them failed and opened the circuit.
    fixture.advance(secs(29)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 10);
    fixture.wait_until("the probe", |_| fixture.receiver.requests_to("down") > 10).await;
    fixture.advance(millis(500)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 11, "one probe");
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
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
async fn drain_releases_leases_granted_by_a_lost_reply() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 3).await;
    fixture.test_store().lose_replies(Call::Claim, 1);
    let engine = fixture.start(|_| {});
    fixture.wait_until("one claim is unanswered", |_| fixture.test_store().calls(Call::Claim) == 1).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 0));
    assert_eq!(fixture.memory.overview().await.unwrap().pending_ready, 3);
    assert_eq!(fixture.receiver.requests().len(), 0);
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
    fixture.enqueue("slow", 1).await;
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
        let needed = !matches!(call, Call::Enqueue | Call::Release | Call::CheckWrites);
        assert!(!needed || fixture.test_store().calls(call) > before, "{call:?} is not called any more");
    }
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

#[tokio::test(start_paused = true)]
async fn drain_claims_nothing_more_and_finishes_deliveries_in_flight() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(5), 200));
    fixture.enqueue("slow", 4).await;
    let engine = fixture.start(|settings| settings.per_destination = 2);
    fixture.wait_until("two are in flight", |_| fixture.receiver.requests_to("slow") == 2).await;
    let drained = engine.drain(secs(60)).await;
    assert_eq!((drained.released, drained.unreleased), (0, 0));
    let overview = fixture.memory.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending_ready), (2, 2));
    assert!(fixture.monotonic() < secs(10), "the drain ended when the deliveries did");
}

#[tokio::test(start_paused = true)]
async fn drain_releases_deliveries_unfinished_at_the_deadline() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 3).await;
    let engine = fixture.start(|settings| settings.timeout = secs(300));
    fixture.wait_until("all are in flight", |_| fixture.receiver.requests_to("hangs") == 3).await;
    let drained = engine.drain(secs(2)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 0));
    assert_eq!(fixture.test_store().calls(Call::Release), 1, "one call released all leases");
    fixture.memory.with_state(|state| {
        for row in state.rows.values() {
            assert_eq!((row.attempts, row.lost_leases, row.lease.is_none()), (0, 0, true));
        }
    });
    assert_eq!(fixture.memory.overview().await.unwrap().pending_ready, 3);
}

#[tokio::test(start_paused = true)]
async fn drain_releases_leases_although_a_result_cannot_be_written() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 3).await;
    fixture.enqueue("up", 1).await;
    fixture.test_store().fail(&[Call::Settle]);
    let engine = fixture.start(|settings| settings.timeout = secs(300));
    fixture.wait_until("all are in flight", |_| fixture.receiver.requests().len() == 4).await;
    let began_at = fixture.monotonic();
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased, drained.unwritten), (4, 0, 1));
    assert!(fixture.monotonic() - began_at <= secs(10), "the deadline covers the release");
}

#[tokio::test(start_paused = true)]
async fn drain_during_an_outage_reports_unreleased_leases() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 2).await;
    let engine = fixture.start(|settings| settings.timeout = secs(300));
    fixture.wait_until("all are in flight", |_| fixture.receiver.requests().len() == 2).await;
    fixture.test_store().fail(&ALL_CALLS);
    let drained = engine.drain(secs(4)).await;
    assert_eq!((drained.released, drained.unreleased), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn claim_answered_during_a_drain_is_released() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 2).await;
    fixture.test_store().set_claim_latency(secs(1));
    let engine = fixture.start(|_| {});
    fixture.advance(millis(500)).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!(drained.unreleased, 0);
    assert_eq!(fixture.receiver.requests().len(), 0, "no request was sent");
    assert_eq!(fixture.memory.overview().await.unwrap().pending_ready, 2);
}

#[tokio::test(start_paused = true)]
async fn closed_circuit_is_reported_closed() {
    let fixture = Fixture::new();
    fixture.receiver.script("down", (0..3).map(|_| Reply::Status(500)));
    fixture.enqueue("down", 6).await;
    let _engine = fixture.start(sensitive_breaker);
    let reported = || async {
        let destination = posthaste_domain::DestinationId(1);
        fixture.memory.destination_status(destination).await.expect("the destination exists").state()
    };
    fixture.advance(secs(10)).await;
    assert_eq!(reported().await, DestinationState::CircuitOpen);
    fixture.advance(secs(40)).await;
    assert_eq!(reported().await, DestinationState::Ok);
}

#[tokio::test(start_paused = true)]
async fn resume_closes_the_circuits_of_every_worker_within_two_seconds() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 50).await;
    let circuits_open =
        |engines: &[Engine]| -> usize { engines.iter().map(|engine| engine.health().circuits_open()).sum() };
    let engines = [fixture.start(sensitive_breaker), fixture.start(sensitive_breaker)];
    fixture.advance(secs(10)).await;
    assert_eq!((circuits_open(&engines), fixture.receiver.requests_to("down")), (2, 6));
    let destination = posthaste_domain::DestinationId(1);
    fixture.receiver.always_reply("down", Reply::Status(200));
    fixture.memory.resume_destination(destination, "ann").await.unwrap();
    fixture.advance(secs(2)).await;
    assert_eq!((circuits_open(&engines), fixture.receiver.requests_to("down")), (0, 50));
    let status = fixture.memory.destination_status(destination).await.unwrap();
    assert_eq!(status.state(), DestinationState::Ok, "no worker reports the closed circuit again");
}

#[tokio::test(start_paused = true)]
async fn circuit_that_opens_after_a_resume_stays_open() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    fixture.enqueue("down", 50).await;
    let engine = fixture.start(sensitive_breaker);
    fixture.advance(secs(10)).await;
    let destination = posthaste_domain::DestinationId(1);
    fixture.memory.resume_destination(destination, "ann").await.unwrap();
    fixture.advance(secs(9)).await;
    assert_eq!(engine.health().circuits_open(), 1, "the receiver still fails");
    let requests = fixture.receiver.requests_to("down");
    assert!((4..=9).contains(&requests), "{requests} requests");
    fixture.advance(secs(9)).await;
    assert_eq!(fixture.receiver.requests_to("down"), requests, "one resume closes a circuit once");
}

#[tokio::test(start_paused = true)]
async fn operators_pause_holds_events_of_all_workers_until_the_resume() {
    let fixture = Fixture::new();
    fixture.enqueue("here", 30).await;
    let destination = posthaste_domain::DestinationId(1);
    let pause = posthaste_store::PauseRequest::new("ann", None, None);
    fixture.memory.pause_destination(destination, &pause).await.unwrap();
    let _engines = [fixture.start(|_| {}), fixture.start(|_| {})];
    fixture.enqueue("there", 5).await;
    fixture.advance(secs(60)).await;
    assert_eq!((fixture.receiver.requests_to("here"), fixture.receiver.requests_to("there")), (0, 5));
    fixture.memory.resume_destination(destination, "bob").await.unwrap();
    fixture.advance(secs(2)).await;
    assert_eq!(fixture.receiver.requests_to("here"), 30);
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
