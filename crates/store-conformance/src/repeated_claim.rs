//! Claims repeated under the same id because the response was lost.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, EventId, Lease, NewEventSpec, Trigger};
use posthaste_store::{ClaimRequest, EventDetail, SettleResult};

use crate::Harness;
use crate::fixture::*;

async fn details(store: &Handle, event_ids: &[EventId]) -> Vec<EventDetail> {
    let mut details = Vec::new();
    for event_id in event_ids {
        details.push(detail(store, event_id).await);
    }
    details
}

pub async fn repeated_claim_returns_the_same_leases(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 5]).await;
    let request = ClaimRequest { limit: 3, ..claim_by("worker-a") };
    let first = leases(&store, &request).await;
    assert_eq!(first.len(), 3);
    for _ in 0..3 {
        assert_eq!(
            lease_refs(&leases(&store, &request).await),
            lease_refs(&first),
            "a repeated claim returns the same leases"
        );
    }
    assert_eq!(claim_all(&store).await.len(), 2, "the other events are claimable by other claims");
    for lease in &first {
        apply(&store, lease, success()).await;
    }
}

pub async fn repeated_claim_through_another_handle_returns_the_same_leases(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    enqueue_all(&store, vec![event(); 5]).await;
    let request = ClaimRequest { limit: 3, ..claim_by("worker-a") };
    let first = leases(&store, &request).await;
    assert_eq!(first.len(), 3);
    let again = leases(&second, &request).await;
    assert_eq!(lease_refs(&again), lease_refs(&first), "every handle returns the leases of the claim");
    for lease in &again {
        apply(&second, lease, success()).await;
    }
}

/// All fields except `overdue`. The pattern names every field, so that a new field breaks the build here.
fn fields_except_overdue(lease: &Lease) -> impl Debug + PartialEq + use<> {
    let Lease {
        token,
        key,
        event_id,
        wire_id,
        message_id,
        destination_id,
        destination_url,
        profile_version,
        event_type,
        content_type,
        payload,
        traceparent,
        attempts,
        max_attempts,
        trigger,
        overdue: _,
    } = lease.clone();
    let request = (event_type, content_type, payload.expect_loaded().clone(), traceparent);
    let counts = (attempts, max_attempts, trigger);
    let destination = (destination_id, destination_url, profile_version);
    ((token, key, event_id, wire_id, message_id), destination, request, counts)
}

pub async fn repeated_claim_returns_every_field_unchanged(harness: &dyn Harness) {
    let store = harness.store();
    let requeued = enqueue_dead_lettered(&store, event_to("https://gone.example/")).await;
    let retried = enqueue_retrying(&store, event()).await;
    store.requeue(&requeued, "operator".into()).await.expect("a failed event can be requeued");
    harness.advance(HOUR).await;
    let spec = NewEventSpec {
        event_type: "order created".to_owned(),
        content_type: Some("application/octet-stream".to_owned()),
        payload: Bytes::from_static(b"\0\xff\xfe not utf-8 \xc3\x28 {\"a\": 1.0}\r\n"),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        max_attempts: Some(17),
        ..event_with_id("order-17/created")
    };
    let full = enqueue(&store, spec.clone()).await;

    let request = claim_by("worker-a");
    let first = leases(&store, &request).await;
    harness.advance(LEASE / 2).await;
    let again = leases(&store, &request).await;
    let by_event = |leases: &[Lease]| -> BTreeMap<EventId, Lease> {
        leases.iter().map(|lease| (lease.event_id.clone(), lease.clone())).collect()
    };
    let (first, again) = (by_event(&first), by_event(&again));
    assert_eq!((first.len(), again.len()), (3, 3));
    for (event_id, lease) in &first {
        assert_eq!(fields_except_overdue(&again[event_id]), fields_except_overdue(lease));
    }
    assert_eq!(again[&full].payload.expect_loaded(), &spec.payload);
    assert_eq!((again[&retried].attempts, again[&retried].trigger), (1, Trigger::Scheduled));
    assert_eq!((again[&requeued].attempts, again[&requeued].trigger), (0, Trigger::Manual));
}

pub async fn repeated_claim_increments_no_counter(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_retrying(&store, event()).await;
    harness.advance(HOUR).await;
    claim_one(&store).await;
    harness.advance(PAST_LEASE).await;

    let without_lease_until = |mut detail: EventDetail| {
        detail.event.lease_until = None;
        detail
    };
    let request = claim_by("worker-a");
    only_lease(&store, &request).await;
    let before = (without_lease_until(detail(&store, &event_id).await), end_of_log(&store).await);
    let event = &before.0.event;
    assert_eq!((event.claims, event.attempts, event.lost_leases), (3, 1, 1));
    // More often than an event may lose its lease before it is abandoned.
    for _ in 0..10 {
        assert_eq!(only_lease(&store, &request).await.attempts, 1);
        let after = (without_lease_until(detail(&store, &event_id).await), end_of_log(&store).await);
        assert_eq!(after, before);
    }
}

pub async fn repeated_claim_extends_its_leases(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let request = ClaimRequest { lease: 10 * MINUTE, ..claim_by("worker-a") };
    leases(&store, &request).await;
    harness.advance(7 * MINUTE).await;
    only_lease(&store, &request).await;
    let event = view(&store, &event_id).await;
    assert_eq!(event.lease_owner, Some(worker("worker-a")));
    assert_time_between(event.created_at, event.lease_until.expect("the event is leased"), 17 * MINUTE);

    harness.advance(7 * MINUTE).await;
    assert_nothing_claimable(&store).await;
    assert_eq!(view(&store, &event_id).await.lease_owner, Some(worker("worker-a")));
    harness.advance(7 * MINUTE).await;
    assert_eq!(claim_one(&store).await.event_id, event_id, "the claim was not repeated a third time");
}

pub async fn repeated_claim_returns_only_leases_it_still_holds(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 8]).await;
    let request = claim_by("worker-a");
    let first: [Lease; 8] = leases(&store, &request).await.try_into().expect("eight events are claimable");
    let [delivered, retried, gone, cancelled, requeued, released, kept, kept_too] = first;
    apply(&store, &delivered, success()).await;
    apply(&store, &retried, status(500)).await;
    apply(&store, &gone, status(410)).await;
    for lease in [&cancelled, &requeued] {
        store
            .cancel(&lease.event_id, "operator".into(), None)
            .await
            .expect("a pending event can be cancelled");
    }
    store.requeue(&requeued.event_id, "operator".into()).await.expect("a failed event can be requeued");
    release(&store, &[&released]).await;

    let ended = [delivered, retried, gone, cancelled, requeued, released].map(|lease| lease.event_id);
    let before = details(&store, &ended).await;
    assert_eq!(lease_refs(&leases(&store, &request).await), lease_refs(&[kept, kept_too]));
    assert_eq!(details(&store, &ended).await, before, "events that are due again wait for another claim");
    assert_eq!(claim_all(&store).await.len(), 2, "the requeued and the released event");
}

pub async fn repeated_claim_takes_no_other_event(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 2]).await;
    let request = |owner| ClaimRequest { limit: 1, abandon_after: 1, ..claim_by(owner) };
    let mine = ClaimRequest { lease: HOUR, ..request("worker-a") };
    let first = only_lease(&store, &mine).await;
    let expired = only_lease(&store, &request("worker-b")).await;
    harness.advance(PAST_LEASE).await;
    let due = enqueue(&store, event()).await;

    let others = [expired.event_id.clone(), due.clone()];
    let before = (details(&store, &others).await, end_of_log(&store).await);
    // The limit would allow every event.
    let again = only_lease(&store, &ClaimRequest { limit: 100, ..mine }).await;
    assert_eq!(again.token, first.token);
    assert_eq!((details(&store, &others).await, end_of_log(&store).await), before);

    let claimed = claim(&store, &request("worker-c")).await;
    assert_eq!((claimed.leases.len(), &claimed.leases[0].event_id), (1, &due));
    // A claim that is filled with due events may leave expired leases to the next one.
    let next = claim(&store, &request("worker-c")).await;
    assert_eq!(next.leases, []);
    assert_eq!([claimed.abandoned, next.abandoned].concat(), [expired.event_id]);
}

pub async fn repeated_claim_returns_leases_of_a_destination_paused_meanwhile(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 2]).await;
    let request = ClaimRequest { limit: 1, ..claim_by("worker-a") };
    let first = only_lease(&store, &request).await;
    apply(&store, &claim_one(&store).await, requests_pause(HOUR)).await;
    let again = only_lease(&store, &request).await;
    assert_eq!(again.token, first.token, "a pause ends no lease");
    apply(&store, &again, success()).await;
}

pub async fn repeated_claim_without_leases_claims_again(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let request = claim_by("worker-a");
    let released = only_lease(&store, &request).await;
    release(&store, &[&released]).await;

    let settled = only_lease(&store, &request).await;
    assert_ne!(settled.token, released.token, "a new lease has a new token");
    let late = settle(&store, &settlement(&released, success())).await;
    assert_eq!(late, SettleResult::Stale, "the claim id does not prove that a lease is held");
    apply(&store, &settled, status(500)).await;
    assert_eq!(lease_refs(&leases(&store, &request).await), [], "nothing is due yet");

    harness.advance(HOUR).await;
    let current = only_lease(&store, &request).await;
    assert!(![released.token, settled.token].contains(&current.token), "a new lease has a new token");
    assert_eq!((&current.event_id, current.attempts), (&event_id, 1));
    let event = view(&store, &event_id).await;
    assert_eq!((event.claims, event.attempts, event.lost_leases), (3, 1, 0));
    assert_eq!(only_lease(&store, &request).await.token, current.token);
    apply(&store, &current, success()).await;
}

pub async fn repeated_claim_that_got_no_lease_claims_again(harness: &dyn Harness) {
    let store = harness.store();
    let request = claim_by("worker-a");
    assert_eq!(lease_refs(&leases(&store, &request).await), []);
    let event_id = enqueue(&store, event()).await;
    let lease = only_lease(&store, &request).await;
    assert_eq!(lease.event_id, event_id);
    assert_eq!(only_lease(&store, &request).await.token, lease.token);
}

pub async fn repeated_claim_racing_a_settlement_revives_no_lease(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for outcome in [status(200), status(500), status(410)].iter().cycle().take(12) {
        let event_id = enqueue(&store, event()).await;
        let request = claim_by("worker-a");
        let lease = only_lease(&store, &request).await;
        let settlement = settlement(&lease, outcome.clone());
        let (again, settled) = join(leases(&store, &request), settle(&second, &settlement)).await;
        assert_eq!(settled, SettleResult::Applied, "the worker holds its lease in both orders");
        assert!(again.iter().all(|again| again.token == lease.token), "{again:?}");
        let event = view(&store, &event_id).await;
        assert_eq!((event.lease_owner, event.lease_until), (None, None));
        assert_eq!((event.claims, event.attempts), (1, 1));
    }
}

/// Both calls may return the same leases, or one call may find all rows locked by the other and claim other events.
pub async fn concurrent_calls_of_one_claim_give_no_event_two_tokens(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for _ in 0..4 {
        let event_ids = enqueue_all(&store, vec![event(); 20]).await;
        let request = ClaimRequest { limit: 10, ..claim_by("worker-a") };
        let (one, other) = join(leases(&store, &request), leases(&second, &request)).await;
        let mut granted = lease_refs(&[one, other].concat());
        granted.dedup();
        assert!(!granted.is_empty(), "at least one call got leases");
        let again = leases(&store, &request).await;
        assert_eq!(lease_refs(&again), granted, "each event appears once, under its first token");

        let settlements: Vec<_> = again.iter().map(|lease| settlement(lease, success())).collect();
        assert_eq!(settle_all(&store, &settlements).await, vec![SettleResult::Applied; again.len()]);
        let mut claims = 0;
        for event_id in &event_ids {
            let event = view(&store, event_id).await;
            assert!(event.claims <= 1 && event.lost_leases == 0, "{event:?}");
            claims += event.claims as usize;
        }
        assert_eq!(claims, again.len());
        // No event may be claimable in the next round.
        let rest: Vec<_> = claim_all(&store).await.iter().map(|lease| settlement(lease, success())).collect();
        settle_all(&store, &rest).await;
    }
}

pub async fn lease_returned_twice_settles_once(harness: &dyn Harness) {
    let store = harness.store();
    let before = end_of_log(&store).await;
    let event_id = enqueue(&store, event()).await;
    let request = claim_by("worker-a");
    let first = only_lease(&store, &request).await;
    let again = only_lease(&store, &request).await;
    assert_eq!(settle(&store, &settlement(&again, success())).await, SettleResult::Applied);
    let late = settle(&store, &settlement(&first, success())).await;
    assert_eq!(late, SettleResult::Replayed);
    assert!(late.is_written(), "a replayed settlement counts as written");
    let detail = detail(&store, &event_id).await;
    assert_eq!((detail.event.status, detail.history.len()), (DeliveryStatus::Delivered, 1));
    assert_eq!(published_after(&store, before).await.len(), 1);
}

pub async fn two_claims_with_two_ids_never_share_an_event(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let mut expected = enqueue_all(&store, vec![event(); 20]).await;
    // Both claims are from one worker, so that only the claim id distinguishes them.
    let (one, other) = (ClaimRequest { limit: 10, ..claim_by("worker-a") }, claim_by("worker-a"));
    let first = (leases(&store, &one).await, leases(&second, &other).await);
    for _ in 0..5 {
        let again = join(leases(&second, &one), leases(&store, &other)).await;
        assert_eq!(
            (lease_refs(&again.0), lease_refs(&again.1)),
            (lease_refs(&first.0), lease_refs(&first.1))
        );
    }
    assert_eq!((first.0.len(), first.1.len()), (10, 10));
    let mut granted: Vec<EventId> = first.0.into_iter().chain(first.1).map(|lease| lease.event_id).collect();
    granted.sort();
    expected.sort();
    assert_eq!(granted, expected, "each event belongs to one of the two claims");
}
