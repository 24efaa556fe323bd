//! Checks of settles: the row that a settle may write, and the retry delay.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, ErrorClass, EventKey, FailureKind, Timestamp, Transition};
use posthaste_store::{SettleResult, Settlement};
use posthaste_store_memory::Row;

use super::{CheckResult, Model, Pause, require};
use crate::scenario::Scenario;

/// Checks the change that a settle made to one row.
pub(super) fn check_settled_row(
    batch: &[Settlement],
    key: EventKey,
    before: &Row,
    after: &Row,
    model: &Model,
    now: Timestamp,
    scenario: &Scenario,
) -> CheckResult {
    let token = before.lease.as_ref().map(|lease| lease.token);
    let mut transitions = batch.iter().map(|settlement| &*settlement.transition);
    let ours = transitions.find(|transition| transition.key() == key && Some(transition.token()) == token);
    let Some(transition) = ours else {
        return Err(("P5", format!("{} was settled under a token that was not its own", after.event_id)));
    };
    check_outcome(model, transition)?;
    let status = transition.outcome().http_status();
    let limit = scenario.retry.attempts_allowed(before.max_attempts);
    require!("P10", after.attempts <= limit, "{} has {} attempts of {limit}", after.event_id, after.attempts);
    let expected = match status {
        Some(200..=299) => Row {
            status: DeliveryStatus::Delivered,
            next_attempt_at: None,
            delivered_at: Some(now),
            ..settled(before, after, now)
        },
        Some(410) if scenario.retry.gone_is_final() => failed(FailureKind::Gone, before, after, now),
        _ if before.attempts + 1 >= limit => failed(FailureKind::Exhausted, before, after, now),
        _ => {
            let (event_id, made) = (&after.event_id, before.attempts + 1);
            let is_pending = after.status == DeliveryStatus::Pending;
            require!("P10", is_pending, "{event_id} ended after {made} of {limit} attempts");
            check_backoff(transition, before, after, now, scenario)?;
            Row { next_attempt_at: after.next_attempt_at, ..settled(before, after, now) }
        }
    };
    require!(
        property_of(status),
        *after == expected,
        "a settle of {transition:?} changed {before:?} to {after:?}"
    );
    let error_matches = (after.status == DeliveryStatus::Delivered) == after.last_error.is_none();
    require!(
        "P13",
        error_matches,
        "{} is {} with the error {:?}",
        after.event_id,
        after.status.as_str(),
        after.last_error
    );
    Ok(())
}

/// Returns the property that a wrong row violates: P3 after a 2xx response, P10 otherwise.
fn property_of(status: Option<u16>) -> &'static str {
    if matches!(status, Some(200..=299)) { "P3" } else { "P10" }
}

/// Returns the row with the changes that every settle makes.
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

/// P3: the outcome is the receiver's response under that token. Only a timeout or a panic of the sender may hide it.
fn check_outcome(model: &Model, transition: &Transition) -> CheckResult {
    let (event_id, token) = (transition.event_id(), transition.token());
    let was_sent = !model.unsent.contains(&token);
    require!("P19", was_sent, "a shortage of the worker's host was settled as an attempt of {event_id}");
    require!("P9", model.request_log.contains(token), "{event_id} was settled without a request");
    let responded = model.request_log.status_of(token);
    let recorded = transition.outcome().http_status();
    let hidden = matches!(transition.outcome().error_class(), Some(ErrorClass::Panic | ErrorClass::Timeout));
    require!(
        "P3",
        hidden || recorded == responded,
        "{event_id}: the response was {responded:?}, but {recorded:?} was recorded"
    );
    Ok(())
}

/// P14: the retry delay is within its jitter window, which keeps floor and cap, or as long as the receiver requested.
/// Computed independently of the domain's code.
fn check_backoff(
    transition: &Transition,
    before: &Row,
    after: &Row,
    now: Timestamp,
    scenario: &Scenario,
) -> CheckResult {
    let delay = after.next_attempt_at.map_or(Duration::ZERO, |due| due.since(now));
    let (low, high) = scenario.retry.delay_range(before.attempts);
    let requested = scenario.retry.honoured_pause(transition.outcome());
    let within = delay >= low.max(requested) && delay <= high.max(requested);
    require!(
        "P14",
        within,
        "{} waits {delay:?} instead of {low:?} to {high:?} or {requested:?}",
        after.event_id
    );
    Ok(())
}

/// P14: jitter spreads the retries of equal number. Two equal delays may be chance; three in a row are not.
pub(super) fn check_spread(
    batch: &[Settlement],
    settled: &[SettleResult],
    model: &mut Model,
    scenario: &Scenario,
) -> CheckResult {
    const SPREAD_MIN: Duration = Duration::from_secs(1);
    for (Settlement { transition, .. }, settled) in batch.iter().zip(settled) {
        let Some(delay) = transition.retry_after().filter(|_| *settled == SettleResult::Applied) else {
            continue;
        };
        let retry = transition.attempt() - 1;
        let (low, high) = scenario.retry.delay_range(retry);
        let is_requested = scenario.retry.honoured_pause(transition.outcome()) >= delay;
        if is_requested || high - low < SPREAD_MIN {
            continue;
        }
        let last = model.last_delays.entry(retry).or_default();
        last.repeated = if last.delay == delay { last.repeated + 1 } else { 0 };
        last.delay = delay;
        require!("P14", last.repeated < 2, "three retries number {retry} in a row wait exactly {delay:?}");
    }
    Ok(())
}

/// Records the pauses that receivers requested and the policy honours; `claims` checks that all workers respect them.
pub(super) fn record_pauses(
    batch: &[Settlement],
    settled: &[SettleResult],
    model: &mut Model,
    now: Timestamp,
    scenario: &Scenario,
) {
    for (settlement, settled) in batch.iter().zip(settled) {
        let requested = scenario.retry.honoured_pause(settlement.transition.outcome());
        if *settled == SettleResult::Applied && !requested.is_zero() {
            let new = Pause { at: now, until: now.after(requested) };
            let pause = model.paused.entry(settlement.transition.destination_id()).or_insert(new);
            // A longer pause extends the present one, and replaces one that has ended.
            *pause =
                if pause.until <= now { new } else { Pause { until: pause.until.max(new.until), ..*pause } };
        }
    }
}
