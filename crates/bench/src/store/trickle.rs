//! Claims of single events in a store with many rows that cannot be sent: due events of an excluded destination, or
//! destinations that only have future retries.

use posthaste_store::{EventQuery, PageRequest};

use crate::options::StoreKind;
use crate::percentile::Percentiles;
use crate::run::Run;
use crate::store::load::preload;
use crate::store::measure::{claim_singles, drain};
use crate::store::subject::Subject;

const EXCLUDED: usize = 1_000_000;
const LATER: usize = 100_000;
const CLAIMS: usize = 2_000;

pub(crate) async fn measure(run: &mut Run, kind: StoreKind) {
    let subject = Subject::create(kind).await;
    preload(&subject.store, run.scale.count(EXCLUDED), 0..1).await;
    let newest = subject.store.events(&EventQuery::default(), &PageRequest::default()).await;
    let excluded = newest.expect("the store is up").items[0].destination_id;
    let claims = Percentiles::new(claim_singles(&subject.store, CLAIMS, 1, &[excluded]).await, 0);
    run.record(kind, "trickle_excluded_p50", claims.p50);
    run.record(kind, "trickle_excluded_p99", claims.p99);

    let subject = Subject::create(kind).await;
    let later = run.scale.count(LATER);
    preload(&subject.store, later, 0..later).await;
    drain(&subject.store, later, 500, Some(1), 7).await;
    let claims = Percentiles::new(claim_singles(&subject.store, CLAIMS, later, &[]).await, 0);
    run.record(kind, "trickle_later_p50", claims.p50);
    run.record(kind, "trickle_later_p99", claims.p99);
}
