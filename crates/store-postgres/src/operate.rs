//! Operators' changes to one event: requeue and cancel.

use posthaste_domain::{DeliveryStatus, EventId, TerminalState};
use posthaste_store::{ActionRequest, EventView, ManualAction, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::error::unavailable;
use crate::fail::{insert_failures, insert_notices};
use crate::operation::{EventChange, operation_key};
use crate::read;
use crate::session::{Params, Sql};

/// Moves a failed event to the end of the queue, due now and with its attempts reset. Changes nothing if an action has the
/// key $4. Uses indexes webhook_events_event_id, webhook_failures_id and webhook_audit_operation.
static REQUEUE: Sql = Sql {
    text: "
WITH requeued AS (
    DELETE FROM app.webhook_failures f
    USING app.webhook_events e
    WHERE e.event_id = $1 AND f.id = e.id
          AND NOT EXISTS (SELECT FROM app.webhook_audit a WHERE a.operation_key = $4)
    RETURNING f.*, app.webhook_payload_bytes(e.payload, e.message_key) AS payload_bytes
),
queued AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, payload_bytes, is_fifo, last_attempted_at, requeued_at, claims,
        updated_at
    )
    SELECT r.id, r.destination_id, app.webhook_next_event_key(), app.webhook_now(), r.payload_bytes,
           (SELECT d.is_fifo FROM app.webhook_destinations d WHERE d.id = r.destination_id), r.last_attempted_at,
           app.webhook_now(), r.claims, app.webhook_now()
    FROM requeued r
),
watermark AS (
    UPDATE app.webhook_pending_watermark w SET min_key = r.id FROM requeued r WHERE w.min_key > r.id
),
counts AS (
    INSERT INTO app.webhook_counts (pending, failed, cancelled)
    SELECT count(*), -count(*), -count(*) FILTER (WHERE failure_kind = 'cancelled') FROM requeued HAVING count(*) > 0
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, operation_key)
    SELECT id, $2, $3, app.webhook_now(), $4 FROM requeued
)
SELECT FROM requeued",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Moves a pending event to the failed state with kind `cancelled`, or changes the kind of a failed event. The row lock in
/// `failure` keeps the kind before the change, on which the counts depend, from changing in between. Changes nothing if an
/// action has the key $7.
static CANCEL: Sql = Sql {
    text: concat!(
        "
WITH ended AS (
    DELETE FROM app.webhook_queue q
    USING app.webhook_events e
    WHERE e.event_id = $1 AND q.id = e.id
          AND NOT EXISTS (SELECT FROM app.webhook_audit a WHERE a.operation_key = $7)
    RETURNING q.id, q.destination_id, q.last_attempted_at, q.attempts, q.attempts > 0 AS was_retrying, q.claims,
              q.lost_leases, $4 AS failure_kind, $5 AS failure_error
),",
        insert_failures!(),
        ",",
        insert_notices!("SELECT id AS key, failure_kind, attempts, id AS n FROM ended"),
        ",
failure AS (
    SELECT f.id, f.failure_kind
    FROM app.webhook_events e
    JOIN app.webhook_failures f ON f.id = e.id
    WHERE e.event_id = $1
          AND NOT EXISTS (SELECT FROM app.webhook_audit a WHERE a.operation_key = $7)
    FOR UPDATE OF f
),
failed AS (
    UPDATE app.webhook_failures f
    SET failure_kind = $4, last_error = $5, updated_at = app.webhook_now()
    FROM failure b
    WHERE f.id = b.id
    RETURNING f.id, b.failure_kind AS kind_before
),
recount AS (
    INSERT INTO app.webhook_counts (cancelled) SELECT count(*) FROM failed WHERE kind_before <> $4 HAVING count(*) > 0
),
changed AS (
    SELECT id FROM ended UNION ALL SELECT id FROM failed
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason, operation_key)
    SELECT id, $2, $3, app.webhook_now(), $6, $7 FROM changed
)
SELECT id FROM changed"
    ),
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Attempts to cancel an event that moves between the queue and the failures meanwhile.
const CANCEL_TRIES_MAX: usize = 10;

/// Requeues a failed event.
pub(crate) async fn requeue(
    store: &StoreState,
    event_id: &EventId,
    request: ActionRequest<'_>,
) -> Result<EventView, StoreError> {
    let action = ManualAction::Requeue;
    let key = operation_key(request);
    let params: Params<'_> = &[&event_id.as_str(), &action.as_str(), &request.actor, &key];
    match change(store, &EventChange { event_id, key: &key, sql: &[(&REQUEUE, params)] }, action).await? {
        ChangeResult::Changed(event) => {
            store.wake_after_enqueue();
            Ok(event)
        }
        ChangeResult::Repeated(event) => Ok(event),
        ChangeResult::Unchanged(DeliveryStatus::Failed) => Err(changes_too_fast(event_id)),
        ChangeResult::Unchanged(status) => {
            Err(StoreError::NotRequeueable { event_id: event_id.clone(), status })
        }
    }
}

/// Cancels a pending or failed event.
pub(crate) async fn cancel(
    store: &StoreState,
    event_id: &EventId,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> Result<EventView, StoreError> {
    let state = TerminalState::cancelled(reason);
    let (action, kind) = (ManualAction::Cancel, state.failure_kind().as_str());
    let key = operation_key(request);
    let params: Params<'_> = &[
        &event_id.as_str(),
        &action.as_str(),
        &request.actor,
        &kind,
        &state.last_error(),
        &state.reason(),
        &key,
    ];
    for _ in 0..CANCEL_TRIES_MAX {
        match change(store, &EventChange { event_id, key: &key, sql: &[(&CANCEL, params)] }, action).await? {
            ChangeResult::Changed(event) => {
                store.committed_notices.notify();
                return Ok(event);
            }
            ChangeResult::Repeated(event) => return Ok(event),
            ChangeResult::Unchanged(DeliveryStatus::Delivered) => {
                let status = DeliveryStatus::Delivered;
                return Err(StoreError::NotCancellable { event_id: event_id.clone(), status });
            }
            // Another transaction moved the event between the two tables, and the statement found it in neither.
            ChangeResult::Unchanged(_) => {}
        }
    }
    Err(changes_too_fast(event_id))
}

fn changes_too_fast(event_id: &EventId) -> StoreError {
    unavailable(format!("event {event_id} changes faster than an operator can act on it"))
}

/// What a requeue or a cancel found or did.
enum ChangeResult {
    /// The event as it is after the change.
    Changed(EventView),
    /// An earlier call under the same key made the change. The event is as that call left it.
    Repeated(EventView),
    /// The statement did not change the event, which has this state.
    Unchanged(DeliveryStatus),
}

async fn change(
    store: &StoreState,
    change: &EventChange<'_>,
    action: ManualAction,
) -> Result<ChangeResult, StoreError> {
    let found = change.run(store).await?;
    let Some(event) = found.event else {
        return Err(read::explain_missing(store, change.event_id).await);
    };
    store.blocked.release(std::iter::once(event.destination_id));
    match found.recorded {
        _ if found.changed => Ok(ChangeResult::Changed(event)),
        None => Ok(ChangeResult::Unchanged(event.status)),
        Some(recorded) => {
            let audit = recorded.require_same(change.event_id, action, change.key)?;
            Ok(ChangeResult::Repeated(event.as_left_by(&audit)))
        }
    }
}
