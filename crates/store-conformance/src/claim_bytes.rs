//! The byte limits of a claim.

use std::collections::BTreeSet;

use bytes::Bytes;
use posthaste_domain::{EventId, Lease, NewEventSpec};
use posthaste_store::ClaimRequest;

use crate::Harness;
use crate::fixture::*;

const OTHER: &str = "https://other.example/hook";

fn sized(spec: NewEventSpec, payload_bytes: usize) -> NewEventSpec {
    NewEventSpec { payload: Bytes::from(vec![b'x'; payload_bytes]), ..spec }
}

fn claim_within(payload_bytes_max: usize) -> ClaimRequest {
    ClaimRequest { payload_bytes_max, ..claim_by("worker-a") }
}

fn sizes(leases: &[Lease]) -> Vec<usize> {
    let mut sizes: Vec<usize> = leases.iter().map(|lease| lease.payload.len()).collect();
    sizes.sort_unstable();
    sizes
}

fn event_ids(leases: &[Lease]) -> BTreeSet<EventId> {
    leases.iter().map(|lease| lease.event_id.clone()).collect()
}

pub async fn a_claim_grants_one_event_and_others_within_its_bytes(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![sized(event(), 100_000); 7]).await;
    let mut granted = Vec::new();
    for (payload_bytes_max, expected) in [(0, 1), (99_999, 1), (100_000, 2), (200_001, 3)] {
        let claimed = claim(&store, &claim_within(payload_bytes_max)).await;
        assert_eq!(claimed.leases.len(), expected, "one event and {payload_bytes_max} bytes");
        let is_last = payload_bytes_max == 200_001;
        assert_eq!(claimed.is_limited_by_bytes, !is_last, "the last claim left no event");
        assert_eq!(sizes(&claimed.leases), vec![100_000; expected]);
        granted.extend(claimed.leases);
    }
    assert_eq!(event_ids(&granted).len(), 7, "no event was granted twice, and none was left");
}

pub async fn a_claim_without_large_payloads_is_not_limited_by_bytes(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![sized(event(), 10); 20]).await;
    let claimed = claim(&store, &claim_within(190)).await;
    assert_eq!((claimed.leases.len(), claimed.is_limited_by_bytes), (20, false));
}

pub async fn large_events_of_one_destination_do_not_hide_small_ones_of_others(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![sized(event(), 100_000); 30]).await;
    let small = enqueue(&store, sized(event_to(OTHER), 10)).await;
    // The large ones have waited longer. They get the event that a claim always grants, and all bytes that they can.
    let mut found = false;
    for _ in 0..2 {
        let claimed = claim(&store, &claim_within(50_000)).await;
        assert!(claimed.is_limited_by_bytes);
        found |= event_ids(&claimed.leases).contains(&small);
    }
    assert!(found, "the small event waits for one claim at most");
}

pub async fn an_event_larger_than_each_may_be_keeps_back_only_its_destination(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![sized(event(), 100_000), sized(event(), 10)]).await;
    let small = enqueue_all(&store, vec![sized(event_to(OTHER), 10); 3]).await;
    let request = || ClaimRequest { event_payload_bytes_max: Some(20), ..claim_by("worker-a") };
    let claimed = claim(&store, &request()).await;
    assert_eq!(event_ids(&claimed.leases), small.into_iter().collect());
    assert!(claimed.is_limited_by_bytes);
    let kept_back = claimed.kept_back;
    let claimed = claim(&store, &request()).await;
    assert_eq!((claimed.leases.len(), claimed.is_limited_by_bytes), (0, true), "nothing fits");
    let granted = claim(&store, &claim_by("worker-a")).await;
    assert_eq!(sizes(&granted.leases), [10, 100_000], "a claim without the limit grants them");
    assert_eq!(
        kept_back,
        [granted.leases[0].destination_id],
        "and the other claim had named their destination"
    );
    assert_eq!(granted.kept_back, []);
}

/// Whatever happened to an event, the store knows the size of its payload.
pub async fn retried_requeued_released_and_lost_events_count_their_bytes(harness: &dyn Harness) {
    let store = harness.store();
    let spec = || sized(event(), 100_000);
    enqueue_retrying(&store, spec()).await;
    let failed = enqueue_dead_lettered(&store, spec()).await;
    store.requeue(&failed, "operator".into()).await.expect("a failed event can be requeued");
    harness.advance(HOUR).await;
    enqueue(&store, spec()).await;
    let claimed = claim_all(&store).await;
    assert_eq!(sizes(&claimed), [100_000; 3]);
    store.release(&lease_refs(&claimed)).await.expect("the store is up");
    for expected in [2, 1] {
        let claimed = claim(&store, &claim_within(100_000)).await;
        assert_eq!((claimed.leases.len(), claimed.is_limited_by_bytes), (expected, expected == 2));
    }
    harness.advance(PAST_LEASE).await;
    for expected in [2, 1] {
        let claimed = claim(&store, &claim_within(100_000)).await;
        assert_eq!(
            (claimed.leases.len(), claimed.is_limited_by_bytes),
            (expected, expected == 2),
            "takeovers"
        );
    }
}

pub async fn a_repeated_claim_releases_the_leases_that_do_not_fit(harness: &dyn Harness) {
    let store = harness.store();
    let payloads = [100_000, 30_000, 20_000, 10_000];
    enqueue_all(&store, payloads.iter().map(|bytes| sized(event(), *bytes)).collect()).await;
    let first = claim_by("worker-a");
    let granted = leases(&store, &first).await;
    assert_eq!(granted.len(), 4);
    let repeated = claim(&store, &first).await;
    assert_eq!(lease_refs(&repeated.leases), lease_refs(&granted), "the same limit keeps all");
    assert!(!repeated.is_limited_by_bytes);

    let less = ClaimRequest { payload_bytes_max: 30_000, ..first.clone() };
    let kept = claim(&store, &less).await;
    assert_eq!(sizes(&kept.leases), [10_000, 20_000, 100_000], "the largest, and the smallest others");
    assert!(kept.is_limited_by_bytes);
    let kept_refs: BTreeSet<_> = lease_refs(&kept.leases).into_iter().collect();
    assert!(kept_refs.is_subset(&lease_refs(&granted).into_iter().collect()), "under their first tokens");
    let again = claim(&store, &first).await;
    assert_eq!(lease_refs(&again.leases), lease_refs(&kept.leases), "a released lease does not return");

    // The released event can be claimed at once, has lost no lease, and its old token is stale.
    let released = only_lease(&store, &claim_by("worker-b")).await;
    assert_eq!(released.payload.len(), 30_000);
    let view = detail(&store, &released.event_id).await.event;
    assert_eq!((view.claims, view.lost_leases), (2, 0));
    for lease in kept.leases.iter().chain([&released]) {
        apply(&store, lease, success()).await;
    }
}
