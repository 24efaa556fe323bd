//! Steps of bulk operations: each examines some failed events and stays within the rate of its operation.

use std::time::Duration;

use posthaste_domain::{BulkId, Timestamp};
use posthaste_store::{Advance, BulkFilter, ExaminedDeadLetter, RunningBulk, StoreError};
use tokio_postgres::types::Type;

use super::filter::{Conditions, Scope, TYPES, conditions};
use super::{apply, bulk_columns, parse, stored_count};
use crate::StoreState;
use crate::convert::PgTimestamp;
use crate::registry::{Call, change};
use crate::session::{Session, Sql};

/// When a worker asks again for an operation that another worker is advancing.
const RETRY_IN: Duration = Duration::from_secs(1);

/// Reads the running operations. Uses index webhook_bulk_operations_running.
static RUNNING: Sql = Sql {
    text: "SELECT o.id FROM app.webhook_bulk_operations o WHERE o.state = 'running' ORDER BY o.id",
    types: &[],
};

/// Locks a running operation, unless another worker is advancing it. Returns also its cursor, how far its rate is spent, and the
/// clock.
static LOCK: Sql = Sql {
    text: concat!(
        "SELECT ",
        bulk_columns!(),
        ", o.cursor_key, o.spent_until, app.webhook_now()
         FROM app.webhook_bulk_operations o WHERE o.id = $1 AND o.state = 'running' FOR UPDATE SKIP LOCKED"
    ),
    types: &[Type::INT8],
};

/// Records a step of an operation.
static RECORD: Sql = Sql {
    text: "
UPDATE app.webhook_bulk_operations o
SET state = $2, cursor_key = $3, examined_count = $4, done_count = $5,
    spent_until = timestamptz 'epoch' + $6 * interval '1 microsecond', updated_at = app.webhook_now()
WHERE o.id = $1",
    types: &[Type::INT8, Type::TEXT, Type::INT8, Type::INT8, Type::INT8, Type::INT8],
};

/// Reads up to $9 failures after the key $8, each with whether the filter selects it. Uses index webhook_failures_id.
static EXAMINE: Sql = Sql {
    text: concat!(
        "SELECT f.id, ",
        conditions!(),
        " FROM (
             SELECT f.* FROM app.webhook_failures f WHERE $7::bigint IS NULL AND f.id > $8 ORDER BY f.id LIMIT $9
         ) f
         ORDER BY f.id"
    ),
    types: TYPES,
};

/// The same of the destination $7. Uses index webhook_failures_destination.
static EXAMINE_OF_DESTINATION: Sql = Sql {
    text: concat!(
        "SELECT f.id, ",
        conditions!(),
        " FROM (
             SELECT f.* FROM app.webhook_failures f WHERE f.destination_id = $7 AND f.id > $8 ORDER BY f.id LIMIT $9
         ) f
         ORDER BY f.id"
    ),
    types: TYPES,
};

/// Runs one step of each running operation.
pub(super) async fn advance(store: &StoreState, rows_max: usize) -> Result<Advance, StoreError> {
    let pool = &store.sessions.operate;
    let running = pool.with(async |session| {
        let rows = session.query(&RUNNING, &[]).await?;
        rows.iter().map(|row| Ok(BulkId(row.try_get(0)?))).collect::<Result<Vec<_>, _>>()
    });
    let mut advance = Advance::default();
    for id in running.await? {
        advance.add(change(pool, async |session| step(session, id, rows_max).await).await?);
    }
    Ok(advance)
}

async fn step(session: &Session, id: BulkId, rows_max: usize) -> Call<Advance> {
    let rows = session.query(&LOCK, &[&id.0]).await?;
    let Some(row) = rows.first() else {
        return Ok(Advance { done: 0, next_in: Some(RETRY_IN) });
    };
    let mut running = RunningBulk {
        operation: parse(row)?,
        cursor: row.try_get(21)?,
        spent_until: row.try_get::<_, Option<PgTimestamp>>(22)?.map(|PgTimestamp(at)| at),
    };
    let now = row.try_get::<_, PgTimestamp>(23)?.0;
    let read = examine(session, &running.operation.filter, running.cursor, rows_max).await?;
    let keys = running.plan_step(&read, rows_max, now);
    let done = if keys.is_empty() { 0 } else { apply::apply(session, &running.operation, &keys).await? };
    let advance = running.finish_step(done, now);
    record(session, &running).await?;
    Ok(advance)
}

async fn record(session: &Session, running: &RunningBulk) -> Call<()> {
    let operation = &running.operation;
    session
        .query(
            &RECORD,
            &[
                &operation.id.0,
                &operation.state.as_str(),
                &running.cursor,
                &stored_count(operation.examined_count),
                &stored_count(operation.done_count),
                &running.spent_until.map(Timestamp::as_micros),
            ],
        )
        .await?;
    Ok(())
}

async fn examine(
    session: &Session,
    filter: &BulkFilter,
    after: i64,
    rows_max: usize,
) -> Call<Vec<ExaminedDeadLetter>> {
    let (sql, destination) = match Scope::of(session, filter.destination.as_ref(), filter.endpoint).await? {
        Scope::All => (&EXAMINE, None),
        Scope::Destination(id) => (&EXAMINE_OF_DESTINATION, Some(id)),
        Scope::None => return Ok(Vec::new()),
    };
    let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let conditions = Conditions::of(filter);
    let mut examined = Vec::new();
    for row in session.query(sql, &conditions.followed_by(&[&destination, &after, &limit])).await? {
        // NULL, which a failure without an error gives, selects nothing.
        let is_selected = row.try_get::<_, Option<bool>>(1)?.unwrap_or(false);
        examined.push(ExaminedDeadLetter { key: row.try_get(0)?, is_selected });
    }
    Ok(examined)
}
