//! Background operations: their rows, and access to them.

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationId, DestinationId, EndpointId, EndpointRef, OperationId, Throttle, Timestamp,
};
use posthaste_store::{
    Advance, AnswerSlot, AppScope, List, ListRequest, NewOperation, Operation, OperationKind, OperationState,
    Operations, PastRange, StoreError,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::answer::change;
use super::list::KeyRange;
use super::{OwnedScope, endpoint, operation_step};
use crate::SqliteStore;
use crate::command::CommandKind;
use crate::error::CallError;
use crate::row;

/// The columns that [`from_row`] reads, in its order.
pub(super) const COLUMNS: &str =
    "id, app_id, destination_id, kind, state, since, until, rate_per_second, examined_count,
    done_count, actor, created_at, updated_at";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Operation> {
    let rate: i64 = row.get(7)?;
    Ok(Operation {
        id: OperationId(row.get(0)?),
        app: ApplicationId(row.get(1)?),
        endpoint: EndpointId(DestinationId(row.get(2)?)),
        kind: row::decode(row, 3, OperationKind::from_name)?,
        state: row::decode(row, 4, OperationState::from_name)?,
        since: row::timestamp(row, 5)?,
        until: row::timestamp(row, 6)?,
        rate: Throttle::new(rate).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(7, rate))?,
        examined_count: row::unsigned(row, 8)?,
        done_count: row::unsigned(row, 9)?,
        actor: row.get(10)?,
        created_at: row::timestamp(row, 11)?,
        updated_at: row::timestamp(row, 12)?,
    })
}

fn find(db: &Connection, id: OperationId) -> Result<Operation, CallError> {
    let found = db
        .prepare_cached(&format!("SELECT {COLUMNS} FROM webhook_operations WHERE id = ?1"))?
        .query_row([id.0], from_row)
        .optional()?;
    Ok(found.ok_or_else(|| StoreError::OperationNotFound { operation: id.to_string() })?)
}

/// The owned form of a [`NewOperation`], for the writer thread.
struct OwnedNewOperation {
    kind: OperationKind,
    endpoint: EndpointRef,
    range: PastRange,
    rate: Throttle,
    actor: String,
}

impl From<&NewOperation<'_>> for OwnedNewOperation {
    fn from(new: &NewOperation<'_>) -> Self {
        let (endpoint, actor) = (new.endpoint.clone(), new.actor.to_owned());
        Self { kind: new.kind, endpoint, range: new.range, rate: new.rate, actor }
    }
}

fn start(
    db: &Connection,
    now: Timestamp,
    app: ApplicationId,
    new: &OwnedNewOperation,
) -> Result<Operation, CallError> {
    let endpoint = endpoint::find_enabled(db, app, &new.endpoint)?;
    let (since, until) = new.range.times(now);
    let id = db
        .prepare_cached(
            "INSERT INTO webhook_operations
                 (app_id, destination_id, kind, state, since, until, rate_per_second, cursor, examined_count,
                  done_count, actor, created_at, updated_at)
             VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, 0, 0, 0, ?7, ?8, ?8)",
        )?
        .insert((
            app.0,
            endpoint.0,
            new.kind.as_str(),
            since.as_micros(),
            until.as_micros(),
            new.rate.per_second(),
            &new.actor,
            now.as_micros(),
        ))?;
    find(db, OperationId(id))
}

fn stop(db: &Connection, now: Timestamp, id: OperationId) -> Result<Operation, CallError> {
    db.prepare_cached(
        "UPDATE webhook_operations SET state = 'stopped', updated_at = ?2 WHERE id = ?1 AND state = 'running'",
    )?
    .execute((id.0, now.as_micros()))?;
    find(db, id)
}

/// Builds the statement that reads a page of operations by primary key, those in other states skipped.
pub(super) fn list_sql(order: &str) -> String {
    format!(
        "SELECT {COLUMNS} FROM webhook_operations
         WHERE id > ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) ORDER BY id {order}"
    )
}

fn list(
    db: &Connection,
    state: Option<OperationState>,
    request: &ListRequest<OperationId>,
) -> Result<List<Operation>, CallError> {
    let range = KeyRange::descending(request, OperationId(i64::MIN), OperationId(i64::MAX));
    let mut listed = db.prepare_cached(&list_sql(range.order()))?;
    let bounds = (range.low.0, range.high.0, state.map(OperationState::as_str));
    Ok(range.page(listed.query_map(bounds, from_row)?)?)
}

/// Removes operations that ended before the horizon. Operators start few of them, so the table is small.
pub(crate) fn remove_old(db: &Connection, horizon: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_operations WHERE state <> 'running' AND updated_at <= ?1")?
        .execute([horizon.as_micros()])?;
    Ok(())
}

#[async_trait]
impl Operations for SqliteStore {
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        let (scope, new, answer) = (OwnedScope::from(scope), OwnedNewOperation::from(new), answer.cloned());
        self.write(CommandKind::Other, move |context| {
            let (db, now) = (context.db, context.now);
            change(db, now, answer.as_ref(), || start(db, now, scope.find_app(db)?, &new))
        })
        .await
    }

    async fn get(&self, scope: AppScope<'_>, id: OperationId) -> Result<Operation, StoreError> {
        let scope = OwnedScope::from(scope);
        self.read(move |db| {
            let app = scope.find_app(db)?;
            let not_found = || StoreError::OperationNotFound { operation: id.to_string() };
            Ok(Some(find(db, id)?).filter(|operation| operation.app == app).ok_or_else(not_found)?)
        })
        .await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<OperationId>,
    ) -> Result<List<Operation>, StoreError> {
        let request = *request;
        self.read(move |db| list(db, state, &request)).await
    }

    async fn stop(&self, id: OperationId) -> Result<Operation, StoreError> {
        self.write(CommandKind::Other, move |context| stop(context.db, context.now, id)).await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        self.write(CommandKind::Other, move |context| {
            let advance = operation_step::advance(context.db, context.now, rows_max)?;
            *context.has_due_events |= advance.done > 0;
            Ok(advance)
        })
        .await
    }
}
