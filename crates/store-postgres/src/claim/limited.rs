//! Claims of destinations that are throttled or in FIFO order.
//!
//! Their leases are granted in a transaction that first locks the applications and the destinations, in the order of their ids. So
//! workers grant the events of such a destination one after the other: the tokens of a throttle are spent once, and of a line in
//! FIFO order at most one event is leased. Claims of all other destinations lock no destination.
//!
//! The head of a line is its leased event if there is one, or else its pending event with the smallest key. Each lease on an event
//! of a line is recorded in `line_leases` of its destination, so that the head is found by key.

mod locked;
mod requests;

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_claimable::{ClaimBudget, ClaimableIndex, RangeClaim, RangeResult};
use posthaste_domain::{ApplicationId, DestinationId, EventKey, Timestamp};
use posthaste_store::ClaimRequest;
use tokio_postgres::error::SqlState;

use super::grant::reschedule_lost_claims;
use super::granted::GrantedLeases;
use crate::StoreState;
use crate::session::Session;
use locked::{Bucket, Locked, commit, lock};
use requests::{Outcome, Tokens, grant_requested, request_head, request_rows};

/// How long a worker skips a line at most before it reads the head again. Another worker may have settled the head meanwhile.
const LINE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The rows of a plan whose destinations are throttled or in FIFO order.
#[derive(Default)]
pub(super) struct LimitedClaims(BTreeMap<DestinationId, PlannedRows>);

/// The rows of one destination in a plan.
#[derive(Default)]
struct PlannedRows {
    ranges: Vec<RangeClaim>,
    takeovers: Vec<EventKey>,
}

impl LimitedClaims {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, other: Self) {
        for (destination, rows) in other.0 {
            let own = self.0.entry(destination).or_default();
            own.ranges.extend(rows.ranges);
            own.takeovers.extend(rows.takeovers);
        }
    }

    pub(super) fn add_range(&mut self, destination: DestinationId, range: RangeClaim) {
        self.0.entry(destination).or_default().ranges.push(range);
    }

    pub(super) fn add_takeover(&mut self, destination: DestinationId, key: EventKey) {
        self.0.entry(destination).or_default().takeovers.push(key);
    }
}

/// Grants leases on events of destinations that are throttled or in FIFO order, in one transaction. Adds them to `leases` and
/// deducts them from the budget. The claim requests nothing more of these destinations.
///
/// The exception is a line whose head has lost too many leases: the look of this claim dead-letters the head, and the claim then
/// requests the next event of the line. So the destination stays open until the claim `has_looked`.
#[expect(
    clippy::too_many_arguments,
    reason = "the budget, the index and the leases are borrowed apart from the claim"
)]
pub(super) async fn grant(
    session: &Session,
    store: &StoreState,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    claims: &LimitedClaims,
    has_looked: bool,
    server_now: Timestamp,
    budget: &mut ClaimBudget,
    leases: &mut GrantedLeases,
) -> Result<(), tokio_postgres::Error> {
    let ids: Vec<i64> = claims.0.keys().map(|id| id.0).collect();
    let locked = match lock(session, &ids).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            session.client().batch_execute("ROLLBACK").await?;
            leave_out(claims, store, claimable, budget, server_now.after(LINE_PAUSE_MAX));
            return Ok(());
        }
        locked => locked?,
    };
    let (mut destinations, mut applications, now) = locked;
    let mut tokens = Tokens { applications: &applications, left: BTreeMap::new(), now };
    let mut requested = Vec::new();
    // The first destination may get the last token of its application, so each claim begins with another one.
    let offset = usize::try_from(now.as_micros().unsigned_abs()).unwrap_or(0) % destinations.len().max(1);
    destinations.rotate_left(offset);
    for (index, destination) in destinations.iter().enumerate() {
        let sharing = destinations[index..].iter().filter(|it| it.app == destination.app).count();
        let planned = &claims.0[&destination.id];
        if destination.paused_until.is_some_and(|until| until > now) {
            continue;
        }
        let available = tokens.available(destination, sharing);
        let taken = match &destination.head {
            Some(head) if head.is_abandoned(request.abandon_after) => 0,
            Some(head) => request_head(head, destination, claimable, budget, available, &mut requested),
            None => request_rows(planned, destination.id, available, &mut requested),
        };
        tokens.take(destination, taken);
    }

    let outcome = grant_requested(session, claimable, request, &requested, budget, leases).await?;
    let mut spent_destinations = (Vec::new(), Vec::new(), Vec::new());
    for destination in &mut destinations {
        let keys = outcome.granted.get(&destination.id);
        let count = keys.map_or(0, Vec::len);
        if let (Some(bucket), 1..) = (&mut destination.bucket, count) {
            bucket.spend(now, count);
        }
        if let (Some(bucket), 1..) = (applications.get_mut(&destination.app), count) {
            bucket.spend(now, count);
        }
        if count > 0 {
            spent_destinations.0.push(destination.id.0);
            spent_destinations.1.push(destination.bucket.and_then(|bucket| bucket.spent_micros()));
            let lease = keys.and_then(|keys| keys.first()).filter(|_| destination.is_fifo);
            spent_destinations.2.push(lease.map(|key| key.0));
        }
    }
    commit(session, &spent_destinations, &applications).await?;
    reschedule_lost_claims(session, &outcome.lost_claims).await?;

    for destination in &destinations {
        let planned = &claims.0[&destination.id];
        let until = block_until(destination, &applications, &outcome, now);
        match until {
            Some(until) => {
                claimable.record_pause(destination.id, until);
                store.blocked.block(destination.id, until);
            }
            // The line is empty.
            None if destination
                .head
                .as_ref()
                .is_some_and(|head| head.key.is_none() && !head.has_events_outside) =>
            {
                for claim in &planned.ranges {
                    claimable.record_claimed(claim, &RangeResult::default());
                }
            }
            None => {}
        }
        // Rows that were requested, and are claimed by other workers, are removed from the index. The look of this claim may have
        // found others.
        let may_continue = until.is_none()
            && match &destination.head {
                Some(head) => !has_looked && head.is_abandoned(request.abandon_after),
                None => requested.iter().any(|requested| requested.destination() == destination.id),
            };
        if !may_continue {
            budget.complete(destination.id);
        }
    }
    // A destination that does not exist any more has no rows.
    for (id, planned) in claims.0.iter().filter(|(id, _)| destinations.iter().all(|it| it.id != **id)) {
        for claim in &planned.ranges {
            claimable.record_claimed(claim, &RangeResult::default());
        }
        for key in &planned.takeovers {
            claimable.expired.remove(key);
        }
        budget.complete(*id);
    }
    Ok(())
}

/// Leaves destinations out of this claim, and out of those of the next moment. Another worker may have been stopped while it holds
/// one of them; PostgreSQL ends its session after a while.
fn leave_out(
    claims: &LimitedClaims,
    store: &StoreState,
    claimable: &mut ClaimableIndex,
    budget: &mut ClaimBudget,
    until: Timestamp,
) {
    for destination in claims.0.keys() {
        claimable.record_pause(*destination, until);
        store.blocked.block(*destination, until);
        budget.complete(*destination);
    }
}

/// Returns until when this process skips a destination. `None` if it may claim more of it at once, or if its line is empty.
fn block_until(
    destination: &Locked,
    applications: &BTreeMap<ApplicationId, Bucket>,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<Timestamp> {
    let paused_until = destination.paused_until.filter(|until| *until > now);
    let buckets = destination.bucket.iter().chain(applications.get(&destination.app));
    let without_token = buckets
        .map(|bucket| bucket.throttle.next_at(bucket.spent_until, now))
        .filter(|next_at| *next_at > now)
        .max();
    let in_line = destination.head.as_ref().and_then(|head| {
        let is_blocked =
            head.is_in_flight || head.wait_until().is_some() || outcome.granted.contains_key(&destination.id);
        let latest = now.after(LINE_PAUSE_MAX);
        is_blocked
            .then(|| head.wait_until().filter(|_| !head.is_in_flight).map_or(latest, |due| due.min(latest)))
    });
    paused_until.into_iter().chain(without_token).chain(in_line).max()
}
