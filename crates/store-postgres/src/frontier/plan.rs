//! From what is known and what is free to what a claim asks for.

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use posthaste_store::ClaimRequest;

use super::{Frontier, Lane, Span};

/// Up to `want` rows of one destination out of one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) destination: DestinationId,
    pub(crate) span: Span,
    pub(crate) want: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) asks: Vec<Ask>,
    /// Expired leases to take over.
    pub(crate) takeovers: Vec<EventKey>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.takeovers.is_empty()
    }
}

/// What is still free while a claim is carried out.
#[derive(Debug)]
pub(crate) struct Room {
    total: usize,
    retries: usize,
    /// Slots that this claim has used, by destination.
    used: BTreeMap<DestinationId, usize>,
}

impl Room {
    pub(crate) fn of(request: &ClaimRequest) -> Self {
        Self { total: request.limit, retries: request.retries_max, used: BTreeMap::new() }
    }

    fn free(&self, request: &ClaimRequest, destination: DestinationId, is_retry: bool) -> usize {
        let used = self.used.get(&destination).copied().unwrap_or(0);
        let slots = request.free_slots_of(destination).saturating_sub(used).min(self.total);
        if is_retry { slots.min(self.retries) } else { slots }
    }

    pub(crate) fn take(&mut self, destination: DestinationId, count: usize, is_retry: bool) {
        self.total = self.total.saturating_sub(count);
        if is_retry {
            self.retries = self.retries.saturating_sub(count);
        }
        *self.used.entry(destination).or_default() += count;
    }
}

impl Frontier {
    /// Expired leases go first, then retries, then first attempts; each destination as far as its slots allow.
    /// Retries cannot crowd out first attempts, because the caller says how many of them may be in flight.
    pub(crate) fn plan(&self, request: &ClaimRequest, room: &Room, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let mut room = Room { total: room.total, retries: room.retries, used: room.used.clone() };
        for (key, expired) in &self.expired {
            let is_retry = expired.attempts > 0;
            if !self.is_paused(expired.destination, now)
                && room.free(request, expired.destination, is_retry) > 0
            {
                room.take(expired.destination, 1, is_retry);
                plan.takeovers.push(*key);
            }
        }
        for (lane, is_retry) in [(&self.retries, true), (&self.firsts, false)] {
            self.ask(lane, is_retry, request, &mut room, now, &mut plan.asks);
        }
        plan
    }

    fn ask(
        &self,
        lane: &Lane,
        is_retry: bool,
        request: &ClaimRequest,
        room: &mut Room,
        now: Timestamp,
        asks: &mut Vec<Ask>,
    ) {
        for (destination, span) in lane.heads() {
            if room.total == 0 || (is_retry && room.retries == 0) {
                break;
            }
            // Turns of first attempts are unique: a span holds no more rows than numbers.
            let rows_max = if is_retry { usize::MAX } else { span.length() };
            let want = room.free(request, destination, is_retry).min(rows_max);
            if want > 0 && !self.is_paused(destination, now) {
                room.take(destination, want, is_retry);
                asks.push(Ask { destination, span, want });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_domain::{ClaimId, WorkerId};

    use super::super::{Expired, RETRIES_FROM};
    use super::*;

    const A: DestinationId = DestinationId(1);
    const B: DestinationId = DestinationId(2);
    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn request(limit: usize, retries_max: usize, per_destination: usize) -> ClaimRequest {
        ClaimRequest {
            id: ClaimId::random([0; 16]),
            owner: WorkerId::stored("worker".into()),
            lease: Duration::from_secs(30),
            limit,
            retries_max,
            per_destination,
            free_slots: BTreeMap::new(),
            abandon_after: 5,
        }
    }

    fn saw(frontier: &mut Frontier, rows: &[(i64, DestinationId)]) {
        for (turn, destination) in rows {
            frontier.saw(*destination, *turn);
        }
    }

    fn asked(frontier: &Frontier, request: &ClaimRequest) -> Vec<(i64, usize)> {
        let plan = frontier.plan(request, &Room::of(request), NOW);
        plan.asks.iter().map(|ask| (ask.destination.0, ask.want)).collect()
    }

    #[test]
    fn an_excluded_destination_is_not_asked_for() {
        let mut frontier = Frontier::default();
        saw(&mut frontier, &[(1, A), (2, B)]);
        let excluded = ClaimRequest { free_slots: BTreeMap::from([(A, 0)]), ..request(10, 10, 3) };
        assert_eq!(asked(&frontier, &excluded), [(2, 1)]);
    }

    #[test]
    fn a_paused_destination_is_asked_for_again_when_its_pause_is_over() {
        let mut frontier = Frontier::default();
        saw(&mut frontier, &[(1, A)]);
        frontier.pause(A, NOW.after(Duration::from_secs(1)));
        assert_eq!(asked(&frontier, &request(10, 10, 3)), []);
        frontier.pause(A, NOW);
        assert_eq!(asked(&frontier, &request(10, 10, 3)), [(1, 1)]);
    }

    #[test]
    fn retries_first_attempts_and_takeovers_share_the_slots() {
        let mut frontier = Frontier::default();
        saw(&mut frontier, &[(1, A), (2, B), (RETRIES_FROM + 1, A), (RETRIES_FROM + 2, B)]);
        frontier.expired.insert(EventKey(9), Expired { destination: A, attempts: 0, lost_leases: 0 });
        let request = request(6, 2, 3);
        let plan = frontier.plan(&request, &Room::of(&request), NOW);
        assert_eq!(plan.takeovers, [EventKey(9)]);
        let asks: Vec<_> = plan.asks.iter().map(|ask| (ask.destination, ask.span.high, ask.want)).collect();
        assert_eq!(asks, [(A, RETRIES_FROM + 1, 2), (B, 2, 1)]);
    }
}
