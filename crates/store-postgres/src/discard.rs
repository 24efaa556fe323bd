//! Discards: an operator removes a failed event for good. The store keeps its id, its audit log and what its notices
//! contain.

use futures_util::future::join5;
use posthaste_domain::{DeliveryStatus, EventId, clean_reason};
use posthaste_store::{ActionRequest, AuditView, EventView, ManualAction, RecordedAction, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::error::unavailable;
use crate::event::{SELECT_EVENT, parse_event};
use crate::operation::{
    LOCK_OPERATION, RECORDED_ACTION, operation_key, parse_recorded_action, repeat_if_unavailable,
};
use crate::read;
use crate::session::{Params, Sql};

/// Deletes a failed event with its message. Deleting the terminal row comes first: it waits for another operator's change of
/// the event, and finds nothing after a requeue. Changes nothing if an action has the key $5. Uses indexes
/// webhook_events_event_id and webhook_events_message_id.
static DISCARD: Sql = Sql {
    text: "
WITH discarded AS (
    DELETE FROM app.webhook_terminal_events x
    USING app.webhook_events e
    WHERE e.event_id = $1 AND x.id = e.id AND x.failure_kind IS NOT NULL
          AND NOT EXISTS (SELECT FROM app.webhook_audit a WHERE a.operation_key = $5)
    RETURNING x.id, x.failure_kind
),
events AS (
    DELETE FROM app.webhook_events e USING discarded d WHERE e.id = d.id RETURNING e.*
),
messages AS (
    DELETE FROM app.webhook_messages m
    USING events e
    WHERE m.id = e.message_id
          AND NOT EXISTS (SELECT FROM app.webhook_events o WHERE o.message_id = e.message_id AND o.id <> e.id)
),
discarded_events AS (
    INSERT INTO app.webhook_discarded_events (id, discarded_at, event_id, webhook_id, payment_request_id, session_id)
    SELECT id, app.webhook_now(), event_id, webhook_id, payment_request_id, session_id FROM events
),
counts AS (
    INSERT INTO app.webhook_counts (failed, cancelled)
    SELECT -count(*), -count(*) FILTER (WHERE failure_kind = 'cancelled') FROM discarded HAVING count(*) > 0
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason, operation_key)
    SELECT id, $2, $3, app.webhook_now(), $4, $5 FROM discarded
)
SELECT id FROM discarded",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Deletes the attempts of a discarded event. It runs after [`DISCARD`], because that statement may have waited for a worker
/// that was recording a late result: a new snapshot shows that result. Uses indexes webhook_discarded_events_event_id, and
/// webhook_attempts_event in every partition.
static DELETE_ATTEMPTS: Sql = Sql {
    text: "
DELETE FROM app.webhook_attempts a
USING app.webhook_discarded_events d
WHERE d.event_id = $1 AND a.event_key = d.id",
    types: &[Type::TEXT],
};

/// Attempts to discard an event that fails between the statement and the check why it changed nothing.
const TRIES_MAX: usize = 10;

/// Discards a failed event.
pub(crate) async fn discard(
    store: &StoreState,
    event_id: &EventId,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> Result<AuditView, StoreError> {
    let (action, reason, key) = (ManualAction::Discard, clean_reason(reason), operation_key(request));
    let params: Params<'_> = &[&event_id.as_str(), &action.as_str(), &request.actor, &reason, &key];
    for _ in 0..TRIES_MAX {
        let result = repeat_if_unavailable(|| try_once(store, event_id, &key, params)).await?;
        match (result.recorded, result.event) {
            (Some(recorded), _) => return recorded.require_same(event_id, action, &key),
            (None, None) => return Err(read::explain_missing(store, event_id).await),
            (None, Some(event)) if event.status != DeliveryStatus::Failed => {
                return Err(StoreError::NotDiscardable { event_id: event_id.clone(), status: event.status });
            }
            // The event failed after the statement.
            (None, Some(_)) => {}
        }
    }
    Err(unavailable(format!("event {event_id} changes faster than it can be discarded")))
}

/// What a transaction found after its discard: the action under its key, which may be an earlier one, and the event if it
/// still exists.
struct DiscardResult {
    recorded: Option<RecordedAction>,
    event: Option<EventView>,
}

/// Runs the statements, then reads the event and the action under the key, in one transaction and one round trip.
async fn try_once(
    store: &StoreState,
    event_id: &EventId,
    key: &str,
    params: Params<'_>,
) -> Result<DiscardResult, StoreError> {
    let result = store.sessions.operate.with(async |session| {
        let (lock, discard, delete_attempts, read_event, read_action) = (
            session.prepare(&LOCK_OPERATION).await?,
            session.prepare(&DISCARD).await?,
            session.prepare(&DELETE_ATTEMPTS).await?,
            session.prepare(&SELECT_EVENT).await?,
            session.prepare(&RECORDED_ACTION).await?,
        );
        let id = event_id.as_str();
        let results = session.transaction(async {
            let (locked, discarded, attempts_deleted, event, recorded) = join5(
                session.send(&lock, &[&key]),
                session.send(&discard, params),
                session.send(&delete_attempts, &[&id]),
                session.send(&read_event, &[&id]),
                session.send(&read_action, &[&key]),
            )
            .await;
            locked?;
            discarded?;
            attempts_deleted?;
            Ok((event?, recorded?))
        });
        let (event, recorded) = results.await?;
        let event = event.first().map(parse_event).transpose()?;
        Ok(DiscardResult { recorded: parse_recorded_action(&recorded)?, event })
    });
    result.await
}
