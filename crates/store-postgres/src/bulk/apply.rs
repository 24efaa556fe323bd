//! What a bulk operation does with the failed events of a step.

use posthaste_domain::TerminalState;
use posthaste_store::{BulkAction, BulkOperation};
use tokio_postgres::types::Type;

use crate::registry::{Call, reopen};
use crate::session::{Session, Sql};

/// Changes the kind of failed events to `cancelled`. Those that another transaction has requeued or discarded are left alone.
/// Uses index webhook_failures_id.
static CANCEL: Sql = Sql {
    text: "
WITH failed AS MATERIALIZED (
    SELECT f.id, f.failure_kind FROM app.webhook_failures f WHERE f.id = ANY ($1) ORDER BY f.id FOR UPDATE
),
changed AS (
    UPDATE app.webhook_failures f
    SET failure_kind = $4, last_error = $5, updated_at = app.webhook_now()
    FROM failed x
    WHERE f.id = x.id
    RETURNING f.id, x.failure_kind AS kind_before
),
recount AS (
    INSERT INTO app.webhook_counts (cancelled) SELECT count(*) FROM changed WHERE kind_before <> $4 HAVING count(*) > 0
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason)
    SELECT id, $2, $3, app.webhook_now(), $6 FROM changed
)
SELECT id FROM changed",
    types: &[Type::INT8_ARRAY, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Deletes failed events, as a discard of one event does. Uses indexes webhook_failures_id and webhook_events_id.
static DISCARD: Sql = Sql {
    text: "
WITH failed AS MATERIALIZED (
    SELECT f.id FROM app.webhook_failures f WHERE f.id = ANY ($1) ORDER BY f.id FOR UPDATE
),
discarded AS (
    DELETE FROM app.webhook_failures f USING failed x WHERE f.id = x.id RETURNING f.id, f.failure_kind
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
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason)
    SELECT id, $2, $3, app.webhook_now(), $4 FROM discarded
)
SELECT id FROM discarded",
    types: &[Type::INT8_ARRAY, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Deletes the attempts of discarded events. It runs after [`DISCARD`], whose locks may have waited for a worker that was
/// recording a late result: a new snapshot shows that result. Uses index webhook_attempts_event in every partition.
static DELETE_ATTEMPTS: Sql = Sql {
    text: "DELETE FROM app.webhook_attempts a WHERE a.event_key = ANY ($1)",
    types: &[Type::INT8_ARRAY],
};

/// Acts on the events with these keys. Returns how many had failed.
pub(super) async fn apply(session: &Session, operation: &BulkOperation, keys: &[i64]) -> Call<usize> {
    let (action, actor) = (operation.action.of_event(), operation.actor.as_str());
    match operation.action {
        BulkAction::Requeue => reopen(session, keys, action, actor).await,
        BulkAction::Cancel => {
            let state = TerminalState::cancelled(operation.reason.as_deref());
            let kind = state.failure_kind().as_str();
            let (error, reason) = (state.last_error(), state.reason());
            let rows =
                session.query(&CANCEL, &[&keys, &action.as_str(), &actor, &kind, &error, &reason]).await?;
            Ok(rows.len())
        }
        BulkAction::Discard => {
            let rows = session.query(&DISCARD, &[&keys, &action.as_str(), &actor, &operation.reason]).await?;
            let discarded: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            session.query(&DELETE_ATTEMPTS, &[&discarded]).await?;
            Ok(discarded.len())
        }
    }
}
