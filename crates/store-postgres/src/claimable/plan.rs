//! Plans a claim: chooses the ranges and expired leases that fit the request's free slots.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{DestinationId, EventKey, Lease, Timestamp};
use posthaste_store::{ClaimRequest, PayloadBudget};

use super::{ClaimableIndex, DestinationRanges, PositionRange};

/// A request for up to `limit` rows of one destination within one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeClaim {
    pub(crate) destination: DestinationId,
    pub(crate) range: PositionRange,
    pub(crate) limit: usize,
}

/// The rows that one round of a claim requests from PostgreSQL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimPlan {
    pub(crate) range_claims: Vec<RangeClaim>,
    /// Events whose expired leases the claim takes over.
    pub(crate) takeovers: Vec<EventKey>,
}

impl ClaimPlan {
    pub(crate) fn is_empty(&self) -> bool {
        self.range_claims.is_empty() && self.takeovers.is_empty()
    }
}

/// How many leases a claim in progress may still take: in total, for retries, and per destination; and how many bytes of
/// payload.
#[derive(Debug, Clone)]
pub(crate) struct ClaimBudget {
    total: usize,
    retries: usize,
    /// Leases that this claim has taken, by destination.
    used: BTreeMap<DestinationId, usize>,
    payloads: PayloadBudget,
    /// Destinations whose next payload did not fit. The claim takes nothing more of them.
    kept_back: BTreeSet<DestinationId>,
    /// Ranges with rows that other transactions had locked.
    locked: Vec<(DestinationId, PositionRange)>,
}

impl ClaimBudget {
    pub(crate) fn new(request: &ClaimRequest) -> Self {
        Self {
            total: request.limit,
            retries: request.retries_max,
            used: BTreeMap::new(),
            payloads: PayloadBudget::new(request),
            kept_back: BTreeSet::new(),
            locked: Vec::new(),
        }
    }

    /// Returns how many more leases the claim may take for a destination, of retries or of first attempts.
    fn available(&self, request: &ClaimRequest, destination: DestinationId, is_retry: bool) -> usize {
        if self.kept_back.contains(&destination) {
            return 0;
        }
        let used = self.used.get(&destination).copied().unwrap_or(0);
        let slots = request.slots_for(destination).saturating_sub(used).min(self.total);
        if is_retry { slots.min(self.retries) } else { slots }
    }

    /// Subtracts `count` leases of a destination from the budget, and from its share for retries if they are retries.
    pub(crate) fn take(&mut self, destination: DestinationId, count: usize, is_retry: bool) {
        self.total = self.total.saturating_sub(count);
        if is_retry {
            self.retries = self.retries.saturating_sub(count);
        }
        *self.used.entry(destination).or_default() += count;
    }

    /// Subtracts a lease that a statement granted. The leases of a statement are subtracted in the order of its ranges, so
    /// that the lease that is not counted in bytes is the first of the claim.
    pub(crate) fn take_lease(&mut self, lease: &Lease) {
        self.take(lease.destination_id, 1, lease.is_retry());
        self.payloads.take(lease.payload.len());
    }

    /// Returns the byte limits of the next statement.
    pub(crate) fn payloads(&self) -> &PayloadBudget {
        &self.payloads
    }

    /// Records that the next payload of a destination did not fit.
    pub(crate) fn keep_back(&mut self, destination: DestinationId) {
        self.kept_back.insert(destination);
    }

    /// Records a range with rows that other transactions have locked. The claim continues after them.
    pub(crate) fn skip_locked(&mut self, destination: DestinationId, range: PositionRange) {
        self.locked.push((destination, range));
    }

    /// Returns the ranges with locked rows.
    pub(crate) fn into_locked(self) -> Vec<(DestinationId, PositionRange)> {
        self.locked
    }

    /// Returns whether a payload did not fit.
    pub(crate) fn is_limited_by_bytes(&self) -> bool {
        !self.kept_back.is_empty()
    }
}

impl ClaimableIndex {
    /// Plans the next round of a claim: expired leases first, then retries, then first attempts, each destination up to
    /// its free slots. The request limits the number of retries, so they cannot crowd out first attempts.
    pub(crate) fn plan(&self, request: &ClaimRequest, budget: &ClaimBudget, now: Timestamp) -> ClaimPlan {
        let mut plan = ClaimPlan::default();
        let mut budget = budget.clone();
        for (key, expired) in &self.expired {
            let is_retry = expired.attempts > 0;
            if !self.is_paused(expired.destination, now)
                && budget.available(request, expired.destination, is_retry) > 0
            {
                budget.take(expired.destination, 1, is_retry);
                plan.takeovers.push(*key);
            }
        }
        for (ranges, is_retry) in [(&self.retries, true), (&self.first_attempts, false)] {
            self.plan_ranges(ranges, is_retry, request, &mut budget, now, &mut plan.range_claims);
        }
        plan
    }

    fn plan_ranges(
        &self,
        ranges: &DestinationRanges,
        is_retry: bool,
        request: &ClaimRequest,
        budget: &mut ClaimBudget,
        now: Timestamp,
        range_claims: &mut Vec<RangeClaim>,
    ) {
        for (destination, range) in ranges.first_ranges() {
            if budget.total == 0 || (is_retry && budget.retries == 0) {
                break;
            }
            // Positions of first attempts are unique, so a range holds at most as many rows as positions.
            let rows_max = if is_retry { usize::MAX } else { range.length() };
            let limit = budget.available(request, destination, is_retry).min(rows_max);
            if limit > 0 && !self.is_paused(destination, now) {
                budget.take(destination, limit, is_retry);
                range_claims.push(RangeClaim { destination, range, limit });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_domain::{ClaimId, WorkerId};

    use super::super::{ExpiredLease, RETRY_POSITION_MIN};
    use super::*;

    const A: DestinationId = DestinationId(1);
    const B: DestinationId = DestinationId(2);
    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn request(limit: usize, retries_max: usize, per_destination: usize) -> ClaimRequest {
        ClaimRequest {
            id: ClaimId::random([0; 16]),
            owner: WorkerId::from_stored("worker".into()),
            lease: Duration::from_secs(30),
            limit,
            retries_max,
            per_destination,
            destination_slots: BTreeMap::new(),
            payload_bytes_max: usize::MAX,
            event_payload_bytes_max: None,
            abandon_after: 5,
            resumed_within: Duration::ZERO,
        }
    }

    fn record_rows(index: &mut ClaimableIndex, rows: &[(i64, DestinationId)]) {
        for (position, destination) in rows {
            index.record_row(*destination, *position);
        }
    }

    /// Destination and limit of each range claim of the plan.
    fn planned(index: &ClaimableIndex, request: &ClaimRequest) -> Vec<(i64, usize)> {
        let plan = index.plan(request, &ClaimBudget::new(request), NOW);
        plan.range_claims.iter().map(|claim| (claim.destination.0, claim.limit)).collect()
    }

    #[test]
    fn a_destination_without_slots_is_not_planned() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, B)]);
        let excluded = ClaimRequest { destination_slots: BTreeMap::from([(A, 0)]), ..request(10, 10, 3) };
        assert_eq!(planned(&index, &excluded), [(2, 1)]);
    }

    #[test]
    fn a_destination_whose_next_payload_did_not_fit_is_not_planned_again() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, B)]);
        let request = request(10, 10, 3);
        let mut budget = ClaimBudget::new(&request);
        assert!(!budget.is_limited_by_bytes());
        budget.keep_back(A);
        let plan = index.plan(&request, &budget, NOW);
        assert!(plan.range_claims.iter().all(|claim| claim.destination == B) && !plan.is_empty());
        assert!(budget.is_limited_by_bytes());
    }

    #[test]
    fn a_paused_destination_is_planned_again_when_its_pause_has_ended() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A)]);
        index.record_pause(A, NOW.after(Duration::from_secs(1)));
        assert_eq!(planned(&index, &request(10, 10, 3)), []);
        index.record_pause(A, NOW);
        assert_eq!(planned(&index, &request(10, 10, 3)), [(1, 1)]);
    }

    #[test]
    fn retries_first_attempts_and_takeovers_share_the_slots() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, B), (RETRY_POSITION_MIN + 1, A), (RETRY_POSITION_MIN + 2, B)]);
        index.expired.insert(EventKey(9), ExpiredLease { destination: A, attempts: 0, lost_leases: 0 });
        let request = request(6, 2, 3);
        let plan = index.plan(&request, &ClaimBudget::new(&request), NOW);
        assert_eq!(plan.takeovers, [EventKey(9)]);
        let range_claims: Vec<_> = plan
            .range_claims
            .iter()
            .map(|claim| (claim.destination, claim.range.high, claim.limit))
            .collect();
        assert_eq!(range_claims, [(A, RETRY_POSITION_MIN + 1, 2), (B, 2, 1)]);
    }
}
