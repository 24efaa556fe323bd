//! Throttles: their bounds hold for all workers together.

use posthaste_domain::{ApplicationSpec, EndpointSpec, NewApplication};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn throttled_endpoint(store: &Handle, app: &App, per_second: i64) -> posthaste_store::Endpoint {
    add_endpoint(store, app, EndpointSpec { throttle_per_second: Some(per_second), ..endpoint_spec() }).await
}

async fn claimed(store: &Handle) -> usize {
    claim(store, &claim_by("worker-a")).await.leases.len()
}

pub async fn a_claim_grants_no_more_than_the_throttle_of_an_endpoint(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    throttled_endpoint(&store, &app, 3).await;
    for _ in 0..10 {
        publish_one(&store, &app).await;
    }
    let first = claim_all(&store).await;
    // A store with a clock of its own may refill a token while the case runs.
    assert!((3..=5).contains(&first.len()), "{}", first.len());
    harness.advance(MINUTE / 2).await;
    assert!((3..=5).contains(&claimed(&harness.second_handle()).await));
}

pub async fn a_throttle_of_one_is_shared_by_all_workers(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    throttled_endpoint(&store, &app, 1).await;
    for _ in 0..5 {
        publish_one(&store, &app).await;
    }
    let (one, other) = (harness.store(), harness.second_handle());
    let (a, b) = (claim_by("worker-a"), claim_by("worker-b"));
    let (one, other) = futures_util::future::join(claim(&one, &a), claim(&other, &b)).await;
    let granted = one.leases.len() + other.leases.len();
    assert!((1..=3).contains(&granted), "{granted}");
}

pub async fn a_throttle_delays_no_other_endpoint(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    throttled_endpoint(&store, &app, 1).await;
    let free = endpoint(&store, &app).await;
    for _ in 0..20 {
        publish_one(&store, &app).await;
    }
    let leases = claim_all(&store).await;
    let of_free = leases.iter().filter(|lease| lease.destination_id == free.destination()).count();
    assert_eq!(of_free, 20);
    assert!(leases.len() < 25);
}

pub async fn the_throttle_of_an_application_covers_all_its_endpoints(harness: &dyn Harness) {
    let store = harness.store();
    let spec = ApplicationSpec {
        name: "app".to_owned(),
        throttle_per_second: Some(2),
        ..ApplicationSpec::default()
    };
    let app = add_app(&store, &NewApplication::accept(spec).expect("a valid application")).await;
    endpoint(&store, &app).await;
    endpoint(&store, &app).await;
    for _ in 0..5 {
        publish_one(&store, &app).await;
    }
    let first = claimed(&store).await;
    assert!((2..=4).contains(&first), "{first}");
    harness.advance(MINUTE / 2).await;
    assert!((2..=4).contains(&claimed(&store).await));
}

pub async fn a_repeated_claim_spends_no_throttle(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    throttled_endpoint(&store, &app, 50).await;
    for _ in 0..60 {
        publish_one(&store, &app).await;
    }
    let request = posthaste_store::ClaimRequest { limit: 20, ..claim_by("worker-a") };
    for _ in 0..5 {
        assert_eq!(claim(&store, &request).await.leases.len(), 20);
    }
    assert!(claimed(&store).await >= 30, "the repetitions spent nothing");
}
