//! Claims: granting leases on due events within the limits of the request.

use futures_util::future::join_all;
use posthaste_domain::{DestinationId, Lease};
use posthaste_store::{ClaimRequest, FixedSlots, Pace, PaceSlots};

use crate::Harness;
use crate::fixture::*;

const BUSY: &str = "https://busy.example/";
const QUIET: &str = "https://quiet.example/";

fn count_leases(leases: &[Lease], url: &str) -> usize {
    leases.iter().filter(|lease| lease.destination_url.as_str() == url).count()
}

/// Enqueues events for two destinations. The events of the busy one come first, by key and by due time.
async fn enqueue_for_two_destinations(
    store: &Handle,
    busy: usize,
    quiet: usize,
) -> (DestinationId, DestinationId) {
    let busy = enqueue_all(store, vec![event_to(BUSY); busy]).await;
    let quiet = enqueue_all(store, vec![event_to(QUIET); quiet]).await;
    (view(store, &busy[0]).await.destination_id, view(store, &quiet[0]).await.destination_id)
}

pub async fn a_claim_grants_a_lease_and_counts_no_attempt(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    assert_eq!((lease.attempts, lease.attempt()), (0, 1));
    let event = view(&store, &event_id).await;
    assert_eq!((event.claims, event.attempts, event.lost_leases), (1, 0, 0));
    assert_eq!(event.lease_owner, Some(worker("worker-a")));
    let until = event.lease_until.expect("a lease has an owner and an expiry");
    assert_time_between(event.created_at, until, LEASE);
}

pub async fn lease_lasts_as_long_as_the_claim_requests(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    claim(&store, &ClaimRequest { lease: HOUR, ..claim_by("worker-a") }).await;
    let event = view(&store, &event_id).await;
    assert_time_between(event.created_at, event.lease_until.expect("the event is leased"), HOUR);
    harness.advance(HOUR / 2).await;
    assert_nothing_claimable(&store).await;
}

pub async fn a_claim_returns_the_stores_time_whether_it_grants_a_lease_or_not(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    let request = claim_by("worker-a");
    for (request, granted) in [(&request, 1), (&request, 1), (&claim_by("worker-a"), 0)] {
        let before = store.health().await.expect("the store responds").now;
        let claimed = claim(&store, request).await;
        let after = store.health().await.expect("the store responds").now;
        assert_eq!(claimed.leases.len(), granted);
        assert!(before <= claimed.now && claimed.now <= after, "{before:?} {:?} {after:?}", claimed.now);
    }
}

pub async fn overdue_is_the_time_since_the_event_became_due(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    harness.advance(10 * MINUTE).await;
    let overdue = claim_one(&store).await.overdue;
    assert!((10 * MINUTE..11 * MINUTE).contains(&overdue), "{overdue:?}");
}

pub async fn a_claim_takes_no_more_than_its_limit(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 5]).await;
    for (limit, granted) in [(0, 0), (2, 2), (2, 2), (2, 1), (2, 0)] {
        let claimed = claim(&store, &ClaimRequest { limit, ..claim_by("worker-a") }).await;
        assert_eq!(claimed.leases.len(), granted);
    }
}

pub async fn a_claim_takes_no_more_retries_than_it_allows(harness: &dyn Harness) {
    let store = harness.store();
    for _ in 0..3 {
        enqueue_retrying(&store, event()).await;
    }
    harness.advance(2 * RETRY_DELAY).await;
    enqueue_all(&store, vec![event(); 3]).await;
    let request = || ClaimRequest { retries_max: 1, limit: 4, ..claim_by("worker-a") };
    let leases = claim(&store, &request()).await.leases;
    assert_eq!(leases.iter().filter(|lease| lease.is_retry()).count(), 1);
    assert_eq!(leases.len(), 4, "first attempts fill the slots that retries may not use");
    assert_eq!(
        claim(&store, &request()).await.leases.len(),
        1,
        "one more retry, and no first attempt is left"
    );
}

pub async fn a_claim_that_allows_no_retries_takes_first_attempts_only(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_retrying(&store, event()).await;
    harness.advance(2 * RETRY_DELAY).await;
    let first = enqueue(&store, event()).await;
    let request = ClaimRequest { retries_max: 0, ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].event_id, first);
}

pub async fn claim_takes_no_more_events_of_a_destination_than_it_has_slots(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_for_two_destinations(&store, 5, 2).await;
    let request = ClaimRequest { slots: FixedSlots::per_destination(3).share(), ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    assert_eq!((count_leases(&leases, BUSY), count_leases(&leases, QUIET)), (3, 2));
}

pub async fn leases_of_other_claims_use_no_slots_of_a_claim(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_for_two_destinations(&store, 4, 1).await;
    let request = |owner| ClaimRequest { slots: FixedSlots::per_destination(1).share(), ..claim_by(owner) };
    for (owner, busy) in [("worker-a", 1), ("worker-b", 1), ("worker-a", 1)] {
        let leases = claim(&store, &request(owner)).await.leases;
        assert_eq!(count_leases(&leases, BUSY), busy, "leases of other claims use no slot of this claim");
    }
}

pub async fn destination_slots_override_the_limit_per_destination(harness: &dyn Harness) {
    let store = harness.store();
    let (busy, quiet) = enqueue_for_two_destinations(&store, 6, 6).await;
    let slots = FixedSlots::per_destination(2).with(busy, 4).with(quiet, 1).share();
    let request = ClaimRequest { slots, ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    assert_eq!((count_leases(&leases, BUSY), count_leases(&leases, QUIET)), (4, 1));
}

pub async fn retries_and_first_attempts_share_the_slots_of_their_destination(harness: &dyn Harness) {
    let store = harness.store();
    for _ in 0..2 {
        enqueue_retrying(&store, event_to(BUSY)).await;
    }
    harness.advance(2 * RETRY_DELAY).await;
    enqueue_for_two_destinations(&store, 2, 1).await;
    let request = ClaimRequest { slots: FixedSlots::per_destination(3).share(), ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    assert_eq!((count_leases(&leases, BUSY), count_leases(&leases, QUIET)), (3, 1));
}

pub async fn destination_without_slots_is_skipped(harness: &dyn Harness) {
    let store = harness.store();
    let (busy, _) = enqueue_for_two_destinations(&store, 2, 2).await;
    let request = ClaimRequest {
        slots: FixedSlots::per_destination(100).with(busy, 0).share(),
        ..claim_by("worker-a")
    };
    let leases = claim(&store, &request).await.leases;
    assert_eq!((count_leases(&leases, BUSY), count_leases(&leases, QUIET)), (0, 2));
    assert_eq!(claim_all(&store).await.len(), 2, "the skipped events are still due");
}

pub async fn a_saturated_destination_does_not_hide_another(harness: &dyn Harness) {
    let store = harness.store();
    let (busy, _) = enqueue_for_two_destinations(&store, 300, 3).await;
    for slots in [0, 2] {
        let of_busy = FixedSlots::per_destination(100).with(busy, slots).share();
        let request = ClaimRequest { slots: of_busy, limit: 3 + slots, ..claim_by("worker-a") };
        let leases = claim(&store, &request).await.leases;
        assert_eq!((count_leases(&leases, BUSY), count_leases(&leases, QUIET)), (slots, 3));
        enqueue_all(&store, vec![event_to(QUIET); 3]).await;
    }
}

/// Two destinations of one host.
const SHARED: [&str; 2] = ["https://shared.example/a", "https://shared.example/b?c"];

pub async fn destinations_of_one_host_share_its_slots(harness: &dyn Harness) {
    let store = harness.store();
    for url in SHARED {
        enqueue_all(&store, vec![event_to(url); 3]).await;
    }
    enqueue_all(&store, vec![event_to(BUSY); 3]).await;
    let request =
        || ClaimRequest { slots: FixedSlots::per_destination(3).per_host(4).share(), ..claim_by("worker-a") };
    let leases = claim(&store, &request()).await.leases;
    let shared: usize = SHARED.iter().map(|url| count_leases(&leases, url)).sum();
    assert_eq!((shared, count_leases(&leases, BUSY)), (4, 3));
    assert_eq!(claim(&store, &request()).await.leases.len(), 2, "the other events are still due");
}

pub async fn expired_leases_and_retries_use_slots_of_their_host(harness: &dyn Harness) {
    let store = harness.store();
    for url in SHARED {
        enqueue_retrying(&store, event_to(url)).await;
    }
    harness.advance(2 * RETRY_DELAY).await;
    let request =
        || ClaimRequest { slots: FixedSlots::per_destination(9).per_host(1).share(), ..claim_by("worker-a") };
    for _ in SHARED {
        assert_eq!(claim(&store, &request()).await.leases.len(), 1);
    }
    harness.advance(PAST_LEASE).await;
    assert_eq!(claim(&store, &request()).await.leases.len(), 1, "of two expired leases");
}

pub async fn slow_hosts_leave_slots_to_prompt_ones(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_for_two_destinations(&store, 9, 3).await;
    let slots = FixedSlots::per_destination(9).with_pace("https://busy.example", Pace::Silent).share();
    let pace_slots = PaceSlots::new(|pace| if pace == Pace::Silent { 2 } else { 4 });
    let request = ClaimRequest { slots, pace_slots, limit: 4, ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    let (busy, quiet) = (count_leases(&leases, BUSY), count_leases(&leases, QUIET));
    assert!(busy <= 2 && busy + quiet == 4, "{busy} to the silent host, {quiet} to the other");
}

pub async fn known_destinations_do_not_wait_behind_new_ones(harness: &dyn Harness) {
    let store = harness.store();
    for new in 0..40 {
        enqueue(&store, event_to(&format!("https://new-{new}.example/"))).await;
    }
    let (_, quiet) = enqueue_for_two_destinations(&store, 1, 2).await;
    let slots = FixedSlots { known: vec![quiet], ..FixedSlots::per_destination(2) }.share();
    let request = ClaimRequest { slots, limit: 8, ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    assert_eq!((count_leases(&leases, QUIET), leases.len()), (2, 8), "the others get the rest");
}

pub async fn known_destinations_leave_a_part_of_each_claim_to_others(harness: &dyn Harness) {
    let store = harness.store();
    let (busy, _) = enqueue_for_two_destinations(&store, 40, 1).await;
    let slots = FixedSlots { known: vec![busy], ..FixedSlots::per_destination(40) }.share();
    let request = ClaimRequest { slots, limit: 8, ..claim_by("worker-a") };
    let leases = claim(&store, &request).await.leases;
    assert_eq!(count_leases(&leases, QUIET), 1);
    assert!(count_leases(&leases, BUSY) >= 6, "{leases:?}");
}

pub async fn an_event_is_not_claimed_before_it_is_due(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_retrying(&store, event()).await;
    assert_nothing_claimable(&store).await;
    harness.advance(RETRY_DELAY / 2).await;
    assert_nothing_claimable(&store).await;
    harness.advance(RETRY_DELAY).await;
    let lease = claim_one(&store).await;
    assert_eq!((lease.event_id, lease.attempts), (event_id, 1));
}

pub async fn a_leased_event_is_not_claimed_again(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event()).await;
    claim_one(&store).await;
    assert_nothing_claimable(&store).await;
    harness.advance(LEASE / 2).await;
    assert_nothing_claimable(&store).await;
    assert!(claim_all(&store).await.is_empty(), "not even by its owner");
}

pub async fn a_terminal_event_is_never_claimed(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_delivered(&store, event()).await;
    enqueue_dead_lettered(&store, event()).await;
    harness.advance(30 * DAY).await;
    assert_nothing_claimable(&store).await;
}

pub async fn every_granted_lease_has_its_own_token(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 20]).await;
    let mut tokens = Vec::new();
    for _ in 0..5 {
        tokens.extend(claim_all(&store).await.iter().map(|lease| lease.token));
        harness.advance(PAST_LEASE).await;
    }
    assert_eq!(tokens.len(), 100);
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 100, "no token is granted twice");
}

pub async fn concurrent_claims_never_grant_an_event_twice(harness: &dyn Harness) {
    let handles = [harness.store(), harness.second_handle()];
    let urls = ["https://a.example/", "https://b.example/", "https://c.example/", BUSY];
    let events = (0..80).map(|n| event_to(urls[n % urls.len()])).collect();
    let mut expected = enqueue_all(&handles[0], events).await;
    let request = |owner| ClaimRequest { limit: 10, ..claim_by(owner) };
    let owners = ["worker-a", "worker-b", "worker-c"];
    let requests: Vec<_> =
        handles.iter().flat_map(|handle| owners.map(|owner| (handle, request(owner)))).collect();
    let claims = requests.iter().map(|(handle, request)| claim(handle, request));
    let mut granted = Vec::new();
    for claimed in join_all(claims).await {
        assert!(claimed.leases.len() <= 10);
        granted.extend(claimed.leases.into_iter().map(|lease| lease.event_id));
    }
    // Concurrent claims may skip rows that another claim has locked. A later claim gets those events.
    granted.extend(claim_all(&handles[1]).await.into_iter().map(|lease| lease.event_id));
    granted.sort();
    expected.sort();
    assert_eq!(granted, expected);
}
