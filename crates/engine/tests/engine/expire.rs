//! Expiry: every event ends, also if its receiver never does.

use posthaste_domain::{DeliveryStatus, FailureKind, RetryPolicy, RetryPolicySpec};

use posthaste_engine::{Engine, Runtimes};

use crate::fixture::{Call, Fixture, Reply, secs, settings};

#[tokio::test(start_paused = true)]
async fn events_held_by_an_open_circuit_expire() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("down", Reply::Status(500));
    let ids = fixture.enqueue("down", 200).await;
    let _engine = fixture.start(|settings| {
        let spec = RetryPolicySpec { max_retries: Some(20), ..RetryPolicySpec::exponential() };
        settings.policy = RetryPolicy::new(spec).expect("a valid policy");
        settings.expire_after = Some(secs(1_800));
    });
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    assert!(fixture.monotonic() < secs(1_830), "the last event ended after {:?}", fixture.monotonic());
    let mut held = 0;
    for id in &ids {
        let event = fixture.event(id).await.event;
        assert_eq!(event.failure_kind, Some(FailureKind::Expired), "{event:?}");
        let error = event.last_error.expect("a failed event has an error");
        assert!(error.starts_with("expired after 30 min"), "{error}");
        held += usize::from(error.contains("held by the open circuit of its destination"));
    }
    assert!(held > 150, "the circuit held {held} events");
}

#[tokio::test(start_paused = true)]
async fn events_never_expire_if_that_is_switched_off() {
    let fixture = Fixture::new();
    let _engine = fixture.start(|settings| settings.expire_after = None);
    fixture.test_store().fail(&[Call::Claim]);
    fixture.enqueue("up", 1).await;
    fixture.advance(secs(30 * 86_400)).await;
    assert_eq!(fixture.test_store().calls(Call::Expire), 0);
    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
}

#[tokio::test(start_paused = true)]
async fn a_walk_over_thousands_of_events_continues_after_an_error() {
    let fixture = Fixture::new();
    fixture.test_store().fail(&[Call::Claim, Call::Expire]);
    fixture.enqueue("up", 3_000).await;
    let _engine = fixture.start(|settings| settings.expire_after = Some(secs(3_600)));
    fixture.advance(secs(3_700)).await;
    assert!(fixture.test_store().calls(Call::Expire) > 50, "an error does not end the loop");
    fixture.test_store().recover();
    fixture.test_store().fail(&[Call::Claim]);
    let before = fixture.test_store().calls(Call::Expire);
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    let steps = fixture.test_store().calls(Call::Expire) - before;
    assert!((6..=8).contains(&steps), "{steps} steps");
}

#[tokio::test(start_paused = true)]
async fn a_single_cycle_expires_events_and_sends_the_others() {
    let fixture = Fixture::new();
    fixture.enqueue("old", 1_200).await;
    fixture.advance(secs(3_700)).await;
    fixture.enqueue("new", 1).await;
    let settings = settings(|settings| settings.expire_after = Some(secs(3_600)));
    let report = Engine::run_once(settings, fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!((report.failed_count, report.delivered_count), (1_200, 1));
    assert_eq!((fixture.receiver.requests_to("old"), fixture.receiver.requests_to("new")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_single_cycle_delivers_although_expiry_fails() {
    let fixture = Fixture::new();
    fixture.test_store().fail(&[Call::Expire]);
    fixture.enqueue("up", 1).await;
    let report = Engine::run_once(settings(|_| {}), fixture.ports(), &Runtimes::current()).await.unwrap();
    assert_eq!(report.delivered_count, 1);
}
