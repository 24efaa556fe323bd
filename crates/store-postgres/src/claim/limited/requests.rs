//! Which events of locked destinations a claim requests, and the statement that grants them.

use std::collections::BTreeMap;

use posthaste_claimable::{ClaimBudget, ClaimableIndex, RangeClaim, RangeResult};
use posthaste_domain::{ApplicationId, DestinationId, EventKey, Timestamp};
use posthaste_store::{ClaimRequest, SlotBudget};
use uuid::Uuid;

use super::super::grant::{Grant, GrantRow, Param, parse_rows};
use super::super::grant_sql::GRANT_LIMITED;
use super::super::granted::GrantedLeases;
use super::PlannedRows;
use super::locked::{Bucket, Head, Locked};
use crate::session::Session;

/// One request of the statement that grants: within a range, or by key.
pub(super) enum Requested {
    Range(RangeClaim),
    Key(DestinationId, EventKey),
}

impl Requested {
    pub(super) fn destination(&self) -> DestinationId {
        match self {
            Self::Range(claim) => claim.destination,
            Self::Key(destination, _) => *destination,
        }
    }
}

/// The tokens that the claim may still spend.
pub(super) struct Tokens<'a> {
    pub(super) applications: &'a BTreeMap<ApplicationId, Bucket>,
    pub(super) left: BTreeMap<ApplicationId, usize>,
    pub(super) now: Timestamp,
}

impl Tokens<'_> {
    /// Returns how many events of a destination the throttles allow. `sharing` destinations share what is left of the application.
    pub(super) fn available(&mut self, destination: &Locked, sharing: usize) -> usize {
        let own = destination.bucket.map_or(usize::MAX, |bucket| bucket.available(self.now));
        let of_app = self.applications.get(&destination.app).map_or(usize::MAX, |bucket| {
            let left = *self.left.entry(destination.app).or_insert_with(|| bucket.available(self.now));
            if left == 0 { 0 } else { SlotBudget::equal_share(left, sharing) }
        });
        own.min(of_app)
    }

    pub(super) fn take(&mut self, destination: &Locked, count: usize) {
        if let Some(left) = self.left.get_mut(&destination.app) {
            *left = left.saturating_sub(count);
        }
    }
}

/// Requests the head of a line, if it can be sent now. Returns how many events it requested.
pub(super) fn request_head(
    head: &Head,
    destination: &Locked,
    claimable: &ClaimableIndex,
    budget: &ClaimBudget,
    available: usize,
    requested: &mut Vec<Requested>,
) -> usize {
    let has_slot = budget.available(&claimable.receivers, destination.id, head.is_retry) > 0;
    match head.key {
        Some(key) if available > 0 && has_slot && !head.is_in_flight && head.wait_until().is_none() => {
            requested.push(Requested::Key(destination.id, key));
            1
        }
        _ => 0,
    }
}

/// Requests the planned rows of a destination, expired leases first. Returns how many events it requested.
pub(super) fn request_rows(
    planned: &PlannedRows,
    destination: DestinationId,
    available: usize,
    requested: &mut Vec<Requested>,
) -> usize {
    let mut left = available;
    for key in planned.takeovers.iter().take(available) {
        requested.push(Requested::Key(destination, *key));
        left -= 1;
    }
    for claim in &planned.ranges {
        let limit = claim.limit.min(left);
        if limit > 0 {
            requested.push(Requested::Range(RangeClaim { limit, ..*claim }));
            left -= limit;
        }
    }
    available - left
}

/// What the statement granted.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) granted: BTreeMap<DestinationId, Vec<EventKey>>,
    pub(super) lost_claims: Vec<Uuid>,
}

/// Runs the statement that grants, and updates the budget and the index as for other destinations.
pub(super) async fn grant_requested(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    requested: &[Requested],
    budget: &mut ClaimBudget,
    leases: &mut GrantedLeases,
) -> Result<Outcome, tokio_postgres::Error> {
    let mut outcome = Outcome::default();
    if requested.is_empty() {
        return Ok(outcome);
    }
    let range = |requested: &Requested, field: fn(&RangeClaim) -> i64| match requested {
        Requested::Range(claim) => field(claim),
        Requested::Key(..) => 0,
    };
    let destinations: Vec<i64> = requested.iter().map(|it| it.destination().0).collect();
    let lows: Vec<i64> = requested.iter().map(|it| range(it, |claim| claim.range.low)).collect();
    let highs: Vec<i64> = requested.iter().map(|it| range(it, |claim| claim.range.high)).collect();
    let limits: Vec<i64> = requested
        .iter()
        .map(|it| range(it, |claim| i64::try_from(claim.limit).unwrap_or(i64::MAX)))
        .collect();
    let keys: Vec<Option<i64>> = requested
        .iter()
        .map(|it| match it {
            Requested::Key(_, key) => Some(key.0),
            Requested::Range(_) => None,
        })
        .collect();
    let grant = Grant::new(request, budget.payloads());
    let params: [Param<'_>; 5] = [&destinations, &lows, &highs, &limits, &keys];
    let rows = session.query(&GRANT_LIMITED, &[&grant.params()[..], &[&true], &params].concat()).await?;
    let mut results = vec![RangeResult::default(); requested.len()];
    let mut kept = vec![false; requested.len()];
    for (index, row) in parse_rows(grant.id, &rows)? {
        let destination = requested[index].destination();
        match row {
            GrantRow::Granted { position, lease, references, lost_claim } => {
                budget.take_lease(&claimable.receivers, &lease);
                outcome.granted.entry(destination).or_default().push(lease.key);
                outcome.lost_claims.extend(lost_claim);
                leases.push(lease, references);
                results[index].granted += 1;
                results[index].granted_to = results[index].granted_to.max(Some(position));
            }
            GrantRow::Ungranted(rows) => {
                if rows.first_left.is_some() {
                    budget.keep_back(destination);
                    kept[index] = true;
                }
                results[index].remainder = Some(rows);
            }
            GrantRow::Paused { .. } | GrantRow::Limited { .. } => {}
        }
    }
    for ((requested, result), is_kept) in requested.iter().zip(results).zip(kept) {
        match requested {
            Requested::Range(claim) => {
                if let Some(locked) = claimable.record_claimed(claim, &result) {
                    budget.skip_locked(claim.destination, locked);
                }
            }
            // Granted, or renewed or taken over meanwhile.
            Requested::Key(_, key) if !is_kept => drop(claimable.expired.remove(key)),
            Requested::Key(..) => {}
        }
    }
    Ok(outcome)
}
