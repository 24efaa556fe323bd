//! Checks that the store's responses are true, also when it changed nothing.

use posthaste_domain::{DeliveryStatus, EventId, EventKey, FailureKind, LeaseToken, Timestamp};
use posthaste_store::{LeaseRef, SettleResult, Settlement};
use posthaste_store_memory::{Row, State};

use super::step::Step;
use super::{CheckResult, Model, held, require};

/// Compares the response of a step with the store's state.
pub(super) fn check_responses(
    step: &Step<'_>,
    model: &mut Model,
    state: &State,
    now: Timestamp,
) -> CheckResult {
    match step {
        Step::Claim { .. }
        | Step::Maintain { .. }
        | Step::Publish { .. }
        | Step::Resend { .. }
        | Step::Advance { .. }
        | Step::AdvanceBulk { .. }
        | Step::UpdateEndpoint { .. }
        | Step::Register => Ok(()),
        Step::DeleteEndpoint { id } => held::check_deleted(*id, state),
        Step::Enqueue { response, .. } => {
            let mut leases = response.iter().flat_map(|response| &response.leases);
            let wrong = leases.find(|lease| token_of(state.rows.get(&lease.key)) != Some(lease.token));
            require!("P7", wrong.is_none(), "{wrong:?} was returned but is not held");
            Ok(())
        }
        Step::Expire { response, .. } => {
            let has_expired = |event_id: &EventId| {
                let row = state.keys.get(event_id).and_then(|key| state.rows.get(key));
                row.is_some_and(|row| row.failure_kind == Some(FailureKind::Expired))
            };
            let wrong = response.expired.iter().find(|event_id| !has_expired(event_id));
            require!("P18", wrong.is_none(), "{wrong:?} was reported as expired but is not");
            Ok(())
        }
        Step::Renew { held, lease, lost } => check_renewals(held, lost, state, now.after(*lease)),
        Step::Settle { batch, settled } => check_settlements(batch, settled, model, state),
        Step::Release { held } => {
            let kept = held.iter().find(|held| token_of(state.rows.get(&held.key)) == Some(held.token));
            require!("P8", kept.is_none(), "{kept:?} was released but is still held");
            Ok(())
        }
        Step::Requeue { event_id, refused: false } => {
            let row = state.keys.get(event_id).and_then(|key| state.rows.get(key));
            let requeued = row.is_some_and(|row| row.status == DeliveryStatus::Pending && row.attempts == 0);
            require!("P12", requeued, "{event_id} was reported as requeued but is not");
            Ok(())
        }
        Step::Cancel { event_id, refused: false } => {
            let row = state.keys.get(event_id).and_then(|key| state.rows.get(key));
            let kind = row.and_then(|row| row.failure_kind);
            require!(
                "P12",
                kind == Some(FailureKind::Cancelled),
                "{event_id} was reported as cancelled but is not"
            );
            Ok(())
        }
        Step::Discard { event_id, refused: false } => {
            require!("P12", !state.keys.contains_key(event_id), "{event_id} was discarded but is stored");
            let is_remembered = state.discarded.contains_key(event_id);
            require!("P13", is_remembered, "{event_id} was discarded without a trace");
            Ok(())
        }
        Step::Discard { event_id, refused: true } => {
            let failed = status_before(model, event_id) == Some(DeliveryStatus::Failed);
            require!("P12", !failed, "{event_id} is failed, but its discard was refused");
            Ok(())
        }
        Step::RepeatedAction { event_id, refused } => {
            let is_removed = !state.keys.contains_key(*event_id);
            require!("repetition", !refused || is_removed, "{event_id}: a repeated action was refused");
            Ok(())
        }
        Step::Requeue { event_id, refused: true } => {
            let failed = status_before(model, event_id) == Some(DeliveryStatus::Failed);
            require!("P12", !failed, "{event_id} is failed, but its requeue was refused");
            Ok(())
        }
        Step::Cancel { event_id, refused: true } => {
            let status = status_before(model, event_id);
            let delivered = status.is_none_or(|status| status == DeliveryStatus::Delivered);
            require!("P12", delivered, "{event_id} is not delivered, but its cancel was refused");
            Ok(())
        }
    }
}

/// P5: the store renews a lease exactly if its token is the row's, and reports it lost otherwise.
fn check_renewals(held: &[LeaseRef], lost: &[LeaseRef], state: &State, until: Timestamp) -> CheckResult {
    for held in held {
        let lease = state.rows.get(&held.key).and_then(|row| row.lease.as_ref());
        let ours = lease.filter(|lease| lease.token == held.token);
        let extended = ours.is_some_and(|lease| lease.until == until);
        let reported_lost = lost.contains(held);
        require!("P5", ours.is_some() == extended, "{held:?} was not renewed");
        require!(
            "P5",
            ours.is_none() == reported_lost,
            "{held:?} was renewed: {extended}, reported lost: {reported_lost}"
        );
    }
    Ok(())
}

/// P8: a settlement is applied once, replayed exactly if it was recorded before, and stale exactly if its lease is lost.
fn check_settlements(
    batch: &[Settlement],
    settled: &[SettleResult],
    model: &mut Model,
    state: &State,
) -> CheckResult {
    require!("P8", batch.len() == settled.len(), "{} settlements, {} responses", batch.len(), settled.len());
    for (settlement, settled) in batch.iter().zip(settled) {
        let (key, token) = (settlement.transition.key(), settlement.transition.token());
        let applied = state.attempts.get(&token).map(|attempt| attempt.applied);
        let recorded = applied == Some(true);
        let before = model.outcomes.contains_key(&token);
        let held = token_of(model.rows.get(&key)) == Some(token);
        let expected = match settled {
            SettleResult::Applied => recorded && !before && held,
            SettleResult::Replayed => before,
            SettleResult::Stale => !recorded && !before && !held,
        };
        let event_id = settlement.transition.event_id();
        let fenced = *settled != SettleResult::Applied || before || held;
        require!("P5", fenced, "{event_id} was settled under a token that was not its own");
        require!(
            "P8",
            expected,
            "{settled:?} for {event_id}; recorded {recorded}, before {before}, held {held}"
        );
        let is_shown =
            *settled != SettleResult::Stale || applied == Some(false) || !state.rows.contains_key(&key);
        require!(
            "P13",
            is_shown,
            "the result of {event_id} that was not applied is missing from its history"
        );
        match settled {
            SettleResult::Applied => drop(model.outcomes.insert(token, key)),
            SettleResult::Replayed => model.counts.replayed_settles += 1,
            SettleResult::Stale => model.counts.stale_writes += 1,
        }
    }
    Ok(())
}

fn token_of(row: Option<&Row>) -> Option<LeaseToken> {
    row?.lease.as_ref().map(|lease| lease.token)
}

fn status_before(model: &Model, event_id: &EventId) -> Option<DeliveryStatus> {
    let of_event = |(_, row): &(&EventKey, &Row)| row.event_id == *event_id;
    model.rows.iter().find(of_event).map(|(_, row)| row.status)
}
