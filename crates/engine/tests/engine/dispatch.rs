//! Slots, isolation, circuits, outages and draining.

use crate::stage::{ALL_CALLS, Call, Reply, Stage, event, millis, secs, settings};
use posthaste_domain::{BreakerPolicy, DeliveryStatus, EventId};
use posthaste_engine::{InvalidSettings, Settings};
use posthaste_store::{CircuitState, EnqueueRequest, Store as _};

#[tokio::test(start_paused = true)]
async fn a_finished_slot_is_refilled_at_once() {
    let stage = Stage::set();
    stage.receiver.always("slow", Reply::After(secs(25), 200));
    stage.receiver.always("quick", Reply::After(secs(1), 200));
    stage.enqueue("slow", 1).await;
    stage.enqueue("quick", 12).await;
    let _engine = stage.start(|settings| settings.concurrency = 2);
    stage.until("the quick ones are done", |_| stage.receiver.requests_to("quick") == 12).await;
    let done_at = stage.monotonic();
    assert!(done_at < secs(13), "twelve seconds' work took {done_at:?} beside a slow one");
}

#[tokio::test(start_paused = true)]
async fn one_hanging_receiver_does_not_delay_another() {
    let stage = Stage::set();
    stage.receiver.always("hangs", Reply::Hang);
    stage.enqueue("hangs", 500).await;
    stage.enqueue("quick", 50).await;
    let _engine = stage.start(|settings| {
        settings.concurrency = 30;
        settings.per_destination = 5;
    });
    stage.until("the quick ones are sent", |_| stage.receiver.requests_to("quick") == 50).await;
    assert!(stage.monotonic() < secs(1), "took {:?}", stage.monotonic());
    assert_eq!(stage.receiver.most_in_flight("hangs"), 5);
}

#[tokio::test(start_paused = true)]
async fn no_limit_is_ever_exceeded() {
    let stage = Stage::set();
    stage.receiver.always("a", Reply::After(millis(700), 200));
    stage.receiver.always("b", Reply::After(millis(300), 200));
    stage.enqueue("a", 40).await;
    stage.enqueue("b", 40).await;
    let _engine = stage.start(|settings| {
        settings.concurrency = 7;
        settings.per_destination = 4;
    });
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.receiver.most_in_flight("a"), 4, "as many as one destination may have");
    assert_eq!(stage.receiver.most_in_flight("b"), 3, "as many as are left in all");
}

#[tokio::test(start_paused = true)]
async fn retries_never_crowd_out_first_attempts() {
    let stage = Stage::set();
    stage.receiver.script("down", (0..30).map(|_| Reply::Status(500)));
    stage.receiver.always("down", Reply::After(secs(10), 200));
    stage.enqueue("down", 30).await;
    let _engine = stage.start(|settings| {
        settings.retry_batch = 2;
        settings.breaker =
            BreakerPolicy::new(secs(60), 1_000, 10_000, 1_000, secs(1)).expect("shows evidence");
    });
    stage.until("all failed once", |_| stage.receiver.requests_to("down") == 30).await;
    stage.until("the retries are under way", |_| stage.receiver.requests_to("down") > 30).await;
    let began_at = stage.monotonic();
    stage.enqueue("fresh", 50).await;
    stage.until("first attempts go out", |_| stage.receiver.requests_to("fresh") == 50).await;
    assert!(stage.monotonic() - began_at < secs(1));
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.receiver.most_retries_in_flight(), 2);
}

fn nervous(settings: &mut Settings) {
    settings.breaker = BreakerPolicy::new(secs(60), 1_000, 10_000, 3, secs(30)).expect("shows evidence");
    settings.per_destination = 1;
}

#[tokio::test(start_paused = true)]
async fn s1_circuit_an_open_circuit_defers_without_consuming_attempts() {
    let stage = Stage::set();
    stage.receiver.always("down", Reply::Status(500));
    stage.enqueue("down", 50).await;
    stage.enqueue("up", 5).await;
    let _engine = stage.start(nervous);
    stage.pass(secs(20)).await;
    assert_eq!(stage.receiver.requests_to("down"), 3, "three failures opened it");
    assert_eq!(stage.receiver.requests_to("up"), 5);
    let untouched = stage.memory.with_state(|state| {
        let of_down = state.rows.values().filter(|row| row.event_id.as_str().starts_with("down"));
        of_down.filter(|row| (row.attempts, row.status) == (0, DeliveryStatus::Pending)).count()
    });
    assert_eq!(untouched, 47);
    let destination = stage.memory.destination(posthaste_domain::DestinationId(1)).await.unwrap();
    assert_eq!(destination.circuit, CircuitState::Open, "operators see it");
}

#[tokio::test(start_paused = true)]
async fn s1_circuit_half_open_sends_a_single_probe_and_closes_when_it_succeeds() {
    let stage = Stage::set();
    stage.receiver.script("down", (0..4).map(|_| Reply::Status(500)));
    stage.receiver.always("down", Reply::After(secs(2), 200));
    stage.enqueue("down", 20).await;
    let _engine = stage.start(|settings| {
        nervous(settings);
        settings.per_destination = 10;
    });
    // Ten went out at once; four failed and opened the circuit.
    stage.pass(secs(29)).await;
    assert_eq!(stage.receiver.requests_to("down"), 10);
    stage.until("the probe", |_| stage.receiver.requests_to("down") > 10).await;
    stage.pass(millis(500)).await;
    assert_eq!(stage.receiver.requests_to("down"), 11, "one probe");
    stage.until_all(DeliveryStatus::Delivered).await;
}

#[tokio::test(start_paused = true)]
async fn results_that_finish_together_are_settled_together() {
    let stage = Stage::set();
    stage.receiver.always("up", Reply::After(secs(1), 200));
    stage.enqueue("up", 400).await;
    let _engine = stage.start(|settings| settings.per_destination = 400);
    stage.until_all(DeliveryStatus::Delivered).await;
    assert!(stage.door().calls(Call::Settle) <= 2, "{} settles", stage.door().calls(Call::Settle));
}

#[tokio::test(start_paused = true)]
async fn a_result_the_store_refuses_does_not_take_others_with_it() {
    let stage = Stage::set();
    stage.receiver.always("up", Reply::After(secs(1), 200));
    stage.enqueue("up", 20).await;
    stage.door().refuse_settle_of(&EventId::new("up-7").unwrap());
    let _engine = stage.start(|_| {});
    stage.pass(secs(3)).await;
    let delivered = stage.memory.with_state(|state| {
        state.rows.values().filter(|row| row.status == DeliveryStatus::Delivered).count()
    });
    assert_eq!(delivered, 19);
}

#[tokio::test(start_paused = true)]
async fn results_outlive_an_outage_and_nothing_is_sent_twice_whenever_it_ends() {
    for phase in 0..12 {
        let stage = Stage::set();
        stage.receiver.always("slow", Reply::After(secs(20), 200));
        stage.enqueue("slow", 3).await;
        let engine = stage.start(|_| {});
        stage.until("they are being sent", |_| stage.receiver.requests_to("slow") == 3).await;
        stage.door().fail(&ALL_CALLS);
        stage.pass(secs(3 * 3_600) + millis(phase * 450)).await;
        stage.door().heal();
        stage.until_all(DeliveryStatus::Delivered).await;
        assert_eq!(stage.receiver.requests_to("slow"), 3, "phase {phase}");
        drop(engine);
    }
}

#[tokio::test(start_paused = true)]
async fn results_that_queue_up_in_an_outage_are_written_before_anything_is_claimed() {
    for (concurrency, phase) in [(4, 0), (4, 7), (64, 0), (64, 3), (64, 9)] {
        let stage = Stage::set();
        // They end one after the other, so that each is a batch of its own.
        stage.receiver.script("slow", (0..12).map(|number| Reply::After(secs(5 + number), 200)));
        stage.enqueue("slow", 12).await;
        let _engine = stage.start(|settings| settings.concurrency = concurrency);
        let at_once = concurrency.min(12);
        stage.until("they are being sent", |_| stage.receiver.requests_to("slow") == at_once).await;
        stage.door().fail(&ALL_CALLS);
        stage.pass(secs(300) + millis(phase * 450)).await;
        stage.door().heal();
        stage.until_all(DeliveryStatus::Delivered).await;
        assert_eq!(stage.receiver.requests_to("slow"), 12, "{concurrency} slots, phase {phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_panics_costs_nothing_but_the_call() {
    for call in ALL_CALLS {
        let stage = Stage::set();
        stage.receiver.always("slow", Reply::After(secs(25), 200));
        let engine = stage.start(|settings| settings.retention = None);
        let mut notices = engine.publisher().subscribe().await.unwrap();
        stage.enqueue("slow", 2).await;
        stage.until("they are being sent", |_| stage.receiver.requests_to("slow") == 2).await;
        stage.door().panic_once(call);
        let request = EnqueueRequest { events: vec![event("more", 0)], idempotency: None };
        let enqueue = || {
            let (store, request) = (std::sync::Arc::clone(&stage.store), request.clone());
            tokio::spawn(async move { store.enqueue(request).await })
        };
        // An enqueue that panics costs its own caller only.
        while !matches!(enqueue().await, Ok(Ok(_))) {}
        stage.until_all(DeliveryStatus::Delivered).await;
        assert_eq!(stage.receiver.requests_to("slow"), 2, "{call:?} cut off what was in flight");
        for _ in 0..3 {
            notices.next().await.unwrap();
        }
        stage.pass(secs(90)).await;
        stage.enqueue("after", 1).await;
        stage.until_all(DeliveryStatus::Delivered).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_back_what_a_lost_reply_had_granted() {
    let stage = Stage::set();
    stage.enqueue("up", 3).await;
    stage.door().lose_replies(Call::Claim, 1);
    let engine = stage.start(|_| {});
    stage.until("a claim got no answer", |_| stage.door().calls(Call::Claim) == 1).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 0));
    assert_eq!(stage.memory.overview().await.unwrap().pending_ready, 3);
    assert_eq!(stage.receiver.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_hours_ends_no_loop() {
    let stage = Stage::set();
    stage.receiver.script("down", (0..3).map(|_| Reply::Status(500)));
    stage.enqueue("down", 3).await;
    let engine = stage.start(nervous);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    stage.pass(secs(3)).await;
    stage.door().fail(&ALL_CALLS);
    stage.pass(secs(3 * 3_600)).await;
    stage.receiver.always("slow", Reply::After(secs(25), 200));
    stage.enqueue("slow", 1).await;
    let before = ALL_CALLS.map(|call| stage.door().calls(call));
    stage.door().heal();
    stage.until_all(DeliveryStatus::Delivered).await;
    stage.receiver.always("ill", Reply::Status(500));
    stage.enqueue("ill", 5).await;
    stage.pass(secs(120)).await;
    for _ in 0..4 {
        notices.next().await.unwrap();
    }
    for (call, before) in ALL_CALLS.into_iter().zip(before) {
        let needed = !matches!(call, Call::Enqueue | Call::Release);
        assert!(!needed || stage.door().calls(call) > before, "{call:?} went silent");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_destination_is_refilled_while_claims_take_their_time() {
    let stage = Stage::set();
    // Answers come one by one, while claims are under way.
    stage.receiver.script("busy", (0..400).map(|number| Reply::After(millis(10 + number % 7), 200)));
    stage.enqueue("busy", 400).await;
    stage.door().claims_take(millis(5));
    let _engine = stage.start(|settings| settings.per_destination = 4);
    stage.until_all(DeliveryStatus::Delivered).await;
    // A hundred rounds of about twenty milliseconds, and not one of a poll interval.
    assert!(stage.monotonic() < secs(4), "took {:?}", stage.monotonic());
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_costs_no_lease() {
    let stage = Stage::set();
    let ids = stage.enqueue("up", 5).await;
    stage.door().lose_replies(Call::Claim, 6);
    let _engine = stage.start(|_| {});
    stage.until_all(DeliveryStatus::Delivered).await;
    for id in &ids {
        let event = stage.event(id).await.event;
        assert_eq!((event.claims, event.attempts), (1, 1), "asked for again, and not granted again");
    }
    assert!(stage.monotonic() < secs(30), "nobody waited for a lease to expire");
}

#[tokio::test(start_paused = true)]
async fn a_settle_whose_reply_was_lost_counts_once() {
    let stage = Stage::set();
    let id = stage.enqueue("up", 1).await.remove(0);
    stage.door().lose_replies(Call::Settle, 3);
    let engine = stage.start(|_| {});
    stage
        .until("it is delivered and done with", |_| {
            stage.door().calls(Call::Settle) == 4 && engine.in_flight() == 0
        })
        .await;
    assert_eq!(stage.event(&id).await.history.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_that_come_too_late_are_given_back_unsent() {
    let stage = Stage::set();
    let id = stage.enqueue("up", 1).await.remove(0);
    stage.door().claims_take(secs(25));
    let _engine = stage.start(|_| {});
    stage.pass(secs(26)).await;
    let event = stage.event(&id).await.event;
    assert_eq!((event.claims, event.lease_until, event.lost_leases), (1, None, 0));
    assert_eq!(stage.receiver.requests_to("up"), 0);
    stage.door().claims_take(secs(0));
    stage.until_all(DeliveryStatus::Delivered).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_claims_nothing_more_and_finishes_what_is_in_flight() {
    let stage = Stage::set();
    stage.receiver.always("slow", Reply::After(secs(5), 200));
    stage.enqueue("slow", 4).await;
    let engine = stage.start(|settings| settings.per_destination = 2);
    stage.until("two are in flight", |_| stage.receiver.requests_to("slow") == 2).await;
    let drained = engine.drain(secs(60)).await;
    assert_eq!((drained.released, drained.unreleased), (0, 0));
    let overview = stage.memory.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending_ready), (2, 2));
    assert!(stage.monotonic() < secs(10), "it ended when its work did");
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_back_what_has_not_finished_by_the_deadline() {
    let stage = Stage::set();
    stage.receiver.always("hangs", Reply::Hang);
    stage.enqueue("hangs", 3).await;
    let engine = stage.start(|settings| settings.timeout = secs(300));
    stage.until("all are in flight", |_| stage.receiver.requests_to("hangs") == 3).await;
    let drained = engine.drain(secs(2)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 0));
    assert_eq!(stage.door().calls(Call::Release), 1, "together");
    stage.memory.with_state(|state| {
        for row in state.rows.values() {
            assert_eq!((row.attempts, row.lost_leases, row.lease.is_none()), (0, 0, true));
        }
    });
    assert_eq!(stage.memory.overview().await.unwrap().pending_ready, 3);
}

#[tokio::test(start_paused = true)]
async fn a_drain_releases_what_it_can_beside_a_result_that_cannot_be_written() {
    let stage = Stage::set();
    stage.receiver.always("hangs", Reply::Hang);
    stage.enqueue("hangs", 3).await;
    stage.enqueue("up", 1).await;
    stage.door().fail(&[Call::Settle]);
    let engine = stage.start(|settings| settings.timeout = secs(300));
    stage.until("all are in flight", |_| stage.receiver.requests().len() == 4).await;
    let began_at = stage.monotonic();
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 1));
    assert!(stage.monotonic() - began_at <= secs(10), "the deadline covers the release");
}

#[tokio::test(start_paused = true)]
async fn a_drain_during_an_outage_says_what_it_left() {
    let stage = Stage::set();
    stage.receiver.always("hangs", Reply::Hang);
    stage.enqueue("hangs", 2).await;
    let engine = stage.start(|settings| settings.timeout = secs(300));
    stage.until("all are in flight", |_| stage.receiver.requests().len() == 2).await;
    stage.door().fail(&ALL_CALLS);
    let drained = engine.drain(secs(4)).await;
    assert_eq!((drained.released, drained.unreleased), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_returns_into_a_drain_is_given_back() {
    let stage = Stage::set();
    stage.enqueue("up", 2).await;
    stage.door().claims_take(secs(1));
    let engine = stage.start(|_| {});
    stage.pass(millis(500)).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!(drained.unreleased, 0);
    assert_eq!(stage.receiver.requests().len(), 0, "nothing new was started");
    assert_eq!(stage.memory.overview().await.unwrap().pending_ready, 2);
}

#[tokio::test(start_paused = true)]
async fn a_circuit_that_closes_is_reported_closed() {
    let stage = Stage::set();
    stage.receiver.script("down", (0..3).map(|_| Reply::Status(500)));
    stage.enqueue("down", 6).await;
    let _engine = stage.start(nervous);
    let reported = || async {
        stage.memory.destination(posthaste_domain::DestinationId(1)).await.expect("it is known").circuit
    };
    stage.pass(secs(10)).await;
    assert_eq!(reported().await, CircuitState::Open);
    stage.pass(secs(40)).await;
    assert_eq!(reported().await, CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn retries_keep_a_quarter_of_the_slots_free_whatever_their_batch() {
    let stage = Stage::set();
    stage.receiver.script("down", (0..20).map(|_| Reply::Status(500)));
    stage.receiver.always("down", Reply::After(secs(20), 200));
    stage.enqueue("down", 20).await;
    let _engine = stage.start(|settings| {
        settings.concurrency = 8;
        settings.breaker =
            BreakerPolicy::new(secs(60), 1_000, 10_000, 1_000, secs(1)).expect("shows evidence");
    });
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.receiver.most_retries_in_flight(), 6);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_keeps_taking_workers_down_is_abandoned() {
    let stage = Stage::set();
    let id = stage.enqueue("deadly", 1).await.remove(0);
    stage.receiver.always("deadly", Reply::Hang);
    for life in 1..=5 {
        let engine = stage.start(|_| {});
        stage.until("it is being sent", |_| stage.receiver.requests_to("deadly") == life).await;
        drop(engine);
    }
    let _survivor = stage.start(|_| {});
    stage.until_all(DeliveryStatus::Failed).await;
    let event = stage.event(&id).await.event;
    assert_eq!(event.failure_kind, Some(posthaste_domain::FailureKind::Abandoned));
    assert_eq!((event.attempts, event.claims), (0, 5), "crashes ate no attempts");
    assert_eq!(stage.receiver.requests_to("deadly"), 5);
}

#[tokio::test(start_paused = true)]
async fn an_enqueue_wakes_a_worker_that_would_sleep_on() {
    let stage = Stage::set();
    let _engine = stage.start(|settings| settings.poll_interval = secs(3_600));
    stage.pass(secs(60)).await;
    let enqueued_at = stage.monotonic();
    stage.enqueue("up", 1).await;
    stage.until_all(DeliveryStatus::Delivered).await;
    assert!(stage.monotonic() - enqueued_at < millis(50));
}

#[tokio::test(start_paused = true)]
async fn impossible_settings_never_start() {
    let stage = Stage::set();
    let settings = settings(|settings| settings.per_destination = 0);
    let refused =
        posthaste_engine::Engine::start(settings, stage.ports(), &posthaste_engine::Runtimes::current());
    let InvalidSettings { setting, value, .. } = refused.err().unwrap();
    assert_eq!((setting, value.as_str()), ("per_destination", "0"));
}
