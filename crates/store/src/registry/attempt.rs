//! Attempts as callers of the registry see them.

use std::collections::BTreeSet;

use posthaste_domain::{
    AttemptId, Channel, DestinationUrl, EndpointId, EndpointRef, EventId, EventTypeName, MessageId,
    MessageRef, Timestamp,
};

use crate::AttemptView;

/// An attempt with its message and its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    pub id: AttemptId,
    pub event_id: EventId,
    pub message: MessageId,
    pub event_type: EventTypeName,
    pub endpoint: EndpointId,
    /// The URL that the endpoint has now.
    pub url: DestinationUrl,
    pub attempt: AttemptView,
}

impl AttemptRecord {
    /// Returns whether the receiver accepted the event.
    pub fn is_success(&self) -> bool {
        self.attempt.http_status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// Whose attempts are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptsOf {
    Message(MessageRef),
    Endpoint(EndpointRef),
}

/// Filters of a list of attempts. `None` matches every attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFilter {
    pub of: AttemptsOf,
    /// Attempts of this endpoint, in a list of a message's attempts.
    pub endpoint: Option<EndpointRef>,
    pub is_success: Option<bool>,
    /// The first digit of the status of the response. Zero for attempts without a response.
    pub status_code_class: Option<u16>,
    pub channel: Option<Channel>,
    pub event_types: Option<BTreeSet<EventTypeName>>,
    /// Attempts that started earlier.
    pub before: Option<Timestamp>,
    /// Attempts that started later.
    pub after: Option<Timestamp>,
}

impl AttemptFilter {
    /// Builds a filter that matches every attempt of a message or of an endpoint.
    pub const fn all(of: AttemptsOf) -> Self {
        Self {
            of,
            endpoint: None,
            is_success: None,
            status_code_class: None,
            channel: None,
            event_types: None,
            before: None,
            after: None,
        }
    }

    /// Returns whether the list contains an attempt of a message with these channels. The caller has checked whose it is.
    pub fn includes(&self, record: &AttemptRecord, channels: &BTreeSet<Channel>) -> bool {
        let class = record.attempt.http_status.map_or(0, |status| status / 100);
        self.is_success.is_none_or(|is_success| record.is_success() == is_success)
            && self.status_code_class.is_none_or(|wanted| class == wanted)
            && self.channel.as_ref().is_none_or(|channel| channels.contains(channel))
            && self.event_types.as_ref().is_none_or(|types| types.contains(&record.event_type))
            && self.before.is_none_or(|before| record.attempt.started_at < before)
            && self.after.is_none_or(|after| record.attempt.started_at > after)
    }
}
