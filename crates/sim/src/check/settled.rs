//! What a settle may write.

use std::time::Duration;

use posthaste_domain::{
    DeliveryStatus, ErrorClass, EventKey, FailureKind, RETRY_AFTER_MAX, Timestamp, Transition,
};
use posthaste_store::{Settled, Settlement};
use posthaste_store_memory::Row;

use super::{Finding, Known, hold};
use crate::scenario::Scenario;

pub(super) fn lawful(
    batch: &[Settlement],
    key: EventKey,
    before: &Row,
    after: &Row,
    known: &Known,
    now: Timestamp,
    scenario: &Scenario,
) -> Finding {
    let token = before.lease.as_ref().map(|lease| lease.token);
    let mut transitions = batch.iter().map(|settlement| &*settlement.transition);
    let ours = transitions.find(|transition| transition.key() == key && Some(transition.token()) == token);
    let Some(transition) = ours else {
        return Err(("P5", format!("{} was settled under a token that was not its own", after.event_id)));
    };
    true_to_the_receiver(known, transition)?;
    let status = transition.outcome().http_status();
    let limit = scenario.retry.attempts_allowed(before.max_attempts);
    hold!("P10", after.attempts <= limit, "{} has {} attempts of {limit}", after.event_id, after.attempts);
    let expected = match status {
        Some(200..=299) => Row {
            status: DeliveryStatus::Delivered,
            next_attempt_at: None,
            delivered_at: Some(now),
            ..settled(before, after, now)
        },
        Some(410) => failed(FailureKind::Gone, before, after, now),
        _ if before.attempts + 1 >= limit => failed(FailureKind::Exhausted, before, after, now),
        _ => {
            let (event_id, made) = (&after.event_id, before.attempts + 1);
            let goes_on = after.status == DeliveryStatus::Pending;
            hold!("P10", goes_on, "{event_id} ended after {made} of {limit} attempts");
            backed_off(transition, before, after, now, scenario)?;
            Row { next_attempt_at: after.next_attempt_at, ..settled(before, after, now) }
        }
    };
    hold!(
        ending_property(status),
        *after == expected,
        "a settle made {after:?} of {before:?} by {transition:?}"
    );
    let told = (after.status == DeliveryStatus::Delivered) == after.last_error.is_none();
    hold!("P13", told, "{} is {} with {:?}", after.event_id, after.status.as_str(), after.last_error);
    Ok(())
}

/// A 2xx that is not delivered is a lie about the receiver; anything else that ends too soon or too late is a loss.
fn ending_property(status: Option<u16>) -> &'static str {
    if matches!(status, Some(200..=299)) { "P3" } else { "P10" }
}

/// What every settle writes.
fn settled(before: &Row, after: &Row, now: Timestamp) -> Row {
    Row {
        attempts: before.attempts + 1,
        lost_leases: 0,
        lease: None,
        updated_at: now,
        last_error: after.last_error.clone(),
        last_attempted_at: after.last_attempted_at,
        ..before.clone()
    }
}

fn failed(kind: FailureKind, before: &Row, after: &Row, now: Timestamp) -> Row {
    Row {
        status: DeliveryStatus::Failed,
        failure_kind: Some(kind),
        next_attempt_at: None,
        ..settled(before, after, now)
    }
}

/// P3: the outcome is what the receiver answered under that token. Only a timeout or our own panic may hide it.
fn true_to_the_receiver(known: &Known, transition: &Transition) -> Finding {
    let (event_id, token) = (transition.event_id(), transition.token());
    hold!("P9", known.witness.saw(token), "{event_id} was settled without a request");
    let answered = known.witness.answered(token);
    let recorded = transition.outcome().http_status();
    let hidden = matches!(transition.outcome().error_class(), Some(ErrorClass::Panic | ErrorClass::Timeout));
    hold!("P3", hidden || recorded == answered, "{event_id}: answered {answered:?}, recorded {recorded:?}");
    Ok(())
}

/// P14, in arithmetic of its own: within the window of this retry, or as long as the receiver asked for.
fn backed_off(
    transition: &Transition,
    before: &Row,
    after: &Row,
    now: Timestamp,
    scenario: &Scenario,
) -> Finding {
    let delay = after.next_attempt_at.map_or(Duration::ZERO, |due| due.since(now));
    let (low, high) = scenario.retry.window(before.attempts);
    let asked = asked_for(transition);
    let within = delay >= low.max(asked) && delay <= high.max(asked);
    hold!("P14", within, "{} waits {delay:?}, not {low:?} to {high:?} nor {asked:?}", after.event_id);
    Ok(())
}

fn asked_for(transition: &Transition) -> Duration {
    transition.pause().unwrap_or_default().min(RETRY_AFTER_MAX)
}

/// Destinations that asked to be left alone are, by everyone.
pub(super) fn remember_pauses(batch: &[Settlement], settled: &[Settled], known: &mut Known, now: Timestamp) {
    for (settlement, settled) in batch.iter().zip(settled) {
        let asked = asked_for(&settlement.transition);
        if *settled == Settled::Applied && !asked.is_zero() {
            let until = known.paused.entry(settlement.transition.destination_id()).or_default();
            *until = now.after(asked).max(*until);
        }
    }
}
