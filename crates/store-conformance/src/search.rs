//! Searches for events: each condition, combinations, and pages that examine a limited number of rows.

use posthaste_domain::{
    DeliveryStatus, DestinationUrl, EventId, FailureKind, MessageSpec, NewEventSpec, Timestamp,
};
use posthaste_store::{
    BulkFilter, DeadLetterQuery, ErrorFilter, EventQuery, EventView, ExamineLimit, Page, PageLimit,
    PageRequest,
};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

fn with_type(event_type: &str) -> NewEventSpec {
    NewEventSpec { event_type: event_type.to_owned(), ..event() }
}

fn error(name: &str) -> Option<ErrorFilter> {
    Some(ErrorFilter::parse(name).expect("a valid error"))
}

/// A list of events that continues page by page.
enum Search<'a> {
    Events(&'a EventQuery),
    DeadLetters(&'a DeadLetterQuery),
}

impl Search<'_> {
    async fn page(&self, store: &Handle, request: &PageRequest) -> Page<EventView> {
        let page = match self {
            Self::Events(query) => store.events(query, request).await,
            Self::DeadLetters(query) => store.dead_letters(query, request).await,
        };
        page.expect("the store is up")
    }

    /// Reads all pages of up to three events. Returns the ids and the number of pages.
    async fn read(&self, store: &Handle) -> (Vec<EventId>, usize) {
        let mut request = PageRequest { limit: PageLimit::new(3).expect("a valid limit"), after: None };
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let page = self.page(store, &request).await;
            assert!(page.items.len() <= 3, "a page holds no more than its limit");
            found.extend(page.items.into_iter().map(|event| event.event_id));
            pages += 1;
            let Some(next) = page.next else { return (found, pages) };
            assert!(request.after.is_none_or(|after| next < after), "each page continues further back");
            request.after = Some(next);
        }
    }

    async fn ids(&self, store: &Handle) -> Vec<EventId> {
        self.read(store).await.0
    }
}

async fn find(store: &Handle, query: EventQuery) -> Vec<EventId> {
    Search::Events(&query).ids(store).await
}

async fn find_dead(store: &Handle, filter: BulkFilter) -> Vec<EventId> {
    let found = Search::DeadLetters(&DeadLetterQuery { filter: filter.clone(), ..Default::default() });
    let found = found.ids(store).await;
    let counted = store.bulk().count(&filter).await.expect("the store is up").count;
    assert_eq!(found.len() as u64, counted, "a bulk operation selects the same events");
    found
}

pub async fn events_are_found_by_their_type_application_kind_and_error(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let gone = enqueue_and_attempt(&store, with_type("invoice.paid"), status(410)).await;
    let retrying = enqueue_and_attempt(&store, with_type("invoice.sent"), status(503)).await;
    let exhausted = enqueue_and_attempt(
        &store,
        NewEventSpec { max_attempts: Some(1), ..with_type("order") },
        status(500),
    )
    .await;
    let delivered = enqueue_delivered(&store, with_type("order")).await;
    publish(&store, &app, MessageSpec { event_type: "invoice.paid".to_owned(), ..message_spec() }).await;
    let all = find(&store, EventQuery::default()).await;
    assert_eq!(all.len(), 5);
    let published = &all[0];

    let query = EventQuery::default;
    let of_type = |name: &str| EventQuery { event_type: Some(name.to_owned()), ..query() };
    assert_eq!(find(&store, of_type("invoice.paid")).await, [published.clone(), gone.clone()]);
    assert_eq!(find(&store, of_type("invoice")).await, []);
    assert_eq!(
        find(&store, EventQuery { app: Some(app.application.id), ..query() }).await,
        std::slice::from_ref(published)
    );
    let of_kind = |kind| EventQuery { failure_kind: Some(kind), ..query() };
    assert_eq!(find(&store, of_kind(FailureKind::Gone)).await, std::slice::from_ref(&gone));
    assert_eq!(find(&store, of_kind(FailureKind::Exhausted)).await, std::slice::from_ref(&exhausted));
    let with_error = |name| EventQuery { error: error(name), ..query() };
    assert_eq!(find(&store, with_error("http_5xx")).await, [exhausted.clone(), retrying.clone()]);
    assert_eq!(find(&store, with_error("http_410")).await, std::slice::from_ref(&gone));
    assert_eq!(find(&store, with_error("timeout")).await, []);

    let pending = Some(DeliveryStatus::Pending);
    let retrying_only = EventQuery { status: pending, ..with_error("http_5xx") };
    assert_eq!(find(&store, retrying_only).await, std::slice::from_ref(&retrying));
    assert_eq!(find(&store, EventQuery { retrying: true, ..query() }).await, [retrying]);
    let of_failed = EventQuery { retrying: true, status: Some(DeliveryStatus::Failed), ..query() };
    assert_eq!(find(&store, of_failed).await, []);
    let delivered_only = EventQuery { status: Some(DeliveryStatus::Delivered), ..of_type("order") };
    assert_eq!(find(&store, delivered_only).await, [delivered]);
    let no_delivered_is_gone =
        EventQuery { status: Some(DeliveryStatus::Delivered), ..of_kind(FailureKind::Gone) };
    assert_eq!(find(&store, no_delivered_is_gone).await, []);
}

pub async fn events_are_found_by_each_reference_however_many_others_there_are(harness: &dyn Harness) {
    let store = harness.store();
    let with_references = |number: usize| NewEventSpec {
        event_id: Some(format!("order-{number}")),
        payment_request_id: Some("pr-1".to_owned()),
        session_id: Some(format!("se-{number}")),
        webhook_id: (number == 2).then(|| "wh-1".to_owned()),
        ..event()
    };
    enqueue_all(&store, (0..4).map(with_references).collect()).await;
    enqueue_all(&store, vec![event(); 30]).await;
    let text = |text: &str| Some(text.to_owned());
    // A page examines one row, so only an index can find the event on the first page.
    let query = || EventQuery { examine: ExamineLimit::new(1), ..EventQuery::default() };
    let first_page = async |query: EventQuery| {
        let page = store.events(&query, &PageRequest::default()).await.expect("the store is up");
        page.items.iter().map(|event| event.event_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(first_page(EventQuery { event_id: Some(id("order-0")), ..query() }).await, ["order-0"]);
    assert_eq!(first_page(EventQuery { session_id: text("se-3"), ..query() }).await, ["order-3"]);
    assert_eq!(first_page(EventQuery { webhook_id: text("wh-1"), ..query() }).await, ["order-2"]);
    assert_eq!(first_page(EventQuery { payment_request_id: text("pr-1"), ..query() }).await, ["order-3"]);
    let paid = EventQuery { payment_request_id: text("pr-1"), ..query() };
    let found = find(&store, paid.clone()).await;
    assert_eq!(found, [3, 2, 1, 0].map(|number| id(&format!("order-{number}"))));
    assert_eq!(find(&store, EventQuery { session_id: text("se-1"), ..paid.clone() }).await, [id("order-1")]);
    assert_eq!(find(&store, EventQuery { webhook_id: text("wh-1"), ..paid.clone() }).await, [id("order-2")]);
    assert_eq!(
        find(&store, EventQuery { event_id: Some(id("order-2")), ..paid.clone() }).await,
        [id("order-2")]
    );
    let failed = EventQuery { status: Some(DeliveryStatus::Failed), ..paid };
    assert_eq!(find(&store, failed).await, []);
    assert_eq!(find(&store, EventQuery { payment_request_id: text("pr"), ..query() }).await, []);
}

pub async fn a_search_for_few_events_continues_after_the_rows_that_it_has_examined(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let mut rare = Vec::new();
    for _ in 0..3 {
        let message = publish_one(&store, &app).await;
        rare.insert(0, message.id);
        enqueue_all(&store, vec![event(); 12]).await;
    }
    let query =
        EventQuery { app: Some(app.application.id), examine: ExamineLimit::new(5), ..EventQuery::default() };
    let first = store.events(&query, &PageRequest::default()).await.expect("the store is up");
    assert!(first.items.is_empty() && first.next.is_some(), "an empty page that is not the last: {first:?}");
    for status in [None, Some(DeliveryStatus::Pending)] {
        let query = EventQuery { status, ..query.clone() };
        let (found, pages) = Search::Events(&query).read(&store).await;
        assert_eq!(found.len(), 3, "{status:?}");
        assert!((4..=12).contains(&pages), "{pages} pages for 39 rows, five a page");
    }
}

pub async fn a_search_for_one_status_of_a_destination_is_complete(harness: &dyn Harness) {
    let store = harness.store();
    let here = "https://here.example/";
    let pending = enqueue_all(&store, vec![event_to(here); 2]).await;
    let failed = enqueue_dead_lettered_beside(&store, here, 4).await;
    enqueue_all(&store, vec![event_to("https://there.example/"); 9]).await;
    let url = Some(DestinationUrl::parse(here).expect("a valid URL"));
    for examine in [1, 2, 5, 100] {
        let query = |status| EventQuery {
            status: Some(status),
            destination: url.clone(),
            examine: ExamineLimit::new(examine),
            ..EventQuery::default()
        };
        let mut found = find(&store, query(DeliveryStatus::Pending)).await;
        found.reverse();
        assert_eq!(found, pending, "examining {examine}");
        let mut found = find(&store, query(DeliveryStatus::Failed)).await;
        found.reverse();
        assert_eq!(found, failed, "examining {examine}");
        assert_eq!(find(&store, query(DeliveryStatus::Delivered)).await, [], "examining {examine}");
        let filter = BulkFilter { destination: url.clone(), ..BulkFilter::default() };
        let query = DeadLetterQuery { filter, examine: ExamineLimit::new(examine), with_cancelled: false };
        let mut found = Search::DeadLetters(&query).ids(&store).await;
        found.sort();
        let mut expected = failed.clone();
        expected.sort();
        assert_eq!(found, expected, "examining {examine}");
    }
}

/// Adds failed events of a destination, whose other events stay pending.
async fn enqueue_dead_lettered_beside(store: &Handle, url: &str, count: usize) -> Vec<EventId> {
    let failed = enqueue_all(store, vec![event_to(url); count]).await;
    let (mine, others): (Vec<_>, Vec<_>) =
        claim_all(store).await.into_iter().partition(|lease| failed.contains(&lease.event_id));
    let batch: Vec<_> = mine.iter().map(|lease| settlement(lease, status(410))).collect();
    settle_all(store, &batch).await;
    store.release(&lease_refs(&others)).await.expect("the store is up");
    failed
}

/// Enqueues events at three times an hour apart. Returns their ids and times.
async fn enqueue_hourly(harness: &dyn Harness, store: &Handle) -> Vec<(EventId, Timestamp)> {
    let mut events = Vec::new();
    for _ in 0..3 {
        let event_id = enqueue(store, event()).await;
        events.push((event_id.clone(), view(store, &event_id).await.created_at));
        harness.advance(MINUTE).await;
        enqueue_all(store, vec![event_to("https://there.example/"); 20]).await;
        harness.advance(HOUR).await;
    }
    events
}

pub async fn a_search_by_time_starts_near_it_and_ends_there(harness: &dyn Harness) {
    let store = harness.store();
    let hourly = enqueue_hourly(harness, &store).await;
    let (second, second_at) = &hourly[1];
    let at =
        |since, until| EventQuery { since, until, examine: ExamineLimit::new(4), ..EventQuery::default() };
    // The twenty events of the last hour are newer, and none of them is examined.
    let page = store.events(&at(None, Some(*second_at)), &PageRequest::default()).await;
    let page = page.expect("the store is up");
    assert_eq!(page.items.len(), 4, "{page:?}");
    let here = Some(DestinationUrl::parse(&event().destination_url).expect("a valid URL"));
    let here = |query| EventQuery { destination: here.clone(), ..query };
    assert_eq!(
        find(&store, here(at(Some(*second_at), Some(*second_at)))).await,
        std::slice::from_ref(second)
    );
    let ids: Vec<_> = hourly.iter().rev().map(|(event_id, _)| event_id.clone()).collect();
    assert_eq!(find(&store, here(at(Some(*second_at), None))).await, ids[..2]);
    assert_eq!(find(&store, here(at(None, Some(*second_at)))).await, ids[1..]);
    let past = second_at.before(DAY);
    assert_eq!(find(&store, at(None, Some(past))).await, []);
    let future = second_at.after(DAY);
    assert_eq!(Search::Events(&at(Some(future), None)).read(&store).await, (vec![], 1), "no row is examined");
}

pub async fn a_list_and_a_bulk_operation_select_the_same_dead_letters(harness: &dyn Harness) {
    let store = harness.store();
    let mut failed = Vec::new();
    for (event_type, http_status) in [("a", 410), ("b", 500), ("a", 503), ("a", 410)] {
        let event = NewEventSpec { max_attempts: Some(1), ..with_type(event_type) };
        failed.insert(0, enqueue_and_attempt(&store, event, status(http_status)).await);
        harness.advance(HOUR).await;
    }
    store.cancel(&failed[0], "ann".into(), None).await.expect("a failed event can be cancelled");
    let ids = |indexes: &[usize]| indexes.iter().map(|index| failed[*index].clone()).collect::<Vec<_>>();
    let filter = BulkFilter::default;
    assert_eq!(find_dead(&store, filter()).await, ids(&[1, 2, 3]));
    let of_type = BulkFilter { event_type: Some("a".to_owned()), ..filter() };
    assert_eq!(find_dead(&store, of_type.clone()).await, ids(&[1, 3]));
    assert_eq!(find_dead(&store, BulkFilter { error: error("http_503"), ..of_type }).await, ids(&[1]));
    let failed_at = view(&store, &failed[2]).await.updated_at;
    assert_eq!(find_dead(&store, BulkFilter { since: Some(failed_at), ..filter() }).await, ids(&[1, 2]));
    assert_eq!(find_dead(&store, BulkFilter { until: Some(failed_at), ..filter() }).await, ids(&[2, 3]));
    let cancelled = BulkFilter { failure_kind: Some(FailureKind::Cancelled), ..filter() };
    assert_eq!(find_dead(&store, cancelled).await, ids(&[0]));
    let url = DestinationUrl::parse(&event().destination_url).expect("a valid URL");
    assert_eq!(find_dead(&store, BulkFilter { destination: Some(url), ..filter() }).await, ids(&[1, 2, 3]));
    let nowhere = DestinationUrl::parse("https://nowhere.example/").expect("a valid URL");
    assert_eq!(find_dead(&store, BulkFilter { destination: Some(nowhere), ..filter() }).await, []);
}

pub async fn a_search_for_few_dead_letters_continues_after_those_that_it_has_examined(harness: &dyn Harness) {
    let store = harness.store();
    let rare = enqueue_and_attempt(&store, with_type("rare"), status(410)).await;
    enqueue_all(&store, vec![event(); 20]).await;
    let batch: Vec<_> = claim_all(&store).await.iter().map(|lease| settlement(lease, status(410))).collect();
    harness.advance(SECOND).await;
    settle_all(&store, &batch).await;
    let filter = BulkFilter { event_type: Some("rare".to_owned()), ..BulkFilter::default() };
    let query = DeadLetterQuery { filter, examine: ExamineLimit::new(4), ..DeadLetterQuery::default() };
    let (found, pages) = Search::DeadLetters(&query).read(&store).await;
    assert_eq!(found, [rare]);
    assert!((3..=7).contains(&pages), "{pages} pages for 21 rows, four a page");
}
