//! The states of events and attempts, as the SDKs number and name them.

use posthaste_domain::{DeliveryStatus, FailureKind, Trigger};
use posthaste_store::{AttemptRecord, EventView};

/// The state of an event or an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageStatus {
    Success,
    /// Not attempted yet.
    Pending,
    Fail,
    /// Attempted, and to be tried again.
    Sending,
    Canceled,
}

posthaste_domain::named_variants!(MessageStatus {
    Success => "success",
    Pending => "pending",
    Fail => "fail",
    Sending => "sending",
    Canceled => "canceled",
});

impl MessageStatus {
    /// The number on the wire.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Pending => 1,
            Self::Fail => 2,
            Self::Sending => 3,
            Self::Canceled => 4,
        }
    }

    pub(super) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| i64::from(status.number()) == number)
    }

    /// Returns the state of an event. Only callers that ask for expanded states know cancelled events.
    pub(super) fn of_event(event: &EventView, is_expanded: bool) -> Self {
        match (event.status, event.failure_kind) {
            (DeliveryStatus::Delivered, _) => Self::Success,
            (DeliveryStatus::Pending, _) if event.attempts == 0 => Self::Pending,
            (DeliveryStatus::Pending, _) => Self::Sending,
            (DeliveryStatus::Failed, Some(FailureKind::Cancelled)) if is_expanded => Self::Canceled,
            (DeliveryStatus::Failed, _) => Self::Fail,
        }
    }

    pub(super) fn of_attempt(attempt: &AttemptRecord) -> Self {
        if attempt.is_success() { Self::Success } else { Self::Fail }
    }
}

/// Returns the number of an attempt's cause.
pub(super) const fn trigger_number(trigger: Trigger) -> u8 {
    match trigger {
        Trigger::Scheduled => 0,
        Trigger::Manual => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_one_status() {
        for status in MessageStatus::ALL {
            assert_eq!(MessageStatus::from_number(status.number().into()), Some(*status));
        }
        assert_eq!(MessageStatus::from_number(5), None);
        assert_eq!(MessageStatus::from_number(-1), None);
    }
}
