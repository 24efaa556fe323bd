//! Terminal states that no attempt leads to: an operator cancelled the event, it lost too many leases, or it expired.

use std::time::Duration;

use crate::last_error::{ABANDONED, CANCELLED, EXPIRED};
use crate::{DeliveryStatus, Excerpt, FailureKind, NoticeKind};

/// The `failed` state that a store writes when an event is cancelled, abandoned or expired.
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
            None => CANCELLED.to_owned(),
            Some(reason) => format!("{CANCELLED}: {}", Excerpt::from_text(reason)),
        };
        Self { kind: FailureKind::Cancelled, last_error, reason }
    }

    /// The state of an event that lost `abandon_after` leases in a row, or `None` if it lost fewer and stays claimable.
    ///
    /// `lost_leases` includes the expired lease that the store just found. A lost lease consumes no attempt.
    pub fn after_lost_leases(lost_leases: u32, abandon_after: u32) -> Option<Self> {
        let last_error = || format!("{ABANDONED}: {lost_leases} leases in a row expired without a result");
        (lost_leases >= abandon_after).then(|| Self {
            kind: FailureKind::Abandoned,
            last_error: last_error(),
            reason: None,
        })
    }

    /// The state of an event that has not ended `expire_after` after it was first due or last requeued.
    ///
    /// `last_error` is that of its last attempt since then, and `hold` is what kept it from being attempted at the end.
    pub fn expired(expire_after: Duration, last_error: Option<&str>, hold: Option<Hold>) -> Self {
        let after = format_duration(expire_after);
        let hold = hold.map(|hold| format!(", {}", hold.as_text())).unwrap_or_default();
        let last_error = match last_error {
            Some(error) => format!("{EXPIRED}{after}{hold}: {error}"),
            None => format!("{EXPIRED}{after} without an attempt{hold}"),
        };
        Self { kind: FailureKind::Expired, last_error, reason: None }
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

/// Why claims skip the events of a destination, although they are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The endpoint is disabled.
    Disabled,
    /// A pause of the destination has not ended.
    Pause,
    /// A worker reports that the circuit of the destination is not closed.
    OpenCircuit,
}

impl Hold {
    /// Returns the hold of a destination. Of several, the one is named that lasts: an endpoint stays disabled, and a pause has
    /// a known end.
    pub fn of_destination(is_disabled: bool, is_paused: bool, is_circuit_open: bool) -> Option<Self> {
        match (is_disabled, is_paused, is_circuit_open) {
            (true, ..) => Some(Self::Disabled),
            (false, true, _) => Some(Self::Pause),
            (false, false, true) => Some(Self::OpenCircuit),
            (false, false, false) => None,
        }
    }

    const fn as_text(self) -> &'static str {
        match self {
            Self::Disabled => "held because its endpoint is disabled",
            Self::Pause => "held by a pause of its destination",
            Self::OpenCircuit => "held by the open circuit of its destination",
        }
    }
}

/// Formats a duration in the largest unit that gives a whole number: hours, minutes or seconds.
fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match duration.subsec_nanos() {
        0 if seconds > 0 && seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        0 if seconds > 0 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{} s", duration.as_secs_f64()),
    }
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

    #[test]
    fn an_expired_event_keeps_what_is_known() {
        let last_error = |seconds, error, hold| {
            let state = TerminalState::expired(Duration::from_secs_f64(seconds), error, hold);
            assert_eq!(state.failure_kind(), FailureKind::Expired);
            state.last_error().to_owned()
        };
        assert_eq!(
            last_error(86_400.0, Some("HTTP 503: later"), None),
            "expired after 24 h: HTTP 503: later"
        );
        assert_eq!(last_error(5_400.0, None, None), "expired after 90 min without an attempt");
        assert_eq!(
            last_error(90.0, Some("HTTP 500"), Hold::of_destination(false, false, true)),
            "expired after 90 s, held by the open circuit of its destination: HTTP 500"
        );
        assert_eq!(
            last_error(1.5, None, Hold::of_destination(false, true, true)),
            "expired after 1.5 s without an attempt, held by a pause of its destination"
        );
    }
}
