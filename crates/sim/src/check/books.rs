//! What commits together, and the accounts of every event.

use posthaste_domain::{DeliveryStatus, EventId, NoticeKind};
use posthaste_store_memory::State;

use super::step::{Change, Step};
use super::{Finding, Known, hold};

/// P13: nothing is written beside a change of an event.
pub(super) fn nothing_was_written(known: &Known, state: &State) -> Finding {
    let last_notice = state.notices.last().map_or(known.last_notice, |last| last.cursor);
    hold!("P13", last_notice == known.last_notice, "a notice of nothing");
    hold!("P13", state.audit.len() == known.audit, "an audit row of nothing");
    hold!("P13", state.attempts.len() == known.attempts, "an attempt of nothing");
    Ok(())
}

/// P13 and P8: attempt records, notices, audit rows and accounts follow from the changes, and from nothing else.
pub(super) fn are_kept(step: &Step<'_>, changes: &[Change<'_>], known: &mut Known, state: &State) -> Finding {
    if !matches!(step, Step::Maintain { .. }) {
        attempts(step, changes, known, state)?;
        notices(changes, known, state)?;
        audit(step, changes, known, state)?;
    }
    known.last_notice = state.notices.last().map_or(known.last_notice, |last| last.cursor);
    known.audit = state.audit.len();
    known.attempts = state.attempts.len();
    changes.iter().try_for_each(|change| account(step, change, known))
}

fn attempts(step: &Step<'_>, changes: &[Change<'_>], known: &Known, state: &State) -> Finding {
    let recorded = state.attempts.len() - known.attempts;
    let settled = if matches!(step, Step::Settle { .. }) { changes.len() } else { 0 };
    hold!("P13", recorded == settled, "{recorded} attempts recorded for {settled} settled events");
    Ok(())
}

/// Exactly one notice, of the right kind, for each event that has come to its end.
fn notices(changes: &[Change<'_>], known: &Known, state: &State) -> Finding {
    let was_open = |change: &Change<'_>| {
        change.before.as_ref().is_none_or(|before| before.status == DeliveryStatus::Pending)
    };
    let mut ended: Vec<(&EventId, &str, u32)> = changes
        .iter()
        .filter(|change| was_open(change))
        .filter_map(|change| {
            let kind = match change.after.status {
                DeliveryStatus::Pending => return None,
                DeliveryStatus::Delivered => NoticeKind::Delivered,
                DeliveryStatus::Failed => NoticeKind::DeadLettered,
            };
            Some((&change.after.event_id, kind.as_str(), change.after.attempts))
        })
        .collect();
    let fresh = state.notices.iter().skip_while(|published| published.cursor <= known.last_notice);
    let mut told: Vec<(&EventId, &str, u32)> = fresh
        .map(|published| {
            (&published.notice.event_id, published.notice.kind.as_str(), published.notice.attempts)
        })
        .collect();
    ended.sort_unstable();
    told.sort_unstable();
    hold!("P13", ended == told, "{ended:?} came to their end, notices tell of {told:?}");
    Ok(())
}

fn audit(step: &Step<'_>, changes: &[Change<'_>], known: &Known, state: &State) -> Finding {
    let by_operator = matches!(step, Step::Requeue { .. } | Step::Cancel { .. });
    let acts = if by_operator { changes.len() } else { 0 };
    let audited = state.audit.len() - known.audit;
    hold!("P13", acts == audited, "{acts} manual actions left {audited} audit rows");
    Ok(())
}

/// P8: every lease ever granted ended in an outcome, ended without one, or is held now.
fn account(step: &Step<'_>, change: &Change<'_>, known: &mut Known) -> Finding {
    let account = known.accounts.entry(change.key).or_default();
    let lease_before = change.before.as_ref().and_then(|before| before.lease.as_ref());
    let lease_after = change.after.lease.as_ref();
    let token_changed = lease_before.map(|lease| lease.token) != lease_after.map(|lease| lease.token);
    let ended = lease_before.is_some() && token_changed;
    match step {
        Step::Settle { .. } => {
            account.outcomes += 1;
            account.lost_in_a_row = 0;
        }
        Step::Claim { .. } if ended => {
            account.abandoned += 1;
            account.lost_in_a_row += 1;
            known.counts.takeovers += 1;
            known.counts.abandoned += u64::from(lease_after.is_none());
        }
        Step::Release { .. } if ended => {
            account.abandoned += 1;
            known.counts.released += 1;
        }
        Step::Cancel { .. } if ended => account.abandoned += 1,
        Step::Requeue { .. } => account.lost_in_a_row = 0,
        _ => {}
    }
    let accounted = account.outcomes + account.abandoned + u32::from(lease_after.is_some());
    let claims = change.after.claims;
    hold!(
        "P8",
        claims == accounted,
        "{} has {claims} claims, {accounted} accounted for",
        change.after.event_id
    );
    let lost = (change.after.lost_leases, account.lost_in_a_row);
    hold!(
        "P10",
        lost.0 == lost.1,
        "{} counts {} lost leases in a row, not {}",
        change.after.event_id,
        lost.0,
        lost.1
    );
    Ok(())
}
