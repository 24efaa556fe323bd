//! Operator actions under their idempotency keys. A repetition finds the audit row of the first call.

use futures_util::future::{join_all, join5};
use posthaste_domain::EventId;
use posthaste_store::{ActionRequest, AuditView, EventView, ManualAction, RecordedAction, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::PgTimestamp;
use crate::error::unavailable;
use crate::event::{SELECT_EVENT, parse_event};
use crate::session::{CALL_TIMEOUT, Params, Sql};
use crate::watermark::LOCK_WATERMARK_SHARED;

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

/// An operator's change of one event, under its key.
pub(crate) struct EventChange<'a> {
    pub(crate) event_id: &'a EventId,
    pub(crate) key: &'a str,
    /// The statements with their parameters, in order. The first returns a row if it changes the event.
    pub(crate) sql: &'a [(&'static Sql, Params<'a>)],
}

/// What a transaction found after its statements.
pub(crate) struct ChangeOutcome {
    /// Whether this transaction changed the event.
    pub(crate) changed: bool,
    /// The action under the key, of this or an earlier transaction.
    pub(crate) recorded: Option<RecordedAction>,
    /// The event, if it exists.
    pub(crate) event: Option<EventView>,
}

impl EventChange<'_> {
    /// Makes the change. Repeats it once if the connection fails.
    pub(crate) async fn run(&self, store: &StoreState) -> Result<ChangeOutcome, StoreError> {
        repeat_if_unavailable(|| self.try_once(store)).await
    }

    /// Runs the statements, then reads the event and the action under the key, in one transaction and one round trip.
    async fn try_once(&self, store: &StoreState) -> Result<ChangeOutcome, StoreError> {
        let outcome = store.sessions.operate.with(async |session| {
            let (lock_key, lock_watermark, read_event, read_action) = (
                session.prepare(&LOCK_OPERATION).await?,
                session.prepare(&LOCK_WATERMARK_SHARED).await?,
                session.prepare(&SELECT_EVENT).await?,
                session.prepare(&RECORDED_ACTION).await?,
            );
            let mut changes = Vec::with_capacity(self.sql.len());
            for (sql, params) in self.sql {
                changes.push((session.prepare(sql).await?, *params));
            }
            let id = self.event_id.as_str();
            let results = session.transaction(async {
                let (key_locked, watermark_locked, changed, event, recorded) = join5(
                    session.send(&lock_key, &[&self.key]),
                    session.send(&lock_watermark, &[]),
                    join_all(changes.iter().map(|(statement, params)| session.send(statement, params))),
                    session.send(&read_event, &[&id]),
                    session.send(&read_action, &[&self.key]),
                )
                .await;
                key_locked?;
                watermark_locked?;
                let changed = changed.into_iter().collect::<Result<Vec<_>, _>>()?;
                Ok((changed.first().is_some_and(|rows| !rows.is_empty()), event?, recorded?))
            });
            let (changed, event, recorded) = results.await?;
            let event = event.first().map(parse_event).transpose()?;
            Ok(ChangeOutcome { changed, recorded: parse_recorded_action(&recorded)?, event })
        });
        outcome.await
    }
}
