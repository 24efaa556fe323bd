//! Enqueueing inside the caller's own transaction: the event exists exactly if the caller commits.

use futures_util::future::join;
use posthaste_domain::{EventId, NewEvent};
use posthaste_store::Receipt;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use super::destination_ids::DestinationIds;
use super::insert::{Insert, MessageIds, pending_receipts};
use super::insert_sql::INSERT;
use crate::schema::{SchemaName, Statements};

/// Why [`enqueue_in`] stored nothing. PostgreSQL has aborted the caller's transaction, as after any failed statement:
/// roll it back.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// An event id is taken, or occurs twice among the events.
    #[error("an event_id is taken, or given twice; leave it out to have one made, or choose another")]
    EventIdTaken(#[source] tokio_postgres::Error),
    /// The database has no Posthaste schema, or an old one.
    #[error(
        "the schema of Posthaste is missing or old in this database: run `posthaste migrate`, or name another \
         schema with `enqueue_in_schema`"
    )]
    NoSchema(#[source] tokio_postgres::Error),
    /// The statement failed for another reason.
    #[error("the events could not be stored")]
    Database(#[from] tokio_postgres::Error),
}

/// Stores events with one round trip in `transaction`, which may run any other statements too. Workers deliver the
/// events once the transaction has committed; if it rolls back, the events do not exist. A URL that is new to the outbox
/// is locked until then, so other transactions with the same new URL wait.
pub async fn enqueue_in(
    transaction: &Transaction<'_>,
    events: &[NewEvent],
) -> Result<Vec<Receipt>, CallerError> {
    enqueue_in_schema(&SchemaName::default(), transaction, events).await
}

/// Like [`enqueue_in`], for a Posthaste whose objects are in another schema than `app`.
pub async fn enqueue_in_schema(
    schema: &SchemaName,
    transaction: &Transaction<'_>,
    events: &[NewEvent],
) -> Result<Vec<Receipt>, CallerError> {
    enqueue_with(&Statements::new(schema.clone()), transaction, events).await
}

/// Like [`enqueue_in`], with these statements.
pub(crate) async fn enqueue_with(
    statements: &Statements,
    transaction: &Transaction<'_>,
    events: &[NewEvent],
) -> Result<Vec<Receipt>, CallerError> {
    let events: Vec<&NewEvent> = events.iter().collect();
    // Nothing is cached: the transaction may roll back, and its new destinations with it.
    let uncached = DestinationIds::default();
    let insert = Insert::new(&events, &uncached, &mut MessageIds::from_system());
    let rows =
        insert_unless_discarded(statements, transaction, &events, &insert).await.map_err(
            |error| match error.code() {
                Some(code) if *code == SqlState::UNIQUE_VIOLATION => CallerError::EventIdTaken(error),
                Some(code)
                    if [
                        SqlState::UNDEFINED_TABLE,
                        SqlState::INVALID_SCHEMA_NAME,
                        SqlState::UNDEFINED_FUNCTION,
                    ]
                    .contains(code) =>
                {
                    CallerError::NoSchema(error)
                }
                _ => CallerError::Database(error),
            },
        )?;
    let created_at = insert.read_result(&rows, &uncached)?;
    Ok(pending_receipts(insert.event_ids(), created_at))
}

/// Refuses ids of discarded events, then inserts. Both statements are sent at once; if the first fails, PostgreSQL
/// skips the second.
async fn insert_unless_discarded(
    statements: &Statements,
    transaction: &Transaction<'_>,
    events: &[&NewEvent],
    insert: &Insert<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let (params, text) = (insert.params(), statements.text(INSERT.text));
    let typed: Vec<_> = params.iter().copied().zip(INSERT.types.iter().cloned()).collect();
    let chosen: Vec<&str> = events.iter().filter_map(|event| event.event_id()).map(EventId::as_str).collect();
    if chosen.is_empty() {
        return transaction.query_typed(&text, &typed).await;
    }
    let refuse = statements.text("SELECT app.webhook_refuse_discarded_ids($1)");
    let chosen = [(&chosen as &(dyn ToSql + Sync), Type::TEXT_ARRAY)];
    let (unused, inserted) =
        join(transaction.query_typed(&refuse, &chosen), transaction.query_typed(&text, &typed)).await;
    unused.and(inserted)
}
