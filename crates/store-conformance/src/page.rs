//! Paginated lists of events.

use posthaste_domain::{DeliveryStatus, DestinationUrl, EventId, FailureKind, NewEventSpec};
use posthaste_store::{
    BulkFilter, DeadLetterQuery, EventQuery, EventView, Page, PageCursor, PageLimit, PageRequest, StoreError,
};

use crate::Harness;
use crate::fixture::*;

fn page(after: Option<PageCursor>, limit: i64) -> PageRequest {
    PageRequest { after, limit: PageLimit::new(limit).expect("cases use valid limits") }
}

async fn dead_letters(store: &Handle, request: &PageRequest) -> Page<EventView> {
    store.dead_letters(&DeadLetterQuery::all(), request).await.expect("the store is up")
}

async fn events(store: &Handle, query: &EventQuery, request: &PageRequest) -> Page<EventView> {
    store.events(query, request).await.expect("the store is up")
}

fn event_ids(page: &Page<EventView>) -> Vec<EventId> {
    page.items.iter().map(|event| event.event_id.clone()).collect()
}

/// Enqueues dead letters that failed at different times. Returns them in the order of the list, latest first.
async fn enqueue_dead_letters(harness: &dyn Harness, store: &Handle, count: usize) -> Vec<EventId> {
    let mut failed = Vec::new();
    for _ in 0..count {
        failed.insert(0, enqueue_dead_lettered(store, event()).await);
        harness.advance(MINUTE).await;
    }
    failed
}

pub async fn s2_fr003_ac1_dead_letters_are_sorted_by_latest_change(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_dead_letters(harness, &store, 3).await;
    enqueue_delivered(&store, event()).await;
    enqueue_retrying(&store, event()).await;
    enqueue(&store, event()).await;
    assert_eq!(event_ids(&dead_letters(&store, &page(None, 50)).await), failed);
    store.cancel(&failed[2], "operator".into(), None).await.expect("a failed event can be cancelled");
    let expected = [&failed[2], &failed[0], &failed[1]].map(Clone::clone);
    assert_eq!(
        event_ids(&dead_letters(&store, &page(None, 50)).await),
        expected,
        "a cancel changes the event"
    );
}

pub async fn s2_fr003_ac1_dead_letters_of_the_same_time_are_sorted_by_id_descending(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 20]).await;
    let batch: Vec<_> = claim_all(&store).await.iter().map(|lease| settlement(lease, status(410))).collect();
    settle_all(&store, &batch).await;
    let mut request = page(None, 7);
    let mut order = Vec::new();
    loop {
        let page = dead_letters(&store, &request).await;
        order.extend(page.items.iter().map(|event| (event.updated_at, event.key)));
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    assert_eq!(order.len(), 20);
    assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "strictly descending: {order:?}");
}

pub async fn s2_fr003_ac2_a_page_holds_no_more_than_its_limit(harness: &dyn Harness) {
    let store = harness.store();
    enqueue_all(&store, vec![event(); 60]).await;
    let batch: Vec<_> = claim_all(&store).await.iter().map(|lease| settlement(lease, status(410))).collect();
    settle_all(&store, &batch).await;
    assert_eq!(dead_letters(&store, &PageRequest::default()).await.items.len(), 50);
    for (limit, items) in [(1, 1), (59, 59), (60, 60), (200, 60)] {
        let page = dead_letters(&store, &page(None, limit)).await;
        assert_eq!(page.items.len(), items);
        assert_eq!(page.next.is_some(), items < 60, "there is a next page only if events remain");
    }
}

pub async fn s2_fr003_ac3_dead_letters_have_the_fields_an_operator_needs(harness: &dyn Harness) {
    let store = harness.store();
    let spec = NewEventSpec {
        payment_request_id: Some("pr-1".to_owned()),
        webhook_id: Some("wh-2".to_owned()),
        session_id: Some("se-3".to_owned()),
        ..event_to("https://receiver.example/paid")
    };
    let event_id = enqueue_dead_lettered(&store, spec).await;
    let listed = dead_letters(&store, &page(None, 50)).await.items.remove(0);
    assert_eq!(listed.event_id, event_id);
    assert_eq!(listed.payment_request_id.as_deref(), Some("pr-1"));
    assert_eq!(listed.webhook_id.as_deref(), Some("wh-2"));
    assert_eq!(listed.session_id.as_deref(), Some("se-3"));
    assert_eq!(listed.destination_url.as_str(), "https://receiver.example/paid");
    assert_eq!((listed.attempts, listed.max_attempts), (1, policy().max_attempts()));
    assert_eq!(
        (listed.last_error.as_deref(), listed.failure_kind),
        (Some("HTTP 410"), Some(FailureKind::Gone))
    );
    assert_eq!(listed, view(&store, &event_id).await, "the list and the single event are equal");
}

pub async fn dead_letter_pages_cover_every_event_once(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_dead_letters(harness, &store, 4).await;
    let first = dead_letters(&store, &page(None, 2)).await;
    assert_eq!(event_ids(&first), failed[..2]);
    let second = dead_letters(&store, &page(first.next, 2)).await;
    assert_eq!(event_ids(&second), failed[2..]);
    assert_eq!(second.next, None, "a full page can be the last page");
}

pub async fn dead_letter_pages_stay_stable_while_rows_change(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_dead_letters(harness, &store, 6).await;
    let first = dead_letters(&store, &page(None, 2)).await;
    assert_eq!(event_ids(&first), failed[..2]);
    // The row of the cursor leaves the list, a new row enters at the top, and a row of a later page moves to the top.
    store.requeue(&failed[1], "operator".into()).await.expect("a failed event can be requeued");
    apply(&store, &claim_one(&store).await, success()).await;
    enqueue_dead_lettered(&store, event()).await;
    store.cancel(&failed[3], "operator".into(), None).await.expect("a failed event can be cancelled");
    let rest = dead_letters(&store, &page(first.next, 50)).await;
    let expected = [&failed[2], &failed[4], &failed[5]].map(Clone::clone);
    assert_eq!(event_ids(&rest), expected, "each unchanged event is listed exactly once");
}

pub async fn events_of_every_state_are_listed_newest_first(harness: &dyn Harness) {
    let store = harness.store();
    let mut newest_first = Vec::new();
    for outcome in [status(200), status(410), status(500)] {
        newest_first.insert(0, enqueue_and_attempt(&store, event(), outcome).await);
        harness.advance(SECOND * 10).await;
    }
    newest_first.insert(0, enqueue(&store, event()).await);
    // A change does not affect the order, which is by creation time.
    harness.advance(SECOND * 10).await;
    store.cancel(&newest_first[2], "operator".into(), None).await.expect("a failed event can be cancelled");
    let all = events(&store, &EventQuery::default(), &page(None, 50)).await;
    assert_eq!((event_ids(&all), all.next), (newest_first, None));
}

pub async fn events_are_filtered_by_status_and_destination(harness: &dyn Harness) {
    let store = harness.store();
    let here = |status| EventQuery {
        status,
        destination: Some(DestinationUrl::parse("https://here.example/").expect("a valid URL")),
        ..EventQuery::default()
    };
    let done = enqueue_delivered(&store, event_to("https://here.example/")).await;
    let failed = enqueue_dead_lettered(&store, event_to("https://here.example/")).await;
    enqueue_delivered(&store, event_to("https://there.example/")).await;
    let pending = enqueue(&store, event_to("https://here.example/")).await;

    let find = async |query: EventQuery| {
        let mut found = event_ids(&events(&store, &query, &page(None, 50)).await);
        found.sort();
        found
    };
    let sorted = |mut ids: Vec<EventId>| {
        ids.sort();
        ids
    };
    let with_status = |status| EventQuery { status: Some(status), ..EventQuery::default() };
    assert_eq!(find(with_status(DeliveryStatus::Delivered)).await.len(), 2);
    assert_eq!(find(with_status(DeliveryStatus::Failed)).await, std::slice::from_ref(&failed));
    assert_eq!(find(here(None)).await, sorted(vec![done.clone(), failed, pending.clone()]));
    assert_eq!(find(here(Some(DeliveryStatus::Delivered))).await, [done]);
    assert_eq!(find(here(Some(DeliveryStatus::Pending))).await, [pending]);
    let nowhere = DestinationUrl::parse("https://nowhere.example/").expect("a valid URL");
    assert_eq!(find(EventQuery { destination: Some(nowhere), ..EventQuery::default() }).await, []);
}

pub async fn event_pages_cover_every_match_once_while_others_arrive(harness: &dyn Harness) {
    let store = harness.store();
    let query = EventQuery {
        status: Some(DeliveryStatus::Pending),
        destination: Some(DestinationUrl::parse("https://here.example/").expect("a valid URL")),
        ..EventQuery::default()
    };
    enqueue_delivered(&store, event_to("https://here.example/")).await;
    let mut expected = enqueue_all(&store, vec![event_to("https://here.example/"); 7]).await;
    enqueue_all(&store, vec![event_to("https://there.example/"); 7]).await;
    harness.advance(MINUTE).await;
    expected.extend(enqueue_all(&store, vec![event_to("https://here.example/"); 3]).await);
    harness.advance(MINUTE).await;

    let mut found = Vec::new();
    let mut request = page(None, 3);
    loop {
        let page = events(&store, &query, &request).await;
        found.extend(event_ids(&page));
        enqueue(&store, event_to("https://here.example/")).await;
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn an_empty_store_lists_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let nothing = Page { items: vec![], next: None };
    assert_eq!(dead_letters(&store, &page(None, 50)).await, nothing);
    assert_eq!(events(&store, &EventQuery::default(), &page(None, 50)).await, nothing);
}

pub async fn an_unknown_event_is_not_found(harness: &dyn Harness) {
    let store = harness.store();
    let unknown = store.event(&id("unknown")).await;
    assert_eq!(unknown, Err(StoreError::EventNotFound { event_id: id("unknown") }));
}

pub async fn dead_letters_can_be_listed_by_kind_and_without_cancelled_ones(harness: &dyn Harness) {
    let store = harness.store();
    let failed = enqueue_dead_letters(harness, &store, 5).await;
    for cancelled in [&failed[0], &failed[2], &failed[3]] {
        store.cancel(cancelled, "operator".into(), None).await.expect("a failed event can be cancelled");
        harness.advance(MINUTE).await;
    }
    // Pages of one event, so that the list continues after events that it leaves out.
    let list = async |query: DeadLetterQuery| {
        let mut request = page(None, 1);
        let mut listed = Vec::new();
        loop {
            let page = store.dead_letters(&query, &request).await.expect("the store is up");
            listed.extend(event_ids(&page));
            match page.next {
                Some(next) => request.after = Some(next),
                None => return listed,
            }
        }
    };
    let ids = |indexes: &[usize]| indexes.iter().map(|index| failed[*index].clone()).collect::<Vec<_>>();
    let of_kind = |failure_kind| DeadLetterQuery {
        filter: BulkFilter { failure_kind: Some(failure_kind), ..BulkFilter::default() },
        ..DeadLetterQuery::default()
    };
    assert_eq!(list(DeadLetterQuery::all()).await, ids(&[3, 2, 0, 1, 4]));
    assert_eq!(list(DeadLetterQuery::default()).await, ids(&[1, 4]));
    assert_eq!(list(of_kind(FailureKind::Cancelled)).await, ids(&[3, 2, 0]));
    assert_eq!(list(of_kind(FailureKind::Gone)).await, ids(&[1, 4]));
    assert_eq!(list(of_kind(FailureKind::Abandoned)).await, []);
}
