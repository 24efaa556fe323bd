//! The steps of background operations: each examines some events or messages, within the rate of its operation.

use std::time::Duration;

use posthaste_domain::{DestinationId, EventId, EventKey, FailureKind, Timestamp};
use posthaste_store::{ActionRequest, Advance, ManualAction, Operation, OperationKind, OperationState};
use rusqlite::Connection;

use super::operation::{COLUMNS, from_row};
use super::{MessageKey, endpoint, message, resend};
use crate::operate;
use crate::row;

/// A running operation, and where its next step continues.
struct RunningOperation {
    operation: Operation,
    cursor: i64,
    spent_until: Option<Timestamp>,
}

/// Builds the statement that reads the running operations. Index: webhook_operations_running.
pub(super) fn running_sql() -> String {
    format!(
        "SELECT {COLUMNS}, cursor, spent_until FROM webhook_operations WHERE state = 'running' ORDER BY id"
    )
}

/// Runs one step of every running operation.
pub(super) fn advance(db: &Connection, now: Timestamp, rows_max: usize) -> rusqlite::Result<Advance> {
    let running: Vec<RunningOperation> = db
        .prepare_cached(&running_sql())?
        .query_map([], |row| {
            let (cursor, spent_until) = (row.get(13)?, row::optional_timestamp(row, 14)?);
            Ok(RunningOperation { operation: from_row(row)?, cursor, spent_until })
        })?
        .collect::<Result<_, _>>()?;
    let mut advance = Advance::default();
    for mut running in running {
        advance.done += step(db, now, &mut running, rows_max)?;
        if running.operation.state == OperationState::Running {
            let next_in = running.operation.rate.next_at(running.spent_until, now).since(now);
            advance.next_in = Some(advance.next_in.map_or(next_in, |earlier: Duration| earlier.min(next_in)));
        }
        write(db, now, &running)?;
    }
    Ok(advance)
}

fn write(db: &Connection, now: Timestamp, running: &RunningOperation) -> rusqlite::Result<()> {
    let operation = &running.operation;
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    db.prepare_cached(
        "UPDATE webhook_operations
         SET state = ?2, cursor = ?3, spent_until = ?4, examined_count = ?5, done_count = ?6, updated_at = ?7
         WHERE id = ?1",
    )?
    .execute((
        operation.id.0,
        operation.state.as_str(),
        running.cursor,
        running.spent_until.map(Timestamp::as_micros),
        count(operation.examined_count),
        count(operation.done_count),
        now.as_micros(),
    ))?;
    Ok(())
}

/// Runs one step of an operation. Returns how many events it reopened or added.
fn step(
    db: &Connection,
    now: Timestamp,
    running: &mut RunningOperation,
    rows_max: usize,
) -> rusqlite::Result<usize> {
    let operation = &mut running.operation;
    let available = operation.rate.available(running.spent_until, now);
    let keys = next_keys(db, operation, running.cursor, rows_max)?;
    let (mut done, mut is_finished) = (0, keys.len() < rows_max);
    for key in keys {
        let is_due = is_due(db, operation, key)?;
        if is_due && done == available {
            is_finished = false;
            break;
        }
        if is_due {
            apply(db, now, operation, key)?;
            done += 1;
            operation.done_count += 1;
        }
        operation.examined_count += 1;
        running.cursor = key;
    }
    if is_finished {
        operation.state = OperationState::Finished;
    }
    running.spent_until = Some(operation.rate.spend(running.spent_until, now, done));
    Ok(done)
}

/// Events of an endpoint after a key. Index: webhook_events_destination.
pub(super) const NEXT_EVENTS: &str = "
    SELECT id FROM webhook_events INDEXED BY webhook_events_destination
    WHERE destination_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
/// Messages of an application after a key. Index: webhook_messages_app.
pub(super) const NEXT_MESSAGES: &str = "
    SELECT key FROM webhook_messages
    WHERE app_id = ?1 AND app_id > 0 AND key > ?2 ORDER BY key LIMIT ?3";

/// Returns the events or messages that the next step examines.
fn next_keys(
    db: &Connection,
    operation: &Operation,
    cursor: i64,
    rows_max: usize,
) -> rusqlite::Result<Vec<i64>> {
    let (sql, of) = match operation.kind {
        OperationKind::Recover => (NEXT_EVENTS, operation.endpoint.0.0),
        OperationKind::ReplayMissing => (NEXT_MESSAGES, operation.app.0),
    };
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    db.prepare_cached(sql)?.query_map((of, cursor, rows_max), |row| row.get(0))?.collect()
}

/// Returns whether the operation reopens an event, or adds the event of a message.
fn is_due(db: &Connection, operation: &Operation, key: i64) -> rusqlite::Result<bool> {
    match operation.kind {
        OperationKind::Recover => is_recoverable(db, operation, EventKey(key)),
        OperationKind::ReplayMissing => is_missing(db, operation, MessageKey(key)),
    }
}

fn is_recoverable(db: &Connection, operation: &Operation, key: EventKey) -> rusqlite::Result<bool> {
    let kind = resend::failure_kind(db, key)?;
    if kind.is_none_or(|kind| kind == FailureKind::Cancelled) {
        return Ok(false);
    }
    let created_at = db
        .prepare_cached("SELECT created_at FROM webhook_events WHERE id = ?1")?
        .query_row([key.0], |row| row::timestamp(row, 0))?;
    Ok((operation.since..=operation.until).contains(&created_at))
}

/// Returns whether an endpoint has no event of a message that its subscription matches.
fn is_missing(db: &Connection, operation: &Operation, key: MessageKey) -> rusqlite::Result<bool> {
    let details = message::read_details(db, key)?;
    if details.is_expunged || !(operation.since..=operation.until).contains(&details.created_at) {
        return Ok(false);
    }
    let destination: DestinationId = operation.endpoint.0;
    let subscription = endpoint::read(db, destination)?.subscription;
    Ok(subscription.matches(&details.event_type, &details.channels)
        && !resend::is_taken(db, &EventId::of_fan_out(details.id, destination))?)
}

/// Reopens an event, or adds the missing event of a message.
fn apply(db: &Connection, now: Timestamp, operation: &Operation, key: i64) -> rusqlite::Result<()> {
    match operation.kind {
        OperationKind::Recover => {
            let key = EventKey(key);
            let kind = resend::failure_kind(db, key)?.expect("the event has failed");
            let request = ActionRequest::from(operation.actor.as_str());
            operate::reopen(db, now, key, kind, ManualAction::Resend, request)
        }
        OperationKind::ReplayMissing => {
            let (key, destination) = (MessageKey(key), operation.endpoint.0);
            let details = message::read_details(db, key)?;
            let event_id = EventId::of_fan_out(details.id, destination);
            let max_attempts = details.max_attempts;
            resend::add_event(db, now, key, &details, destination, &event_id, max_attempts, false).map(drop)
        }
    }
}
