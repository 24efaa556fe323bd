//! Rates of enqueues, and of claims with settles, without sending.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::now;
use crate::options::StoreKind;
use crate::rate;
use crate::run::Run;
use crate::store::load::{DESTINATIONS, event, preload, request};
use crate::store::measure::drain;
use crate::store::subject::Subject;

const EVENTS: usize = 300_000;
/// Events that are drained first and not measured.
const WARM_UP: usize = 30_000;

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let subject = Subject::create(kind).await;
    let store = &subject.store;
    let (warm_up, events) = (run.scale.count(WARM_UP), run.scale.count(EVENTS));

    let started = now();
    preload(store, warm_up + events, 0..DESTINATIONS).await;
    run.record(kind, "enqueue_arrays", rate(warm_up + events, now() - started));
    drain(store, warm_up, 500, None, 1).await;

    let micros_per_event = |cpu: Duration| cpu.as_secs_f64() * 1e6 / events as f64;
    for (batch, key, cpu_key) in [(500, "claims_500", "claims_cpu"), (100, "claims_100", "claims_100_cpu")] {
        if batch == 100 {
            preload(store, events, 0..DESTINATIONS).await;
        }
        let cpu_before = subject.cpu_time();
        let took = drain(store, events, batch, None, 3).await;
        run.record(kind, key, rate(events, took));
        if let Some((before, after)) = cpu_before.zip(subject.cpu_time()) {
            run.record(kind, cpu_key, micros_per_event(after - before));
        }
    }

    preload(store, events, 0..DESTINATIONS).await;
    run.record(kind, "claims_retries", rate(events, drain(store, events, 500, Some(20), 5).await));
    enqueue_singles(run, kind, &subject).await;
}

/// Measures 64 producers that enqueue one event at a time; the store lets them share commits.
async fn enqueue_singles(run: &mut Run, kind: StoreKind, subject: &Subject) {
    const PRODUCERS: usize = 64;
    let each = run.scale.count(128_000) / PRODUCERS;
    let started = now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let store = Arc::clone(&subject.store);
            tokio::spawn(async move {
                for n in 0..each {
                    let stored = store.enqueue(request(vec![event((producer + n) % DESTINATIONS)])).await;
                    assert!(stored.is_ok(), "{stored:?}");
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("the producer task does not panic");
    }
    run.record(kind, "enqueue_singles", rate(PRODUCERS * each, now() - started));
}
