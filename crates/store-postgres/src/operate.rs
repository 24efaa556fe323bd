//! Operators' changes to one event: requeue and cancel.

use futures_util::future::join3;
use posthaste_domain::{DeliveryStatus, EventId, TerminalState};
use posthaste_store::{EventView, ManualAction, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::event::{SELECT_EVENT, parse_event};
use crate::read;
use crate::session::{Params, Sql};
use crate::watermark::LOCK_WATERMARK_SHARED;

/// Moves a failed event to the end of the queue, due now and with its attempts reset.
static REQUEUE: Sql = Sql {
    text: "
WITH requeued AS (
    DELETE FROM app.webhook_terminal_events x
    USING app.webhook_events e
    WHERE e.event_id = $1 AND x.id = e.id AND x.failure_kind IS NOT NULL
    RETURNING x.*, e.destination_id
),
queued AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, last_attempted_at, claims, updated_at,
        manual_last_action, manual_last_actor, manual_last_at
    )
    SELECT id, destination_id, app.webhook_next_event_key(), app.webhook_now(), last_attempted_at, claims,
           app.webhook_now(), $2, $3, app.webhook_now()
    FROM requeued
),
watermark AS (
    UPDATE app.webhook_pending_watermark w SET min_key = r.id FROM requeued r WHERE w.min_key > r.id
),
counts AS (
    INSERT INTO app.webhook_counts (pending, failed, cancelled)
    SELECT count(*), -count(*), -count(*) FILTER (WHERE failure_kind = 'cancelled') FROM requeued HAVING count(*) > 0
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at)
    SELECT id, $2, $3, app.webhook_now() FROM requeued
)
SELECT pg_notify('posthaste_due', '') FROM requeued",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Moves a pending event to the failed state with kind `cancelled`, or changes the kind of a failed event. The row lock in
/// `failure` keeps the kind before the change, on which the counts depend, from changing in between.
static CANCEL: Sql = Sql {
    text: "
WITH pending AS (
    DELETE FROM app.webhook_queue q
    USING app.webhook_events e
    WHERE e.event_id = $1 AND q.id = e.id
    RETURNING q.*
),
terminal_events AS (
    INSERT INTO app.webhook_terminal_events (
        id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error,
        manual_last_action, manual_last_actor, manual_last_at, manual_last_reason
    )
    SELECT id, app.webhook_now(), last_attempted_at, attempts, claims, lost_leases, $4, $5,
           $2, $3, app.webhook_now(), $6
    FROM pending
),
failure AS (
    SELECT x.id, x.failure_kind
    FROM app.webhook_events e
    JOIN app.webhook_terminal_events x ON x.id = e.id
    WHERE e.event_id = $1 AND x.failure_kind IS NOT NULL
    FOR UPDATE OF x
),
failed AS (
    UPDATE app.webhook_terminal_events x
    SET failure_kind = $4, last_error = $5, updated_at = app.webhook_now(),
        manual_last_action = $2, manual_last_actor = $3, manual_last_at = app.webhook_now(),
        manual_last_reason = $6
    FROM failure f
    WHERE x.id = f.id
    RETURNING x.id, f.failure_kind AS kind_before
),
counts AS (
    INSERT INTO app.webhook_counts (pending, retrying, failed, cancelled)
    SELECT -count(*), -count(*) FILTER (WHERE attempts > 0), count(*), count(*) FROM pending HAVING count(*) > 0
    UNION ALL
    SELECT 0, 0, 0, count(*) FROM failed WHERE kind_before <> $4 HAVING count(*) > 0
),
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, failure_kinds, attempts)
    SELECT app.webhook_now(), array_agg(id), array_agg($4), array_agg(attempts) FROM pending HAVING count(*) > 0
),
changed AS (
    SELECT id FROM pending UNION ALL SELECT id FROM failed
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason)
    SELECT id, $2, $3, app.webhook_now(), $6 FROM changed
)
SELECT id FROM changed",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Attempts to cancel an event that moves between the queue and the terminal events meanwhile.
const CANCEL_TRIES_MAX: usize = 10;

/// Requeues a failed event.
pub(crate) async fn requeue(
    store: &StoreState,
    event_id: &EventId,
    actor: &str,
) -> Result<EventView, StoreError> {
    let action = ManualAction::Requeue.as_str();
    let (changed, event) =
        change_event(store, event_id, &REQUEUE, &[&event_id.as_str(), &action, &actor]).await?;
    if !changed {
        return Err(StoreError::NotRequeueable { event_id: event_id.clone(), status: event.status });
    }
    store.waker.wake();
    Ok(event)
}

/// Cancels a pending or failed event.
pub(crate) async fn cancel(
    store: &StoreState,
    event_id: &EventId,
    actor: &str,
    reason: Option<&str>,
) -> Result<EventView, StoreError> {
    let state = TerminalState::cancelled(reason);
    let (action, kind) = (ManualAction::Cancel.as_str(), state.failure_kind().as_str());
    let params: Params<'_> =
        &[&event_id.as_str(), &action, &actor, &kind, &state.last_error(), &state.reason()];
    for _ in 0..CANCEL_TRIES_MAX {
        let (changed, event) = change_event(store, event_id, &CANCEL, params).await?;
        if changed {
            store.notice_signal.notify();
            return Ok(event);
        }
        if event.status == DeliveryStatus::Delivered {
            return Err(StoreError::NotCancellable { event_id: event_id.clone(), status: event.status });
        }
        // Another transaction moved the event between the two tables, and the statement found it in neither.
    }
    Err(StoreError::Unavailable {
        reason: format!("event {event_id} changes faster than it can be cancelled"),
    })
}

/// Runs a statement and then reads the event, in one transaction. Returns whether the statement changed the event.
async fn change_event(
    store: &StoreState,
    event_id: &EventId,
    sql: &Sql,
    params: Params<'_>,
) -> Result<(bool, EventView), StoreError> {
    let result = store.sessions.operate.with(async |session| {
        let (lock, change, read) = (
            session.prepare(&LOCK_WATERMARK_SHARED).await?,
            session.prepare(sql).await?,
            session.prepare(&SELECT_EVENT).await?,
        );
        let id = event_id.as_str();
        let (changed, rows) = session
            .transaction(async {
                let (locked, changed, rows) = join3(
                    session.send(&lock, &[]),
                    session.send(&change, params),
                    session.send(&read, &[&id]),
                )
                .await;
                locked?;
                Ok((!changed?.is_empty(), rows?))
            })
            .await?;
        Ok((changed, rows.first().map(parse_event).transpose()?))
    });
    let (changed, event) = result.await?;
    match event {
        Some(event) => Ok((changed, event)),
        None => Err(read::explain_missing(store, event_id).await),
    }
}
