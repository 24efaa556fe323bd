//! Bulk operations on a million dead letters: counting and requeueing them, and claims of single events meanwhile.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::Throttle;
use posthaste_store::{
    BulkAction, BulkFilter, EventQuery, ExpireRequest, NewBulkOperation, OperationState, PageRequest, Store,
};

use crate::clock::{now, sleep};
use crate::options::StoreKind;
use crate::percentile::Percentiles;
use crate::rate;
use crate::run::Run;
use crate::store::load::preload;
use crate::store::measure::claim_singles;
use crate::store::subject::Subject;

const DEAD_LETTERS: usize = 1_000_000;
const CLAIMS: usize = 2_000;
/// Rows that a step of a worker examines, and its pause after a step.
const STEP_ROWS: usize = 500;
const STEP_PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let subject = Subject::create(kind).await;
    let store = &subject.store;
    let dead_letters = run.scale.count(DEAD_LETTERS);
    preload(store, dead_letters, 0..1).await;
    let newest = store.events(&EventQuery::default(), &PageRequest::default()).await;
    let receiver = newest.expect("the store is up").items[0].destination_id;
    dead_letter_all(store).await;
    subject.sql("VACUUM ANALYZE;");

    let started = now();
    let counted = store.bulk().count(&BulkFilter::default()).await.expect("the store is up");
    run.record(kind, "bulk_count", (now() - started).as_secs_f64() * 1_000.0);
    assert_eq!(counted.count, dead_letters as u64, "every event is a dead letter");

    // First beside claims, with the pauses of a worker; then the rest as fast as the store allows.
    start(store, 10_000).await;
    let requeueing = {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            loop {
                store.bulk().advance(STEP_ROWS).await.expect("the store is up");
                sleep(STEP_PAUSE).await;
            }
        })
    };
    let claims = Percentiles::new(claim_singles(store, CLAIMS, 1, &[receiver]).await, 0);
    requeueing.abort();
    run.record(kind, "bulk_claim_p50", claims.p50);
    run.record(kind, "bulk_claim_p99", claims.p99);

    stop_all(store).await;
    let left = store.bulk().count(&BulkFilter::default()).await.expect("the store is up").count;
    start(store, 1_000_000).await;
    let (started, mut done) = (now(), 0);
    loop {
        let step = store.bulk().advance(STEP_ROWS).await.expect("the store is up");
        done += step.done;
        if step.next_in.is_none() {
            break;
        }
    }
    assert_eq!(done as u64, left, "every dead letter is requeued");
    run.record(kind, "bulk_rate", rate(done, now() - started));
}

/// Lets every pending event expire.
async fn dead_letter_all(store: &Arc<dyn Store>) {
    let mut after = None;
    loop {
        let request = ExpireRequest { expire_after: Duration::ZERO, after, rows_max: 2_000 };
        after = store.expire(&request).await.expect("the store is up").next;
        if after.is_none() {
            return;
        }
    }
}

async fn start(store: &Arc<dyn Store>, per_second: i64) {
    let filter = BulkFilter::default();
    let matched = store.bulk().count(&filter).await.expect("the store is up");
    let rate = Throttle::new(per_second).expect("a valid rate");
    let action = BulkAction::Requeue;
    let new = NewBulkOperation { action, filter, rate, matched, reason: None, actor: "bench", key: None };
    store.bulk().start(&new).await.expect("the store is up");
}

async fn stop_all(store: &Arc<dyn Store>) {
    let running =
        store.bulk().list(Some(OperationState::Running), &posthaste_store::ListRequest::default()).await;
    for operation in running.expect("the store is up").items {
        store.bulk().stop(operation.id, "bench").await.expect("the store is up");
    }
}
