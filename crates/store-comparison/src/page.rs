//! Single pages, also of listings that change while somebody turns their pages.
//!
//! What a page must hold follows from the store's own events, as they were compared with the model's at the last look.

use posthaste_domain::{DeliveryStatus, DestinationUrl, Timestamp};
use posthaste_store::{Cursor, EventQuery, EventView, Page, PageLimit, PageRequest, StoreError};

use crate::difference::{Agreed, Difference, same};
use crate::operation::{Destination, Handle, Paged};
use crate::pair::Pair;

impl Pair<'_> {
    pub(crate) async fn pages_of_dead_letters(&mut self, handle: Handle, paged: Paged) -> Agreed<String> {
        let mut request = page_request(paged, self.next_dead_letters);
        for _ in 0..paged.pages_max {
            let page = self.store(handle).dead_letters(&request).await;
            let failed = self.views.iter().filter(|view| view.status == DeliveryStatus::Failed);
            request.after = same_page("dead letters", page, failed, |view| view.updated_at, &request)?;
            self.tally.count("pages", 1);
            if request.after.is_none() {
                break;
            }
        }
        self.next_dead_letters = request.after;
        Ok(String::new())
    }

    pub(crate) async fn pages_of_events(
        &mut self,
        handle: Handle,
        status: Option<DeliveryStatus>,
        destination: Option<Destination>,
        paged: Paged,
    ) -> Agreed<String> {
        let url = |place: Destination| DestinationUrl::parse(place.url()).expect("a valid URL");
        let query = EventQuery { status, destination: destination.map(url) };
        let mut request = page_request(paged, self.next_events);
        for _ in 0..paged.pages_max {
            let page = self.store(handle).events(&query, &request).await;
            let wanted = self.views.iter().filter(|view| {
                query.status.is_none_or(|status| view.status == status)
                    && query.destination.as_ref().is_none_or(|url| view.destination_url == *url)
            });
            request.after = same_page("events", page, wanted, |view| view.created_at, &request)?;
            self.tally.count("pages", 1);
            if request.after.is_none() {
                break;
            }
        }
        self.next_events = request.after;
        Ok(String::new())
    }
}

fn page_request(paged: Paged, next: Option<Cursor>) -> PageRequest {
    let limit = PageLimit::new(paged.limit).expect("limits are generated between 1 and 200");
    PageRequest { after: next.filter(|_| paged.goes_on), limit }
}

/// Returns where the page ended.
fn same_page<'a>(
    what: &str,
    page: Result<Page<EventView>, StoreError>,
    of: impl Iterator<Item = &'a EventView>,
    at: impl Fn(&EventView) -> Timestamp,
    request: &PageRequest,
) -> Agreed<Option<Cursor>> {
    let page = page.map_err(|error| Difference::failed(what, &error))?;
    let place = |view: &EventView| Cursor { at: at(view), key: view.key };
    let mut views: Vec<&EventView> =
        of.filter(|view| request.after.is_none_or(|after| place(view) < after)).collect();
    views.sort_by_key(|view| std::cmp::Reverse(place(view)));
    let limit = request.limit.get();
    let next = if views.len() > limit { views.get(limit - 1).map(|view| place(view)) } else { None };
    let items = views.into_iter().take(limit).cloned().collect();
    same(&format!("the page of {what} after {:?}", request.after), &Page { items, next }, &page)?;
    Ok(page.next)
}
