//! Checks of messages: each subscribed endpoint gets exactly one event, and no other endpoint gets any.
//!
//! An endpoint is subscribed if it is enabled and its event types and channels match when the publication commits. A repeated
//! publication changes nothing. Resends and background operations add events afterwards, each by its own rule.

use std::collections::BTreeSet;

use posthaste_domain::{DeliveryStatus, DestinationId, EventId, FailureKind, MessageId, Timestamp};
use posthaste_store::{Advance, ManualAction, OperationKind, Publication, PublishRequest};
use posthaste_store_memory::Row;

use super::registry::{EndpointState, ModelMessage};
use super::step::{Change, check_requeued};
use super::{CheckResult, Model, require};

/// Checks the events of a publication, and records the message.
pub(super) fn check_publication(
    request: &PublishRequest,
    published: &Publication,
    changes: &[Change<'_>],
    model: &mut Model,
    now: Timestamp,
) -> CheckResult {
    let (message, new) = (&published.message, &request.message);
    let first = model.registry.published.insert(new.payload.clone(), message.id);
    require!("fan-out", first.is_none(), "a repeated request published {first:?} again as {}", message.id);
    let endpoints = model.registry.endpoints.iter();
    let subscribed = endpoints.filter(|(_, endpoint)| {
        endpoint.app == message.app
            && endpoint.state == EndpointState::Enabled
            && endpoint.subscribes_to(&new.event_type, &new.channels)
    });
    let subscribed: BTreeSet<DestinationId> = subscribed.map(|(id, _)| *id).collect();
    let reached: BTreeSet<DestinationId> = changes.iter().map(|change| change.after.destination_id).collect();
    require!(
        "fan-out",
        subscribed == reached && changes.len() == reached.len(),
        "{} has {} events for {reached:?}, but {subscribed:?} are subscribed",
        message.id,
        changes.len()
    );
    require!(
        "fan-out",
        published.event_count == subscribed.len() as u64,
        "{} events are reported for {subscribed:?}",
        published.event_count
    );
    let due = now.after(new.deliver_in);
    changes.iter().try_for_each(|change| check_event(change.after, message.id, new.max_attempts, due))?;
    record_message(request, published, model);
    let pairs = subscribed.into_iter().map(|id| (message.id, id));
    model.registry.fanned_out.extend(pairs);
    Ok(())
}

fn record_message(request: &PublishRequest, published: &Publication, model: &mut Model) {
    let new = &request.message;
    let message = ModelMessage {
        app: published.message.app,
        event_type: new.event_type.clone(),
        channels: new.channels.clone(),
        payload: new.payload.clone(),
        max_attempts: new.max_attempts,
    };
    model.counts.registry.messages += 1;
    model.counts.registry.fan_out_events += published.event_count;
    model.registry.messages.insert(published.message.id, message);
}

/// A new event has the id of its message and endpoint, no attempts and no lease, and is due at this time.
fn check_event(row: &Row, message: MessageId, max_attempts: u32, due: Timestamp) -> CheckResult {
    let is_of_message = row.message_id == message && row.message_key.is_some() && row.app.is_some();
    let is_named = row.event_id == EventId::of_fan_out(message, row.destination_id);
    require!("fan-out", is_of_message && is_named, "{row:?} is no event of {message}");
    check_untouched(row, max_attempts, due)
}

fn check_untouched(row: &Row, max_attempts: u32, due: Timestamp) -> CheckResult {
    let is_untouched = (row.attempts, row.claims, row.lost_leases) == (0, 0, 0) && row.lease.is_none();
    let is_due = row.status == DeliveryStatus::Pending && row.next_attempt_at == Some(due);
    let is_complete = is_untouched && is_due && row.max_attempts == max_attempts;
    require!("fan-out", is_complete, "{row:?} does not start without attempts, and due at {due:?}");
    Ok(())
}

/// A resend reopens the failed event of a message and an endpoint, or adds one with a single attempt.
pub(super) fn check_resend(
    event_id: &EventId,
    changes: &[Change<'_>],
    model: &mut Model,
    now: Timestamp,
) -> CheckResult {
    let [change] = changes else {
        return Err(("fan-out", format!("the resend of {event_id} changed {} events", changes.len())));
    };
    let row = change.after;
    require!("fan-out", row.event_id == *event_id, "{event_id} was resent, but {} changed", row.event_id);
    let is_enabled = model.registry.state_of(row.destination_id) == Some(EndpointState::Enabled);
    require!("held", is_enabled, "{event_id} was resent to an endpoint that is not enabled");
    let is_recorded = row.manual_last.as_ref().is_some_and(|last| last.action == ManualAction::Resend);
    require!("P13", is_recorded, "the resend of {event_id} is missing from the event");
    model.counts.registry.resent += 1;
    match &change.before {
        Some(before) => check_requeued(before, row, now),
        None => {
            let first = EventId::of_fan_out(row.message_id, row.destination_id);
            let is_extra = event_id.as_str().starts_with(first.as_str());
            require!("fan-out", is_extra, "{event_id} is no event of its message");
            check_untouched(row, 1, now)
        }
    }
}

/// A step of the background operations reopens failed events and adds missing ones, each for an endpoint whose operation was
/// started.
pub(super) fn check_advance(
    advance: &Advance,
    changes: &[Change<'_>],
    model: &mut Model,
    now: Timestamp,
) -> CheckResult {
    let (done, changed) = (advance.done, changes.len());
    require!("fan-out", done == changed, "{done} events were recovered, but {changed} changed");
    model.counts.registry.recovered += done as u64;
    changes.iter().try_for_each(|change| check_recovered(change, model, now))
}

fn check_recovered(change: &Change<'_>, model: &mut Model, now: Timestamp) -> CheckResult {
    let row = change.after;
    let (event_id, id) = (&row.event_id, row.destination_id);
    let kind = match change.before {
        Some(_) => OperationKind::Recover,
        None => OperationKind::ReplayMissing,
    };
    let is_started = model.registry.operations.contains(&(id, kind));
    require!("fan-out", is_started, "{event_id} was changed without an operation of endpoint {id}");
    let is_deleted = model.registry.state_of(id) == Some(EndpointState::Deleted);
    require!("held", !is_deleted, "{event_id} was recovered for a deleted endpoint");
    if let Some(before) = &change.before {
        let was_cancelled = before.failure_kind == Some(FailureKind::Cancelled);
        require!("fan-out", !was_cancelled, "{event_id} was recovered although it was cancelled");
        return check_requeued(before, row, now);
    }
    let is_new = model.registry.fanned_out.insert((row.message_id, id));
    require!("fan-out", is_new, "{event_id} was added although endpoint {id} has had the message");
    let Some(message) = model.registry.messages.get(&row.message_id) else {
        return Err(("fan-out", format!("{event_id} belongs to no message")));
    };
    let is_subscribed = model.registry.endpoints.get(&id).is_some_and(|endpoint| {
        endpoint.app == message.app && endpoint.subscribes_to(&message.event_type, &message.channels)
    });
    require!("fan-out", is_subscribed, "{event_id} was added, but endpoint {id} does not subscribe to it");
    // A message with a later delivery time may be added before that time.
    let due = row.deliver_at.max(now);
    check_event(row, row.message_id, message.max_attempts, due)
}
