//! Operators' requests for a probe of a destination whose circuit is open.

use posthaste_domain::DestinationId;
use posthaste_store::{DestinationAction, ProbeRefusal, ProbeResponse, RequestedProbe, StoreError};

use crate::Harness;
use crate::fixture::*;

async fn probe(store: &Handle, id: DestinationId) -> ProbeResponse {
    store.probe_destination(id, "ann").await.expect("the destination exists")
}

/// The probes that a claim returns which was answered last ten seconds ago.
async fn probes(store: &Handle) -> Vec<RequestedProbe> {
    let request =
        posthaste_store::ClaimRequest { resumed_within: 10 * SECOND, limit: 0, ..claim_by("worker") };
    claim(store, &request).await.probes
}

/// Adds a destination with an open circuit and a pending event.
async fn open_destination(store: &Handle) -> DestinationId {
    let event_id = enqueue(store, event()).await;
    let id = view(store, &event_id).await.destination_id;
    store.report_circuits(&[open_circuit("worker", id)]).await.expect("the store is up");
    id
}

pub async fn workers_learn_of_a_requested_probe_with_their_next_claims(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let id = open_destination(&store).await;
    assert_eq!(probes(&store).await, []);
    let mut wakeups = store.wakeups();
    let response = probe(&store, id).await;
    assert_woken(&mut wakeups).await;
    assert_eq!(response.refusal, None);
    assert_eq!(response.status, destination_status(&store, id).await);
    assert!(response.status.circuit.is_some(), "the circuit stays open");
    let first = probes(&store).await;
    assert_eq!(first.iter().map(|probe| probe.destination).collect::<Vec<_>>(), [id]);
    assert_eq!(probes(&second).await, first, "every claim of the next ten seconds returns the same request");
    probe(&store, id).await;
    assert_ne!(probes(&store).await, first, "another request has another time");
    harness.advance(MINUTE).await;
    assert_eq!(probes(&store).await, []);
    let audit = store.destination(id).await.expect("it exists").audit;
    assert!(audit.iter().all(|entry| entry.action == DestinationAction::Probe && entry.actor == "ann"));
    assert_eq!(audit.len(), 2);
}

pub async fn a_probe_that_makes_no_sense_is_refused_and_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let id = view(&store, &event_id).await.destination_id;
    assert_eq!(probe(&store, id).await.refusal, Some(ProbeRefusal::NoOpenCircuit));
    store.report_circuits(&[open_circuit("worker", id)]).await.expect("the store is up");
    let lease = claim_one(&store).await;
    assert_eq!(probe(&store, id).await.refusal, Some(ProbeRefusal::NoWaitingEvent), "its event is in flight");
    release(&store, &[&lease]).await;
    assert_eq!(probe(&store, id).await.refusal, None);
    store.pause_destination(id, &pause_for(HOUR)).await.expect("it exists");
    assert_eq!(probe(&store, id).await.refusal, Some(ProbeRefusal::Paused));
    assert_nothing_claimable(&store).await;
    let audit = store.destination(id).await.expect("it exists").audit;
    assert_eq!(audit.iter().filter(|entry| entry.action == DestinationAction::Probe).count(), 1);
    let unknown = store.probe_destination(DestinationId(9_999), "ann").await;
    assert_eq!(unknown, Err(StoreError::DestinationNotFound { id: 9_999 }));
}
