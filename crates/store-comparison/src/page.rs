//! Comparison of single pages, also of listings that change between their pages.
//!
//! The expected content of a page follows from the store's own events, which the last comparison checked against the
//! model.

use posthaste_domain::{DeliveryStatus, DestinationUrl, EndpointId, ErrorClass, FailureKind, Timestamp};
use posthaste_store::{
    BulkFilter, DeadLetterQuery, ErrorFilter, EventQuery, EventView, Page, PageCursor, PageLimit,
    PageRequest, StoreError,
};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{DestinationChoice, Handle, LikeField, Likeness, Paging};
use crate::sequence_run::SequenceRun;

impl SequenceRun<'_> {
    pub(crate) async fn compare_dead_letters(
        &mut self,
        handle: Handle,
        with_cancelled: bool,
        like: Option<&Likeness>,
        paging: Paging,
    ) -> ComparisonResult<String> {
        let mut query = DeadLetterQuery { with_cancelled, ..DeadLetterQuery::default() };
        if let Some((event, fields)) = self.find_like(like) {
            query.filter = filter_like(event, fields);
        }
        let mut request = page_request(paging, self.next_dead_letters);
        for _ in 0..paging.pages_max {
            let page = self.store(handle).dead_letters(&query, &request).await;
            let failed = self.views.iter().filter(|view| is_dead_letter_of(view, &query));
            request.after = compare_page("dead letters", page, failed, |view| view.updated_at, &request)?;
            self.tally.add("pages", 1);
            if request.after.is_none() {
                break;
            }
        }
        self.next_dead_letters = request.after;
        Ok(String::new())
    }

    pub(crate) async fn compare_event_listing(
        &mut self,
        handle: Handle,
        status: Option<DeliveryStatus>,
        destination: Option<DestinationChoice>,
        like: Option<&Likeness>,
        paging: Paging,
    ) -> ComparisonResult<String> {
        let mut query = match self.find_like(like) {
            Some((event, fields)) => query_like(event, fields),
            None => EventQuery::default(),
        };
        query.status = status;
        match destination {
            None => {}
            Some(DestinationChoice::Url(destination)) => {
                query.destination = Some(DestinationUrl::parse(destination.url()).expect("a valid URL"));
            }
            Some(endpoint @ DestinationChoice::Endpoint(_)) => {
                query.endpoint = Some(EndpointId(self.destination(endpoint).store));
            }
        }
        let mut request = page_request(paging, self.next_events);
        for _ in 0..paging.pages_max {
            let page = self.store(handle).events(&query, &request).await;
            let wanted = self.views.iter().filter(|view| is_event_of(view, &query));
            request.after = compare_page("events", page, wanted, |view| view.created_at, &request)?;
            self.tally.add("pages", 1);
            if request.after.is_none() {
                break;
            }
        }
        self.next_events = request.after;
        Ok(String::new())
    }

    fn find_like<'a>(&'a self, like: Option<&'a Likeness>) -> Option<(&'a EventView, &'a [LikeField])> {
        let like = like?;
        Some((like.event.pick(&self.views)?, &like.fields))
    }
}

/// Returns the filter for the last error of an event.
fn error_filter(event: &EventView) -> Option<ErrorFilter> {
    let error = event.last_error.as_deref()?;
    let head = error.split(':').next().unwrap_or_default();
    match head.strip_prefix("HTTP ") {
        Some(status) => ErrorFilter::parse(&format!("http_{status}")),
        None => ErrorClass::from_name(head).map(ErrorFilter::Class),
    }
}

/// Builds a filter that selects an event by some of its fields. The other fields are not conditions of dead letters.
fn filter_like(event: &EventView, fields: &[LikeField]) -> BulkFilter {
    let mut filter = BulkFilter::default();
    for field in fields {
        match field {
            LikeField::EventType => filter.event_type = Some(event.event_type.clone()),
            LikeField::App => filter.app = event.app,
            LikeField::FailureKind => filter.failure_kind = event.failure_kind,
            LikeField::Error => filter.error = error_filter(event),
            LikeField::Since => filter.since = Some(event.updated_at),
            LikeField::Until => filter.until = Some(event.updated_at),
            LikeField::EventId | LikeField::PaymentRequest | LikeField::Session | LikeField::Webhook => {
                match event.app {
                    Some(_) => filter.endpoint = Some(EndpointId(event.destination_id)),
                    None => filter.destination = Some(event.destination_url.clone()),
                }
            }
        }
    }
    filter
}

/// Builds a query that selects an event by some of its fields.
fn query_like(event: &EventView, fields: &[LikeField]) -> EventQuery {
    let mut query = EventQuery::default();
    for field in fields {
        match field {
            LikeField::EventId => query.event_id = Some(event.event_id.clone()),
            LikeField::EventType => query.event_type = Some(event.event_type.clone()),
            LikeField::App => query.app = event.app,
            LikeField::FailureKind => query.failure_kind = event.failure_kind,
            LikeField::Error => {
                query.error = error_filter(event);
                query.retrying = is_retrying(event);
            }
            LikeField::PaymentRequest => query.payment_request_id.clone_from(&event.payment_request_id),
            LikeField::Session => query.session_id.clone_from(&event.session_id),
            LikeField::Webhook => query.webhook_id.clone_from(&event.webhook_id),
            LikeField::Since | LikeField::Until => {}
        }
    }
    query
}

fn is_retrying(view: &EventView) -> bool {
    view.status == DeliveryStatus::Pending && view.attempts > 0
}

fn has_error(view: &EventView, wanted: Option<ErrorFilter>) -> bool {
    wanted.is_none_or(|wanted| view.last_error.as_deref().is_some_and(|error| wanted.matches(error)))
}

fn is_dead_letter_of(view: &EventView, query: &DeadLetterQuery) -> bool {
    let filter = &query.filter;
    let Some(kind) = view.failure_kind else { return false };
    let has_kind = match filter.failure_kind {
        Some(wanted) => kind == wanted,
        None => query.with_cancelled || kind != FailureKind::Cancelled,
    };
    has_kind
        && has_error(view, filter.error)
        && filter.app.is_none_or(|app| view.app == Some(app))
        && filter.event_type.as_ref().is_none_or(|wanted| view.event_type == *wanted)
        && goes_to(view, filter.destination.as_ref(), filter.endpoint)
        && filter.since.is_none_or(|since| view.updated_at >= since)
        && filter.until.is_none_or(|until| view.updated_at <= until)
}

fn is_event_of(view: &EventView, query: &EventQuery) -> bool {
    let has = |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
    query.event_id.as_ref().is_none_or(|id| view.event_id == *id)
        && query.status.is_none_or(|status| view.status == status)
        && (!query.retrying || is_retrying(view))
        && query.failure_kind.is_none_or(|kind| view.failure_kind == Some(kind))
        && has_error(view, query.error)
        && query.app.is_none_or(|app| view.app == Some(app))
        && query.event_type.as_ref().is_none_or(|wanted| view.event_type == *wanted)
        && goes_to(view, query.destination.as_ref(), query.endpoint)
        && has(&query.payment_request_id, &view.payment_request_id)
        && has(&query.session_id, &view.session_id)
        && (query.webhook_id.is_none() || view.app.is_none() && query.webhook_id == view.webhook_id)
}

fn goes_to(view: &EventView, url: Option<&DestinationUrl>, endpoint: Option<EndpointId>) -> bool {
    url.is_none_or(|url| view.app.is_none() && view.destination_url == *url)
        && endpoint.is_none_or(|id| view.app.is_some() && view.destination_id == id.0)
}

fn page_request(paging: Paging, next: Option<PageCursor>) -> PageRequest {
    let limit = PageLimit::new(paging.limit).expect("limits are generated between 1 and 200");
    PageRequest { after: next.filter(|_| paging.continues), limit }
}

/// Compares a page with the events it must contain. Returns the cursor of the next page.
fn compare_page<'a>(
    what: &str,
    page: Result<Page<EventView>, StoreError>,
    of: impl Iterator<Item = &'a EventView>,
    at: impl Fn(&EventView) -> Timestamp,
    request: &PageRequest,
) -> ComparisonResult<Option<PageCursor>> {
    let page = page.map_err(|error| Difference::failed(what, &error))?;
    let cursor_of = |view: &EventView| PageCursor { at: at(view), key: view.key };
    let mut views: Vec<&EventView> =
        of.filter(|view| request.after.is_none_or(|after| cursor_of(view) < after)).collect();
    views.sort_by_key(|view| std::cmp::Reverse(cursor_of(view)));
    let limit = request.limit.get();
    let next = if views.len() > limit { views.get(limit - 1).map(|view| cursor_of(view)) } else { None };
    let items = views.into_iter().take(limit).cloned().collect();
    compare(&format!("the page of {what} after {:?}", request.after), &Page { items, next }, &page)?;
    Ok(page.next)
}
