//! Background operations: a running worker advances them within their rate.

use posthaste_domain::{DeliveryStatus, EndpointRef, FailureKind, Throttle};
use posthaste_store::{NewOperation, OperationKind, OperationState, PastRange, Store as _};

use crate::fixture::{App, Call, Fixture, Reply, secs};
use crate::logs::Log;

#[tokio::test(start_paused = true)]
async fn a_recovery_reopens_failed_events_at_its_rate_and_finishes() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "ep", 1).await;
    // The events expire before their first retry. Their endpoint stays enabled.
    fixture.receiver.always_reply("ep", Reply::Status(500));
    let _engine = fixture.start(|settings| settings.expire_after = Some(secs(5)));
    for _ in 0..60 {
        app.publish(&fixture).await;
    }
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    let expired = fixture.memory.with_state(|state| {
        state.rows.values().filter(|row| row.failure_kind == Some(FailureKind::Expired)).count()
    });
    assert_eq!(expired, 60);
    fixture.receiver.always_reply("ep", Reply::Status(200));
    let new = NewOperation {
        kind: OperationKind::Recover,
        endpoint: &EndpointRef::Id(endpoint.id),
        range: PastRange::new(secs(86_400), secs(0)).expect("a day"),
        rate: Throttle::new(10).expect("a valid rate"),
        actor: "ann",
    };
    let started = fixture.memory.operations().start(app.scope(), &new, None).await.expect("it is enabled");
    fixture.advance(secs(3)).await;
    let done = fixture.memory.operations().get(app.scope(), started.id).await.expect("it is kept").done_count;
    assert!((10..=40).contains(&done), "{done} events within three seconds");
    fixture.advance(secs(10)).await;
    let ended = fixture.memory.operations().get(app.scope(), started.id).await.expect("it is kept");
    assert_eq!((ended.state, ended.done_count), (OperationState::Finished, 60));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_operations_is_logged_once_and_asked_seldom() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    fixture.test_store().refuse(&[Call::Operations]);
    let _engine = fixture.start(|_| {});
    fixture.advance(secs(60)).await;
    let calls = fixture.test_store().calls(Call::Operations);
    assert!((20..=40).contains(&calls), "{calls} calls in a minute");
    assert_eq!(log.count("background operations do not advance"), 1);
}
