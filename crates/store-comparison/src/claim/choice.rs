//! The choice of a claim: which events the store may grant, and which it may leave.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{DestinationId, EventKey, TerminalState, Timestamp};
use posthaste_store::{ClaimRequest, SlotBudget};
use posthaste_store_memory::{Row, State};

use super::fifo;
use super::payloads::ByteLimits;
use super::throttle::{ClaimPeriod, SpentThrottles, ThrottleBudget};
use crate::difference::{ComparisonResult, Difference};

/// What a claim reported about the events that it left because of their size.
pub(super) struct LeftByBytes {
    pub(super) is_limited_by_bytes: bool,
    pub(super) kept_back: BTreeSet<DestinationId>,
}

/// The circumstances of a claim, in which the store chose the events that it granted.
pub(super) struct ChoiceCheck<'a> {
    pub(super) request: &'a ClaimRequest,
    /// The time of the model.
    pub(super) now: Timestamp,
    /// None if the model has no throttle.
    pub(super) period: Option<ClaimPeriod>,
    pub(super) spent: &'a SpentThrottles,
    pub(super) left_by_bytes: LeftByBytes,
    /// Limited destinations of which the store may leave events. Such a store also shares the tokens of an application among the
    /// endpoints of one claim, so it may leave a token that an endpoint does not need.
    pub(super) may_skip: Option<&'a BTreeSet<DestinationId>>,
}

impl ChoiceCheck<'_> {
    /// Checks that every granted event was claimable within the limits, and that the claim left no event that it could also
    /// have granted.
    pub(super) fn check(&self, state: &State, granted: &[EventKey]) -> ComparisonResult {
        let (now, request) = (self.now, self.request);
        let mut budget =
            ClaimBudget { state, request, slots: SlotBudget::new(request), granted: BTreeMap::new() };
        let mut throttles = ThrottleBudget::new(state, self.spent, now, self.period);
        for key in granted {
            let row = &state.rows[key];
            if let Some(reason) = why_not_claimable(state, now, request, *key, row) {
                return Err(Difference::new(format!("event {} was granted, but {reason}", row.event_id)));
            }
            if let Some(reason) = budget.exhausted_limit(row).or_else(|| throttles.surely_exhausted(row)) {
                return Err(Difference::new(format!("event {} was granted beyond {reason}", row.event_id)));
            }
            budget.spend(row);
            throttles.spend(row);
        }
        let bytes = ByteLimits::new(state, request, granted);
        let claimable_rows: Vec<&Row> = state
            .rows
            .iter()
            .filter(|(key, _)| !granted.contains(key))
            .filter(|(key, row)| why_not_claimable(state, now, request, **key, row).is_none())
            .map(|(_, row)| row)
            .collect();
        let is_within_limits = |row: &Row| {
            budget.exhausted_limit(row).is_none()
                && !throttles.may_be_exhausted(row)
                && self.may_skip.is_none_or(|skipped| {
                    !skipped.contains(&row.destination_id) && !throttles.has_granted_of_application(row)
                })
        };
        let left =
            claimable_rows.iter().find(|row| is_within_limits(row) && !bytes.may_leave(row, &claimable_rows));
        let kept_back = &self.left_by_bytes.kept_back;
        let is_unnamed = |row: &&&Row| !kept_back.is_empty() && !kept_back.contains(&row.destination_id);
        if let Some(row) = claimable_rows.iter().filter(is_unnamed).find(|row| is_within_limits(row)) {
            return Err(Difference::new(format!(
                "event {} was left because of bytes, but its destination is not named",
                row.event_id
            )));
        }
        match left {
            None => bytes.check(&claimable_rows, &self.left_by_bytes),
            Some(row) => Err(Difference::new(format!(
                "event {} was not granted, though it was claimable and no limit was reached",
                row.event_id
            ))),
        }
    }
}

/// Returns why an event may not be granted, apart from the limits; `None` if it may be.
fn why_not_claimable(
    state: &State,
    now: Timestamp,
    request: &ClaimRequest,
    key: EventKey,
    row: &Row,
) -> Option<&'static str> {
    if !row.is_ready(now) {
        Some("it is not pending, not due, or leased")
    } else if state.is_paused(row.destination_id, now) {
        Some("its destination is paused")
    } else if is_abandoned(row, now, request) {
        Some("it had lost too many leases")
    } else if fifo::is_behind_its_head(state, now, request, key, row) {
        Some("it is not the head of its line")
    } else {
        None
    }
}

/// Returns whether a claim dead-letters an event because it has lost too many leases.
pub(super) fn is_abandoned(row: &Row, now: Timestamp, request: &ClaimRequest) -> bool {
    row.lease.as_ref().is_some_and(|lease| lease.is_expired(now))
        && TerminalState::after_lost_leases(row.lost_leases + 1, request.abandon_after).is_some()
}

/// The leases granted so far, and the limits of the claim.
struct ClaimBudget<'a> {
    state: &'a State,
    request: &'a ClaimRequest,
    slots: SlotBudget,
    granted: BTreeMap<DestinationId, usize>,
}

impl ClaimBudget<'_> {
    /// Returns the limit that forbids granting one more event, if any.
    fn exhausted_limit(&self, row: &Row) -> Option<&'static str> {
        let (receiver, is_retry) = (self.state.receiver(row), row.attempts > 0);
        let granted = self.granted.get(&row.destination_id).copied().unwrap_or(0);
        if self.slots.total() == 0 {
            Some("the limit")
        } else if is_retry && self.slots.retries() == 0 {
            Some("the limit of retries")
        } else if granted >= self.request.slots.of(receiver).destination {
            Some("the slots of its destination")
        } else if self.slots.available(receiver, is_retry) == 0 {
            Some("the slots of its host, or of hosts of its pace")
        } else {
            None
        }
    }

    fn spend(&mut self, row: &Row) {
        *self.granted.entry(row.destination_id).or_default() += 1;
        self.slots.take(self.state.receiver(row), 1, row.attempts > 0);
    }
}
