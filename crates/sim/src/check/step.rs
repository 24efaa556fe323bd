//! Which operation may make which difference.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{
    DeliveryStatus, EventId, EventKey, LeaseToken, RETRY_AFTER_MAX, Timestamp, Transition,
};
use posthaste_engine::Settings;
use posthaste_store::{ClaimRequest, Claimed, HeldLease, Settled, Settlement};
use posthaste_store_memory::{Row, State};

use super::{Finding, Known, grants, hold};
use crate::incarnation::Incarnation;

/// An operation on the shared store that has just returned.
pub(super) enum Step<'a> {
    Enqueue,
    Claim {
        by: &'a Arc<Incarnation>,
        request: &'a ClaimRequest,
        claimed: &'a Claimed,
    },
    Renew {
        held: &'a [HeldLease],
        lease: Duration,
        lost: &'a [HeldLease],
    },
    Settle {
        batch: &'a [Settlement],
        settled: &'a [Settled],
    },
    Release {
        held: &'a [HeldLease],
    },
    Requeue {
        event_id: &'a EventId,
        refused: bool,
    },
    Cancel {
        event_id: &'a EventId,
        refused: bool,
    },
    /// Removes what is old; nothing is, within a simulation.
    Maintain,
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
            Self::Maintain => 7_u8.hash(digest),
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
    settings: &Settings,
) -> Finding {
    if let Step::Claim { by, claimed, .. } = step {
        grants::remember(known, by, claimed)?;
    }
    if let Step::Settle { batch, settled } = step {
        let stale = settled.iter().filter(|settled| **settled == Settled::Stale).count();
        known.stale_writes += stale as u64;
        replays_are_known(batch, settled, known, state)?;
    }
    if state.revision == known.revision {
        return Ok(());
    }
    known.revision = state.revision;
    hold!("P1", known.rows.keys().all(|key| state.rows.contains_key(key)), "a row has disappeared");
    let changes = changes(known, state);
    for change in &changes {
        lawful(step, change, known, state, now, settings)?;
        well_formed(change, now, settings)?;
    }
    if let Step::Settle { batch, settled } = step {
        answers_are_true(batch, settled, &changes)?;
    }
    let recorded = state.attempts.len() - known.attempts;
    let settled_rows = if matches!(step, Step::Settle { .. }) { changes.len() } else { 0 };
    hold!("P13", recorded == settled_rows, "{recorded} attempts recorded for {settled_rows} settled rows");
    traces(step, &changes, known, state)?;
    for change in changes {
        keep_books(step, &change, known)?;
        known.rows.insert(change.key, change.after.clone());
    }
    known.notices = state.notices.len();
    known.audit = state.audit.len();
    known.attempts = state.attempts.len();
    Ok(())
}

fn changes<'a>(known: &Known, state: &'a State) -> Vec<Change<'a>> {
    let changed = state.rows.iter().filter(|(key, row)| known.rows.get(key) != Some(row));
    changed.map(|(key, row)| Change { key: *key, before: known.rows.get(key).cloned(), after: row }).collect()
}

/// Whether this step may have made this change.
fn lawful(
    step: &Step<'_>,
    change: &Change<'_>,
    known: &Known,
    state: &State,
    now: Timestamp,
    settings: &Settings,
) -> Finding {
    let after = change.after;
    let Some(before) = &change.before else {
        hold!("P1", matches!(step, Step::Enqueue), "{} came from nowhere", after.event_id);
        return Ok(());
    };
    hold!("P1", same_message(before, after), "the message of {} was changed", after.event_id);
    hold!(
        "P12",
        before.status != DeliveryStatus::Delivered,
        "{} was delivered and was changed",
        after.event_id
    );
    let by_operator = matches!(step, Step::Requeue { .. } | Step::Cancel { .. });
    hold!(
        "P12",
        before.status != DeliveryStatus::Failed || by_operator,
        "{} was failed and was changed",
        after.event_id
    );
    match step {
        Step::Enqueue | Step::Maintain => {
            Err(("P13", format!("{} was changed by a bystander", after.event_id)))
        }
        Step::Claim { request, claimed, .. } => {
            grants::lawful(request, claimed, change.key, before, after, known, state, now)
        }
        Step::Renew { held, lease, lost } => renewed(held, *lease, lost, before, after, now),
        Step::Settle { batch, .. } => settled(batch, change.key, before, after, known, now, settings),
        Step::Release { held } => {
            let token = before.lease.as_ref().map(|lease| lease.token);
            let ours = held.iter().any(|held| held.key == change.key && Some(held.token) == token);
            hold!("P5", ours, "{} was released under a token that was not its own", after.event_id);
            let expected = Row { lease: None, updated_at: now, ..before.clone() };
            hold!("P8", *after == expected, "a release changed more than the lease of {}", after.event_id);
            Ok(())
        }
        Step::Requeue { event_id, refused } => {
            let meant = !refused && **event_id == after.event_id;
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
            hold!("P12", meant && before.status == DeliveryStatus::Failed, "{} was requeued", after.event_id);
            hold!("P12", *after == expected, "a requeue made {after:?} of {before:?}");
            Ok(())
        }
        Step::Cancel { event_id, refused } => {
            hold!("P12", !refused && **event_id == after.event_id, "{} was cancelled", after.event_id);
            hold!("P12", after.status == DeliveryStatus::Failed, "{} is not failed", after.event_id);
            hold!(
                "P12",
                after.attempts == before.attempts,
                "a cancel counted an attempt of {}",
                after.event_id
            );
            Ok(())
        }
    }
}

/// P5: only the expiry moves, and only of leases that the caller holds.
fn renewed(
    held: &[HeldLease],
    lease: Duration,
    lost: &[HeldLease],
    before: &Row,
    after: &Row,
    now: Timestamp,
) -> Finding {
    let Some(granted) = &before.lease else {
        return Err(("P5", format!("{} was renewed without a lease", after.event_id)));
    };
    let ours = held.iter().any(|held| held.token == granted.token);
    hold!("P5", ours, "{} was renewed under a token that was not its own", after.event_id);
    hold!("P5", lost.iter().all(|lost| lost.token != granted.token), "a lease was renewed and reported lost");
    let mut expected = before.clone();
    expected.lease.as_mut().expect("there is one").until = now.after(lease);
    hold!("P5", *after == expected, "a renewal made {after:?} of {before:?}");
    Ok(())
}

fn settled(
    batch: &[Settlement],
    key: EventKey,
    before: &Row,
    after: &Row,
    known: &Known,
    now: Timestamp,
    settings: &Settings,
) -> Finding {
    let token = before.lease.as_ref().map(|lease| lease.token);
    let ours = batch.iter().map(|settlement| &settlement.transition);
    let ours =
        ours.into_iter().find(|transition| transition.key() == key && Some(transition.token()) == token);
    let Some(transition) = ours else {
        return Err(("P5", format!("{} was settled under a token that was not its own", after.event_id)));
    };
    hold!(
        "P8",
        after.attempts == before.attempts + 1,
        "{} counted {} attempts",
        after.event_id,
        after.attempts
    );
    hold!("P8", after.claims == before.claims, "a settle changed the claims of {}", after.event_id);
    hold!("P4", after.lease.is_none(), "{} was settled and kept its lease", after.event_id);
    let limit = settings.policy.effective_max_attempts(after.max_attempts);
    hold!("P10", after.attempts <= limit, "{} has {} attempts of {limit}", after.event_id, after.attempts);
    match after.status {
        DeliveryStatus::Delivered => true_to_the_receiver(known, transition.token(), after),
        DeliveryStatus::Failed => Ok(()),
        DeliveryStatus::Pending => backed_off(transition, before, after, now, settings),
    }
}

/// P3: delivered means that the receiver answered 2xx under that token.
fn true_to_the_receiver(known: &Known, token: LeaseToken, after: &Row) -> Finding {
    let answered = known.witness.answered(token);
    let accepted = answered.is_some_and(|status| (200..300).contains(&status));
    hold!("P3", accepted, "{} is delivered, but the receiver answered {answered:?}", after.event_id);
    Ok(())
}

/// P14: within the window of this retry, unless the receiver asked for longer.
fn backed_off(
    transition: &Transition,
    before: &Row,
    after: &Row,
    now: Timestamp,
    settings: &Settings,
) -> Finding {
    let delay = after.next_attempt_at.map_or(Duration::ZERO, |due| due.since(now));
    let window = settings.policy.window(before.attempts);
    let longest =
        transition.pause().map_or(*window.end(), |pause| pause.min(RETRY_AFTER_MAX).max(*window.end()));
    let within = delay >= *window.start() && delay <= longest;
    hold!("P14", within, "{} waits {delay:?}, outside {window:?}", after.event_id);
    Ok(())
}

fn same_message(before: &Row, after: &Row) -> bool {
    before.event_id == after.event_id
        && before.message_id == after.message_id
        && before.payload == after.payload
        && before.destination_url == after.destination_url
        && before.max_attempts == after.max_attempts
        && before.created_at == after.created_at
}

/// P2 and P4, of the row as it is now.
fn well_formed(change: &Change<'_>, now: Timestamp, settings: &Settings) -> Finding {
    let row = change.after;
    if row.status != DeliveryStatus::Pending {
        let ended = row.lease.is_none() && row.next_attempt_at.is_none();
        hold!("P4", ended, "{} is {} but leased or due", row.event_id, row.status.as_str());
        return Ok(());
    }
    let Some(due) = row.next_attempt_at else {
        return Err(("P2", format!("{} is pending and will never be due", row.event_id)));
    };
    let longest = settings.policy.max_backoff().max(RETRY_AFTER_MAX);
    hold!("P2", due <= now.after(longest), "{} is due only at {due:?}", row.event_id);
    let expires = row.lease.as_ref().is_none_or(|lease| lease.until <= now.after(settings.lease.duration()));
    hold!("P2", expires, "the lease of {} outlasts its terms", row.event_id);
    Ok(())
}

/// P8: a settlement is a replay exactly when its outcome is on record and was so before.
fn replays_are_known(batch: &[Settlement], settled: &[Settled], known: &mut Known, state: &State) -> Finding {
    hold!("P8", batch.len() == settled.len(), "{} settlements, {} answers", batch.len(), settled.len());
    for (settlement, settled) in batch.iter().zip(settled) {
        let (event_id, token) = (settlement.transition.event_id(), settlement.transition.token());
        let recorded = state.attempts.contains_key(&token);
        let before = !known.outcomes.insert(token);
        let expected = match settled {
            Settled::Applied => recorded && !before,
            Settled::Replayed => recorded && before,
            Settled::Stale => !recorded && !before,
        };
        if !recorded {
            known.outcomes.remove(&token);
        }
        hold!("P8", expected, "{settled:?} for {event_id}; recorded now: {recorded}, before: {before}");
    }
    Ok(())
}

/// P8: what the store answers is what it did.
fn answers_are_true(batch: &[Settlement], settled: &[Settled], changes: &[Change<'_>]) -> Finding {
    let mut applied: BTreeMap<EventKey, usize> = BTreeMap::new();
    for (settlement, settled) in batch.iter().zip(settled) {
        if *settled == Settled::Applied {
            *applied.entry(settlement.transition.key()).or_default() += 1;
        }
    }
    let once = applied.values().all(|count| *count == 1);
    let all =
        changes.len() == applied.len() && changes.iter().all(|change| applied.contains_key(&change.key));
    hold!("P8", once && all, "said to have applied {:?}, changed {} rows", applied.keys(), changes.len());
    Ok(())
}

/// P13: exactly one notice for each row that has come to its end, and one audit row for each manual action.
fn traces(step: &Step<'_>, changes: &[Change<'_>], known: &Known, state: &State) -> Finding {
    let was_open = |change: &Change<'_>| {
        change.before.as_ref().is_none_or(|before| before.status == DeliveryStatus::Pending)
    };
    let mut ended: Vec<&EventId> = changes
        .iter()
        .filter(|change| change.after.status != DeliveryStatus::Pending && was_open(change))
        .map(|change| &change.after.event_id)
        .collect();
    let mut told: Vec<&EventId> =
        state.notices[known.notices..].iter().map(|told| &told.notice.event_id).collect();
    ended.sort_unstable();
    told.sort_unstable();
    hold!("P13", ended == told, "{ended:?} came to their end, notices tell of {told:?}");
    let by_operator = matches!(step, Step::Requeue { .. } | Step::Cancel { .. });
    let acts = if by_operator { changes.len() } else { 0 };
    let audited = state.audit.len() - known.audit;
    hold!("P13", acts == audited, "{acts} manual actions left {audited} audit rows");
    Ok(())
}

/// P8: every lease ever granted ended in an outcome, ended without one, or is held now.
fn keep_books(step: &Step<'_>, change: &Change<'_>, known: &mut Known) -> Finding {
    let account = known.accounts.entry(change.key).or_default();
    let had_lease = change.before.as_ref().is_some_and(|before| before.lease.is_some());
    match step {
        Step::Settle { .. } => account.outcomes += 1,
        Step::Claim { .. } | Step::Release { .. } | Step::Cancel { .. } if had_lease => {
            account.abandoned += 1;
        }
        _ => {}
    }
    let leased = u32::from(change.after.lease.is_some());
    let accounted = account.outcomes + account.abandoned + leased;
    let claims = change.after.claims;
    hold!(
        "P8",
        claims == accounted,
        "{} has {claims} claims, {accounted} accounted for",
        change.after.event_id
    );
    Ok(())
}
