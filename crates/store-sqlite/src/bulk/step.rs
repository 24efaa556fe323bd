//! The steps of bulk operations: each examines some failed events, within the rate of its operation.

use posthaste_domain::{EventKey, FailureKind, TerminalState, Timestamp};
use posthaste_store::{
    ActionRequest, Advance, BulkAction, BulkOperation, ExaminedDeadLetter, ManualAction, RunningBulk,
};
use rusqlite::{Connection, OptionalExtension as _, ToSql};

use super::{COLUMNS, CONDITIONS, Conditions, from_row, stored_count};
use crate::operate;
use crate::row;
use crate::search::Scope;

/// Builds the statement that reads the running operations. Index: webhook_bulk_operations_running.
fn running_sql() -> String {
    format!(
        "SELECT {COLUMNS}, cursor, spent_until FROM webhook_bulk_operations WHERE state = 'running' ORDER BY id"
    )
}

/// Runs one step of every running operation.
pub(super) fn advance(db: &Connection, now: Timestamp, rows_max: usize) -> rusqlite::Result<Advance> {
    let running: Vec<RunningBulk> = db
        .prepare_cached(&running_sql())?
        .query_map([], |row| {
            let (cursor, spent_until) = (row.get(21)?, row::optional_timestamp(row, 22)?);
            Ok(RunningBulk { operation: from_row(row)?, cursor, spent_until })
        })?
        .collect::<Result<_, _>>()?;
    let mut advance = Advance::default();
    for mut running in running {
        let read = examine(db, &running, rows_max)?;
        let keys = running.plan_step(&read, rows_max, now);
        let mut done = 0;
        for key in keys {
            done += usize::from(apply(db, now, EventKey(key), &running.operation)?);
        }
        advance.add(running.finish_step(done, now));
        write(db, now, &running)?;
    }
    Ok(advance)
}

fn write(db: &Connection, now: Timestamp, running: &RunningBulk) -> rusqlite::Result<()> {
    let operation = &running.operation;
    db.prepare_cached(
        "UPDATE webhook_bulk_operations
         SET state = ?2, cursor = ?3, spent_until = ?4, examined_count = ?5, done_count = ?6, updated_at = ?7
         WHERE id = ?1",
    )?
    .execute((
        operation.id.0,
        operation.state.as_str(),
        running.cursor,
        running.spent_until.map(Timestamp::as_micros),
        stored_count(operation.examined_count),
        stored_count(operation.done_count),
        now.as_micros(),
    ))?;
    Ok(())
}

/// Builds the statement that reads up to `?9` failures after the key `?8`, of the destination `?7` if it is set, with whether the
/// conditions hold. Indexes: webhook_failures_destination, or the primary key; the events by primary key.
pub(crate) fn examine_sql(by_destination: bool) -> String {
    let (index, destination) = match by_destination {
        true => ("INDEXED BY webhook_failures_destination", "x.destination_id = ?7"),
        false => ("NOT INDEXED", "?7 IS NULL"),
    };
    format!(
        "SELECT f.id, {CONDITIONS}
         FROM (
             SELECT x.id, x.failure_kind, x.last_error, x.updated_at FROM webhook_failures x {index}
             WHERE {destination} AND x.id > ?8 ORDER BY x.id LIMIT ?9
         ) f
         CROSS JOIN webhook_events e ON e.id = f.id
         ORDER BY f.id"
    )
}

fn examine(
    db: &Connection,
    running: &RunningBulk,
    rows_max: usize,
) -> rusqlite::Result<Vec<ExaminedDeadLetter>> {
    let filter = &running.operation.filter;
    let destination = match Scope::of(db, filter.destination.as_ref(), filter.endpoint)? {
        Scope::All => None,
        Scope::Destination(id) => Some(id),
        Scope::None => return Ok(Vec::new()),
    };
    let conditions = Conditions::of(filter);
    let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let own: [&dyn ToSql; 3] = [&destination, &running.cursor, &limit];
    db.prepare_cached(&examine_sql(destination.is_some()))?
        .query_map(&*[&conditions.list()[..], &own].concat(), |row| {
            // NULL, which a failure without an error gives, selects nothing.
            let is_selected = row.get::<_, Option<bool>>(1)?.unwrap_or(false);
            Ok(ExaminedDeadLetter { key: row.get(0)?, is_selected })
        })?
        .collect()
}

/// Acts on a failed event. Returns false if the event has not failed.
fn apply(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    operation: &BulkOperation,
) -> rusqlite::Result<bool> {
    let kind = db
        .prepare_cached("SELECT failure_kind FROM webhook_failures WHERE id = ?1")?
        .query_row([key.0], |row| row::decode(row, 0, FailureKind::from_name))
        .optional()?;
    let Some(kind) = kind else { return Ok(false) };
    let (request, reason) = (ActionRequest::from(operation.actor.as_str()), operation.reason.as_deref());
    match operation.action {
        BulkAction::Requeue => operate::reopen(db, now, key, kind, ManualAction::Requeue, request)?,
        BulkAction::Cancel => {
            operate::cancel_failed(db, now, key, kind, request, &TerminalState::cancelled(reason))?;
        }
        BulkAction::Discard => operate::discard_failed(db, now, key, kind, request, reason)?,
    }
    Ok(true)
}
