//! What the store answers is what it did, also when it did nothing.

use posthaste_domain::{DeliveryStatus, EventKey, FailureKind, LeaseToken, Timestamp};
use posthaste_store::{HeldLease, Settled, Settlement};
use posthaste_store_memory::{Row, State};

use super::step::Step;
use super::{Finding, Known, hold};

pub(super) fn are_true(step: &Step<'_>, known: &mut Known, state: &State, now: Timestamp) -> Finding {
    match step {
        Step::Enqueue | Step::Claim { .. } | Step::Maintain { .. } => Ok(()),
        Step::Renew { held, lease, lost } => renewals(held, lost, state, now.after(*lease)),
        Step::Settle { batch, settled } => settlements(batch, settled, known, state),
        Step::Release { held } => {
            let kept = held.iter().find(|held| token_of(state.rows.get(&held.key)) == Some(held.token));
            hold!("P8", kept.is_none(), "{kept:?} was released and is still held");
            Ok(())
        }
        Step::Requeue { event_id, refused: false } => {
            let row = state.keys.get(event_id).and_then(|key| state.rows.get(key));
            let requeued = row.is_some_and(|row| row.status == DeliveryStatus::Pending && row.attempts == 0);
            hold!("P12", requeued, "{event_id} was said to be requeued and is not");
            Ok(())
        }
        Step::Cancel { event_id, refused: false } => {
            let row = state.keys.get(event_id).and_then(|key| state.rows.get(key));
            let kind = row.and_then(|row| row.failure_kind);
            hold!(
                "P12",
                kind == Some(FailureKind::Cancelled),
                "{event_id} was said to be cancelled and is not"
            );
            Ok(())
        }
        Step::Requeue { event_id, refused: true } => {
            let failed = status_before(known, event_id) == Some(DeliveryStatus::Failed);
            hold!("P12", !failed, "{event_id} is failed and was not requeued");
            Ok(())
        }
        Step::Cancel { event_id, refused: true } => {
            let status = status_before(known, event_id);
            let delivered = status.is_none_or(|status| status == DeliveryStatus::Delivered);
            hold!("P12", delivered, "{event_id} is not delivered and was not cancelled");
            Ok(())
        }
    }
}

/// P5: a lease is renewed exactly when its token is the row's, and reported lost exactly when it is not.
fn renewals(held: &[HeldLease], lost: &[HeldLease], state: &State, until: Timestamp) -> Finding {
    for held in held {
        let lease = state.rows.get(&held.key).and_then(|row| row.lease.as_ref());
        let ours = lease.filter(|lease| lease.token == held.token);
        let extended = ours.is_some_and(|lease| lease.until == until);
        let told_lost = lost.contains(held);
        hold!("P5", ours.is_some() == extended, "{held:?} was not renewed");
        hold!("P5", ours.is_none() == told_lost, "{held:?} was renewed: {extended}, told lost: {told_lost}");
    }
    Ok(())
}

/// P8: applied once, a replay exactly when it is on record from before, stale exactly when its lease is lost.
fn settlements(batch: &[Settlement], settled: &[Settled], known: &mut Known, state: &State) -> Finding {
    hold!("P8", batch.len() == settled.len(), "{} settlements, {} answers", batch.len(), settled.len());
    for (settlement, settled) in batch.iter().zip(settled) {
        let (key, token) = (settlement.transition.key(), settlement.transition.token());
        let recorded = state.attempts.contains_key(&token);
        let before = known.outcomes.contains(&token);
        let held = token_of(known.rows.get(&key)) == Some(token);
        let expected = match settled {
            Settled::Applied => recorded && !before && held,
            Settled::Replayed => before,
            Settled::Stale => !recorded && !before && !held,
        };
        let event_id = settlement.transition.event_id();
        let fenced = *settled != Settled::Applied || before || held;
        hold!("P5", fenced, "{event_id} was settled under a token that was not its own");
        hold!(
            "P8",
            expected,
            "{settled:?} for {event_id}; recorded {recorded}, before {before}, held {held}"
        );
        match settled {
            Settled::Applied => drop(known.outcomes.insert(token)),
            Settled::Replayed => known.counts.replayed_settles += 1,
            Settled::Stale => known.counts.stale_writes += 1,
        }
    }
    Ok(())
}

fn token_of(row: Option<&Row>) -> Option<LeaseToken> {
    row?.lease.as_ref().map(|lease| lease.token)
}

fn status_before(known: &Known, event_id: &posthaste_domain::EventId) -> Option<DeliveryStatus> {
    let of_event = |(_, row): &(&EventKey, &Row)| row.event_id == *event_id;
    known.rows.iter().find(of_event).map(|(_, row)| row.status)
}
