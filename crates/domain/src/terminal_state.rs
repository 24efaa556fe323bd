//! Terminal states that no attempt leads to: an operator cancelled the event, or it lost too many leases.

use crate::{DeliveryStatus, Excerpt, FailureKind, NoticeKind};

/// The `failed` state that a store writes when an event is cancelled or abandoned.
///
/// Its counterpart [`Transition`](crate::Transition) is the result of an attempt and needs a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalState {
    kind: FailureKind,
    last_error: String,
    reason: Option<String>,
}

impl TerminalState {
    /// The state after an operator's cancel. `last_error` gets an excerpt of the reason, the audit log its full text.
    pub fn cancelled(reason: Option<&str>) -> Self {
        let reason = clean_reason(reason);
        let last_error = match &reason {
            None => "manual_cancelled".to_owned(),
            Some(reason) => format!("manual_cancelled: {}", Excerpt::from_text(reason)),
        };
        Self { kind: FailureKind::Cancelled, last_error, reason }
    }

    /// The state of an event that lost `abandon_after` leases in a row, or `None` if it lost fewer and stays claimable.
    ///
    /// `lost_leases` includes the expired lease that the store just found. A lost lease consumes no attempt.
    pub fn after_lost_leases(lost_leases: u32, abandon_after: u32) -> Option<Self> {
        let last_error = || format!("abandoned: {lost_leases} leases in a row expired without a result");
        (lost_leases >= abandon_after).then(|| Self {
            kind: FailureKind::Abandoned,
            last_error: last_error(),
            reason: None,
        })
    }

    pub const fn status(&self) -> DeliveryStatus {
        DeliveryStatus::Failed
    }

    pub const fn failure_kind(&self) -> FailureKind {
        self.kind
    }

    /// The text that operators see as the last error of the event.
    pub fn last_error(&self) -> &str {
        &self.last_error
    }

    /// The operator's reason in full, if the operator gave one.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The notice to publish, unless the event was in a terminal state before.
    pub const fn notice_kind(&self) -> NoticeKind {
        NoticeKind::DeadLettered(self.kind)
    }
}

/// Returns an operator's reason as the audit log keeps it: in full, or `None` if it has no visible character.
pub fn clean_reason(reason: Option<&str>) -> Option<String> {
    let reason = reason.filter(|reason| !Excerpt::from_text(reason).is_empty())?;
    // PostgreSQL text cannot hold NUL.
    Some(reason.replace('\0', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_fr005_ac2_cancel_reason_is_made_safe_and_short() {
        let last_error = |reason| TerminalState::cancelled(reason).last_error().to_owned();
        assert_eq!(last_error(None), "manual_cancelled");
        assert_eq!(last_error(Some("  \n ")), "manual_cancelled");
        assert_eq!(last_error(Some(" wrong\n customer ")), "manual_cancelled: wrong customer");
        assert!(last_error(Some(&"x".repeat(10_000))).len() < 300);
    }

    #[test]
    fn cancel_keeps_the_full_reason_for_the_audit() {
        let reason = |reason| TerminalState::cancelled(reason).reason().map(str::to_owned);
        assert_eq!(reason(None), None);
        assert_eq!(reason(Some(" \n\u{200b}")), None, "no visible character");
        assert_eq!(reason(Some(" wrong\n customer\0 ")).as_deref(), Some(" wrong\n customer "));
        let long = "x".repeat(500);
        assert_eq!(reason(Some(&long)), Some(long), "only the error text is cut");
        assert_eq!(TerminalState::after_lost_leases(5, 5).unwrap().reason(), None);
    }

    #[test]
    fn event_is_abandoned_at_the_limit_and_not_before() {
        assert_eq!(TerminalState::after_lost_leases(4, 5), None);
        let state = TerminalState::after_lost_leases(5, 5).unwrap();
        assert_eq!(state.failure_kind(), FailureKind::Abandoned);
        assert!(state.last_error().contains("5 leases"), "{}", state.last_error());
    }
}
