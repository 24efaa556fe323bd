//! Payloads that do not come with their leases.

use bytes::Bytes;
use posthaste_domain::{Lease, LeasePayload, LeaseToken, NewEventSpec};
use posthaste_store::{ClaimRequest, LeaseRef};

use crate::Harness;
use crate::fixture::*;

/// A claim whose response contains payloads of up to 20 bytes.
fn claim_inline() -> ClaimRequest {
    ClaimRequest { inline_payload_bytes_max: 20, ..claim_by("worker-a") }
}

fn with_payload(payload: &Bytes) -> NewEventSpec {
    NewEventSpec { payload: payload.clone(), ..event() }
}

/// A payload that is no text, and that a database does not compress well.
fn large_payload() -> Bytes {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..300_000).map(|_| next()).collect()
}

async fn read_payload(store: &Handle, lease: &Lease) -> Option<Bytes> {
    store.read_payload(LeaseRef::from(lease)).await.expect("the store is up")
}

pub async fn a_claim_returns_payloads_up_to_its_limit_and_the_sizes_of_others(harness: &dyn Harness) {
    let store = harness.store();
    for (bytes, is_inline) in [(0, true), (20, true), (21, false), (100_000, false)] {
        let payload = Bytes::from(vec![b'x'; bytes]);
        enqueue(&store, with_payload(&payload)).await;
        let lease = only_lease(&store, &claim_inline()).await;
        let expected = if is_inline { payload.into() } else { LeasePayload::Stored { bytes } };
        assert_eq!(lease.payload, expected);
        apply(&store, &lease, success()).await;
    }
}

pub async fn a_large_payload_is_read_byte_for_byte_under_its_lease(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let payload = large_payload();
    enqueue(&store, with_payload(&payload)).await;
    let lease = only_lease(&store, &claim_inline()).await;
    assert_eq!(lease.payload, LeasePayload::Stored { bytes: 300_000 });
    assert!(read_payload(&store, &lease).await == Some(payload.clone()));
    assert!(read_payload(&second, &lease).await == Some(payload), "through any handle, and again");
    apply(&store, &lease, success()).await;
}

pub async fn many_payloads_are_read_at_the_same_time(harness: &dyn Harness) {
    let store = harness.store();
    let payloads: Vec<Bytes> = (0..20).map(|n| Bytes::from(vec![b'a' + n; 50_000])).collect();
    enqueue_all(&store, payloads.iter().map(with_payload).collect()).await;
    let leases = leases(&store, &claim_inline()).await;
    let read = futures_util::future::join_all(leases.iter().map(|lease| read_payload(&store, lease))).await;
    let mut read: Vec<Bytes> = read.into_iter().flatten().collect();
    read.sort();
    assert!(read == payloads);
}

pub async fn repeated_claims_and_takeovers_leave_large_payloads_out(harness: &dyn Harness) {
    let store = harness.store();
    let payload = Bytes::from_static(b"a payload of more than twenty bytes");
    enqueue(&store, with_payload(&payload)).await;
    let request = claim_inline();
    let first = only_lease(&store, &request).await;
    let repeated = only_lease(&store, &request).await;
    assert_eq!((&repeated.payload, repeated.token), (&LeasePayload::Stored { bytes: 35 }, first.token));
    harness.advance(PAST_LEASE).await;
    assert_eq!(read_payload(&store, &first).await, Some(payload.clone()), "no claim has taken it over");
    let taker = only_lease(&store, &claim_inline()).await;
    assert_eq!(taker.payload, LeasePayload::Stored { bytes: 35 });
    assert_eq!(read_payload(&store, &first).await, None);
    assert_eq!(read_payload(&store, &taker).await, Some(payload.clone()));
    release(&store, &[&taker]).await;
    let whole = only_lease(&store, &claim_by("worker-a")).await;
    assert_eq!(whole.payload, LeasePayload::Loaded(payload), "a claim without the limit returns it");
}

pub async fn no_payload_is_read_under_a_lease_that_has_ended(harness: &dyn Harness) {
    let store = harness.store();
    let payload = Bytes::from(vec![b'x'; 100]);
    for ending in ["settled", "retried", "cancelled", "discarded", "released"] {
        let event_id = enqueue(&store, with_payload(&payload)).await;
        let lease = only_lease(&store, &claim_inline()).await;
        let forged = LeaseRef { key: lease.key, token: LeaseToken::random([7; 16]) };
        assert_eq!(store.read_payload(forged).await, Ok(None), "a token that the row does not have");
        match ending {
            "settled" => apply(&store, &lease, success()).await,
            "retried" => apply(&store, &lease, status(500)).await,
            "released" => release(&store, &[&lease]).await,
            _ => {
                store.cancel(&event_id, "operator".into(), None).await.expect("a pending event");
                if ending == "discarded" {
                    store.discard(&event_id, "operator".into(), None).await.expect("a failed event");
                }
            }
        }
        assert_eq!(read_payload(&store, &lease).await, None, "{ending}");
    }
}
