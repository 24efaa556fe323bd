//! Results that the store refuses: they are kept, nothing is sent twice, and claiming stops meanwhile.

use posthaste_domain::{DeliveryStatus, EventId, LeaseTerms};
use posthaste_engine::{Engine, Runtimes, Settings};
use posthaste_store::{Store as _, StoreError};

use crate::fixture::*;
use crate::logs::Log;

fn short_lease(settings: &mut Settings) {
    settings.lease = LeaseTerms::new(secs(3)).expect("long enough");
}

/// Waits until results are kept, and returns the error that the worker reports.
async fn wait_for_failure(fixture: &Fixture, engine: &Engine) -> StoreError {
    let health = engine.health();
    let error = || health.write_failure().and_then(|failure| failure.error);
    fixture.wait_until("results cannot be written", |_| error().is_some()).await;
    error().expect("it has just been seen")
}

#[tokio::test(start_paused = true)]
async fn refused_results_are_kept_and_written_when_the_store_accepts_them_again() {
    let fixture = Fixture::new();
    let engine = fixture.start(|settings| {
        short_lease(settings);
        settings.concurrency = 20;
    });
    // Another worker would take over leases that lapse.
    let other = fixture.start(short_lease);
    // The trial writes of the starts are accepted, so events are sent before the first refusal.
    fixture.advance(millis(10)).await;
    fixture.test_store().refuse(&[Call::Settle, Call::CheckWrites]);
    let ids = fixture.enqueue("up", 60).await;
    let refused = wait_for_failure(&fixture, &engine).await;
    assert!(refused.to_string().contains("permission denied for table t"), "{refused}");
    fixture.advance(secs(60)).await;
    let (claims, requests) = (fixture.test_store().calls(Call::Claim), fixture.receiver.requests_to("up"));
    let settles = fixture.test_store().calls(Call::Settle);
    fixture.advance(secs(3_600)).await;
    assert_eq!(
        fixture.test_store().calls(Call::Claim),
        claims,
        "a worker claims although it cannot write results"
    );
    assert_eq!(fixture.receiver.requests_to("up"), requests);
    let retries = fixture.test_store().calls(Call::Settle) - settles;
    assert!(retries < 3_600 / 5 * 60, "{retries} calls in an hour");
    assert!(engine.health().unwritten_results() > 0);

    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.requests_to("up"), 60, "an event was sent twice");
    for id in &ids {
        let detail = fixture.event(id).await;
        assert_eq!((detail.event.claims, detail.event.lost_leases, detail.history.len()), (1, 0, 1), "{id}");
    }
    assert_eq!((engine.health().write_failure(), engine.health().unwritten_results()), (None, 0));
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_while_results_are_refused_sends_nothing() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("up", 1).await.remove(0);
    fixture.test_store().refuse(&[Call::Settle, Call::CheckWrites]);
    for _ in 0..10 {
        let engine = fixture.start(short_lease);
        fixture.advance(secs(60)).await;
        assert!(engine.health().write_failure().is_some());
        drop(engine);
    }
    assert_eq!(fixture.receiver.requests().len(), 0);
    let once = Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await;
    assert!(once.unwrap_err().to_string().contains("permission denied"), "one cycle fails as well");
    fixture.test_store().recover();
    let _engine = fixture.start(short_lease);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.event(&id).await.event.claims, 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_refused_alone_is_kept_while_others_are_delivered() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.receiver.always_reply("up", Reply::After(secs(1), 200));
    fixture.enqueue("up", 20).await;
    let poison = EventId::new("up-7").unwrap();
    fixture.test_store().reject_settle_of(&poison);
    let engine = fixture.start(short_lease);
    let delivered = |count| {
        move |memory: &posthaste_store_memory::MemoryStore| {
            memory.with_state(|state| {
                state.rows.values().filter(|row| row.status == DeliveryStatus::Delivered).count() == count
            })
        }
    };
    fixture.wait_until("the others are delivered", delivered(19)).await;
    fixture.enqueue("later", 5).await;
    fixture.wait_until("claiming continues", delivered(24)).await;
    fixture.advance(secs(1_800)).await;
    assert_eq!(engine.health().unwritten_results(), 1);
    assert_eq!(engine.health().write_failure(), None);
    assert_eq!(fixture.receiver.requests_to("up"), 20, "the event was sent twice");
    let line = log.line_with("the store refuses this result but accepts other writes");
    assert!(line.contains("event_id=up-7") && line.contains("code="), "{line}");
    assert_eq!(log.count("the store refuses this result"), 1);
    // Cancelling ends it: the store has no lease for the result any more.
    fixture.memory.cancel(&poison, "operator".into(), None).await.unwrap();
    fixture.test_store().recover();
    fixture.wait_until("the result is dropped", |_| engine.health().unwritten_results() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_single_refused_result_does_not_stop_an_idle_worker_for_ever() {
    let fixture = Fixture::new();
    fixture.test_store().reject_settle_of(&EventId::new("poison-0").unwrap());
    fixture.enqueue("poison", 1).await;
    let _engine = fixture.start(short_lease);
    fixture.wait_until("the poison is sent", |_| fixture.receiver.requests_to("poison") == 1).await;
    fixture.advance(secs(1)).await;
    let later = fixture.enqueue("later", 1).await.remove(0);
    fixture.advance(secs(5)).await;
    assert_eq!(fixture.event(&later).await.event.status, DeliveryStatus::Delivered);
    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.requests_to("poison"), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_renewals_are_retried_until_they_are_accepted() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let ids = fixture.enqueue("slow", 300).await;
    let _engine = fixture.start(|settings| {
        short_lease(settings);
        settings.per_destination = 300;
    });
    fixture.wait_until("all are sent", |_| fixture.receiver.requests_to("slow") == 300).await;
    fixture.test_store().refuse(&[Call::Renew]);
    let before = fixture.test_store().calls(Call::Renew);
    fixture.advance(millis(2_500)).await;
    let calls = fixture.test_store().calls(Call::Renew) - before;
    assert!(calls > 0 && calls < 150, "{calls} calls, although the store refuses all");
    fixture.test_store().recover();
    let _other = fixture.start(short_lease);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    for id in ids {
        assert_eq!(fixture.event(&id).await.event.claims, 1, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_results_are_logged_once_a_minute_and_their_loss_at_the_end() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let engine = fixture.start(|_| {});
    fixture.advance(millis(10)).await;
    fixture.test_store().refuse(&[Call::Settle, Call::CheckWrites]);
    let id = fixture.enqueue("up", 1).await.remove(0);
    wait_for_failure(&fixture, &engine).await;
    fixture.advance(secs(290)).await;
    assert_eq!(log.count("results cannot be written"), 5);
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased, drained.unwritten), (1, 0, 1));
    assert!(log.line_with("are lost").contains("unwritten=1"));
    let _next = fixture.start(|_| {});
    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.event(&id).await.event.lost_leases, 0, "the lost result counts as a lost lease");
}

#[tokio::test(start_paused = true)]
async fn a_result_without_an_answer_for_five_seconds_stops_claiming() {
    let fixture = Fixture::new();
    let engine = fixture.start(|_| {});
    fixture.test_store().hang(Call::Settle);
    fixture.enqueue("up", 1).await;
    fixture.wait_until("the event is sent", |_| fixture.receiver.requests_to("up") == 1).await;
    fixture.advance(secs(6)).await;
    let failure = engine.health().write_failure().expect("the result is overdue");
    assert_eq!((failure.error, failure.waiting), (None, 1));
    fixture.enqueue("later", 1).await;
    fixture.advance(secs(60)).await;
    assert_eq!(fixture.receiver.requests_to("later"), 0);
}
