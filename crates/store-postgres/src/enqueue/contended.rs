//! Somebody else's open transaction in the way: how it is noticed, and what it holds.

use std::collections::BTreeSet;

use posthaste_domain::{EventId, NewEvent};
use posthaste_store::EnqueueRequest;
use tokio_postgres::error::SqlState;

use super::insert::Places;

/// The wait was given up, or was one of several in a circle. Nothing was stored.
pub(super) fn is_contended(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

/// The destination or event id that is held, where only one can be. The server says which table it waited at, in
/// whatever language.
pub(super) fn held(
    error: &tokio_postgres::Error,
    batch: &[EnqueueRequest],
    places: &Places,
) -> Option<String> {
    let waited_at = error.as_db_error()?.where_()?;
    let events = || batch.iter().flat_map(|request| &request.events);
    if waited_at.contains("webhook_destinations") {
        let urls: BTreeSet<&str> = events().map(|event| event.destination_url().as_str()).collect();
        let urls: Vec<&str> = urls.into_iter().collect();
        let known = places.known(&urls);
        sole(urls.into_iter().zip(known).filter(|(_, known)| known.is_none()).map(|(url, _)| url))
    } else if waited_at.contains("webhook_events") {
        sole(events().filter_map(NewEvent::event_id).map(EventId::as_str))
    } else {
        None
    }
}

fn sole<'a>(mut candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = candidates.next()?;
    candidates.next().is_none().then(|| first.to_owned())
}
