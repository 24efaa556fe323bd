//! Operator actions that can be repeated: a repetition under the same key gets the response of the first call.

use posthaste_domain::{DeliveryStatus, EventId, TerminalState};

use crate::{AuditView, EventView, ManualAction, StoreError};

/// The actor of an operator action, and the key that makes the action repeatable.
///
/// A store writes the key with the audit row. As long as that row exists, a call with the same key, event and action
/// changes nothing and returns the event as the first call left it. The same key with another event or another action is
/// a conflict. Keys of all events and actions share one name space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionRequest<'a> {
    pub actor: &'a str,
    /// Without a key, a repetition is a new action.
    pub key: Option<&'a str>,
}

/// An action without a key.
impl<'a> From<&'a str> for ActionRequest<'a> {
    fn from(actor: &'a str) -> Self {
        Self { actor, key: None }
    }
}

/// An action that a store found under the key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedAction {
    pub event_id: EventId,
    pub audit: AuditView,
}

impl RecordedAction {
    /// Returns the audit row if the recorded action is the requested one, and a conflict otherwise.
    pub fn require_same(
        self,
        event_id: &EventId,
        action: ManualAction,
        key: &str,
    ) -> Result<AuditView, StoreError> {
        if self.event_id == *event_id && self.audit.action == action {
            Ok(self.audit)
        } else {
            Err(StoreError::IdempotencyConflict { key: key.to_owned() })
        }
    }

    /// Returns the event that a replay has added, as the replay left it. `added` is the event of this action as it is now. A
    /// conflict if the recorded action is not the replay of an event of this chain.
    pub fn require_replay_of(
        &self,
        first_event_id: &EventId,
        added: EventView,
        key: &str,
    ) -> Result<EventView, StoreError> {
        if self.audit.action == ManualAction::Replay && added.replay_of.as_ref() == Some(first_event_id) {
            Ok(added.as_left_by(&self.audit))
        } else {
            Err(StoreError::IdempotencyConflict { key: key.to_owned() })
        }
    }
}

impl EventView {
    /// Returns the event as an action on it left it, without the changes since then. The counts of claims, and the time
    /// of the last attempt, stay those of now.
    #[must_use]
    pub fn as_left_by(self, audit: &AuditView) -> Self {
        let before = Self {
            lease_owner: None,
            lease_until: None,
            delivered_at: None,
            updated_at: audit.at,
            manual_last: Some(audit.clone()),
            ..self
        };
        match audit.action {
            ManualAction::Requeue | ManualAction::Resend | ManualAction::Replay => Self {
                status: DeliveryStatus::Pending,
                failure_kind: None,
                attempts: 0,
                lost_leases: 0,
                next_attempt_at: Some(audit.at),
                last_error: None,
                ..before
            },
            ManualAction::Cancel => {
                let terminal = TerminalState::cancelled(audit.reason.as_deref());
                Self {
                    status: terminal.status(),
                    failure_kind: Some(terminal.failure_kind()),
                    next_attempt_at: None,
                    last_error: Some(terminal.last_error().to_owned()),
                    ..before
                }
            }
            // A discard leaves no event, so it is answered from its audit row alone. A look is never repeated under a key.
            ManualAction::Discard | ManualAction::ViewContent => before,
        }
    }
}
