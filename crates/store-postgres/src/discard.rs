//! Discards: an operator removes a failed event for good. The store keeps its id, its audit log and what its notices
//! contain.

use posthaste_domain::{DeliveryStatus, EventId, clean_reason};
use posthaste_store::{ActionRequest, AuditView, ManualAction, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::error::unavailable;
use crate::operation::{EventChange, operation_key};
use crate::read;
use crate::session::{Params, Sql};

/// Deletes a failed event. Deleting its row of webhook_failures comes first: it waits for another operator's change of the
/// event, and finds nothing after a requeue. Changes nothing if an action has the key $5. Uses indexes
/// webhook_events_event_id and webhook_failures_id.
static DISCARD: Sql = Sql {
    text: "
WITH discarded AS (
    DELETE FROM app.webhook_failures f
    USING app.webhook_events e
    WHERE e.event_id = $1 AND f.id = e.id
          AND NOT EXISTS (SELECT FROM app.webhook_audit a WHERE a.operation_key = $5)
    RETURNING f.id, f.failure_kind
),
events AS (
    DELETE FROM app.webhook_events e
    USING discarded d
    WHERE e.id = d.id
    RETURNING e.id, e.app_id, e.destination_id, e.event_id, e.webhook_id, e.payment_request_id, e.session_id
),
discarded_events AS (
    INSERT INTO app.webhook_discarded_events (
        id, app_id, destination_id, discarded_at, event_id, webhook_id, payment_request_id, session_id
    )
    SELECT id, app_id, destination_id, app.webhook_now(), event_id, webhook_id, payment_request_id, session_id FROM events
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
    let statements: [(&Sql, Params<'_>); 2] = [(&DISCARD, params), (&DELETE_ATTEMPTS, &[&event_id.as_str()])];
    let change = EventChange { event_id, key: &key, sql: &statements };
    for _ in 0..TRIES_MAX {
        let found = change.run(store).await?;
        match (found.recorded, found.event) {
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
