//! One delivery and its three ends: delivered, retried, dead-lettered.

use crate::stage::{ALL_CALLS, Call, Reply, Stage, millis, secs, settings};
use posthaste_domain::{DeliveryStatus, ErrorClass, FailureKind, NoticeKind, RetryPolicy, RetryPolicySpec};
use posthaste_engine::{Clock as _, DrainReport, Engine, Runtimes, Settings};
use posthaste_store::Store as _;

fn on_schedule(settings: &mut Settings) {
    settings.policy = RetryPolicy::new(RetryPolicySpec::schedule()).expect("within the contract");
}

#[tokio::test(start_paused = true)]
async fn s0_fr003_ac1_2xx_marks_the_event_delivered() {
    let stage = Stage::set();
    let ids = stage.enqueue("up", 3).await;
    let _engine = stage.start(|_| {});
    stage.until_all(DeliveryStatus::Delivered).await;
    for id in &ids {
        let detail = stage.event(id).await;
        assert_eq!((detail.event.attempts, detail.event.last_error), (1, None));
        assert_eq!(detail.history[0].http_status, Some(200));
    }
    assert_eq!(stage.receiver.requests_to("up"), 3);
}

#[tokio::test(start_paused = true)]
async fn s4_s1_first_failure_schedules_a_retry_in_30_seconds() {
    let stage = Stage::set();
    let id = stage.enqueue("down", 1).await.remove(0);
    stage.receiver.always("down", Reply::Status(500));
    let _engine = stage.start(on_schedule);
    stage.until("one attempt", |store| store.with_state(|state| state.attempts.len() == 1)).await;
    let event = stage.event(&id).await.event;
    assert_eq!((event.status, event.attempts), (DeliveryStatus::Pending, 1));
    assert_eq!(event.next_attempt_at, Some(event.updated_at.after(secs(30))));
    assert_eq!(event.last_error.as_deref(), Some("HTTP 500: as told"));
}

#[tokio::test(start_paused = true)]
async fn s4_main_flow_every_failure_waits_for_its_step() {
    let stage = Stage::set();
    stage.enqueue("down", 1).await;
    stage.receiver.always("down", Reply::Status(500));
    let _engine = stage.start(on_schedule);
    stage.until_all(DeliveryStatus::Failed).await;
    let at: Vec<u64> = stage.receiver.requests().iter().map(|(at, ..)| at.as_secs()).collect();
    let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, step) in gaps.iter().zip([30, 120, 600, 3_600]) {
        assert!((step..=step + 1).contains(gap), "waited {gap} s instead of {step} s");
    }
    assert_eq!(gaps.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn s4_s2_fifth_failure_dead_letters_and_broadcasts() {
    let stage = Stage::set();
    let id = stage.enqueue("down", 1).await.remove(0);
    stage.receiver.always("down", Reply::Status(500));
    let engine = stage.start(on_schedule);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    let notice = notices.next().await.unwrap().notice;
    assert_eq!((notice.kind, &notice.event_id, notice.attempts), (NoticeKind::DeadLettered, &id, 5));
    assert_eq!((notice.webhook_id.as_deref(), notice.session_id.as_deref()), (Some("hook"), Some("session")));
    let event = stage.event(&id).await.event;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Exhausted)));
    assert_eq!((event.attempts, event.next_attempt_at), (5, None));
    stage.pass(secs(100_000)).await;
    assert_eq!(stage.receiver.requests_to("down"), 5, "no retry after the dead letter");
}

#[tokio::test(start_paused = true)]
async fn s4_a1_success_is_broadcast_and_ends_the_retries() {
    let stage = Stage::set();
    let id = stage.enqueue("shaky", 1).await.remove(0);
    stage.receiver.script("shaky", [Reply::Status(503)]);
    let engine = stage.start(on_schedule);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    let notice = notices.next().await.unwrap().notice;
    assert_eq!((notice.kind, notice.event_id, notice.attempts), (NoticeKind::Delivered, id.clone(), 2));
    assert_eq!(stage.event(&id).await.event.next_attempt_at, None);
}

#[tokio::test(start_paused = true)]
async fn gone_ends_the_event_and_a_panic_or_hang_is_an_outcome_like_any_other() {
    let stage = Stage::set();
    let gone = stage.enqueue("gone", 1).await.remove(0);
    let panics = stage.enqueue("panics", 1).await.remove(0);
    let hangs = stage.enqueue("hangs", 1).await.remove(0);
    stage.receiver.script("gone", [Reply::Status(410)]);
    stage.receiver.script("panics", [Reply::Panic]);
    stage.receiver.script("hangs", [Reply::Hang]);
    let engine = stage.start(|_| {});
    stage.until("three outcomes", |store| store.with_state(|state| state.attempts.len() == 3)).await;
    assert_eq!(stage.event(&gone).await.event.failure_kind, Some(FailureKind::Gone));
    assert_eq!(stage.event(&panics).await.history[0].error_class, Some(ErrorClass::Panic));
    let hung = stage.event(&hangs).await;
    assert_eq!(hung.history[0].error_class, Some(ErrorClass::Timeout));
    assert!(hung.history[0].duration >= secs(30) && hung.history[0].duration < secs(31));
    stage.pass(millis(10)).await;
    assert_eq!(engine.in_flight(), 0, "no slot is dead");
    stage
        .until("both are tried again", |store| {
            store.with_state(|state| {
                state.rows.values().filter(|row| row.status == DeliveryStatus::Delivered).count() == 2
            })
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_pauses_the_whole_destination() {
    let stage = Stage::set();
    stage.enqueue("busy", 2).await;
    stage.receiver.script("busy", [Reply::RetryAfter(secs(600))]);
    let _engine = stage.start(|settings| settings.per_destination = 1);
    stage.until_all(DeliveryStatus::Delivered).await;
    let requests = stage.receiver.requests();
    assert!(requests[1].0 - requests[0].0 >= secs(600), "the second event waited too: {requests:?}");
}

#[tokio::test(start_paused = true)]
async fn s2_fr002_ac1_one_cycle_reports_every_bucket() {
    let stage = Stage::set();
    for (host, reply) in [
        ("ok", Reply::Status(204)),
        ("moved", Reply::Status(301)),
        ("missing", Reply::Status(404)),
        ("broken", Reply::Status(500)),
        ("crashes", Reply::Panic),
        ("gone", Reply::Status(410)),
    ] {
        stage.receiver.always(host, reply);
        stage.enqueue(host, 1).await;
    }
    let report = Engine::run_once(settings(|_| {}), stage.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!(report.claimed_count, 6);
    assert_eq!((report.delivered_count, report.retried_count, report.failed_count), (1, 4, 1));
    assert_eq!((report.http_2xx_count, report.http_3xx_count), (1, 1));
    assert_eq!((report.http_4xx_count, report.http_5xx_count, report.network_error_count), (2, 1, 1));
    assert_eq!(report.stale_write_count, 0);
}

#[tokio::test(start_paused = true)]
async fn one_cycle_claims_no_more_than_its_slots_and_its_retry_batch() {
    let stage = Stage::set();
    stage.enqueue("down", 10).await;
    stage.receiver.script("down", (0..10).map(|_| Reply::Status(500)));
    let limits = |settings: &mut Settings| {
        settings.concurrency = 8;
        settings.per_destination = 3;
        settings.retry_batch = 3;
    };
    let first = Engine::run_once(settings(limits), stage.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!((first.claimed_count, first.retried_count), (8, 8), "three at a time, eight in all");
    assert_eq!(stage.receiver.most_in_flight("down"), 1, "they were answered at once");
    stage.pass(secs(3_600)).await;
    let second = Engine::run_once(settings(limits), stage.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!(second.claimed_count, 5, "two first attempts and three retries");
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_counted_as_a_stale_write_and_not_applied() {
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.always("slow", Reply::After(secs(10), 200));
    let (ports, clock) = (stage.ports(), std::sync::Arc::clone(&stage.clock));
    let cancel = async {
        clock.sleep(secs(5)).await;
        stage.memory.cancel(&id, "operator", None).await.unwrap();
    };
    let runtimes = Runtimes::current();
    let (report, ()) = tokio::join!(Engine::run_once(settings(|_| {}), ports, &runtimes), cancel);
    let report = report.unwrap();
    assert_eq!((report.stale_write_count, report.delivered_count, report.http_2xx_count), (1, 0, 1));
    assert_eq!(stage.event(&id).await.event.failure_kind, Some(FailureKind::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn one_cycle_that_cannot_claim_on_finishes_what_it_began() {
    let stage = Stage::set();
    stage.enqueue("slow", 2).await;
    stage.receiver.always("slow", Reply::After(secs(10), 200));
    let runtimes = Runtimes::current();
    let cycle = Engine::run_once(settings(|settings| settings.per_destination = 1), stage.ports(), &runtimes);
    let outage = async {
        stage.until("one is being sent", |_| stage.receiver.requests_to("slow") == 1).await;
        stage.door().fail(&[Call::Claim]);
    };
    let (cycle, ()) = tokio::join!(cycle, outage);
    assert!(cycle.is_err());
    let overview = stage.memory.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending_ready), (1, 1), "the request that was made is recorded");
}

#[tokio::test(start_paused = true)]
async fn one_cycle_gives_up_when_the_store_stays_away() {
    let stage = Stage::set();
    stage.enqueue("up", 1).await;
    stage.door().fail(&[Call::Settle]);
    let unfinished = Engine::run_once(settings(|_| {}), stage.ports(), &Runtimes::current()).await;
    assert!(unfinished.is_err_and(|error| error.to_string().contains("did not finish within")));
}

#[tokio::test(start_paused = true)]
async fn one_cycle_that_is_told_to_stop_claims_nothing_more_and_finishes_what_is_in_flight() {
    let stage = Stage::set();
    stage.receiver.always("slow", Reply::After(secs(5), 200));
    stage.enqueue("slow", 3).await;
    let settings = settings(|settings| settings.per_destination = 1);
    let told = stage.until("one is being sent", |_| stage.receiver.requests_to("slow") == 1);
    let stopped = Engine::run_once_until(settings, stage.ports(), &Runtimes::current(), told, secs(30)).await;
    let (report, drained) = stopped.unwrap();
    assert_eq!((report.claimed_count, report.delivered_count), (1, 1));
    assert_eq!(drained, DrainReport { released: 0, unreleased: 0 });
    let overview = stage.memory.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending_ready), (1, 2));
    assert!(stage.monotonic() < secs(10), "it ended when its work did");
}

#[tokio::test(start_paused = true)]
async fn one_cycle_that_is_told_to_stop_gives_back_what_has_not_finished_by_the_deadline() {
    let stage = Stage::set();
    stage.receiver.always("hangs", Reply::Hang);
    let id = stage.enqueue("hangs", 1).await.remove(0);
    stage.enqueue("up", 1).await;
    let settings = settings(|settings| settings.timeout = secs(300));
    let told = stage.until("both are sent", |_| stage.receiver.requests().len() == 2);
    let stopped = Engine::run_once_until(settings, stage.ports(), &Runtimes::current(), told, secs(4)).await;
    let (report, drained) = stopped.unwrap();
    assert_eq!((report.claimed_count, report.delivered_count), (2, 1));
    assert_eq!(drained, DrainReport { released: 1, unreleased: 0 });
    let event = stage.event(&id).await.event;
    assert_eq!((event.attempts, event.lease_until, event.lost_leases), (0, None, 0));
}

#[tokio::test(start_paused = true)]
async fn one_cycle_that_is_told_to_stop_during_an_outage_says_what_it_left() {
    let stage = Stage::set();
    stage.receiver.always("hangs", Reply::Hang);
    stage.enqueue("hangs", 2).await;
    let told = async {
        stage.until("both are sent", |_| stage.receiver.requests().len() == 2).await;
        stage.door().fail(&ALL_CALLS);
    };
    let settings = settings(|settings| settings.timeout = secs(300));
    let stopped = Engine::run_once_until(settings, stage.ports(), &Runtimes::current(), told, secs(4)).await;
    assert_eq!(stopped.unwrap().1, DrainReport { released: 0, unreleased: 2 });
}

#[tokio::test(start_paused = true)]
async fn followers_hear_every_notice_once_and_in_order() {
    let stage = Stage::set();
    let engine = stage.start(|settings| settings.per_destination = 400);
    let mut early = engine.publisher().subscribe().await.unwrap();
    stage.enqueue("up", 700).await;
    stage.until_all(DeliveryStatus::Delivered).await;
    let mut late = engine.publisher().subscribe().await.unwrap();
    stage.enqueue("again", 1).await;
    let mut heard = Vec::new();
    for _ in 0..701 {
        heard.push(early.next().await.unwrap().cursor);
    }
    assert!(heard.is_sorted_by(|a, b| a < b), "in order, and none twice");
    assert_eq!(late.next().await.unwrap().notice.event_id.as_str(), "again-0", "only what came after");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_falls_behind_is_told_where_to_resume() {
    let stage = Stage::set();
    let engine = stage.start(|settings| settings.per_destination = 400);
    let mut slow = engine.publisher().subscribe().await.unwrap();
    let began_at = slow.cursor();
    stage.enqueue("up", 900).await;
    stage.enqueue("more", 900).await;
    stage.until_all(DeliveryStatus::Delivered).await;
    stage.pass(secs(5)).await;
    assert_eq!(slow.next().await.unwrap_err().after, began_at);
    let missed = stage.memory.notices(Some(began_at), 5_000).await.unwrap();
    assert_eq!(missed.notices.len(), 1_800, "the store has them all");
}

#[tokio::test(start_paused = true)]
async fn while_nobody_follows_no_notice_is_read() {
    let stage = Stage::set();
    let engine = stage.start(|_| {});
    stage.enqueue("up", 10).await;
    stage.until_all(DeliveryStatus::Delivered).await;
    stage.pass(secs(60)).await;
    assert_eq!(stage.door().calls(Call::Notices), 0);
    let mut notices = engine.publisher().subscribe().await.unwrap();
    stage.enqueue("more", 1).await;
    assert_eq!(notices.next().await.unwrap().notice.event_id.as_str(), "more-0");
}

#[tokio::test(start_paused = true)]
async fn what_retention_no_longer_keeps_is_removed() {
    let stage = Stage::set();
    stage.enqueue("up", 20).await;
    let _engine = stage.start(|settings| settings.retention = Some(secs(600)));
    stage.until_all(DeliveryStatus::Delivered).await;
    stage.until("they are gone", |store| store.with_state(|state| state.rows.is_empty())).await;
    assert!((secs(600)..secs(700)).contains(&stage.monotonic()), "gone after {:?}", stage.monotonic());
}
