//! The cost of endpoints in the store: fan-out, matching, and claims beside many registered endpoints.
//!
//! The two sides of each ratio take turns in short rounds, so that both see the machine at the same pace.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::ApplicationRef;
use posthaste_store::Store;

use crate::clock::now;
use crate::options::StoreKind;
use crate::rate;
use crate::run::Run;
use crate::store::load::{DESTINATIONS, event, preload, request};
use crate::store::measure::drain;
use crate::store::registry::{
    OTHER_TYPE, PUBLISHED_TYPE, add_application, add_endpoints, publish_request, register_types,
};
use crate::store::subject::Subject;

/// Endpoints that get each message of the fan-out, and events of each array beside it.
const FAN_OUT: usize = 100;
/// Endpoints that are registered beside direct events.
pub(crate) const REGISTERED: usize = 100_000;
/// Endpoints of the large application, and those of them that get a message.
const MANY: usize = 10_000;
const FEW: usize = 3;
const ROUNDS: usize = 10;

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    measure_publishes(run, kind).await;
    measure_claims(run, kind).await;
}

/// Measures a publish to 100 endpoints beside an enqueue of 100 events, and a publish to 3 of 10,000 endpoints beside one to 3 of 3.
async fn measure_publishes(run: &mut Run, kind: StoreKind) {
    let subject = Subject::create(kind).await;
    let store = &subject.store;
    register_types(store).await;
    let [fan_out, few, many] =
        [add_application(store).await, add_application(store).await, add_application(store).await];
    add_endpoints(store, &fan_out, PUBLISHED_TYPE, FAN_OUT).await;
    add_endpoints(store, &few, PUBLISHED_TYPE, FEW).await;
    add_endpoints(store, &many, OTHER_TYPE, MANY - FEW).await;
    add_endpoints(store, &many, PUBLISHED_TYPE, FEW).await;
    subject.sql("VACUUM ANALYZE;");

    let calls = run.scale.count(2_000) / ROUNDS;
    let (mut published, mut enqueued) = (Duration::ZERO, Duration::ZERO);
    // The first round warms both sides up.
    for round in 0..=ROUNDS {
        let took = [publish(store, &fan_out, calls, FAN_OUT).await, enqueue_arrays(store, calls).await];
        if round > 0 {
            published += took[0];
            enqueued += took[1];
        }
    }
    run.record(kind, "fan_out", published.as_secs_f64() / enqueued.as_secs_f64());
    run.record(kind, "fan_out_rate", rate(ROUNDS * calls * FAN_OUT, published));

    let calls = run.scale.count(20_000) / ROUNDS;
    let (mut of_many, mut of_few) = (Duration::ZERO, Duration::ZERO);
    for round in 0..=ROUNDS {
        let took = [publish(store, &many, calls, FEW).await, publish(store, &few, calls, FEW).await];
        if round > 0 {
            of_many += took[0];
            of_few += took[1];
        }
    }
    run.record(kind, "publish_few", of_many.as_secs_f64() / of_few.as_secs_f64());
    run.record(kind, "publish_few_rate", rate(ROUNDS * calls, of_many));
}

/// Publishes messages one after the other, each of which must reach `endpoints` endpoints.
async fn publish(store: &Arc<dyn Store>, app: &ApplicationRef, calls: usize, endpoints: usize) -> Duration {
    let request = publish_request(app);
    let started = now();
    for _ in 0..calls {
        let published = store.messages().publish(&request).await.expect("the message is stored");
        assert_eq!(published.event_count, endpoints as u64, "the message reaches its endpoints");
    }
    now() - started
}

/// Enqueues arrays of as many events as a message of the fan-out has, one after the other.
async fn enqueue_arrays(store: &Arc<dyn Store>, calls: usize) -> Duration {
    let started = now();
    for _ in 0..calls {
        let events = (0..FAN_OUT).map(event).collect();
        store.enqueue(request(events)).await.expect("the events are stored");
    }
    now() - started
}

/// Measures claims and settles of direct events beside registered endpoints, against those without any.
async fn measure_claims(run: &mut Run, kind: StoreKind) {
    let (without, with) = (Subject::create(kind).await, Subject::create(kind).await);
    register_types(&with.store).await;
    let app = add_application(&with.store).await;
    add_endpoints(&with.store, &app, PUBLISHED_TYPE, run.scale.count(REGISTERED)).await;
    with.sql("VACUUM ANALYZE;");

    let events = run.scale.count(200_000) / ROUNDS;
    let mut took = [Duration::ZERO; 2];
    for round in 0..=ROUNDS {
        for (subject, sum) in [&without, &with].into_iter().zip(&mut took) {
            preload(&subject.store, events, 0..DESTINATIONS).await;
            let drained = drain(&subject.store, events, 500, None, round as u64 * 2 + 1).await;
            if round > 0 {
                *sum += drained;
            }
        }
    }
    let [without, with] = took.map(|took| rate(ROUNDS * events, took));
    run.record(kind, "claims_endpoints", with / without);
    run.record(kind, "claims_endpoints_rate", with);
}
