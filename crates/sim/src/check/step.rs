//! Which operation may make which difference.

use std::hash::{DefaultHasher, Hash as _};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, EventId, EventKey, FailureKind, RETRY_AFTER_MAX, Timestamp};
use posthaste_store::{ClaimRequest, Claimed, HeldLease, Retention, Settled, Settlement};
use posthaste_store_memory::{Row, State};

use super::{Finding, Known, answers, books, grants, hold, settled};
use crate::incarnation::Incarnation;
use crate::scenario::Scenario;

/// An operation on the shared store that has just returned.
pub(super) enum Step<'a> {
    Enqueue,
    Claim { by: &'a Arc<Incarnation>, request: &'a ClaimRequest, claimed: &'a Claimed },
    Renew { held: &'a [HeldLease], lease: Duration, lost: &'a [HeldLease] },
    Settle { batch: &'a [Settlement], settled: &'a [Settled] },
    Release { held: &'a [HeldLease] },
    Requeue { event_id: &'a EventId, refused: bool },
    Cancel { event_id: &'a EventId, refused: bool },
    Maintain { retention: &'a Retention },
}

impl Step<'_> {
    /// Enough to tell two runs apart.
    pub(super) fn digest(&self, digest: &mut DefaultHasher) {
        match self {
            Self::Enqueue => 0_u8.hash(digest),
            Self::Claim { claimed, .. } => {
                1_u8.hash(digest);
                claimed.leases.iter().for_each(|lease| lease.token.hash(digest));
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
        }
    }
}

/// One row before and after a step.
pub(super) struct Change<'a> {
    pub(super) key: EventKey,
    pub(super) before: Option<Row>,
    pub(super) after: &'a Row,
}

pub(super) fn judge(
    step: &Step<'_>,
    known: &mut Known,
    state: &State,
    now: Timestamp,
    scenario: &Scenario,
) -> Finding {
    if let Step::Claim { by, claimed, .. } = step {
        grants::remember(known, by, claimed)?;
    }
    answers::are_true(step, known, state, now)?;
    if state.revision == known.revision {
        return books::nothing_was_written(known, state);
    }
    known.revision = state.revision;
    removals(step, known, state, now)?;
    let changes = changes(known, state);
    for change in &changes {
        lawful(step, change, known, now, scenario)?;
        well_formed(change.after, now, scenario)?;
    }
    books::are_kept(step, &changes, known, state)?;
    if let Step::Settle { batch, settled } = step {
        settled::remember_pauses(batch, settled, known, now);
    }
    for change in changes {
        known.rows.insert(change.key, change.after.clone());
    }
    Ok(())
}

fn changes<'a>(known: &Known, state: &'a State) -> Vec<Change<'a>> {
    let changed = state.rows.iter().filter(|(key, row)| known.rows.get(key) != Some(row));
    changed.map(|(key, row)| Change { key: *key, before: known.rows.get(key).cloned(), after: row }).collect()
}

/// P1: a row goes only by retention, delivered and old enough.
fn removals(step: &Step<'_>, known: &mut Known, state: &State, now: Timestamp) -> Finding {
    let gone: Vec<EventKey> =
        known.rows.keys().filter(|key| !state.rows.contains_key(key)).copied().collect();
    for key in gone {
        let Some(row) = known.rows.remove(&key) else { continue };
        let Step::Maintain { retention } = step else {
            return Err(("P1", format!("{} has disappeared", row.event_id)));
        };
        let age = row.delivered_at.map(|at| now.since(at));
        let old = age.zip(retention.keep).is_some_and(|(age, keep)| age >= keep);
        hold!("P1", old, "{} was removed {age:?} after it was delivered", row.event_id);
        known.counts.removed += 1;
    }
    Ok(())
}

/// Whether this step may have made this change.
fn lawful(
    step: &Step<'_>,
    change: &Change<'_>,
    known: &Known,
    now: Timestamp,
    scenario: &Scenario,
) -> Finding {
    let after = change.after;
    let Some(before) = &change.before else {
        hold!("P1", matches!(step, Step::Enqueue), "{} came from nowhere", after.event_id);
        return fresh(after, now);
    };
    hold!(
        "P12",
        before.status != DeliveryStatus::Delivered,
        "{} was delivered and was changed",
        after.event_id
    );
    let by_operator = matches!(step, Step::Requeue { .. } | Step::Cancel { .. });
    let may_change = before.status != DeliveryStatus::Failed || by_operator;
    hold!("P12", may_change, "{} was failed and was changed", after.event_id);
    match step {
        Step::Enqueue | Step::Maintain { .. } => {
            Err(("P13", format!("{} was changed by a bystander", after.event_id)))
        }
        Step::Claim { request, claimed, .. } => {
            grants::lawful(&grants::Claim { request, claimed, now }, change.key, before, after, known)
        }
        Step::Renew { held, lease, .. } => renewed(held, *lease, before, after, now),
        Step::Settle { batch, .. } => settled::lawful(batch, change.key, before, after, known, now, scenario),
        Step::Release { held } => released(held, change.key, before, after, now),
        Step::Requeue { event_id, refused } => {
            hold!("P12", !refused && **event_id == after.event_id, "{} was requeued", after.event_id);
            requeued(before, after, now)
        }
        Step::Cancel { event_id, refused } => {
            hold!("P12", !refused && **event_id == after.event_id, "{} was cancelled", after.event_id);
            cancelled(before, after, now)
        }
    }
}

fn fresh(row: &Row, now: Timestamp) -> Finding {
    let untouched = (row.attempts, row.claims, row.lost_leases) == (0, 0, 0) && row.lease.is_none();
    let due = row.status == DeliveryStatus::Pending && row.next_attempt_at == Some(now);
    hold!("P1", untouched && due, "{} did not start afresh", row.event_id);
    Ok(())
}

/// P5: only the expiry moves, and only of leases that the caller holds.
fn renewed(held: &[HeldLease], lease: Duration, before: &Row, after: &Row, now: Timestamp) -> Finding {
    let Some(granted) = &before.lease else {
        return Err(("P5", format!("{} was renewed without a lease", after.event_id)));
    };
    let ours = held.iter().any(|held| held.token == granted.token);
    hold!("P5", ours, "{} was renewed under a token that was not its own", after.event_id);
    let mut expected = before.clone();
    expected.lease.as_mut().expect("there is one").until = now.after(lease);
    hold!("P5", *after == expected, "a renewal made {after:?} of {before:?}");
    Ok(())
}

fn released(held: &[HeldLease], key: EventKey, before: &Row, after: &Row, now: Timestamp) -> Finding {
    let token = before.lease.as_ref().map(|lease| lease.token);
    let ours = held.iter().any(|held| held.key == key && Some(held.token) == token);
    hold!("P5", ours, "{} was released under a token that was not its own", after.event_id);
    let expected = Row { lease: None, updated_at: now, ..before.clone() };
    hold!("P8", *after == expected, "a release made {after:?} of {before:?}");
    Ok(())
}

fn requeued(before: &Row, after: &Row, now: Timestamp) -> Finding {
    hold!("P12", before.status == DeliveryStatus::Failed, "{} was requeued", after.event_id);
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
    hold!("P12", *after == expected, "a requeue made {after:?} of {before:?}");
    Ok(())
}

fn cancelled(before: &Row, after: &Row, now: Timestamp) -> Finding {
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
    hold!("P12", *after == expected, "a cancel made {after:?} of {before:?}");
    Ok(())
}

/// P2 and P4, of a row as it is now.
fn well_formed(row: &Row, now: Timestamp, scenario: &Scenario) -> Finding {
    if row.status != DeliveryStatus::Pending {
        let ended = row.lease.is_none() && row.next_attempt_at.is_none();
        hold!("P4", ended, "{} is {} but leased or due", row.event_id, row.status.as_str());
        return Ok(());
    }
    let Some(due) = row.next_attempt_at else {
        return Err(("P2", format!("{} is pending and will never be due", row.event_id)));
    };
    let longest = scenario.retry.max_backoff.max(RETRY_AFTER_MAX);
    hold!("P2", due <= now.after(longest), "{} is due only at {due:?}", row.event_id);
    let lease = scenario.settings.lease.duration();
    let expires = row.lease.as_ref().is_none_or(|granted| granted.until <= now.after(lease));
    hold!("P2", expires, "the lease of {} outlasts its terms", row.event_id);
    Ok(())
}
