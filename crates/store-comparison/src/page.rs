//! Comparison of single pages, also of listings that change between their pages.
//!
//! The expected content of a page follows from the store's own events, which the last comparison checked against the
//! model.

use posthaste_domain::{DeliveryStatus, DestinationUrl, EndpointId, Timestamp};
use posthaste_store::{
    DeadLetterFilter, EventQuery, EventView, Page, PageCursor, PageLimit, PageRequest, StoreError,
};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{DestinationChoice, Handle, Paging};
use crate::sequence_run::SequenceRun;

impl SequenceRun<'_> {
    pub(crate) async fn compare_dead_letters(
        &mut self,
        handle: Handle,
        filter: DeadLetterFilter,
        paging: Paging,
    ) -> ComparisonResult<String> {
        let mut request = page_request(paging, self.next_dead_letters);
        for _ in 0..paging.pages_max {
            let page = self.store(handle).dead_letters(filter, &request).await;
            let is_listed = |view: &&EventView| view.failure_kind.is_some_and(|kind| filter.includes(kind));
            let failed = self.views.iter().filter(is_listed);
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
        paging: Paging,
    ) -> ComparisonResult<String> {
        let query = match destination {
            None => EventQuery { status, ..EventQuery::default() },
            Some(DestinationChoice::Url(destination)) => {
                let url = DestinationUrl::parse(destination.url()).expect("a valid URL");
                EventQuery { status, destination: Some(url), endpoint: None }
            }
            Some(DestinationChoice::Endpoint(_)) => {
                let endpoint = destination.map(|endpoint| EndpointId(self.destination(endpoint).store));
                EventQuery { status, destination: None, endpoint }
            }
        };
        let mut request = page_request(paging, self.next_events);
        for _ in 0..paging.pages_max {
            let page = self.store(handle).events(&query, &request).await;
            let wanted = self.views.iter().filter(|view| {
                query.status.is_none_or(|status| view.status == status)
                    && query
                        .destination
                        .as_ref()
                        .is_none_or(|url| view.app.is_none() && view.destination_url == *url)
                    && query.endpoint.is_none_or(|id| view.app.is_some() && view.destination_id == id.0)
            });
            request.after = compare_page("events", page, wanted, |view| view.created_at, &request)?;
            self.tally.add("pages", 1);
            if request.after.is_none() {
                break;
            }
        }
        self.next_events = request.after;
        Ok(String::new())
    }
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
