//! What a delivery is answered: as a receiver that works, or as one that fails in the way that was asked for.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::StatusCode;

use crate::cli::ListenArgs;

use super::delivery::Check;

/// Events whose deliveries are counted; the one that was first seen longest ago is forgotten first.
const EVENTS_MAX: usize = 10_000;

pub(super) struct Answering {
    status: Option<StatusCode>,
    fail_first: u32,
    pub(super) delay: Duration,
    seen: BTreeMap<String, u32>,
    order: VecDeque<String>,
}

impl Answering {
    pub(super) fn new(args: &ListenArgs) -> Self {
        Self::with(args.fail.unwrap_or(0), args.status, Duration::from_millis(args.delay))
    }

    fn with(fail_first: u32, status: Option<u16>, delay: Duration) -> Self {
        Self {
            status: status.and_then(|code| StatusCode::from_u16(code).ok()),
            fail_first,
            delay,
            seen: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// What was asked for comes first; otherwise a receiver refuses what it cannot trust.
    pub(super) fn choose(&mut self, event_id: Option<&str>, check: &Check) -> StatusCode {
        let nth = event_id.map_or(1, |event_id| self.count(event_id));
        match (self.status, check) {
            (Some(status), _) => status,
            (None, _) if nth <= self.fail_first => StatusCode::INTERNAL_SERVER_ERROR,
            (None, Check::NotVerified(_)) => StatusCode::UNAUTHORIZED,
            (None, Check::Verified | Check::Unchecked) => StatusCode::OK,
        }
    }

    /// Which delivery of this event it is, from 1.
    fn count(&mut self, event_id: &str) -> u32 {
        if let Some(count) = self.seen.get_mut(event_id) {
            *count = count.saturating_add(1);
            return *count;
        }
        if self.order.len() == EVENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.seen.insert(event_id.to_owned(), 1);
        self.order.push_back(event_id.to_owned());
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(fail_first: u32, status: Option<u16>) -> Answering {
        Answering::with(fail_first, status, Duration::ZERO)
    }

    #[test]
    fn each_event_fails_so_many_times_by_itself() {
        let mut answering = answering(2, None);
        let mut answer = |id| answering.choose(Some(id), &Check::Verified).as_u16();
        assert_eq!(
            [answer("a"), answer("b"), answer("a"), answer("a"), answer("b")],
            [500, 500, 500, 200, 500]
        );
    }

    #[test]
    fn what_is_not_verified_is_refused_unless_a_status_is_asked_for() {
        let forged = Check::NotVerified("no".into());
        assert_eq!(answering(0, None).choose(Some("a"), &forged).as_u16(), 401);
        assert_eq!(answering(0, Some(410)).choose(Some("a"), &forged).as_u16(), 410);
        assert_eq!(answering(0, None).choose(None, &Check::Unchecked).as_u16(), 200);
    }

    #[test]
    fn only_so_many_events_are_remembered() {
        let mut answering = answering(1, None);
        for number in 0..=EVENTS_MAX {
            answering.choose(Some(&number.to_string()), &Check::Unchecked);
        }
        assert_eq!((answering.seen.len(), answering.order.len()), (EVENTS_MAX, EVENTS_MAX));
    }
}
