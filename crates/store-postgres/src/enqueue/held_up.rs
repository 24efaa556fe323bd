//! Somebody else's open transaction in the way: how it is noticed, and what it holds.

use std::collections::BTreeSet;

use posthaste_domain::{EventId, NewEvent};
use posthaste_store::EnqueueRequest;

use super::insert::Places;

/// Where a transaction of a caller's own can be in the way for as long as it is open: at the row that both would make.
pub(super) enum Table {
    Destinations,
    Events,
}

/// None where something else was waited for. The server names the table in whatever language it speaks.
pub(super) fn by_caller(error: &tokio_postgres::Error) -> Option<Table> {
    let waited_at = error.as_db_error()?.where_()?;
    if waited_at.contains("webhook_destinations") {
        Some(Table::Destinations)
    } else if waited_at.contains("webhook_events") {
        Some(Table::Events)
    } else {
        None
    }
}

impl Table {
    /// The destination or event id that is held, where only one can be.
    pub(super) fn held(&self, batch: &[EnqueueRequest], places: &Places) -> Option<String> {
        let events = || batch.iter().flat_map(|request| &request.events);
        match self {
            Self::Destinations => {
                let urls: BTreeSet<&str> = events().map(|event| event.destination_url().as_str()).collect();
                let urls: Vec<&str> = urls.into_iter().collect();
                let known = places.known(&urls);
                sole(urls.into_iter().zip(known).filter(|(_, known)| known.is_none()).map(|(url, _)| url))
            }
            Self::Events => sole(events().filter_map(NewEvent::event_id).map(EventId::as_str)),
        }
    }
}

fn sole<'a>(mut candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = candidates.next()?;
    candidates.next().is_none().then(|| first.to_owned())
}
