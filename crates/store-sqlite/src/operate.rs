//! Operator actions on events, each with its audit row, and the dead-lettering of a pending event that claims use too.

use posthaste_domain::{
    DeliveryStatus, EventId, EventKey, FailureKind, TerminalState, Timestamp, clean_reason,
};
use posthaste_store::{ActionRequest, AuditView, EventView, ManualAction, RecordedAction, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::claims::{ClaimNumber, EndedLeases};
use crate::destination_queue;
use crate::error::CallError;
use crate::notices::{LogBatch, LogEntry};
use crate::read;
use crate::remove;
use crate::row;
use crate::totals::TotalsChange;

/// Makes a failed event pending and due now.
pub(crate) fn requeue(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
) -> Result<EventView, CallError> {
    let found = find_event(db, event_id)?;
    if let Some(audit) = find_recorded(db, event_id, ManualAction::Requeue, request)? {
        return Ok(row::read_event(db, found.key)?.as_left_by(&audit));
    }
    let Some(kind_before) = found.failure_kind else {
        return Err(StoreError::NotRequeueable { event_id: event_id.clone(), status: found.status }.into());
    };
    reopen(db, now, found.key, kind_before, ManualAction::Requeue, request)?;
    Ok(row::read_event(db, found.key)?)
}

/// Moves a failed event to the queue, due now, and records the action.
pub(crate) fn reopen(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    kind_before: FailureKind,
    action: ManualAction,
    request: ActionRequest<'_>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_queue
             (id, destination_id, app_id, claims, next_attempt_at, updated_at, requeued_at, last_attempted_at)
         SELECT f.id, f.destination_id, e.app_id, f.claims, ?2, ?2, ?2, f.last_attempted_at
         FROM webhook_failures f
         CROSS JOIN webhook_events e ON e.id = f.id
         WHERE f.id = ?1",
    )?
    .execute((key.0, now.as_micros()))?;
    let (entry, _) = destination_queue::find(db, key)?.expect("the queue row was just inserted");
    destination_queue::insert(db, &entry)?;
    db.prepare_cached("DELETE FROM webhook_failures WHERE id = ?1")?.execute([key.0])?;
    if entry.is_of_endpoint {
        // Maintenance cancels the event again if the endpoint is deleted.
        db.prepare_cached(
            "UPDATE webhook_endpoints SET is_cancelling = 1 WHERE destination_id = ?1 AND deleted_at IS NOT NULL",
        )?
        .execute([entry.destination.0])?;
    }
    let mut totals = TotalsChange::default();
    totals.add_requeued(kind_before);
    totals.write(db)?;
    record_audit(db, now, key, action, request, None)
}

/// Fails a pending event, or changes the failure of a failed one to `cancelled`.
pub(crate) fn cancel(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> Result<EventView, CallError> {
    let found = find_event(db, event_id)?;
    if let Some(audit) = find_recorded(db, event_id, ManualAction::Cancel, request)? {
        return Ok(row::read_event(db, found.key)?.as_left_by(&audit));
    }
    if found.status == DeliveryStatus::Delivered {
        return Err(StoreError::NotCancellable { event_id: event_id.clone(), status: found.status }.into());
    }
    let terminal = TerminalState::cancelled(reason);
    match destination_queue::find(db, found.key)? {
        None => {
            let kind_before = found.failure_kind.expect("an event that is not pending has failed");
            cancel_failed(db, now, found.key, kind_before, request, &terminal)?;
        }
        Some((entry, claim)) => {
            let mut ended = EndedLeases::default();
            match claim {
                Some(claim) => ended.add(ClaimNumber(claim), entry.is_retry()),
                None => destination_queue::remove(db, &entry)?,
            }
            fail_pending(db, now, found.key, found.lost_leases, &terminal)?;
            ended.write(db)?;
            let mut totals = TotalsChange::default();
            totals.add_ended(entry.attempts, Some(terminal.failure_kind()));
            totals.write(db)?;
            let mut log = LogBatch::default();
            log.push(&LogEntry::without_attempt(found.key, terminal.notice_kind(), entry.attempts));
            log.write(db, now)?;
            record_audit(db, now, found.key, ManualAction::Cancel, request, terminal.reason())?;
        }
    }
    Ok(row::read_event(db, found.key)?)
}

/// Changes the failure of a failed event to `cancelled`, and records the action. The event is counted as failed and has its
/// notice already.
pub(crate) fn cancel_failed(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    kind_before: FailureKind,
    request: ActionRequest<'_>,
    terminal: &TerminalState,
) -> rusqlite::Result<()> {
    replace_failure(db, now, key, terminal)?;
    let mut totals = TotalsChange::default();
    totals.add_cancelled(kind_before);
    totals.write(db)?;
    record_audit(db, now, key, ManualAction::Cancel, request, terminal.reason())
}

/// Removes a failed event, and keeps its id, its audit log and what its notices contain.
pub(crate) fn discard(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> Result<AuditView, CallError> {
    if let Some(audit) = find_recorded(db, event_id, ManualAction::Discard, request)? {
        return Ok(audit);
    }
    let found = find_event(db, event_id)?;
    let Some(kind) = found.failure_kind else {
        return Err(StoreError::NotDiscardable { event_id: event_id.clone(), status: found.status }.into());
    };
    let reason = clean_reason(reason);
    discard_failed(db, now, found.key, kind, request, reason.as_deref())?;
    Ok(AuditView { action: ManualAction::Discard, actor: request.actor.to_owned(), at: now, reason })
}

/// Removes a failed event, and records the action.
pub(crate) fn discard_failed(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    kind: FailureKind,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_discarded_events
             (id, app_id, destination_id, event_id, webhook_id, payment_request_id, session_id, discarded_at)
         SELECT id, app_id, destination_id, event_id, webhook_id, payment_request_id, session_id, ?2
         FROM webhook_events
         WHERE id = ?1",
    )?
    .execute((key.0, now.as_micros()))?;
    remove::remove_event(db, key)?;
    let mut totals = TotalsChange::default();
    totals.add_removed_failure(kind);
    totals.write(db)?;
    record_audit(db, now, key, ManualAction::Discard, request, reason)
}

/// Moves a pending event to the failures without a recorded attempt: an operator cancelled it, or it lost too
/// many leases. The caller must also remove its queue entry or count its lease as ended.
pub(crate) fn fail_pending(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    lost_leases: u32,
    terminal: &TerminalState,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_failures
             (id, destination_id, failure_kind, attempts, claims, lost_leases, last_attempted_at, last_error,
              updated_at)
         SELECT id, destination_id, ?2, attempts, claims, ?3, last_attempted_at, ?4, ?5
         FROM webhook_queue
         WHERE id = ?1",
    )?
    .execute((
        key.0,
        terminal.failure_kind().as_str(),
        lost_leases,
        terminal.last_error(),
        now.as_micros(),
    ))?;
    db.prepare_cached("DELETE FROM webhook_queue WHERE id = ?1")?.execute([key.0])?;
    Ok(())
}

/// Replaces the failure kind and error of a failed event.
fn replace_failure(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    terminal: &TerminalState,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_failures SET failure_kind = ?2, last_error = ?3, updated_at = ?4 WHERE id = ?1",
    )?
    .execute((key.0, terminal.failure_kind().as_str(), terminal.last_error(), now.as_micros()))?;
    Ok(())
}

/// The state of an event before an operator's action.
struct EventState {
    key: EventKey,
    status: DeliveryStatus,
    /// Set if the event has failed.
    failure_kind: Option<FailureKind>,
    lost_leases: u32,
}

fn find_event(db: &Connection, event_id: &EventId) -> Result<EventState, CallError> {
    // Index: webhook_events_event_id.
    let found = db
        .prepare_cached(
            "SELECT id, delivery_status, failure_kind, lost_leases
             FROM webhook_outbox_events
             WHERE event_id = ?1",
        )?
        .query_row([event_id.as_str()], |row| {
            Ok(EventState {
                key: EventKey(row.get(0)?),
                status: row::decode(row, 1, DeliveryStatus::from_name)?,
                failure_kind: row::decode_optional(row, 2, FailureKind::from_name)?,
                lost_leases: row.get(3)?,
            })
        })
        .optional()?;
    match found {
        Some(found) => Ok(found),
        None => Err(read::explain_missing(db, event_id)?.into()),
    }
}

/// Finds the action under a key. Index: webhook_audit_operation; the events by primary key.
pub(crate) const RECORDED_ACTION: &str = "
    SELECT a.action, a.actor, a.at, a.reason, coalesce(e.event_id, d.event_id)
    FROM webhook_audit a
    LEFT JOIN webhook_events e ON e.id = a.event_key
    LEFT JOIN webhook_discarded_events d ON d.id = a.event_key
    WHERE a.operation_key = ?1";

/// Returns the audit row of this action under the request's key, if the action has been applied before.
fn find_recorded(
    db: &Connection,
    event_id: &EventId,
    action: ManualAction,
    request: ActionRequest<'_>,
) -> Result<Option<AuditView>, CallError> {
    let Some(operation_key) = request.key else { return Ok(None) };
    let recorded = db
        .prepare_cached(RECORDED_ACTION)?
        .query_row([operation_key], |row| {
            Ok(RecordedAction { event_id: EventId::from_stored(row.get(4)?), audit: row::audit(row)? })
        })
        .optional()?;
    let Some(recorded) = recorded else { return Ok(None) };
    Ok(Some(recorded.require_same(event_id, action, operation_key)?))
}

/// The owned form of an [`ActionRequest`], for the writer thread.
pub(crate) struct OwnedActionRequest {
    actor: String,
    key: Option<String>,
}

impl From<ActionRequest<'_>> for OwnedActionRequest {
    fn from(request: ActionRequest<'_>) -> Self {
        Self { actor: request.actor.to_owned(), key: request.key.map(str::to_owned) }
    }
}

impl OwnedActionRequest {
    pub(crate) fn as_ref(&self) -> ActionRequest<'_> {
        ActionRequest { actor: &self.actor, key: self.key.as_deref() }
    }
}

/// Writes the audit row of an action.
pub(crate) fn record_audit(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    action: ManualAction,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_audit (event_key, action, actor, at, reason, operation_key)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((key.0, action.as_str(), request.actor, now.as_micros(), reason, request.key))?;
    Ok(())
}
