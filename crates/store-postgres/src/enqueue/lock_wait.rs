//! Recognises a lock conflict with another client's open transaction, and which row it holds.

use std::collections::BTreeSet;

use posthaste_domain::{EventId, NewEvent};
use posthaste_store::EnqueueRequest;

use super::destination_ids::DestinationIds;

/// A table in which a client's open transaction can block an enqueue, for as long as it stays open: both insert the
/// same unique row.
pub(super) enum LockedTable {
    Destinations,
    Events,
}

impl LockedTable {
    /// Returns the table whose row the statement waited for, or None for any other lock. Reads it from the error's
    /// context, where the table's name is the same in every language of the server.
    pub(super) fn from_error(error: &tokio_postgres::Error) -> Option<Self> {
        let context = error.as_db_error()?.where_()?;
        if context.contains("webhook_destinations") {
            Some(Self::Destinations)
        } else if context.contains("webhook_events") {
            Some(Self::Events)
        } else {
            None
        }
    }

    /// Returns the destination URL or event id that is locked, or None if the batch has several candidates.
    pub(super) fn locked_resource(&self, batch: &[EnqueueRequest], cache: &DestinationIds) -> Option<String> {
        let events = || batch.iter().flat_map(|request| &request.events);
        match self {
            Self::Destinations => {
                let urls: BTreeSet<&str> = events().map(|event| event.destination_url().as_str()).collect();
                let urls: Vec<&str> = urls.into_iter().collect();
                let ids = cache.get(&urls);
                // A destination with a known id is not inserted, so it cannot be the locked one.
                only(urls.into_iter().zip(ids).filter(|(_, id)| id.is_none()).map(|(url, _)| url))
            }
            Self::Events => only(events().filter_map(NewEvent::event_id).map(EventId::as_str)),
        }
    }
}

/// Returns the only candidate, or None if there are several or none.
fn only<'a>(mut candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = candidates.next()?;
    candidates.next().is_none().then(|| first.to_owned())
}
