//! Cancelling the pending events of deleted endpoints and of messages whose payload is removed.

use posthaste_domain::{DestinationId, TerminalState};
use posthaste_store::{ManualAction, SYSTEM_ACTOR};
use tokio_postgres::types::Type;

use crate::fail::{insert_failures, insert_notices};
use crate::session::{BEGIN, Params, Session, Sql};

/// Why pending events of a deleted endpoint are cancelled, in the audit log.
const DELETED: &str = "the endpoint was deleted";
/// Why pending events of a message without a payload are cancelled, in the audit log.
const EXPUNGED: &str = "the payload was removed";

/// Builds a statement that cancels the pending events whose keys `$keys` selects, in key order. $1 is the action, $2 the actor, $3
/// the failure kind, $4 the last error and $5 the reason. Returns the destination of each event.
macro_rules! cancel {
    ($keys:literal, $types:expr) => {
        Sql {
            text: concat!(
                "
WITH found AS MATERIALIZED (
    SELECT q.id FROM app.webhook_queue q WHERE q.id = ANY (ARRAY(",
                $keys,
                ")) ORDER BY q.id FOR UPDATE
),
ended AS (
    DELETE FROM app.webhook_queue q
    USING found f
    WHERE q.id = f.id
    RETURNING q.id, q.destination_id, q.last_attempted_at, q.attempts, q.attempts > 0 AS was_retrying, q.claims,
              q.lost_leases, $3 AS failure_kind, $4 AS failure_error
),",
                insert_failures!(),
                ",",
                insert_notices!("SELECT id AS key, failure_kind, attempts, id AS n FROM ended"),
                ",
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason)
    SELECT id, $1, $2, app.webhook_now(), $5 FROM ended
)
SELECT destination_id FROM ended"
            ),
            types: $types,
        }
    };
}

/// Cancels up to $7 events of the destination $6. Uses index webhook_queue_destination_position.
static CANCEL_OF_DESTINATION: Sql = cancel!(
    "SELECT q.id FROM app.webhook_queue q WHERE q.destination_id = $6 ORDER BY q.queue_position LIMIT $7",
    &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8]
);

/// Cancels the events of the message $6. Uses indexes webhook_events_message and webhook_queue_id.
static CANCEL_OF_MESSAGE: Sql = cancel!(
    "SELECT q.id FROM app.webhook_events e JOIN app.webhook_queue q ON q.id = e.id WHERE e.message_key = $6",
    &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8]
);

/// Examines up to $2 deleted endpoints after the id $1, and returns each with whether it has pending events. Uses indexes
/// webhook_endpoints_deleted and webhook_queue_destination_position.
static DELETED_ENDPOINTS: Sql = Sql {
    text: "
SELECT e.destination_id, EXISTS (SELECT FROM app.webhook_queue q WHERE q.destination_id = e.destination_id)
FROM (
    SELECT e.destination_id
    FROM app.webhook_endpoints e
    WHERE e.deleted_at IS NOT NULL AND e.destination_id > $1
    ORDER BY e.destination_id
    LIMIT $2
) e
ORDER BY e.destination_id",
    types: &[Type::INT8, Type::INT8],
};

/// Deleted endpoints examined in one step of maintenance.
const ENDPOINTS_MAX: i64 = 1_000;

async fn run(
    session: &Session,
    sql: &Sql,
    actor: &str,
    reason: &str,
    of: Params<'_>,
) -> Result<usize, tokio_postgres::Error> {
    let state = TerminalState::cancelled(Some(reason));
    let (action, kind) = (ManualAction::Cancel.as_str(), state.failure_kind().as_str());
    let own: Params<'_> = &[&action, &actor, &kind, &state.last_error(), &state.reason()];
    Ok(session.query(sql, &[own, of].concat()).await?.len())
}

/// Cancels up to `rows_max` pending events of a deleted endpoint. Returns how many.
pub(super) async fn cancel_of_endpoint(
    session: &Session,
    id: DestinationId,
    actor: &str,
    rows_max: i64,
) -> Result<usize, tokio_postgres::Error> {
    run(session, &CANCEL_OF_DESTINATION, actor, DELETED, &[&id.0, &rows_max]).await
}

/// Cancels the pending events of a message whose payload is removed.
pub(super) async fn cancel_of_message(
    session: &Session,
    key: i64,
    actor: &str,
) -> Result<usize, tokio_postgres::Error> {
    run(session, &CANCEL_OF_MESSAGE, actor, EXPUNGED, &[&key]).await
}

/// Runs one step of maintenance: cancels up to `rows_max` pending events of deleted endpoints after the cursor, which it advances.
/// Returns how many it cancelled, and whether there may be more.
pub(crate) async fn cancel_of_deleted(
    session: &Session,
    cursor: &mut i64,
    rows_max: i64,
) -> Result<(usize, bool), tokio_postgres::Error> {
    let deleted = session.transact(&DELETED_ENDPOINTS, &[&*cursor, &ENDPOINTS_MAX]).await?;
    let is_at_end = i64::try_from(deleted.len()).is_ok_and(|count| count < ENDPOINTS_MAX);
    let mut cancelled = 0;
    for row in &deleted {
        let (id, has_pending): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        if has_pending {
            let left = rows_max - i64::try_from(cancelled).unwrap_or(rows_max);
            session.begin(&BEGIN).await?;
            cancelled += cancel_of_endpoint(session, DestinationId(id), SYSTEM_ACTOR, left).await?;
            session.client().batch_execute("COMMIT").await?;
            if i64::try_from(cancelled).is_ok_and(|cancelled| cancelled >= rows_max) {
                *cursor = id - 1;
                return Ok((cancelled, true));
            }
        }
        *cursor = id;
    }
    if is_at_end {
        *cursor = i64::MIN;
    }
    Ok((cancelled, !is_at_end))
}
