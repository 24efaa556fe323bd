//! Lists of destinations, and the events that wait for them.

use posthaste_domain::{DestinationId, NewEventSpec};
use posthaste_store::{
    DestinationState, DestinationView, FixedSlots, HELD_COUNT_MAX, LISTED_PENDING_COUNT_MAX,
    PENDING_COUNT_MAX, PageLimit, PageRequest, PauseRequest, PendingCount,
};

use crate::Harness;
use crate::fixture::*;

/// Lists all pages of two destinations each.
async fn list(store: &Handle, state: Option<DestinationState>) -> Vec<DestinationView> {
    let mut listed = Vec::new();
    let mut page = PageRequest { after: None, limit: PageLimit::new(2).expect("2 is a valid limit") };
    loop {
        let found = store.destinations(state, &page).await.expect("the store is up");
        assert!(found.items.len() <= 2);
        listed.extend(found.items);
        page.after = found.next;
        if page.after.is_none() {
            return listed;
        }
    }
}

fn listed_ids(listed: &[DestinationView]) -> Vec<DestinationId> {
    listed.iter().map(|view| view.status.id).collect()
}

async fn show(store: &Handle, id: DestinationId) -> DestinationView {
    store.destination(id).await.expect("the destination exists").destination
}

async fn pause(store: &Handle, id: DestinationId) {
    store.pause_destination(id, &PauseRequest::new("ann", None, None)).await.expect("the destination exists");
}

pub async fn destinations_are_listed_by_id_in_pages(harness: &dyn Harness) {
    let store = harness.store();
    assert_eq!(list(&store, None).await, []);
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(add_destination(&store, &format!("https://receiver-{number}.example/")).await);
    }
    ids.sort();
    let listed = list(&harness.second_handle(), None).await;
    assert_eq!(listed_ids(&listed), ids);
    for view in listed {
        let shown = show(&store, view.status.id).await;
        assert_eq!((view.status, view.last_error), (shown.status, shown.last_error));
    }
    let four = PageRequest { after: Some(ids[0]), limit: PageLimit::new(4).expect("4 is a valid limit") };
    let page = store.destinations(None, &four).await.expect("the store is up");
    assert_eq!((listed_ids(&page.items), page.next), (ids[1..].to_vec(), None));
}

pub async fn destinations_are_listed_by_state_in_pages(harness: &dyn Harness) {
    let store = harness.store();
    let mut ids = Vec::new();
    for number in 0..14 {
        let url = format!("https://receiver-{number}.example/");
        // The first four destinations are healthy; all others fail.
        let outcome = if number < 4 { success() } else { status(500) };
        let event_id = enqueue_and_attempt(&store, event_to(&url), outcome).await;
        ids.push(view(&store, &event_id).await.destination_id);
    }
    pause(&store, ids[3]).await;
    let reports: Vec<_> = ids[7..11]
        .iter()
        .flat_map(|id| [open_circuit("worker-a", *id), open_circuit("worker-b", *id)])
        .collect();
    store.report_circuits(&reports).await.expect("the store is up");
    pause(&store, ids[10]).await;
    store.pause_destination(ids[11], &pause_for(HOUR)).await.expect("the destination exists");
    let expected = |numbers: &[usize]| -> Vec<DestinationId> {
        let mut expected: Vec<_> = numbers.iter().map(|number| ids[*number]).collect();
        expected.sort();
        expected
    };
    let assert_listed = async |state, numbers: &[usize]| {
        let listed = list(&store, Some(state)).await;
        assert_eq!(listed_ids(&listed), expected(numbers), "{state:?}");
        assert!(listed.iter().all(|view| view.status.state() == state), "{state:?}");
    };
    assert_listed(DestinationState::Ok, &[0, 1, 2]).await;
    assert_listed(DestinationState::Failing, &[4, 5, 6, 12, 13]).await;
    assert_listed(DestinationState::CircuitOpen, &[7, 8, 9]).await;
    assert_listed(DestinationState::Paused, &[3, 10, 11]).await;
    // The reports expire, and the pause with an end ends.
    harness.advance(2 * HOUR).await;
    assert_listed(DestinationState::CircuitOpen, &[]).await;
    assert_listed(DestinationState::Failing, &[4, 5, 6, 7, 8, 9, 11, 12, 13]).await;
    assert_listed(DestinationState::Paused, &[3, 10]).await;
}

pub async fn destination_counts_its_pending_events_and_leases(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_delivered(&store, event_to(HERE)).await;
    enqueue_dead_lettered(&store, event_to(HERE)).await;
    let first = enqueue_retrying(&store, event_to(HERE)).await;
    let here = view(&store, &first).await.destination_id;
    harness.advance(10 * SECOND).await;
    enqueue_all(&store, vec![event_to(HERE); 4]).await;
    enqueue_all(&store, vec![event_to(THERE); 3]).await;
    let one = show(&store, here).await;
    assert_eq!((one.in_flight, one.pending.count, one.pending.is_capped), (0, 5, false));
    let limited = posthaste_store::ClaimRequest {
        slots: FixedSlots::per_destination(2).with(here, 3).share(),
        ..claim_by("worker-a")
    };
    let leases = leases(&store, &limited).await;
    assert_eq!(leases.len(), 5);
    for view in list(&store, None).await {
        let (in_flight, pending) = if view.status.id == here { (3, 5) } else { (2, 3) };
        assert_eq!((view.in_flight, view.pending.count), (in_flight, pending));
    }
    let oldest = show(&store, here).await.pending.oldest_age.expect("events are pending");
    assert!(oldest >= 10 * SECOND && oldest < MINUTE, "{oldest:?}");
    harness.advance(PAST_LEASE).await;
    let expired = show(&store, here).await;
    assert_eq!((expired.in_flight, expired.pending.count), (0, 5), "the leases have expired");
}

pub async fn destination_shows_its_last_error(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_and_attempt(&store, event_to(HERE), status(503)).await;
    let here = view(&store, &event_id).await.destination_id;
    assert_eq!(show(&store, here).await.last_error.as_deref(), Some("HTTP 503"));
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    assert_eq!(show(&store, here).await.last_error.as_deref(), Some("HTTP 500"), "the circuit's error");
    let there = add_destination(&store, THERE).await;
    assert_eq!(show(&store, there).await.last_error, None);
}

pub async fn pending_events_are_counted_up_to_a_limit(harness: &dyn Harness) {
    let store = harness.store();
    let here = add_destination(&store, HERE).await;
    let add = async |count: usize| {
        let many = vec![NewEventSpec { payload: bytes::Bytes::new(), ..event_to(HERE) }; count];
        for batch in many.chunks(1_000) {
            enqueue_all(&store, batch.to_vec()).await;
        }
    };
    add(999).await;
    assert_eq!(list(&store, None).await[0].pending.count, LISTED_PENDING_COUNT_MAX);
    assert!(!list(&store, None).await[0].pending.is_capped);
    add(1).await;
    let listed = list(&store, None).await[0].pending;
    assert_eq!((listed.count, listed.is_capped), (LISTED_PENDING_COUNT_MAX, true));
    assert_eq!(show(&store, here).await.pending.count, 1_001);
    add(9_000).await;
    let shown = show(&store, here).await.pending;
    assert_eq!((shown.count, shown.is_capped), (PENDING_COUNT_MAX, true));
    pause(&store, here).await;
    let held = store.overview().await.expect("the store is up").held;
    assert_eq!((held.count, held.is_capped), (HELD_COUNT_MAX, true));
    assert!(held.oldest_age.is_some());
}

pub async fn held_events_are_counted_in_the_overview(harness: &dyn Harness) {
    let store = harness.store();
    let held = async || store.overview().await.expect("the store is up").held;
    let third = "https://third.example/";
    enqueue_retrying(&store, event_to(HERE)).await;
    let here = add_destination(&store, HERE).await;
    let there = add_destination(&store, THERE).await;
    add_destination(&store, third).await;
    assert_eq!(held().await, PendingCount::default());
    harness.advance(10 * SECOND).await;
    pause(&store, here).await;
    assert_eq!(held().await.count, 2);
    let oldest = held().await.oldest_age.expect("events are held");
    assert!(oldest >= 10 * SECOND && oldest < MINUTE, "{oldest:?}");
    store.report_circuits(&[open_circuit("worker-a", there)]).await.expect("the store is up");
    // A destination that is held for two reasons counts once.
    store.report_circuits(&[open_circuit("worker-a", here)]).await.expect("the store is up");
    assert_eq!((held().await.count, held().await.is_capped), (3, false));
    store.resume_destination(here, "ann").await.expect("the destination exists");
    assert_eq!(held().await.count, 1);
    harness.advance(2 * HOUR).await;
    assert_eq!(held().await, PendingCount::default(), "the report has expired");
}
