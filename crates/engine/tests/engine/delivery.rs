//! Deliveries and their results (delivered, retried, dead-lettered), single cycles, notices and retention.

use crate::fixture::{ALL_CALLS, Call, Fixture, Reply, millis, secs, settings};
use posthaste_domain::{DeliveryStatus, ErrorClass, FailureKind, NoticeKind, RetryPolicy, RetryPolicySpec};
use posthaste_engine::{Clock as _, DrainReport, Engine, Runtimes, Settings, SubscriptionGap};
use posthaste_store::Store as _;

fn on_schedule(settings: &mut Settings) {
    settings.policy = RetryPolicy::new(RetryPolicySpec::schedule()).expect("within the contract");
}

#[tokio::test(start_paused = true)]
async fn s0_fr003_ac1_2xx_marks_the_event_delivered() {
    let fixture = Fixture::new();
    let ids = fixture.enqueue("up", 3).await;
    let _engine = fixture.start(|_| {});
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    for id in &ids {
        let detail = fixture.event(id).await;
        assert_eq!((detail.event.attempts, detail.event.last_error), (1, None));
        assert_eq!(detail.history[0].http_status, Some(200));
    }
    assert_eq!(fixture.receiver.requests_to("up"), 3);
}

#[tokio::test(start_paused = true)]
async fn s4_s1_first_failure_schedules_a_retry_in_30_seconds() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("down", 1).await.remove(0);
    fixture.receiver.always_reply("down", Reply::Status(500));
    let _engine = fixture.start(on_schedule);
    fixture.wait_until("one attempt", |store| store.with_state(|state| state.attempts.len() == 1)).await;
    let event = fixture.event(&id).await.event;
    assert_eq!((event.status, event.attempts), (DeliveryStatus::Pending, 1));
    assert_eq!(event.next_attempt_at, Some(event.updated_at.after(secs(30))));
    assert_eq!(event.last_error.as_deref(), Some("HTTP 500: scripted"));
}

#[tokio::test(start_paused = true)]
async fn s4_main_flow_each_retry_waits_for_its_schedule_step() {
    let fixture = Fixture::new();
    fixture.enqueue("down", 1).await;
    fixture.receiver.always_reply("down", Reply::Status(500));
    let _engine = fixture.start(on_schedule);
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    let at: Vec<u64> = fixture.receiver.requests().iter().map(|(at, ..)| at.as_secs()).collect();
    let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, step) in gaps.iter().zip([30, 120, 600, 3_600]) {
        assert!((step..=step + 1).contains(gap), "waited {gap} s instead of {step} s");
    }
    assert_eq!(gaps.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn s4_main_flow_no_response_of_a_receiver_delays_or_shortens_its_schedule() {
    let fixture = Fixture::new();
    for (host, reply) in
        [("down", Reply::Status(500)), ("gone", Reply::Status(410)), ("busy", Reply::RetryAfter(secs(3_000)))]
    {
        fixture.receiver.always_reply(host, reply);
        fixture.enqueue(host, 40).await;
    }
    let _engine = fixture.start(|settings| {
        on_schedule(settings);
        settings.retry_batch = 200;
    });
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    for (attempt, due) in (1..).zip([0, 30, 150, 750, 4_350]) {
        let requests = fixture.receiver.requests();
        let sent: Vec<_> = requests.iter().filter(|request| request.2 == attempt).collect();
        assert_eq!(sent.len(), 120, "attempt {attempt}");
        for (at, event_id, _) in sent {
            let late = at.checked_sub(secs(due)).expect("no attempt is early");
            assert!(late < secs(10), "attempt {attempt} of {event_id} was sent after {at:?}");
        }
    }
    let kinds = fixture
        .memory
        .with_state(|state| state.rows.values().map(|row| row.failure_kind).collect::<Vec<_>>());
    assert!(kinds.iter().all(|kind| *kind == Some(FailureKind::Exhausted)), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn s4_s2_fifth_failure_dead_letters_and_broadcasts() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("down", 1).await.remove(0);
    fixture.receiver.always_reply("down", Reply::Status(500));
    let engine = fixture.start(on_schedule);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    let notice = notices.next().await.unwrap().notice;
    assert_eq!(
        (notice.kind, &notice.event_id, notice.attempts),
        (NoticeKind::DeadLettered(FailureKind::Exhausted), &id, 5)
    );
    assert_eq!((notice.webhook_id.as_deref(), notice.session_id.as_deref()), (Some("hook"), Some("session")));
    let event = fixture.event(&id).await.event;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Exhausted)));
    assert_eq!((event.attempts, event.next_attempt_at), (5, None));
    fixture.advance(secs(100_000)).await;
    assert_eq!(fixture.receiver.requests_to("down"), 5, "no retry after the dead letter");
}

#[tokio::test(start_paused = true)]
async fn s4_a1_success_is_broadcast_and_ends_the_retries() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("shaky", 1).await.remove(0);
    fixture.receiver.script("shaky", [Reply::Status(503)]);
    let engine = fixture.start(on_schedule);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    let notice = notices.next().await.unwrap().notice;
    assert_eq!((notice.kind, notice.event_id, notice.attempts), (NoticeKind::Delivered, id.clone(), 2));
    assert_eq!(fixture.event(&id).await.event.next_attempt_at, None);
}

#[tokio::test(start_paused = true)]
async fn gone_fails_the_event_and_a_panicking_or_hanging_send_is_retried() {
    let fixture = Fixture::new();
    let gone = fixture.enqueue("gone", 1).await.remove(0);
    let panics = fixture.enqueue("panics", 1).await.remove(0);
    let hangs = fixture.enqueue("hangs", 1).await.remove(0);
    fixture.receiver.script("gone", [Reply::Status(410)]);
    fixture.receiver.script("panics", [Reply::Panic]);
    fixture.receiver.script("hangs", [Reply::Hang]);
    let engine = fixture.start(|_| {});
    fixture.wait_until("three outcomes", |store| store.with_state(|state| state.attempts.len() == 3)).await;
    assert_eq!(fixture.event(&gone).await.event.failure_kind, Some(FailureKind::Gone));
    assert_eq!(fixture.event(&panics).await.history[0].error_class, Some(ErrorClass::Panic));
    let hung = fixture.event(&hangs).await;
    assert_eq!(hung.history[0].error_class, Some(ErrorClass::Timeout));
    assert!(hung.history[0].duration >= secs(30) && hung.history[0].duration < secs(31));
    fixture.advance(millis(10)).await;
    assert_eq!(engine.in_flight(), 0, "every slot was released");
    fixture
        .wait_until("both are retried and delivered", |store| {
            store.with_state(|state| {
                state.rows.values().filter(|row| row.status == DeliveryStatus::Delivered).count() == 2
            })
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_pauses_the_whole_destination() {
    let fixture = Fixture::new();
    fixture.enqueue("busy", 2).await;
    fixture.receiver.script("busy", [Reply::RetryAfter(secs(600))]);
    let _engine = fixture.start(|settings| settings.per_destination = 1);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let requests = fixture.receiver.requests();
    assert!(requests[1].0 - requests[0].0 >= secs(600), "the second event waited too: {requests:?}");
}

#[tokio::test(start_paused = true)]
async fn s2_fr002_ac1_one_cycle_reports_every_bucket() {
    let fixture = Fixture::new();
    for (host, reply) in [
        ("ok", Reply::Status(204)),
        ("moved", Reply::Status(301)),
        ("missing", Reply::Status(404)),
        ("broken", Reply::Status(500)),
        ("crashes", Reply::Panic),
        ("gone", Reply::Status(410)),
    ] {
        fixture.receiver.always_reply(host, reply);
        fixture.enqueue(host, 1).await;
    }
    let report = Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!(report.claimed_count, 6);
    assert_eq!((report.delivered_count, report.retried_count, report.failed_count), (1, 4, 1));
    assert_eq!((report.http_2xx_count, report.http_3xx_count), (1, 1));
    assert_eq!((report.http_4xx_count, report.http_5xx_count, report.network_error_count), (2, 1, 1));
    assert_eq!(report.stale_write_count, 0);
}

#[tokio::test(start_paused = true)]
async fn one_cycle_claims_no_more_than_its_slots_and_its_retry_batch() {
    let fixture = Fixture::new();
    fixture.enqueue("down", 10).await;
    fixture.receiver.script("down", (0..10).map(|_| Reply::Status(500)));
    let limits = |settings: &mut Settings| {
        settings.concurrency = 8;
        settings.per_destination = 3;
        settings.retry_batch = 3;
    };
    let first = Engine::run_once(settings(limits), fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!((first.claimed_count, first.retried_count), (8, 8), "three at a time, eight in all");
    assert_eq!(fixture.receiver.most_in_flight("down"), 1, "the replies came at once");
    fixture.advance(secs(3_600)).await;
    let second = Engine::run_once(settings(limits), fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!(second.claimed_count, 5, "two first attempts and three retries");
}

#[tokio::test(start_paused = true)]
async fn one_cycle_claims_again_if_the_store_wakes_it_during_a_claim_without_leases() {
    let fixture = Fixture::new();
    fixture.test_store().set_claim_latency(millis(100));
    // After the store has searched, and before its response arrives.
    let enqueue = async {
        fixture.clock.sleep(millis(75)).await;
        fixture.enqueue("late", 1).await;
    };
    let runtimes = Runtimes::current();
    let cycle = Engine::run_once(settings(|_| {}), fixture.ports(), &runtimes);
    let (report, ()) = tokio::join!(cycle, enqueue);
    assert_eq!(report.unwrap().delivered_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_counted_as_a_stale_write_and_not_applied() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.always_reply("slow", Reply::After(secs(10), 200));
    let (ports, clock) = (fixture.ports(), std::sync::Arc::clone(&fixture.clock));
    let cancel = async {
        clock.sleep(secs(5)).await;
        fixture.memory.cancel(&id, "operator".into(), None).await.unwrap();
    };
    let runtimes = Runtimes::current();
    let (report, ()) = tokio::join!(Engine::run_once(settings(|_| {}), ports, &runtimes), cancel);
    let report = report.unwrap();
    assert_eq!((report.stale_write_count, report.delivered_count, report.http_2xx_count), (1, 0, 1));
    assert_eq!(fixture.event(&id).await.event.failure_kind, Some(FailureKind::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn one_cycle_continues_when_its_deliveries_end_during_a_claim() {
    let fixture = Fixture::new();
    fixture.enqueue("one", 3).await;
    // The store decides after half a second that the destination has no slot, and the answer arrives before its reply.
    fixture.receiver.always_reply("one", Reply::After(millis(750), 200));
    fixture.test_store().set_claim_latency(secs(1));
    let settings = settings(|settings| settings.per_destination = 1);
    let report = Engine::run_once(settings, fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!(report.delivered_count, 3);
}

#[tokio::test(start_paused = true)]
async fn one_cycle_whose_next_claim_fails_finishes_deliveries_in_flight() {
    let fixture = Fixture::new();
    fixture.enqueue("slow", 2).await;
    fixture.receiver.always_reply("slow", Reply::After(secs(10), 200));
    let runtimes = Runtimes::current();
    let cycle =
        Engine::run_once(settings(|settings| settings.per_destination = 1), fixture.ports(), &runtimes);
    let outage = async {
        fixture.wait_until("one is being sent", |_| fixture.receiver.requests_to("slow") == 1).await;
        fixture.test_store().fail(&[Call::Claim]);
    };
    let (cycle, ()) = tokio::join!(cycle, outage);
    assert!(cycle.is_err());
    let overview = fixture.memory.overview().await.unwrap();
    assert_eq!(
        (overview.delivered, overview.pending_ready),
        (1, 1),
        "the result of the request in flight was written"
    );
}

#[tokio::test(start_paused = true)]
async fn one_cycle_fails_when_the_store_stays_unavailable() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 1).await;
    fixture.test_store().fail(&[Call::Settle]);
    let result = Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await;
    assert!(result.is_err_and(|error| error.to_string().contains("did not finish within")));
}

#[tokio::test(start_paused = true)]
async fn stopped_cycle_claims_nothing_more_and_finishes_deliveries_in_flight() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(5), 200));
    fixture.enqueue("slow", 3).await;
    let settings = settings(|settings| settings.per_destination = 1);
    let stop = fixture.wait_until("one is being sent", |_| fixture.receiver.requests_to("slow") == 1);
    let stopped =
        Engine::run_once_until(settings, fixture.ports(), &Runtimes::current(), stop, secs(30)).await;
    let (report, drained) = stopped.unwrap();
    assert_eq!((report.claimed_count, report.delivered_count), (1, 1));
    assert_eq!(drained, DrainReport { released: 0, unreleased: 0, unwritten: 0 });
    let overview = fixture.memory.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending_ready), (1, 2));
    assert!(fixture.monotonic() < secs(10), "the cycle ended when its delivery did");
}

#[tokio::test(start_paused = true)]
async fn stopped_cycle_releases_deliveries_unfinished_at_the_deadline() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    let id = fixture.enqueue("hangs", 1).await.remove(0);
    fixture.enqueue("up", 1).await;
    let settings = settings(|settings| settings.timeout = secs(300));
    let stop = fixture.wait_until("both are sent", |_| fixture.receiver.requests().len() == 2);
    let stopped =
        Engine::run_once_until(settings, fixture.ports(), &Runtimes::current(), stop, secs(4)).await;
    let (report, drained) = stopped.unwrap();
    assert_eq!((report.claimed_count, report.delivered_count), (2, 1));
    assert_eq!(drained, DrainReport { released: 1, unreleased: 0, unwritten: 0 });
    let event = fixture.event(&id).await.event;
    assert_eq!((event.attempts, event.lease_until, event.lost_leases), (0, None, 0));
}

#[tokio::test(start_paused = true)]
async fn stopped_cycle_during_an_outage_reports_unreleased_leases() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 2).await;
    let stop = async {
        fixture.wait_until("both are sent", |_| fixture.receiver.requests().len() == 2).await;
        fixture.test_store().fail(&ALL_CALLS);
    };
    let settings = settings(|settings| settings.timeout = secs(300));
    let stopped =
        Engine::run_once_until(settings, fixture.ports(), &Runtimes::current(), stop, secs(4)).await;
    assert_eq!(stopped.unwrap().1, DrainReport { released: 0, unreleased: 2, unwritten: 0 });
}

#[tokio::test(start_paused = true)]
async fn subscribers_receive_every_notice_once_and_in_order() {
    let fixture = Fixture::new();
    let engine = fixture.start(|settings| settings.per_destination = 400);
    let mut early = engine.publisher().subscribe().await.unwrap();
    fixture.enqueue("up", 700).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let mut late = engine.publisher().subscribe().await.unwrap();
    fixture.enqueue("again", 1).await;
    let mut received = Vec::new();
    for _ in 0..701 {
        received.push(early.next().await.unwrap().cursor);
    }
    assert!(received.is_sorted_by(|a, b| a < b), "notices are in order, without duplicates");
    assert_eq!(
        late.next().await.unwrap().notice.event_id.as_str(),
        "again-0",
        "only notices after the subscription"
    );
}

#[tokio::test(start_paused = true)]
async fn lagging_subscriber_gets_the_cursor_to_resume_from() {
    let fixture = Fixture::new();
    let engine = fixture.start(|settings| settings.per_destination = 400);
    let mut slow = engine.publisher().subscribe().await.unwrap();
    let began_at = slow.cursor();
    fixture.enqueue("up", 900).await;
    fixture.enqueue("more", 900).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture.advance(secs(5)).await;
    assert_eq!(slow.next().await, Err(SubscriptionGap::Lagged { after: began_at }));
    let missed = fixture.memory.notices(Some(began_at), 5_000).await.unwrap();
    assert_eq!(missed.notices.len(), 1_800, "the store has all notices");
}

#[tokio::test(start_paused = true)]
async fn no_notice_is_read_without_a_subscriber() {
    let fixture = Fixture::new();
    let engine = fixture.start(|_| {});
    fixture.enqueue("up", 10).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture.advance(secs(60)).await;
    assert_eq!(fixture.test_store().calls(Call::Notices), 0);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    fixture.enqueue("more", 1).await;
    assert_eq!(notices.next().await.unwrap().notice.event_id.as_str(), "more-0");
}

#[tokio::test(start_paused = true)]
async fn retention_removes_expired_events() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 20).await;
    let _engine = fixture.start(|settings| settings.retention = Some(secs(600)));
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture
        .wait_until("the events are removed", |store| store.with_state(|state| state.rows.is_empty()))
        .await;
    assert!((secs(600)..secs(700)).contains(&fixture.monotonic()), "removed after {:?}", fixture.monotonic());
}
