//! Lists of events, page by page.

use posthaste_domain::{DeliveryStatus, DestinationUrl, EventId, FailureKind, NewEventSpec};
use posthaste_store::{Cursor, EventQuery, EventView, Page, PageLimit, PageRequest, StoreError};

use crate::Harness;
use crate::fixture::*;

fn page(after: Option<Cursor>, limit: i64) -> PageRequest {
    PageRequest { after, limit: PageLimit::new(limit).expect("cases use valid limits") }
}

async fn dead_letters(store: &Handle, request: &PageRequest) -> Page<EventView> {
    store.dead_letters(request).await.expect("the store is up")
}

async fn events(store: &Handle, query: &EventQuery, request: &PageRequest) -> Page<EventView> {
    store.events(query, request).await.expect("the store is up")
}

fn listed(page: &Page<EventView>) -> Vec<EventId> {
    page.items.iter().map(|event| event.event_id.clone()).collect()
}

/// Dead letters of different moments, the latest first as they should be listed.
async fn failed_one_by_one(harness: &dyn Harness, store: &Handle, count: usize) -> Vec<EventId> {
    let mut failed = Vec::new();
    for _ in 0..count {
        failed.insert(0, dead_lettered(store, event()).await);
        harness.advance(MINUTE).await;
    }
    failed
}

pub async fn s2_fr003_ac1_dead_letters_come_latest_change_first(harness: &dyn Harness) {
    let store = harness.store();
    let failed = failed_one_by_one(harness, &store, 3).await;
    delivered(&store, event()).await;
    retrying(&store, event()).await;
    enqueue(&store, event()).await;
    assert_eq!(listed(&dead_letters(&store, &page(None, 50)).await), failed);
    store.cancel(&failed[2], "operator", None).await.expect("a failed event can be cancelled");
    let expected = [&failed[2], &failed[0], &failed[1]].map(Clone::clone);
    assert_eq!(listed(&dead_letters(&store, &page(None, 50)).await), expected, "a cancel is a change");
}

pub async fn s2_fr003_ac1_dead_letters_of_one_moment_come_by_id_descending(harness: &dyn Harness) {
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
        assert_eq!(page.next.is_some(), items < 60, "there is a next page only where there is more");
    }
}

pub async fn s2_fr003_ac3_dead_letters_carry_what_an_operator_needs(harness: &dyn Harness) {
    let store = harness.store();
    let spec = NewEventSpec {
        payment_request_id: Some("pr-1".to_owned()),
        webhook_id: Some("wh-2".to_owned()),
        session_id: Some("se-3".to_owned()),
        ..event_to("https://receiver.example/paid")
    };
    let event_id = dead_lettered(&store, spec).await;
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
    assert_eq!(listed, view(&store, &event_id).await, "a list and an event show the same");
}

pub async fn dead_letter_pages_cover_every_event_once(harness: &dyn Harness) {
    let store = harness.store();
    let failed = failed_one_by_one(harness, &store, 4).await;
    let first = dead_letters(&store, &page(None, 2)).await;
    assert_eq!(listed(&first), failed[..2]);
    let second = dead_letters(&store, &page(first.next, 2)).await;
    assert_eq!(listed(&second), failed[2..]);
    assert_eq!(second.next, None, "a full page can be the last");
}

pub async fn dead_letter_pages_stay_stable_while_rows_change(harness: &dyn Harness) {
    let store = harness.store();
    let failed = failed_one_by_one(harness, &store, 6).await;
    let first = dead_letters(&store, &page(None, 2)).await;
    assert_eq!(listed(&first), failed[..2]);
    // The row that the cursor stands on goes, another comes in front, and one that is yet to come moves there.
    store.requeue(&failed[1], "operator").await.expect("a failed event can be requeued");
    apply(&store, &claim_one(&store).await, delivers()).await;
    dead_lettered(&store, event()).await;
    store.cancel(&failed[3], "operator", None).await.expect("a failed event can be cancelled");
    let rest = dead_letters(&store, &page(first.next, 50)).await;
    let expected = [&failed[2], &failed[4], &failed[5]].map(Clone::clone);
    assert_eq!(listed(&rest), expected, "what did not change is listed once, and nothing twice");
}

pub async fn events_of_every_state_come_newest_first(harness: &dyn Harness) {
    let store = harness.store();
    let mut newest_first = Vec::new();
    for outcome in [status(200), status(410), status(500)] {
        newest_first.insert(0, attempted(&store, event(), outcome).await);
        harness.advance(SECOND * 10).await;
    }
    newest_first.insert(0, enqueue(&store, event()).await);
    // A change does not make an event newer.
    harness.advance(SECOND * 10).await;
    store.cancel(&newest_first[2], "operator", None).await.expect("a failed event can be cancelled");
    let all = events(&store, &EventQuery::default(), &page(None, 50)).await;
    assert_eq!((listed(&all), all.next), (newest_first, None));
}

pub async fn events_are_filtered_by_status_and_destination(harness: &dyn Harness) {
    let store = harness.store();
    let here = |status| EventQuery {
        status,
        destination: Some(DestinationUrl::parse("https://here.example/").expect("a valid URL")),
    };
    let done = delivered(&store, event_to("https://here.example/")).await;
    let failed = dead_lettered(&store, event_to("https://here.example/")).await;
    delivered(&store, event_to("https://there.example/")).await;
    let pending = enqueue(&store, event_to("https://here.example/")).await;

    let find = async |query: EventQuery| {
        let mut found = listed(&events(&store, &query, &page(None, 50)).await);
        found.sort();
        found
    };
    let sorted = |mut ids: Vec<EventId>| {
        ids.sort();
        ids
    };
    let with_status = |status| EventQuery { status: Some(status), destination: None };
    assert_eq!(find(with_status(DeliveryStatus::Delivered)).await.len(), 2);
    assert_eq!(find(with_status(DeliveryStatus::Failed)).await, std::slice::from_ref(&failed));
    assert_eq!(find(here(None)).await, sorted(vec![done.clone(), failed, pending.clone()]));
    assert_eq!(find(here(Some(DeliveryStatus::Delivered))).await, [done]);
    assert_eq!(find(here(Some(DeliveryStatus::Pending))).await, [pending]);
    let nowhere = DestinationUrl::parse("https://nowhere.example/").expect("a valid URL");
    assert_eq!(find(EventQuery { status: None, destination: Some(nowhere) }).await, []);
}

pub async fn event_pages_cover_every_match_once_while_others_arrive(harness: &dyn Harness) {
    let store = harness.store();
    let query = EventQuery {
        status: Some(DeliveryStatus::Pending),
        destination: Some(DestinationUrl::parse("https://here.example/").expect("a valid URL")),
    };
    delivered(&store, event_to("https://here.example/")).await;
    let mut expected = enqueue_all(&store, vec![event_to("https://here.example/"); 7]).await;
    enqueue_all(&store, vec![event_to("https://there.example/"); 7]).await;
    harness.advance(MINUTE).await;
    expected.extend(enqueue_all(&store, vec![event_to("https://here.example/"); 3]).await);
    harness.advance(MINUTE).await;

    let mut found = Vec::new();
    let mut request = page(None, 3);
    loop {
        let page = events(&store, &query, &request).await;
        found.extend(listed(&page));
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
