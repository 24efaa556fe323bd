//! The log of endpoints that results have disabled.

use posthaste_domain::{DisableReason, RetryPolicy, RetryPolicySpec};
use posthaste_store::Store as _;

use crate::fixture::{App, Fixture, Reply, secs};
use crate::logs::Log;

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_gone_is_disabled_and_logged_once() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "gone", 1).await;
    fixture.receiver.always_reply("gone", Reply::Status(410));
    let _engine = fixture.start(|settings| settings.window_start = 1);
    for _ in 0..5 {
        app.publish(&fixture).await;
    }
    fixture.advance(secs(60)).await;
    let status = fixture.memory.destination_status(endpoint.destination()).await.expect("it exists");
    assert_eq!(status.disabled.map(|disabled| disabled.reason), Some(DisableReason::Gone));
    let line = log.line_with("endpoint disabled");
    assert!(line.contains(&endpoint.id.to_string()) && line.contains("reason=\"gone\""), "{line}");
    assert!(!line.contains("gone.test"), "the line shows no URL: {line}");
    assert_eq!(log.count("endpoint disabled"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_for_too_long_is_disabled_and_logged() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "down", 1).await;
    fixture.receiver.always_reply("down", Reply::Status(500));
    let spec = RetryPolicySpec { disable_endpoints_after: Some(secs(600)), ..RetryPolicySpec::exponential() };
    let policy = RetryPolicy::new(spec).expect("a valid policy");
    let _engine = fixture.start(|settings| settings.policy = policy);
    for _ in 0..3 {
        app.publish(&fixture).await;
    }
    fixture.advance(secs(300)).await;
    assert_eq!(log.count("endpoint disabled"), 0);
    fixture
        .wait_until("the endpoint is disabled", |memory| {
            memory.with_state(|state| {
                let endpoint = state.destinations[&endpoint.destination()].endpoint.as_ref();
                endpoint.is_some_and(|endpoint| endpoint.disabled.is_some())
            })
        })
        .await;
    fixture.advance(secs(5)).await;
    let line = log.line_with("endpoint disabled");
    assert!(line.contains("reason=\"failing\"") && line.contains("failed for too long"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_an_operator_disables_is_not_logged_by_a_worker() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "down", 1).await;
    fixture.receiver.always_reply("down", Reply::After(secs(5), 500));
    let _engine = fixture.start(|_| {});
    app.publish(&fixture).await;
    fixture.advance(secs(1)).await;
    let change = posthaste_domain::EndpointChange { is_disabled: Some(true), ..Default::default() };
    let id = posthaste_domain::EndpointRef::Id(endpoint.id);
    fixture.memory.endpoints().update(app.scope(), &id, &change, "ann").await.expect("it exists");
    fixture.advance(secs(60)).await;
    assert_eq!(log.count("endpoint disabled"), 0);
}
