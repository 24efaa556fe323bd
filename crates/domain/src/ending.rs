//! How an event comes to its end without an attempt: by an operator, or because nobody could finish one.

use crate::{DeliveryStatus, Excerpt, FailureKind, NoticeKind};

/// What a store writes when an event ends so. It stands beside [`Transition`](crate::Transition), which needs a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    kind: FailureKind,
    last_error: String,
    reason: Option<String>,
}

impl Ending {
    /// An operator's cancel: the error has the reason made safe and short, the audit as it was given.
    pub fn cancelled(reason: Option<&str>) -> Self {
        let given = reason.unwrap_or_default();
        let short = Excerpt::from_text(given);
        if short.is_empty() {
            let last_error = "manual_cancelled".to_owned();
            return Self { kind: FailureKind::Cancelled, last_error, reason: None };
        }
        // Text in a database has no NUL.
        let reason = Some(given.replace('\0', ""));
        Self { kind: FailureKind::Cancelled, last_error: format!("manual_cancelled: {short}"), reason }
    }

    /// A crash never eats the retry budget, but an event that loses `abandon_after` leases in a row is given up.
    /// `lost_leases` counts the expired lease that was just found; below the bound the event is claimable again.
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

    pub fn last_error(&self) -> &str {
        &self.last_error
    }

    /// Why, in the operator's own words; none where they gave none.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
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
    fn a_cancel_keeps_its_reason_as_it_was_given() {
        let reason = |given| Ending::cancelled(given).reason().map(str::to_owned);
        assert_eq!(reason(None), None);
        assert_eq!(reason(Some(" \n\u{200b}")), None, "it says nothing");
        assert_eq!(reason(Some(" wrong\n customer\0 ")).as_deref(), Some(" wrong\n customer "));
        let long = "x".repeat(500);
        assert_eq!(reason(Some(&long)), Some(long), "the error alone is cut");
        assert_eq!(Ending::after_lost_leases(5, 5).unwrap().reason(), None);
    }

    #[test]
    fn an_event_is_abandoned_at_the_bound_and_not_before() {
        assert_eq!(Ending::after_lost_leases(4, 5), None);
        let ending = Ending::after_lost_leases(5, 5).unwrap();
        assert_eq!(ending.failure_kind(), FailureKind::Abandoned);
        assert!(ending.last_error().contains("5 leases"), "{}", ending.last_error());
    }
}
