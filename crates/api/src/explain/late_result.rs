//! Explains a late result: the receiver answered a request, but the worker had lost the event by then.

use posthaste_domain::{ErrorClass, FailureKind};
use posthaste_store::{AttemptView, EventDetail, EventView, ManualAction};

/// A result of the attempt that the event's row counts next. It was not applied, because the lease had been lost.
pub(crate) struct LateResult(AttemptView);

impl LateResult {
    /// Finds the last late result of an event, unless a requeue or an applied result of the same attempt came after it.
    pub(crate) fn find(detail: &EventDetail) -> Option<Self> {
        let requeue = detail.audit.iter().rev().find(|audit| audit.action == ManualAction::Requeue);
        let is_current = |attempt: &&AttemptView| {
            !attempt.applied
                && attempt.attempt > detail.event.attempts
                && requeue.is_none_or(|requeue| attempt.started_at >= requeue.at)
        };
        detail.history.iter().rev().find(is_current).cloned().map(Self)
    }

    /// Returns whether the event is cancelled, and the request had not ended at that time.
    pub(super) fn was_in_flight_at_cancel(&self, event: &EventView) -> bool {
        let ended_at = self.0.started_at.after(self.0.duration);
        event.failure_kind == Some(FailureKind::Cancelled) && ended_at >= event.updated_at
    }

    /// Returns the result as a phrase of the sentence about the cancel.
    pub(super) fn explain_in_flight(&self) -> String {
        format!("while attempt {} was in flight: {}", self.0.attempt, self.explain_outcome())
    }

    /// Returns the result as a sentence of its own, to be appended.
    pub(super) fn explain(&self) -> String {
        format!(
            " A worker that had lost its lease reported the result of attempt {}: {}.",
            self.0.attempt,
            self.explain_outcome()
        )
    }

    fn explain_outcome(&self) -> String {
        match (self.0.http_status, self.0.error_class) {
            (Some(status), _) => format!("the receiver answered HTTP {status}, which was not applied"),
            (None, Some(class)) => {
                format!("the request failed with {}, which was not applied", ErrorClass::as_str(class))
            }
            (None, None) => "it was not applied".to_owned(),
        }
    }
}
