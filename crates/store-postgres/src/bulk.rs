//! Bulk operations on failed events: starting, reading and stopping them.

mod apply;
mod filter;
mod step;

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationId, BulkId, DestinationId, DestinationUrl, EndpointId, FailureKind, Throttle, Timestamp,
    clean_reason,
};
use posthaste_store::{
    Advance, BulkAction, BulkCount, BulkFilter, BulkOperation, BulkOperations, ErrorFilter, List,
    ListRequest, NewBulkOperation, OperationState, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::convert::PgTimestamp;
use crate::registry::{Call, PageQuery, change, list_by_number, read};
use crate::session::{Params, Session, Sql};

/// The columns of a bulk operation `o` that [`parse`] reads.
macro_rules! bulk_columns {
    () => {
        "o.id, o.action, o.state, o.filter_url, o.filter_endpoint, o.filter_app, o.filter_event_type, o.filter_failure_kind, \
         o.filter_error, o.filter_since, o.filter_until, o.rate_per_second, o.matched_count, o.is_matched_exact, \
         o.examined_count, o.done_count, o.reason, o.actor, o.stopped_by, o.created_at, o.updated_at"
    };
}

use bulk_columns;
pub(crate) use filter::{Conditions, Scope, conditions};

/// Adds an operation that selects events that have failed until now, unless one has the key $14. Uses index
/// webhook_bulk_operations_request.
static INSERT: Sql = Sql {
    text: "
INSERT INTO app.webhook_bulk_operations AS o (
    action, state, filter_url, filter_endpoint, filter_app, filter_event_type, filter_failure_kind, filter_error, filter_since,
    filter_until, rate_per_second, matched_count, is_matched_exact, reason, actor, request_key, created_at, updated_at
)
VALUES (
    $1, 'running', $2, $3, $4, $5, $6, $7, timestamptz 'epoch' + $8 * interval '1 microsecond',
    least(timestamptz 'epoch' + $9 * interval '1 microsecond', app.webhook_now()), $10, $11, $12, $13, $15, $14,
    app.webhook_now(), app.webhook_now()
)
ON CONFLICT (request_key) DO NOTHING
RETURNING o.id",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT4,
        Type::INT8,
        Type::BOOL,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
    ],
};

/// Finds the operation that a request has started. Uses index webhook_bulk_operations_request.
static BY_REQUEST: Sql = Sql {
    text: "SELECT o.id FROM app.webhook_bulk_operations o WHERE o.request_key = $1",
    types: &[Type::TEXT],
};

/// Reads an operation. Uses index webhook_bulk_operations_id.
static SELECT: Sql = Sql {
    text: concat!("SELECT ", bulk_columns!(), " FROM app.webhook_bulk_operations o WHERE o.id = $1"),
    types: &[Type::INT8],
};

/// Stops an operation if it is running.
static STOP: Sql = Sql {
    text: "
UPDATE app.webhook_bulk_operations o SET state = 'stopped', stopped_by = $2, updated_at = app.webhook_now()
WHERE o.id = $1 AND o.state = 'running'",
    types: &[Type::INT8, Type::TEXT],
};

/// Deletes up to $2 operations that ended more than $1 microseconds ago. Uses index webhook_bulk_operations_updated_at.
pub(crate) static DELETE_OLD: Sql = Sql {
    text: "
DELETE FROM app.webhook_bulk_operations o
WHERE o.id = ANY (ARRAY(
    SELECT x.id
    FROM app.webhook_bulk_operations x
    WHERE x.state <> 'running' AND x.updated_at <= app.webhook_now() - $1 * interval '1 microsecond'
    ORDER BY x.updated_at
    LIMIT $2
))
RETURNING 1",
    types: &[Type::INT8, Type::INT8],
};

// Lists the operations. Uses index webhook_bulk_operations_id, backwards.
list_by_number!(
    LIST,
    concat!(
        "SELECT ",
        bulk_columns!(),
        " FROM app.webhook_bulk_operations o WHERE ($1::text IS NULL OR o.state = $1)"
    ),
    "o.id",
    descending,
    &[Type::TEXT, Type::INT8, Type::INT8]
);

/// Parses a row of `bulk_columns!`.
fn parse(row: &Row) -> Result<BulkOperation, tokio_postgres::Error> {
    let count = |index| -> Result<u64, tokio_postgres::Error> {
        Ok(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0))
    };
    let name = |index| row.try_get::<_, Option<&str>>(index);
    let time =
        |index| Ok::<_, tokio_postgres::Error>(row.try_get::<_, Option<PgTimestamp>>(index)?.map(|at| at.0));
    let filter = BulkFilter {
        destination: row.try_get::<_, Option<String>>(3)?.map(DestinationUrl::from_stored),
        endpoint: row.try_get::<_, Option<i64>>(4)?.map(|id| EndpointId(DestinationId(id))),
        app: row.try_get::<_, Option<i64>>(5)?.map(ApplicationId),
        event_type: row.try_get(6)?,
        failure_kind: name(7)?.and_then(FailureKind::from_name),
        error: name(8)?.and_then(ErrorFilter::parse),
        since: time(9)?,
        until: time(10)?,
    };
    let rate = row.try_get::<_, i32>(11)?;
    Ok(BulkOperation {
        id: BulkId(row.try_get(0)?),
        action: BulkAction::from_name(row.try_get(1)?).expect("the table holds known actions"),
        state: OperationState::from_name(row.try_get(2)?).unwrap_or(OperationState::Stopped),
        filter,
        rate: Throttle::new(i64::from(rate.max(1))).expect("the rate is at least one and was accepted"),
        matched: BulkCount { count: count(12)?, is_exact: row.try_get(13)? },
        examined_count: count(14)?,
        done_count: count(15)?,
        reason: row.try_get(16)?,
        actor: row.try_get(17)?,
        stopped_by: row.try_get(18)?,
        created_at: row.try_get::<_, PgTimestamp>(19)?.0,
        updated_at: row.try_get::<_, PgTimestamp>(20)?.0,
    })
}

async fn select(session: &Session, id: BulkId) -> Call<BulkOperation> {
    let rows = session.query(&SELECT, &[&id.0]).await?;
    let row = rows.first().ok_or_else(|| StoreError::OperationNotFound { operation: id.to_string() })?;
    Ok(parse(row)?)
}

fn stored_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

async fn start(session: &Session, new: &NewBulkOperation<'_>) -> Call<BulkOperation> {
    let filter = &new.filter;
    let params: Params<'_> = &[
        &new.action.as_str(),
        &filter.destination.as_ref().map(DestinationUrl::as_str),
        &filter.endpoint.map(|endpoint| endpoint.0.0),
        &filter.app.map(|app| app.0),
        &filter.event_type,
        &filter.failure_kind.map(FailureKind::as_str),
        &filter.error.map(|error| error.to_string()),
        &filter.since.map(Timestamp::as_micros),
        &filter.until.map(Timestamp::as_micros),
        &i32::try_from(new.rate.per_second()).unwrap_or(i32::MAX),
        &stored_count(new.matched.count),
        &new.matched.is_exact,
        &clean_reason(new.reason),
        &new.key,
        &new.actor,
    ];
    let mut rows = session.query(&INSERT, params).await?;
    if rows.is_empty() {
        rows = session.query(&BY_REQUEST, &[&new.key]).await?;
    }
    let row = rows.first().expect("the operation was added, or another request with its key has added it");
    select(session, BulkId(row.try_get(0)?)).await
}

#[async_trait]
impl BulkOperations for PostgresStore {
    async fn count(&self, filter: &BulkFilter) -> Result<BulkCount, StoreError> {
        let pool = &self.shared.sessions.operate;
        pool.with(async |session| filter::count(session, filter).await).await
    }

    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        change(&self.shared.sessions.operate, async |session| start(session, new).await).await
    }

    async fn get(&self, id: BulkId) -> Result<BulkOperation, StoreError> {
        read(&self.shared.sessions.operate, async |session| select(session, id).await).await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<BulkId>,
    ) -> Result<List<BulkOperation>, StoreError> {
        let query = PageQuery::new(&LIST, request, BulkId(i64::MAX));
        let state = state.map(OperationState::as_str);
        let listed = self.shared.sessions.operate.with(async |session| {
            let rows = session.query(query.sql, &[&state, &query.bound.0, &query.rows_max]).await?;
            rows.iter().map(parse).collect::<Result<Vec<_>, _>>()
        });
        Ok(query.page(listed.await?))
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        change(&self.shared.sessions.operate, async |session| {
            session.query(&STOP, &[&id.0, &actor]).await?;
            select(session, id).await
        })
        .await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance = step::advance(&self.shared, rows_max).await?;
        if advance.done > 0 {
            self.shared.blocked.release_all();
            self.shared.wake_after_enqueue();
        }
        Ok(advance)
    }
}
