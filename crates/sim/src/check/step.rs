//! Checks of one store operation: which changes it may make to which rows.

use std::hash::{DefaultHasher, Hash as _};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationId, EventId, EventKey, FailureKind, Lease, Timestamp};
use posthaste_store::{
    Advance, BulkAction, ClaimRequest, ClaimResponse, EnqueueLease, EnqueueResponse, ExpireRequest,
    ExpireResponse, LeaseRef, Publication, PublishRequest, Retention, SettleResult, Settlement,
};
use posthaste_store_memory::{GrantedLease, Row, State};

use super::{
    CheckResult, Model, bulk, claims, expiry, fan_out, held, lines, records, require, responses, settlements,
    throttles, unused_destinations,
};
use crate::process::Process;
use crate::scenario::Scenario;

/// A completed operation on the shared store, with its response.
pub(super) enum Step<'a> {
    Enqueue {
        process: &'a Arc<Process>,
        /// The leases that the request asked for.
        lease: Option<&'a EnqueueLease>,
        /// None if the request was refused.
        response: Option<&'a EnqueueResponse>,
    },
    Claim {
        process: &'a Arc<Process>,
        request: &'a ClaimRequest,
        response: &'a ClaimResponse,
    },
    Renew {
        held: &'a [LeaseRef],
        lease: Duration,
        lost: &'a [LeaseRef],
    },
    Settle {
        batch: &'a [Settlement],
        settled: &'a [SettleResult],
    },
    Release {
        held: &'a [LeaseRef],
    },
    Requeue {
        event_id: &'a EventId,
        refused: bool,
    },
    Cancel {
        event_id: &'a EventId,
        refused: bool,
    },
    Discard {
        event_id: &'a EventId,
        refused: bool,
    },
    /// A repetition of an action that was applied under the same key.
    RepeatedAction {
        event_id: &'a EventId,
        refused: bool,
    },
    Maintain {
        retention: &'a Retention,
    },
    Expire {
        request: &'a ExpireRequest,
        response: &'a ExpireResponse,
    },
    Publish {
        request: &'a PublishRequest,
        published: &'a Publication,
    },
    Resend {
        event_id: &'a EventId,
    },
    /// A step of the background operations.
    Advance {
        advance: &'a Advance,
    },
    /// A step of the bulk operations.
    AdvanceBulk {
        advance: &'a Advance,
    },
    /// A change of an endpoint, or an attempt to change it.
    UpdateEndpoint {
        id: DestinationId,
    },
    DeleteEndpoint {
        id: DestinationId,
    },
    /// A call of the registry that changes no event: it creates a resource, rotates a key, or was refused.
    Register,
}

impl Step<'_> {
    /// Adds the step to the digest of the run.
    pub(super) fn digest(&self, digest: &mut DefaultHasher) {
        match self {
            Self::Enqueue { response, .. } => {
                0_u8.hash(digest);
                let leases = response.iter().flat_map(|response| &response.leases);
                leases.for_each(|lease| lease.token.hash(digest));
            }
            Self::Claim { response, .. } => {
                1_u8.hash(digest);
                response.leases.iter().for_each(|lease| lease.token.hash(digest));
            }
            Self::Renew { held, .. } => (2_u8, held).hash(digest),
            Self::Settle { batch, .. } => {
                3_u8.hash(digest);
                batch.iter().for_each(|settlement| settlement.transition.token().hash(digest));
            }
            Self::Release { held } => (4_u8, held).hash(digest),
            Self::Requeue { event_id, .. } => (5_u8, event_id).hash(digest),
            Self::Cancel { event_id, .. } => (6_u8, event_id).hash(digest),
            Self::Maintain { .. } => 7_u8.hash(digest),
            Self::Discard { event_id, .. } => (8_u8, event_id).hash(digest),
            Self::Expire { response, .. } => (9_u8, &response.expired).hash(digest),
            Self::RepeatedAction { event_id, .. } => (10_u8, event_id).hash(digest),
            Self::Publish { published, .. } => (11_u8, published.message.id).hash(digest),
            Self::Resend { event_id } => (12_u8, event_id).hash(digest),
            Self::Advance { advance } => (13_u8, advance.done).hash(digest),
            Self::UpdateEndpoint { id } => (14_u8, id).hash(digest),
            Self::DeleteEndpoint { id } => (15_u8, id).hash(digest),
            Self::Register => 16_u8.hash(digest),
            Self::AdvanceBulk { advance } => (17_u8, advance.done).hash(digest),
        }
    }
}

/// One row before and after a step.
pub(super) struct Change<'a> {
    pub(super) key: EventKey,
    pub(super) before: Option<Row>,
    pub(super) after: &'a Row,
}

/// Checks the response and every change of a step, and updates the model.
pub(super) fn check_step(
    step: &Step<'_>,
    model: &mut Model,
    state: &State,
    now: Timestamp,
    scenario: &Scenario,
) -> CheckResult {
    if let Step::Claim { process, response, .. } = step {
        model.follow_clock(state, now);
        claims::record_tokens(model, process, &response.leases)?;
    }
    if let Step::Enqueue { process, response: Some(response), .. } = step {
        claims::record_tokens(model, process, &response.leases)?;
        model.counts.enqueued_with_lease += response.leases.len() as u64;
    }
    responses::check_responses(step, model, state, now)?;
    if state.revision == model.revision {
        check_call(step, &[], 0, model, now)?;
        held::check_states(model, state)?;
        return records::check_nothing_written(model, state);
    }
    model.revision = state.revision;
    let removed = check_removals(step, model, state, now)?;
    unused_destinations::check_destinations(step, model, state, now)?;
    let changes = changes(model, state);
    check_call(step, &changes, removed, model, now)?;
    for change in &changes {
        check_change(step, change, model, now, scenario)?;
        check_row(change.after, now, scenario)?;
    }
    check_granted(step, &changes, model, state)?;
    let disabling = match step {
        Step::Settle { batch, settled } => held::record_gone(batch, settled, model, scenario),
        _ => Vec::new(),
    };
    held::check_states(model, state)?;
    records::check_records(step, &changes, &disabling, model, state)?;
    if let Step::Settle { batch, settled } = step {
        settlements::check_spread(batch, settled, model, scenario)?;
        settlements::record_pauses(batch, settled, model, now, scenario);
    }
    for change in changes {
        model.rows.insert(change.key, change.after.clone());
    }
    Ok(())
}

/// Checks the changes of a call of the registry, or of a step in bulk, as a whole.
fn check_call(
    step: &Step<'_>,
    changes: &[Change<'_>],
    removed: usize,
    model: &mut Model,
    now: Timestamp,
) -> CheckResult {
    match step {
        Step::Publish { request, published } => {
            fan_out::check_publication(request, published, changes, model, now)?;
        }
        Step::Resend { event_id } => fan_out::check_resend(event_id, changes, model, now)?,
        Step::Advance { advance } => fan_out::check_advance(advance, changes, model, now)?,
        Step::AdvanceBulk { advance } => return bulk::check_advance(advance, changes, removed, model, now),
        _ => return Ok(()),
    }
    model.events_of_messages += changes.iter().filter(|change| change.before.is_none()).count() as u64;
    Ok(())
}

/// Checks the leases that a claim has granted, other than those that it returned again.
fn check_granted(step: &Step<'_>, changes: &[Change<'_>], model: &mut Model, state: &State) -> CheckResult {
    if !matches!(step, Step::Claim { .. }) {
        return Ok(());
    }
    let token = |row: &Row| row.lease.as_ref().map(|lease| lease.token);
    let is_granted = |change: &&Change<'_>| {
        token(change.after).is_some() && token(change.after) != change.before.as_ref().and_then(token)
    };
    let granted: Vec<&Change<'_>> = changes.iter().filter(is_granted).collect();
    held::check_leases(&granted, model)?;
    lines::check_leases(&granted, model, state)?;
    throttles::check_leases(&granted, model)
}

fn changes<'a>(model: &Model, state: &'a State) -> Vec<Change<'a>> {
    let changed = state.rows.iter().filter(|(key, row)| model.rows.get(key) != Some(row));
    changed.map(|(key, row)| Change { key: *key, before: model.rows.get(key).cloned(), after: row }).collect()
}

/// P1: only retention and discards remove rows. Retention removes delivered and failed ones that are old enough, a discard
/// one failed row, a step in bulk those that it selects. Returns how many rows were removed.
fn check_removals(
    step: &Step<'_>,
    model: &mut Model,
    state: &State,
    now: Timestamp,
) -> Result<usize, (&'static str, String)> {
    let removed: Vec<EventKey> =
        model.rows.keys().filter(|key| !state.rows.contains_key(key)).copied().collect();
    let count = removed.len();
    for key in removed {
        let Some(row) = model.rows.remove(&key) else { continue };
        match step {
            Step::Maintain { retention } => {
                let keep_for = match row.status {
                    DeliveryStatus::Pending => None,
                    DeliveryStatus::Delivered => retention.keep_for,
                    DeliveryStatus::Failed => retention.keep_dead_letters_for,
                };
                let age = now.since(row.updated_at);
                let old = keep_for.is_some_and(|keep_for| age >= keep_for);
                require!("P1", old, "{row:?} was removed {age:?} after its last change");
                match row.status {
                    DeliveryStatus::Failed => model.counts.dead_letters_removed += 1,
                    _ => model.counts.removed += 1,
                }
            }
            Step::Discard { event_id, refused: false } if **event_id == row.event_id => {
                let failed = row.status == DeliveryStatus::Failed;
                require!("P1", failed, "{} was discarded although it is {row:?}", row.event_id);
                model.counts.discarded += 1;
            }
            Step::AdvanceBulk { .. } => {
                bulk::check_selected(&row, BulkAction::Discard, model)?;
                model.counts.discarded += 1;
            }
            _ => return Err(("P1", format!("{} has disappeared", row.event_id))),
        }
        if row.status == DeliveryStatus::Failed {
            model.removed_claims.insert(key, row.claims);
            // A repeated settlement of the event finds no record of the first.
            model.outcomes.retain(|_, settled| *settled != key);
        }
    }
    Ok(count)
}

/// Checks that this step may make this change.
fn check_change(
    step: &Step<'_>,
    change: &Change<'_>,
    model: &Model,
    now: Timestamp,
    scenario: &Scenario,
) -> CheckResult {
    let after = change.after;
    let Some(before) = &change.before else {
        return match step {
            Step::Enqueue { lease, response, .. } => {
                let leases = response.map_or_else(Default::default, |response| response.leases.as_slice());
                check_new_row(&NewRow { key: change.key, row: after, requested: *lease, leases }, model, now)
            }
            // `fan_out` has checked the event.
            Step::Publish { .. } | Step::Resend { .. } | Step::Advance { .. } => Ok(()),
            _ => Err(("P1", format!("{} appeared without an enqueue", after.event_id))),
        };
    };
    require!(
        "P12",
        before.status != DeliveryStatus::Delivered,
        "{} was changed after it was delivered",
        after.event_id
    );
    let by_operator = matches!(
        step,
        Step::Requeue { .. }
            | Step::Cancel { .. }
            | Step::Resend { .. }
            | Step::Advance { .. }
            | Step::AdvanceBulk { .. }
    );
    let may_change = before.status != DeliveryStatus::Failed || by_operator;
    require!("P12", may_change, "{} was changed after it had failed", after.event_id);
    match step {
        Step::Enqueue { .. }
        | Step::Discard { .. }
        | Step::RepeatedAction { .. }
        | Step::Publish { .. }
        | Step::Register => Err(("P13", format!("{} was changed by an unrelated operation", after.event_id))),
        Step::UpdateEndpoint { id } => {
            Err(("held", format!("a change of endpoint {id} changed {before:?} to {after:?}")))
        }
        // `fan_out` or `bulk` has checked the event.
        Step::Resend { .. } | Step::Advance { .. } | Step::AdvanceBulk { .. } => Ok(()),
        Step::DeleteEndpoint { .. } | Step::Maintain { .. } => {
            held::check_cancelled(before, after, model, now)
        }
        Step::Claim { request, response, .. } => claims::check_claimed_row(
            &claims::Claim { request, response, now },
            change.key,
            before,
            after,
            model,
        ),
        Step::Renew { held, lease, .. } => check_renewed(held, *lease, before, after, now),
        Step::Settle { batch, .. } => {
            settlements::check_settled_row(batch, change.key, before, after, model, now, scenario)
        }
        Step::Release { held } => check_released(held, change.key, before, after, now),
        Step::Requeue { event_id, refused } => {
            require!("P12", !refused && **event_id == after.event_id, "{} was requeued", after.event_id);
            check_requeued(before, after, now)
        }
        Step::Cancel { event_id, refused } => {
            require!("P12", !refused && **event_id == after.event_id, "{} was cancelled", after.event_id);
            check_cancelled(before, after, now)
        }
        Step::Expire { request, response } => expiry::check_expired(request, response, before, after, now),
    }
}

/// A row that an enqueue has added.
struct NewRow<'a> {
    key: EventKey,
    row: &'a Row,
    /// The leases that the request asked for.
    requested: Option<&'a EnqueueLease>,
    /// The leases that the response returns.
    leases: &'a [Lease],
}

/// P1: a new event is due now and has no attempts. P7: it has a lease exactly if the request asked for one and the response
/// returns it, and none if its destination is paused.
fn check_new_row(new: &NewRow<'_>, model: &Model, now: Timestamp) -> CheckResult {
    let row = new.row;
    let untouched = (row.attempts, row.lost_leases) == (0, 0) && row.claims == u32::from(row.lease.is_some());
    let due = row.status == DeliveryStatus::Pending && row.next_attempt_at == Some(now);
    require!("P1", untouched && due, "{} does not start without attempts and due now", row.event_id);
    let returned = new.leases.iter().find(|lease| lease.key == new.key);
    let (Some(granted), Some(lease), Some(requested)) = (&row.lease, returned, new.requested) else {
        let has_none = row.lease.is_none() && returned.is_none();
        require!("P7", has_none, "{} has a lease that was not requested or not returned", row.event_id);
        return Ok(());
    };
    let as_requested = (granted.token, &granted.owner) == (lease.token, &requested.owner)
        && (granted.until, granted.duration) == (now.after(requested.duration), requested.duration);
    require!("P7", as_requested, "{lease:?} is not the lease of {row:?}");
    let paused = model.paused_until(row.destination_id).is_some_and(|until| until > now);
    require!("pause", !paused, "destination {} is paused", row.destination_id);
    claims::check_lease_matches_row(lease, row, model)
}

/// P5: a renewal changes only the expiry, and only of leases that the caller holds.
fn check_renewed(
    held: &[LeaseRef],
    lease: Duration,
    before: &Row,
    after: &Row,
    now: Timestamp,
) -> CheckResult {
    let Some(granted) = &before.lease else {
        return Err(("P5", format!("{} was renewed without a lease", after.event_id)));
    };
    let ours = held.iter().any(|held| held.token == granted.token);
    require!("P5", ours, "{} was renewed under a token that was not its own", after.event_id);
    let renewed = GrantedLease { until: now.after(lease), duration: lease, ..granted.clone() };
    let expected = Row { lease: Some(renewed), ..before.clone() };
    require!("P5", *after == expected, "a renewal changed {before:?} to {after:?}");
    Ok(())
}

fn check_released(
    held: &[LeaseRef],
    key: EventKey,
    before: &Row,
    after: &Row,
    now: Timestamp,
) -> CheckResult {
    let token = before.lease.as_ref().map(|lease| lease.token);
    let ours = held.iter().any(|held| held.key == key && Some(held.token) == token);
    require!("P5", ours, "{} was released under a token that was not its own", after.event_id);
    // The event was due when it was leased, also if the clock has stepped back since.
    let next_attempt_at = before.next_attempt_at.map(|due| due.min(now));
    let expected = Row { lease: None, next_attempt_at, updated_at: now, ..before.clone() };
    require!("P8", *after == expected, "a release changed {before:?} to {after:?}");
    Ok(())
}

pub(super) fn check_requeued(before: &Row, after: &Row, now: Timestamp) -> CheckResult {
    require!("P12", before.status == DeliveryStatus::Failed, "{} was requeued", after.event_id);
    let expected = Row {
        status: DeliveryStatus::Pending,
        failure_kind: None,
        attempts: 0,
        lost_leases: 0,
        next_attempt_at: Some(now),
        last_error: None,
        lease: None,
        updated_at: now,
        manual_last: after.manual_last.clone(),
        ..before.clone()
    };
    require!("P12", *after == expected, "a requeue changed {before:?} to {after:?}");
    Ok(())
}

pub(super) fn check_cancelled(before: &Row, after: &Row, now: Timestamp) -> CheckResult {
    let expected = Row {
        status: DeliveryStatus::Failed,
        failure_kind: Some(FailureKind::Cancelled),
        next_attempt_at: None,
        last_error: Some("manual_cancelled: because".to_owned()),
        lease: None,
        updated_at: now,
        manual_last: after.manual_last.clone(),
        ..before.clone()
    };
    require!("P12", *after == expected, "a cancel changed {before:?} to {after:?}");
    Ok(())
}

/// P2 and P4: the row is ended, or leased for at most one lease duration, or due within the longest delay.
pub(super) fn check_row(row: &Row, now: Timestamp, scenario: &Scenario) -> CheckResult {
    if row.status != DeliveryStatus::Pending {
        let ended = row.lease.is_none() && row.next_attempt_at.is_none();
        require!("P4", ended, "{} is {} but leased or due", row.event_id, row.status.as_str());
        return Ok(());
    }
    let Some(due) = row.next_attempt_at else {
        return Err(("P2", format!("{} is pending and will never be due", row.event_id)));
    };
    require!(
        "P2",
        row.lease.is_some() || due <= now.after(scenario.retry.max_backoff),
        "{} is not due before {due:?}",
        row.event_id
    );
    let lease = scenario.settings.lease.duration();
    let expires = row.lease.as_ref().is_none_or(|granted| granted.until <= now.after(lease));
    require!("P2", expires, "the lease of {} is longer than the lease duration", row.event_id);
    Ok(())
}
