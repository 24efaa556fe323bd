//! Background operations: starting, reading and stopping them.

use async_trait::async_trait;
use posthaste_domain::{ApplicationId, DestinationId, EndpointId, OperationId, Throttle};
use posthaste_store::{
    Advance, AnswerSlot, AppScope, List, ListRequest, NewOperation, Operation, OperationKind, OperationState,
    Operations, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::change_answered;
use super::list::{PageQuery, list_by_number};
use super::{Call, change, find_app, find_enabled, operation_step, read, share_app};
use crate::PostgresStore;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// The columns of an operation `o` that [`parse`] reads.
macro_rules! operation_columns {
    () => {
        "o.id, o.app_id, o.destination_id, o.kind, o.state, o.since, o.until, o.rate_per_second, o.examined_count, o.done_count, \
         o.actor, o.created_at, o.updated_at"
    };
}

pub(super) use operation_columns;

/// Adds an operation. $4 and $5 are durations before now in microseconds.
static INSERT: Sql = Sql {
    text: concat!(
        "
INSERT INTO app.webhook_operations AS o (
    app_id, destination_id, kind, state, since, until, rate_per_second, actor, created_at, updated_at
)
VALUES ($1, $2, $3, 'running', timestamptz 'epoch' + $4 * interval '1 microsecond',
        timestamptz 'epoch' + $5 * interval '1 microsecond', $6, $7, app.webhook_now(), app.webhook_now())
RETURNING ",
        operation_columns!()
    ),
    types: &[Type::INT8, Type::INT8, Type::TEXT, Type::INT8, Type::INT8, Type::INT4, Type::TEXT],
};

/// Reads the clock.
static NOW: Sql = Sql { text: "SELECT app.webhook_now()", types: &[] };

/// Reads an operation. Uses index webhook_operations_id.
static SELECT: Sql = Sql {
    text: concat!("SELECT ", operation_columns!(), " FROM app.webhook_operations o WHERE o.id = $1"),
    types: &[Type::INT8],
};

/// Stops an operation if it is running.
static STOP: Sql = Sql {
    text: "
UPDATE app.webhook_operations o SET state = 'stopped', updated_at = app.webhook_now()
WHERE o.id = $1 AND o.state = 'running'",
    types: &[Type::INT8],
};

/// Deletes up to $2 operations that ended more than $1 microseconds ago. Uses index webhook_operations_updated_at.
pub(crate) static DELETE_OLD: Sql = Sql {
    text: "
DELETE FROM app.webhook_operations o
WHERE o.id = ANY (ARRAY(
    SELECT x.id
    FROM app.webhook_operations x
    WHERE x.state <> 'running' AND x.updated_at <= app.webhook_now() - $1 * interval '1 microsecond'
    ORDER BY x.updated_at
    LIMIT $2
))
RETURNING 1",
    types: &[Type::INT8, Type::INT8],
};

// Lists the operations of all applications. Uses index webhook_operations_id, backwards.
list_by_number!(
    LIST,
    concat!(
        "SELECT ",
        operation_columns!(),
        " FROM app.webhook_operations o WHERE ($1::text IS NULL OR o.state = $1)"
    ),
    "o.id",
    descending,
    &[Type::TEXT, Type::INT8, Type::INT8]
);

/// Parses a row of `operation_columns!`.
pub(super) fn parse(row: &Row) -> Result<Operation, tokio_postgres::Error> {
    let count = |index| -> Result<u64, tokio_postgres::Error> {
        Ok(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0))
    };
    let rate = row.try_get::<_, i32>(7)?;
    Ok(Operation {
        id: OperationId(row.try_get(0)?),
        app: ApplicationId(row.try_get(1)?),
        endpoint: EndpointId(DestinationId(row.try_get(2)?)),
        kind: OperationKind::from_name(row.try_get(3)?).unwrap_or(OperationKind::Recover),
        state: OperationState::from_name(row.try_get(4)?).unwrap_or(OperationState::Stopped),
        since: row.try_get::<_, PgTimestamp>(5)?.0,
        until: row.try_get::<_, PgTimestamp>(6)?.0,
        rate: Throttle::new(i64::from(rate.max(1))).expect("the rate is at least one and was accepted"),
        examined_count: count(8)?,
        done_count: count(9)?,
        actor: row.try_get(10)?,
        created_at: row.try_get::<_, PgTimestamp>(11)?.0,
        updated_at: row.try_get::<_, PgTimestamp>(12)?.0,
    })
}

fn not_found(id: OperationId) -> StoreError {
    StoreError::OperationNotFound { operation: id.to_string() }
}

async fn select(session: &Session, id: OperationId) -> Call<Operation> {
    let rows = session.query(&SELECT, &[&id.0]).await?;
    Ok(parse(rows.first().ok_or_else(|| not_found(id))?)?)
}

async fn start(session: &Session, scope: AppScope<'_>, new: &NewOperation<'_>) -> Call<Operation> {
    let app = share_app(session, scope).await?;
    let endpoint = find_enabled(session, app, new.endpoint).await?;
    let rows = session.query(&NOW, &[]).await?;
    let now = rows.first().expect("the statement returns one row").try_get::<_, PgTimestamp>(0)?.0;
    let (since, until) = new.range.times(now);
    let rate = i32::try_from(new.rate.per_second()).unwrap_or(i32::MAX);
    let rows = session
        .query(
            &INSERT,
            &[
                &app.0,
                &endpoint.0,
                &new.kind.as_str(),
                &since.as_micros(),
                &until.as_micros(),
                &rate,
                &new.actor,
            ],
        )
        .await?;
    Ok(parse(rows.first().expect("the statement returns one row"))?)
}

#[async_trait]
impl Operations for PostgresStore {
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        let pool = &self.shared.sessions.operate;
        change_answered(pool, answer, async |session| start(session, scope, new).await).await
    }

    async fn get(&self, scope: AppScope<'_>, id: OperationId) -> Result<Operation, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let operation = select(session, id).await?;
            if operation.app == app { Ok(operation) } else { Err(not_found(id).into()) }
        })
        .await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<OperationId>,
    ) -> Result<List<Operation>, StoreError> {
        let query = PageQuery::new(&LIST, request, OperationId(i64::MAX));
        let state = state.map(OperationState::as_str);
        let listed = self.shared.sessions.operate.with(async |session| {
            let rows = session.query(query.sql, &[&state, &query.bound.0, &query.rows_max]).await?;
            rows.iter().map(parse).collect::<Result<Vec<_>, _>>()
        });
        Ok(query.page(listed.await?))
    }

    async fn stop(&self, id: OperationId) -> Result<Operation, StoreError> {
        change(&self.shared.sessions.operate, async |session| {
            session.query(&STOP, &[&id.0]).await?;
            select(session, id).await
        })
        .await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance = operation_step::advance(&self.shared, rows_max).await?;
        if advance.done > 0 {
            self.shared.blocked.release_all();
            self.shared.wake_after_enqueue();
        }
        Ok(advance)
    }
}
