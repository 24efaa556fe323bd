//! Plans a claim: chooses the ranges and expired leases that fit the request's free slots.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{DestinationId, EventKey, Lease, Timestamp};
use posthaste_store::{ClaimRequest, PayloadBudget, SlotBudget};

use super::{ClaimableIndex, DestinationRanges, PositionRange, Receivers};

/// A request for up to `limit` rows of one destination within one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeClaim {
    pub destination: DestinationId,
    pub range: PositionRange,
    pub limit: usize,
}

/// The rows that one round of a claim requests from PostgreSQL.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClaimPlan {
    pub range_claims: Vec<RangeClaim>,
    /// Events whose expired leases the claim takes over.
    pub takeovers: Vec<EventKey>,
    /// Destinations that have free slots, and whose next payload is known not to fit.
    pub kept_back: Vec<DestinationId>,
    pub planned_at: Timestamp,
}

impl ClaimPlan {
    /// Returns whether there is nothing to request.
    pub fn is_empty(&self) -> bool {
        self.range_claims.is_empty() && self.takeovers.is_empty()
    }
}

/// What a claim in progress may still grant.
#[derive(Debug, Clone)]
pub struct ClaimBudget {
    slots: SlotBudget,
    payloads: PayloadBudget,
    /// Destinations whose next payload did not fit. The claim takes nothing more of them.
    kept_back: BTreeSet<DestinationId>,
    /// Destinations of which the claim has taken what it may, for another reason than the size of a payload.
    completed: BTreeSet<DestinationId>,
    /// Ranges with rows that other transactions had locked.
    locked: Vec<(DestinationId, PositionRange)>,
}

impl ClaimBudget {
    pub fn new(request: &ClaimRequest) -> Self {
        Self {
            slots: SlotBudget::new(request),
            payloads: PayloadBudget::new(request),
            kept_back: BTreeSet::new(),
            completed: BTreeSet::new(),
            locked: Vec::new(),
        }
    }

    /// Returns how many more leases the claim may take for a destination, of retries or of first attempts.
    pub fn available(&self, receivers: &Receivers, destination: DestinationId, is_retry: bool) -> usize {
        if self.kept_back.contains(&destination) || self.completed.contains(&destination) {
            return 0;
        }
        self.slots.available(receivers.get(destination), is_retry)
    }

    /// Records that the claim has taken what it may of a destination: one that is throttled or in FIFO order.
    pub fn complete(&mut self, destination: DestinationId) {
        self.completed.insert(destination);
    }

    /// Subtracts a lease that a statement granted. The leases of a statement are subtracted in the order of its ranges, so
    /// that the lease that is not counted in bytes is the first of the claim.
    pub fn take_lease(&mut self, receivers: &Receivers, lease: &Lease) {
        self.slots.take(receivers.get(lease.destination_id), 1, lease.is_retry());
        self.payloads.take(lease.payload.len());
    }

    /// Returns the byte limits of the next statement.
    pub fn payloads(&self) -> &PayloadBudget {
        &self.payloads
    }

    /// Records that the next payload of a destination did not fit.
    pub fn keep_back(&mut self, destination: DestinationId) {
        self.kept_back.insert(destination);
    }

    /// Records a range with rows that other transactions have locked. The claim continues after them.
    pub fn skip_locked(&mut self, destination: DestinationId, range: PositionRange) {
        self.locked.push((destination, range));
    }

    /// Returns the ranges whose rows other transactions have locked, for a later claim.
    pub fn into_locked(self) -> Vec<(DestinationId, PositionRange)> {
        self.locked
    }

    /// Returns the destinations whose next payload did not fit.
    pub fn kept_back(&self) -> impl Iterator<Item = DestinationId> {
        self.kept_back.iter().copied()
    }

    /// Returns whether a payload did not fit.
    pub fn is_limited_by_bytes(&self) -> bool {
        !self.kept_back.is_empty()
    }
}

impl ClaimableIndex {
    /// Plans the next round of a claim: expired leases first, then retries, then first attempts, each destination up to
    /// its free slots. The request limits the number of retries, so they cannot crowd out first attempts.
    pub fn plan(&self, budget: &ClaimBudget, now: Timestamp) -> ClaimPlan {
        let mut planner = Planner {
            index: self,
            budget: budget.clone(),
            now,
            plan: ClaimPlan { planned_at: now, ..ClaimPlan::default() },
        };
        for (key, expired) in &self.expired {
            let is_retry = expired.attempts > 0;
            if planner.available(expired.destination, is_retry) > 0 {
                planner.take(expired.destination, 1, is_retry);
                planner.plan.takeovers.push(*key);
            }
        }
        planner.plan_ranges(&self.retries, true);
        planner.plan_ranges(&self.first_attempts, false);
        planner.plan
    }
}

/// A plan in the making, and what it has left of the claim's budget.
struct Planner<'a> {
    index: &'a ClaimableIndex,
    budget: ClaimBudget,
    now: Timestamp,
    plan: ClaimPlan,
}

impl Planner<'_> {
    /// Plans ranges of the destinations that the worker knows to answer, then of all in the order in which they wait.
    fn plan_ranges(&mut self, ranges: &DestinationRanges, is_retry: bool) {
        let first = self.plan.range_claims.len();
        let known: BTreeSet<DestinationId> = self.budget.slots.known().into_iter().collect();
        let known: Vec<_> = known
            .into_iter()
            .filter_map(|known| Some((known, ranges.first_range(known)?)))
            .filter(|(known, range)| self.may_fit(*known, *range))
            .collect();
        let left = |slots: &SlotBudget| if is_retry { slots.retries() } else { slots.total() };
        let known_share = self.budget.slots.known_share().min(left(&self.budget.slots));
        self.plan_shares(first, known, known_share, is_retry);
        let leases = left(&self.budget.slots);
        let mut kept_back = Vec::new();
        let is_available = |(destination, range): &(DestinationId, PositionRange)| {
            let has_slots = self.available(*destination, is_retry) > 0;
            let fits = self.may_fit(*destination, *range);
            if has_slots && !fits {
                kept_back.push(*destination);
            }
            has_slots && fits
        };
        // One destination for each lease that may still be granted is enough.
        let waiting: Vec<_> = ranges.first_ranges().filter(is_available).take(leases).collect();
        self.plan.kept_back.append(&mut kept_back);
        self.plan_shares(first, waiting, leases, is_retry);
    }

    /// Plans up to `leases_max` rows, an equal share of each destination. Those with fewer rows or slots leave the rest of
    /// their share to the others. Equal shares are fair to receivers, and their requests do not come in bursts.
    ///
    /// `first` is the index of the first range claim of this kind: a destination that has one gets more rows of it.
    fn plan_shares(
        &mut self,
        first: usize,
        mut waiting: Vec<(DestinationId, PositionRange)>,
        leases_max: usize,
        is_retry: bool,
    ) {
        let planned = self.plan.range_claims[first..].iter().enumerate();
        let mut planned: BTreeMap<DestinationId, usize> =
            planned.map(|(index, claim)| (claim.destination, first + index)).collect();
        let mut left = leases_max;
        while left > 0 && !waiting.is_empty() {
            let share = SlotBudget::equal_share(left, waiting.len());
            waiting.retain(|(destination, range)| {
                let index = *planned.entry(*destination).or_insert_with(|| {
                    let claim = RangeClaim { destination: *destination, range: *range, limit: 0 };
                    self.plan.range_claims.push(claim);
                    self.plan.range_claims.len() - 1
                });
                // Positions of first attempts are unique, so a range holds at most as many rows as positions.
                let rows_max = if is_retry { usize::MAX } else { range.length() };
                let rows = rows_max - self.plan.range_claims[index].limit;
                let count = self.available(*destination, is_retry).min(rows).min(share).min(left);
                self.plan.range_claims[index].limit += count;
                self.take(*destination, count, is_retry);
                left -= count;
                count == share
            });
        }
        self.plan.range_claims.retain(|claim| claim.limit > 0);
    }

    /// Returns how many more leases the claim may take for a destination, of retries or of first attempts.
    fn available(&self, destination: DestinationId, is_retry: bool) -> usize {
        if self.index.is_paused(destination, self.now) {
            return 0;
        }
        self.budget.available(&self.index.receivers, destination, is_retry)
    }

    /// Returns whether the payload of the first row of a range fits, as far as that is known.
    fn may_fit(&self, destination: DestinationId, range: PositionRange) -> bool {
        let bytes = self.index.left.payload_bytes(destination, range, self.now);
        bytes.is_none_or(|bytes| bytes <= self.budget.payloads.next_event_bytes_max())
    }

    fn take(&mut self, destination: DestinationId, count: usize, is_retry: bool) {
        self.budget.slots.take(self.index.receivers.get(destination), count, is_retry);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_domain::{ClaimId, WorkerId};
    use posthaste_store::{FixedSlots, PaceSlots};

    use super::super::{ExpiredLease, LeftRow, RETRY_POSITION_MIN, RangeResult};
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
            slots: FixedSlots::per_destination(per_destination).share(),
            pace_slots: PaceSlots::UNLIMITED,
            payload_bytes_max: usize::MAX,
            event_payload_bytes_max: None,
            inline_payload_bytes_max: usize::MAX,
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
        let plan = index.plan(&ClaimBudget::new(request), NOW);
        plan.range_claims.iter().map(|claim| (claim.destination.0, claim.limit)).collect()
    }

    #[test]
    fn a_destination_without_slots_is_not_planned() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, B)]);
        let slots = FixedSlots::per_destination(3).with(A, 0).share();
        let excluded = ClaimRequest { slots, ..request(10, 10, 3) };
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
        let plan = index.plan(&budget, NOW);
        assert!(plan.range_claims.iter().all(|claim| claim.destination == B) && !plan.is_empty());
        assert!(budget.is_limited_by_bytes());
    }

    #[test]
    fn a_destination_that_the_claim_has_completed_is_not_planned_again() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, B)]);
        let mut budget = ClaimBudget::new(&request(10, 10, 3));
        budget.complete(A);
        let plan = index.plan(&budget, NOW);
        assert!(plan.range_claims.iter().all(|claim| claim.destination == B) && !plan.is_empty());
        assert!(!budget.is_limited_by_bytes());
    }

    #[test]
    fn a_payload_that_is_known_not_to_fit_is_kept_back_without_a_request() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, A), (3, B)]);
        index.record_left(A, LeftRow { position: 1, payload_bytes: 1_000 }, NOW);
        let small = ClaimRequest { event_payload_bytes_max: Some(999), ..request(10, 10, 3) };
        let plan = index.plan(&ClaimBudget::new(&small), NOW);
        assert_eq!((planned(&index, &small), plan.kept_back), (vec![(2, 1)], vec![A]));
        // A claim of large payloads requests it, and so does any after a while.
        let large = ClaimRequest { event_payload_bytes_max: Some(1_000), ..request(10, 10, 3) };
        assert_eq!(planned(&index, &large), [(1, 2), (2, 1)]);
        let later = index.plan(&ClaimBudget::new(&small), NOW.after(Duration::from_secs(5)));
        assert_eq!((later.range_claims.len(), later.kept_back.len()), (2, 0));
        // Its destination has other rows now: the event was claimed.
        index.record_claimed(
            &RangeClaim { destination: A, range: PositionRange { low: 0, high: 2 }, limit: 1 },
            &RangeResult { granted: 1, granted_to: Some(1), remainder: None },
        );
        assert_eq!(planned(&index, &small), [(1, 1), (2, 1)]);
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
        let plan = index.plan(&ClaimBudget::new(&request), NOW);
        assert_eq!(plan.takeovers, [EventKey(9)]);
        let range_claims: Vec<_> = plan
            .range_claims
            .iter()
            .map(|claim| (claim.destination, claim.range.high, claim.limit))
            .collect();
        assert_eq!(
            range_claims,
            [(A, RETRY_POSITION_MIN + 1, 1), (B, RETRY_POSITION_MIN + 2, 1), (A, 1, 1), (B, 2, 1)]
        );
    }
    #[test]
    fn destinations_of_one_host_share_its_slots() {
        let mut index = ClaimableIndex::default();
        record_rows(&mut index, &[(1, A), (2, B)]);
        for destination in [A, B] {
            index.receivers.record(destination, "https://shared.example", false);
        }
        let slots = FixedSlots::per_destination(3).per_host(1).share();
        assert_eq!(planned(&index, &ClaimRequest { slots, ..request(10, 10, 3) }), [(1, 1)]);
    }

    #[test]
    fn a_destination_that_answers_does_not_wait_behind_a_crowd_of_others() {
        let mut index = ClaimableIndex::default();
        for new in 1..=100 {
            index.record_row(DestinationId(new), new);
        }
        index.record_row(DestinationId(500), 500);
        let slots = FixedSlots { known: vec![DestinationId(500)], ..FixedSlots::per_destination(1) }.share();
        let plan = planned(&index, &ClaimRequest { slots, ..request(4, 4, 1) });
        assert_eq!(plan, [(500, 1), (1, 1), (2, 1), (3, 1)]);
    }
}
