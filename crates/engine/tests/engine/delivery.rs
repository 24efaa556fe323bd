//! One delivery and its three ends: delivered, retried, dead-lettered.

use crate::stage::{Reply, Stage, millis, secs, settings};
use posthaste_domain::{DeliveryStatus, ErrorClass, FailureKind, NoticeKind, RetryPolicy, RetryPolicySpec};
use posthaste_engine::{Engine, Settings};

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
    let mut notices = engine.publisher().subscribe();
    let notice = notices.recv().await.unwrap().notice;
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
    let mut notices = engine.publisher().subscribe();
    let notice = notices.recv().await.unwrap().notice;
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
    let report = Engine::once(settings(|_| {}), stage.ports()).await.unwrap();
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
        settings.retry_batch = 3;
    };
    let first = Engine::once(settings(limits), stage.ports()).await.unwrap();
    assert_eq!((first.claimed_count, first.retried_count), (8, 8));
    stage.pass(secs(3_600)).await;
    let second = Engine::once(settings(limits), stage.ports()).await.unwrap();
    assert_eq!(second.claimed_count, 5, "two first attempts and three retries");
}
