//! What a producer sees: the events that its own key stored, without operators and without the words of receivers.
//!
//! For a producer, the events of others do not exist. The words of receivers are hidden because a producer chooses the
//! destination, and so could read private services through them.

use posthaste_domain::{EventId, last_error_without_excerpt};
use posthaste_store::{DestinationStatus, EventDetail, StoreError};

/// The view of one producer.
pub(crate) struct ProducerView<'a> {
    /// The name of the producer's key.
    pub(crate) key_name: &'a str,
    /// Whether the producer sees excerpts of responses.
    pub(crate) with_excerpts: bool,
}

impl ProducerView<'_> {
    /// Restricts the result of reading an event. An event of another caller, or one that an operator discarded, gives the
    /// error of an unknown id.
    pub(crate) fn restrict_event(
        &self,
        event_id: &EventId,
        found: Result<EventDetail, StoreError>,
    ) -> Result<EventDetail, StoreError> {
        let not_found = || StoreError::EventNotFound { event_id: event_id.clone() };
        let mut detail = match found {
            Ok(detail) if detail.event.stored_by.as_deref() == Some(self.key_name) => detail,
            Ok(_) | Err(StoreError::EventDiscarded { .. }) => return Err(not_found()),
            Err(error) => return Err(error),
        };
        detail.event.manual_last = None;
        if !self.with_excerpts {
            detail.event.last_error = detail.event.last_error.as_deref().map(last_error_without_excerpt);
        }
        Ok(detail)
    }

    /// Removes the name and the words of the operator who paused a destination.
    pub(crate) fn restrict_destination(&self, mut status: DestinationStatus) -> DestinationStatus {
        if let Some(pause) = &mut status.operator_pause {
            (pause.actor, pause.reason) = ("an operator".to_owned(), None);
        }
        status
    }
}
