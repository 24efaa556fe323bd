//! Searches of operators for events.
//!
//! A search walks over an index, newest first. If it also has conditions that the index does not serve, it examines a limited
//! number of entries, so that the cost of a page grows neither with the backlog nor with the history. It reads no payload.

mod dead_letters;
mod events;
mod walk;

use rusqlite::{Connection, OptionalExtension as _};

use posthaste_domain::{DestinationUrl, EndpointId};

pub(crate) use dead_letters::dead_letters;
pub(crate) use events::events;
#[cfg(test)]
pub(crate) use {
    dead_letters::choose_walk as choose_dead_letters_walk,
    events::{KeyRange, choose_walk as choose_events_walk},
};

/// The URL or the endpoint of a filter, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Destination(i64),
    /// The filter names a destination that does not exist.
    None,
}

impl Scope {
    pub(crate) fn of(
        db: &Connection,
        destination: Option<&DestinationUrl>,
        endpoint: Option<EndpointId>,
    ) -> rusqlite::Result<Self> {
        let found = match (destination, endpoint) {
            (None, None) => return Ok(Self::All),
            // Index: webhook_destinations_url.
            (Some(url), None) => db
                .prepare_cached("SELECT id FROM webhook_destinations WHERE kind = 'url' AND url = ?1")?
                .query_row([url.as_str()], |row| row.get(0))
                .optional()?,
            (None, Some(endpoint)) => db
                .prepare_cached("SELECT id FROM webhook_destinations WHERE kind = 'endpoint' AND id = ?1")?
                .query_row([endpoint.0.0], |row| row.get(0))
                .optional()?,
            // Events to a URL are events of no endpoint.
            (Some(_), Some(_)) => None,
        };
        Ok(found.map_or(Self::None, Self::Destination))
    }

    pub(crate) fn destination(self) -> Option<i64> {
        match self {
            Self::Destination(id) => Some(id),
            Self::All | Self::None => None,
        }
    }
}
