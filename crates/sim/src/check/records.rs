//! Checks of what commits together with a change of an event: attempt records, notices, audit rows and counters.

use std::collections::BTreeSet;

use posthaste_domain::{DeliveryStatus, DisableReason, EventId, LeaseToken, NoticeKind};
use posthaste_store::Settlement;
use posthaste_store_memory::State;

use super::step::{Change, Step};
use super::{CheckResult, Model, require};

/// P13: without a change of an event, no other record is written.
pub(super) fn check_nothing_written(model: &Model, state: &State) -> CheckResult {
    let last_notice = state.notices.last().map_or(model.last_notice, |last| last.cursor);
    require!("P13", last_notice == model.last_notice, "a notice was written without a change");
    require!("P13", state.audit.len() == model.audit, "an audit row was written without a change");
    require!("P13", state.attempts.len() == model.attempts, "an attempt was recorded without a change");
    Ok(())
}

/// P13 and P8: attempt records, notices, audit rows and lease counts match the changes exactly. `disabling` are the
/// settlements that disabled an endpoint.
pub(super) fn check_records(
    step: &Step<'_>,
    changes: &[Change<'_>],
    disabling: &[&Settlement],
    model: &mut Model,
    state: &State,
) -> CheckResult {
    if !matches!(step, Step::Maintain { .. }) {
        if !matches!(step, Step::Discard { .. } | Step::AdvanceBulk { .. }) {
            check_attempts(step, changes, model, state)?;
        }
        check_notices(changes, disabling, model, state)?;
        check_audit(step, changes, model, state)?;
    }
    match step {
        Step::Settle { batch, .. } => model.unapplied.extend(unapplied_tokens(batch, state)),
        // Retention removes attempts by their age.
        Step::Maintain { .. } => model.unapplied.retain(|token| state.attempts.contains_key(token)),
        _ => {}
    }
    model.last_notice = state.notices.last().map_or(model.last_notice, |last| last.cursor);
    model.audit = state.audit.len();
    model.attempts = state.attempts.len();
    changes.iter().try_for_each(|change| check_account(step, change, model))
}

fn check_attempts(step: &Step<'_>, changes: &[Change<'_>], model: &Model, state: &State) -> CheckResult {
    let recorded = state.attempts.len() - model.attempts;
    let (settled, late) = match step {
        Step::Settle { batch, .. } => {
            let late: BTreeSet<_> = unapplied_tokens(batch, state).collect();
            (changes.len(), late.difference(&model.unapplied).count())
        }
        _ => (0, 0),
    };
    require!(
        "P13",
        recorded == settled + late,
        "{recorded} attempts recorded for {settled} settled events and {late} results that were not applied"
    );
    Ok(())
}

/// Returns the tokens of a batch whose results are recorded as not applied.
fn unapplied_tokens<'a>(batch: &'a [Settlement], state: &'a State) -> impl Iterator<Item = LeaseToken> + 'a {
    let tokens = batch.iter().map(|settlement| settlement.transition.token());
    tokens.filter(|token| state.attempts.get(token).is_some_and(|attempt| !attempt.applied))
}

/// P13: each event that has reached a terminal state has exactly one notice, of the right kind, and so has each endpoint that
/// a result has disabled.
fn check_notices(
    changes: &[Change<'_>],
    disabling: &[&Settlement],
    model: &Model,
    state: &State,
) -> CheckResult {
    let was_pending = |change: &Change<'_>| {
        change.before.as_ref().is_none_or(|before| before.status == DeliveryStatus::Pending)
    };
    let mut ended: Vec<(&EventId, NoticeKind, u32)> = changes
        .iter()
        .filter(|change| was_pending(change))
        .filter_map(|change| {
            let after = &change.after;
            let kind = NoticeKind::from_failure_kind(after.failure_kind);
            (after.status != DeliveryStatus::Pending).then_some((&after.event_id, kind, after.attempts))
        })
        .collect();
    let disabled = |settlement: &&Settlement| {
        let transition = &settlement.transition;
        state.rows.get(&transition.key()).map(|row| {
            let event_id = &row.event_id;
            (event_id, NoticeKind::EndpointDisabled(DisableReason::Gone), transition.attempt())
        })
    };
    ended.extend(disabling.iter().filter_map(disabled));
    let new_notices = state.notices.iter().skip_while(|published| published.cursor <= model.last_notice);
    let mut announced: Vec<(&EventId, NoticeKind, u32)> = new_notices
        .map(|published| (&published.notice.event_id, published.notice.kind, published.notice.attempts))
        .collect();
    ended.sort_unstable();
    announced.sort_unstable();
    require!("P13", ended == announced, "{ended:?} ended, but the notices are {announced:?}");
    Ok(())
}

fn check_audit(step: &Step<'_>, changes: &[Change<'_>], model: &Model, state: &State) -> CheckResult {
    let actions = match step {
        Step::Requeue { .. } | Step::Cancel { .. } | Step::Resend { .. } | Step::DeleteEndpoint { .. } => {
            changes.len()
        }
        Step::Discard { .. } => 1,
        Step::AdvanceBulk { advance } => advance.done,
        // Reopened events have an audit row, added ones have none.
        Step::Advance { .. } => changes.iter().filter(|change| change.before.is_some()).count(),
        _ => 0,
    };
    let audited = state.audit.len() - model.audit;
    require!("P13", actions == audited, "{audited} audit rows for {actions} manual actions");
    Ok(())
}

/// P8: every granted lease has ended with an outcome, has ended without one, or is held now.
fn check_account(step: &Step<'_>, change: &Change<'_>, model: &mut Model) -> CheckResult {
    let account = model.accounts.entry(change.key).or_default();
    let lease_before = change.before.as_ref().and_then(|before| before.lease.as_ref());
    let lease_after = change.after.lease.as_ref();
    let token_changed = lease_before.map(|lease| lease.token) != lease_after.map(|lease| lease.token);
    let ended = lease_before.is_some() && token_changed;
    match step {
        Step::Settle { .. } => {
            account.outcomes += 1;
            account.lost_in_a_row = 0;
        }
        // A repeated claim has released the lease.
        Step::Claim { request, .. }
            if ended
                && lease_after.is_none()
                && lease_before.is_some_and(|lease| lease.claim == request.id) =>
        {
            account.abandoned += 1;
            model.counts.released += 1;
        }
        Step::Claim { .. } if ended => {
            account.abandoned += 1;
            account.lost_in_a_row += 1;
            model.counts.takeovers += 1;
            model.counts.abandoned += u64::from(lease_after.is_none());
        }
        Step::Release { .. } if ended => {
            account.abandoned += 1;
            model.counts.released += 1;
        }
        Step::Cancel { .. } | Step::DeleteEndpoint { .. } | Step::Maintain { .. } if ended => {
            account.abandoned += 1;
        }
        Step::Expire { .. } => {
            account.abandoned += u32::from(ended);
            model.counts.expired += 1;
        }
        Step::Requeue { .. } | Step::Resend { .. } | Step::Advance { .. } => account.lost_in_a_row = 0,
        Step::AdvanceBulk { .. } if change.after.status == DeliveryStatus::Pending => {
            account.lost_in_a_row = 0;
        }
        _ => {}
    }
    let accounted = account.outcomes + account.abandoned + u32::from(lease_after.is_some());
    let claims = change.after.claims;
    require!(
        "P8",
        claims == accounted,
        "{} has {claims} claims, but {accounted} are accounted for",
        change.after.event_id
    );
    let lost = (change.after.lost_leases, account.lost_in_a_row);
    require!(
        "P10",
        lost.0 == lost.1,
        "{} has counted {} consecutive lost leases instead of {}",
        change.after.event_id,
        lost.0,
        lost.1
    );
    Ok(())
}
