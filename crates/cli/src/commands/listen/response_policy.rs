//! The status of each response: that of a working receiver, or a failure that the command line requests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::StatusCode;

use crate::cli::ListenArgs;

use super::delivery::SignatureCheck;

/// Maximum number of events whose deliveries are counted. Beyond it, the event that was seen first is forgotten first.
const EVENTS_MAX: usize = 10_000;

/// Chooses the status and the delay of each response, from `--status`, `--fail` and `--delay`.
pub(super) struct ResponsePolicy {
    /// The status of every response. None if the policy chooses one per delivery.
    status: Option<StatusCode>,
    /// The number of first deliveries of each event that fail.
    fail_first: u32,
    /// The delay before each response.
    pub(super) delay: Duration,
    /// Deliveries so far, by event id.
    deliveries: BTreeMap<String, u32>,
    /// The ids in `deliveries`, in the order in which they were first seen.
    order: VecDeque<String>,
}

impl ResponsePolicy {
    pub(super) fn new(args: &ListenArgs) -> Self {
        Self::with(args.fail.unwrap_or(0), args.status, Duration::from_millis(args.delay))
    }

    fn with(fail_first: u32, status: Option<u16>, delay: Duration) -> Self {
        Self {
            status: status.and_then(|code| StatusCode::from_u16(code).ok()),
            fail_first,
            delay,
            deliveries: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns the status for a delivery. A failure that the command line requests takes precedence over 401 for a
    /// wrong signature.
    pub(super) fn choose_status(&mut self, event_id: Option<&str>, check: &SignatureCheck) -> StatusCode {
        let nth = event_id.map_or(1, |event_id| self.count_delivery(event_id));
        match (self.status, check) {
            (Some(status), _) => status,
            (None, _) if nth <= self.fail_first => StatusCode::INTERNAL_SERVER_ERROR,
            (None, SignatureCheck::NotVerified(_)) => StatusCode::UNAUTHORIZED,
            (None, SignatureCheck::Verified | SignatureCheck::Unchecked) => StatusCode::OK,
        }
    }

    /// Counts a delivery of an event and returns its ordinal, from 1.
    fn count_delivery(&mut self, event_id: &str) -> u32 {
        if let Some(count) = self.deliveries.get_mut(event_id) {
            *count = count.saturating_add(1);
            return *count;
        }
        if self.order.len() == EVENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.deliveries.remove(&oldest);
        }
        self.deliveries.insert(event_id.to_owned(), 1);
        self.order.push_back(event_id.to_owned());
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(fail_first: u32, status: Option<u16>) -> ResponsePolicy {
        ResponsePolicy::with(fail_first, status, Duration::ZERO)
    }

    #[test]
    fn failures_are_counted_per_event() {
        let mut policy = policy(2, None);
        let mut status = |id| policy.choose_status(Some(id), &SignatureCheck::Verified).as_u16();
        assert_eq!(
            [status("a"), status("b"), status("a"), status("a"), status("b")],
            [500, 500, 500, 200, 500]
        );
    }

    #[test]
    fn an_unverified_delivery_gets_401_unless_a_status_is_configured() {
        let forged = SignatureCheck::NotVerified("no".into());
        assert_eq!(policy(0, None).choose_status(Some("a"), &forged).as_u16(), 401);
        assert_eq!(policy(0, Some(410)).choose_status(Some("a"), &forged).as_u16(), 410);
        assert_eq!(policy(0, None).choose_status(None, &SignatureCheck::Unchecked).as_u16(), 200);
    }

    #[test]
    fn the_number_of_remembered_events_is_bounded() {
        let mut policy = policy(1, None);
        for number in 0..=EVENTS_MAX {
            policy.choose_status(Some(&number.to_string()), &SignatureCheck::Unchecked);
        }
        assert_eq!((policy.deliveries.len(), policy.order.len()), (EVENTS_MAX, EVENTS_MAX));
    }
}
