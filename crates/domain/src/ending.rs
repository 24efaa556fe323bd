//! How an event comes to its end without an attempt: by an operator, or because nobody could finish one.

use crate::{DeliveryStatus, Excerpt, FailureKind, NoticeKind};

/// What a store writes when an event ends so. It stands beside [`Transition`](crate::Transition), which needs a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    kind: FailureKind,
    last_error: String,
}

impl Ending {
    /// An operator's cancel, with the reason made safe and short.
    pub fn cancelled(reason: Option<&str>) -> Self {
        let reason = Excerpt::from_text(reason.unwrap_or_default());
        let last_error = if reason.is_empty() {
            "manual_cancelled".to_owned()
        } else {
            format!("manual_cancelled: {reason}")
        };
        Self { kind: FailureKind::Cancelled, last_error }
    }

    /// A crash never eats the retry budget, but an event that loses `abandon_after` leases in a row is given up.
    /// `lost_leases` counts the expired lease that was just found; below the bound the event is claimable again.
    pub fn after_lost_leases(lost_leases: u32, abandon_after: u32) -> Option<Self> {
        let last_error = || format!("abandoned: {lost_leases} leases in a row expired without a result");
        (lost_leases >= abandon_after)
            .then(|| Self { kind: FailureKind::Abandoned, last_error: last_error() })
    }

    pub const fn status(&self) -> DeliveryStatus {
        DeliveryStatus::Failed
    }

    pub const fn failure_kind(&self) -> FailureKind {
        self.kind
    }

    pub fn last_error(&self) -> &str {
        &self.last_error
    }

    /// Broadcast when the event was not at its end before.
    pub const fn notice(&self) -> NoticeKind {
        NoticeKind::DeadLettered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_fr005_ac2_cancel_reason_is_made_safe_and_short() {
        let last_error = |reason| Ending::cancelled(reason).last_error().to_owned();
        assert_eq!(last_error(None), "manual_cancelled");
        assert_eq!(last_error(Some("  \n ")), "manual_cancelled");
        assert_eq!(last_error(Some(" wrong\n customer ")), "manual_cancelled: wrong customer");
        assert!(last_error(Some(&"x".repeat(10_000))).len() < 300);
    }

    #[test]
    fn an_event_is_abandoned_at_the_bound_and_not_before() {
        assert_eq!(Ending::after_lost_leases(4, 5), None);
        let ending = Ending::after_lost_leases(5, 5).unwrap();
        assert_eq!(ending.failure_kind(), FailureKind::Abandoned);
        assert!(ending.last_error().contains("5 leases"), "{}", ending.last_error());
    }
}
