//! Operator actions under their idempotency keys. A repetition finds the audit row of the first call.

use posthaste_domain::EventId;
use posthaste_store::{ActionRequest, AuditView, ManualAction, RecordedAction, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert::PgTimestamp;
use crate::error::unavailable;
use crate::session::{CALL_TIMEOUT, Sql};

/// Serialises the actions under one key until the transaction ends, so that a repetition sees what the first call has
/// committed.
pub(crate) static LOCK_OPERATION: Sql =
    Sql { text: "SELECT true FROM pg_advisory_xact_lock(7527, hashtext($1))", types: &[Type::TEXT] };

/// Reads the action under a key. Uses indexes webhook_audit_operation, webhook_events_id and webhook_discarded_events_id.
pub(crate) static RECORDED_ACTION: Sql = Sql {
    text: "
SELECT a.action, a.actor, a.at, a.reason, coalesce(e.event_id, d.event_id)
FROM app.webhook_audit a
LEFT JOIN app.webhook_events e ON e.id = a.event_key
LEFT JOIN app.webhook_discarded_events d ON d.id = a.event_key
WHERE a.operation_key = $1",
    types: &[Type::TEXT],
};

/// Parses the rows of [`RECORDED_ACTION`]. None if there is no action, or one that this version does not know.
pub(crate) fn parse_recorded_action(rows: &[Row]) -> Result<Option<RecordedAction>, tokio_postgres::Error> {
    let Some(row) = rows.first() else { return Ok(None) };
    let Some(action) = ManualAction::from_name(row.try_get(0)?) else { return Ok(None) };
    let audit = AuditView {
        action,
        actor: row.try_get(1)?,
        at: row.try_get::<_, PgTimestamp>(2)?.0,
        reason: row.try_get(3)?,
    };
    Ok(Some(RecordedAction { event_id: EventId::from_stored(row.try_get(4)?), audit }))
}

/// Returns the request's key, or a random one, under which this store repeats the action after a lost connection.
#[expect(clippy::disallowed_methods, reason = "a key that no other action has")]
pub(crate) fn operation_key(request: ActionRequest<'_>) -> String {
    request.key.map_or_else(|| format!("store:{:032x}", rand::random::<u128>()), str::to_owned)
}

/// Runs an action. If the connection fails, the action may have been committed: runs it once more, under its key and
/// within the time limit of one call.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for the network; nothing is scheduled by it")]
pub(crate) async fn repeat_if_unavailable<T, F>(run: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let call = async {
        match run().await {
            Err(StoreError::Unavailable { .. }) => run().await,
            result => result,
        }
    };
    tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .unwrap_or_else(|_| Err(unavailable(format!("PostgreSQL did not respond within {CALL_TIMEOUT:?}"))))
}
