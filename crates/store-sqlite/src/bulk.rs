//! Bulk operations on failed events: their rows, and access to them.

mod step;

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationId, BulkId, DestinationId, DestinationUrl, EndpointId, FailureKind, Throttle, Timestamp,
    clean_reason,
};
use posthaste_store::{
    Advance, BULK_COUNT_MAX, BulkAction, BulkCount, BulkFilter, BulkOperation, BulkOperations, ErrorFilter,
    List, ListRequest, NewBulkOperation, OperationState, StoreError,
};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};

use crate::SqliteStore;
use crate::command::CommandKind;
use crate::error::CallError;
use crate::registry::KeyRange;
use crate::row;
use crate::search::Scope;

/// The columns that [`from_row`] reads, in its order.
const COLUMNS: &str = "id, action, state, filter_url, filter_endpoint, filter_app, filter_event_type, filter_failure_kind,
    filter_error, filter_since, filter_until, rate_per_second, matched_count, is_matched_exact, examined_count,
    done_count, reason, actor, stopped_by, created_at, updated_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<BulkOperation> {
    let rate: i64 = row.get(11)?;
    let filter = BulkFilter {
        destination: row.get::<_, Option<String>>(3)?.map(DestinationUrl::from_stored),
        endpoint: row.get::<_, Option<i64>>(4)?.map(|id| EndpointId(DestinationId(id))),
        app: row.get::<_, Option<i64>>(5)?.map(ApplicationId),
        event_type: row.get(6)?,
        failure_kind: row::decode_optional(row, 7, FailureKind::from_name)?,
        error: row::decode_optional(row, 8, ErrorFilter::parse)?,
        since: row::optional_timestamp(row, 9)?,
        until: row::optional_timestamp(row, 10)?,
    };
    Ok(BulkOperation {
        id: BulkId(row.get(0)?),
        action: row::decode(row, 1, BulkAction::from_name)?,
        state: row::decode(row, 2, OperationState::from_name)?,
        filter,
        rate: Throttle::new(rate).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(11, rate))?,
        matched: BulkCount { count: row::unsigned(row, 12)?, is_exact: row.get(13)? },
        examined_count: row::unsigned(row, 14)?,
        done_count: row::unsigned(row, 15)?,
        reason: row.get(16)?,
        actor: row.get(17)?,
        stopped_by: row.get(18)?,
        created_at: row::timestamp(row, 19)?,
        updated_at: row::timestamp(row, 20)?,
    })
}

/// The conditions of a filter on a failure `f` and its event `e`, with the parameters `?1` to `?6` of [`Conditions`].
const CONDITIONS: &str = "(?1 IS NULL OR e.app_id = ?1)
    AND (?2 IS NULL OR e.event_type = ?2)
    AND CASE WHEN ?3 IS NULL THEN f.failure_kind <> 'cancelled' ELSE f.failure_kind = ?3 END
    AND (?4 IS NULL OR substr(f.last_error, 1, instr(f.last_error || ':', ':') - 1) LIKE ?4)
    AND (?5 IS NULL OR f.updated_at >= ?5)
    AND (?6 IS NULL OR f.updated_at <= ?6)";

/// The parameters of [`CONDITIONS`].
struct Conditions<'a> {
    app: Option<i64>,
    event_type: Option<&'a str>,
    failure_kind: Option<&'static str>,
    error_pattern: Option<String>,
    since: Option<i64>,
    until: Option<i64>,
}

impl<'a> Conditions<'a> {
    fn of(filter: &'a BulkFilter) -> Self {
        Self {
            app: filter.app.map(|app| app.0),
            event_type: filter.event_type.as_deref(),
            failure_kind: filter.failure_kind.map(FailureKind::as_str),
            error_pattern: filter.error.map(ErrorFilter::pattern),
            since: filter.since.map(Timestamp::as_micros),
            until: filter.until.map(Timestamp::as_micros),
        }
    }

    fn list(&self) -> [&dyn ToSql; 6] {
        [&self.app, &self.event_type, &self.failure_kind, &self.error_pattern, &self.since, &self.until]
    }
}

/// Builds the statement that counts failures, up to `?8`, of the destination `?7` if it is set. Indexes:
/// webhook_failures_destination, or the primary key; the events by primary key.
pub(crate) fn count_sql(by_destination: bool) -> String {
    let (index, destination) = match by_destination {
        true => ("INDEXED BY webhook_failures_destination", "f.destination_id = ?7"),
        false => ("NOT INDEXED", "?7 IS NULL"),
    };
    format!(
        "SELECT count(*) FROM (
             SELECT 1 FROM webhook_failures f {index} CROSS JOIN webhook_events e
             WHERE {destination} AND e.id = f.id AND {CONDITIONS} LIMIT ?8
         )"
    )
}

fn count(db: &Connection, filter: &BulkFilter) -> Result<BulkCount, CallError> {
    let destination = match Scope::of(db, filter.destination.as_ref(), filter.endpoint)? {
        Scope::All => None,
        Scope::Destination(id) => Some(id),
        Scope::None => return Ok(BulkCount::of(0)),
    };
    let conditions = Conditions::of(filter);
    let limit = stored_count(BULK_COUNT_MAX + 1);
    let own: [&dyn ToSql; 2] = [&destination, &limit];
    let counted = db
        .prepare_cached(&count_sql(destination.is_some()))?
        .query_row(&*[&conditions.list()[..], &own].concat(), |row| row::unsigned(row, 0))?;
    Ok(BulkCount::of(counted))
}

fn stored_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn find(db: &Connection, id: BulkId) -> Result<BulkOperation, CallError> {
    let found = db
        .prepare_cached(&format!("SELECT {COLUMNS} FROM webhook_bulk_operations WHERE id = ?1"))?
        .query_row([id.0], from_row)
        .optional()?;
    Ok(found.ok_or_else(|| StoreError::OperationNotFound { operation: id.to_string() })?)
}

/// The owned form of a [`NewBulkOperation`], for the writer thread.
struct OwnedNewBulk {
    action: BulkAction,
    filter: BulkFilter,
    rate: Throttle,
    matched: BulkCount,
    reason: Option<String>,
    actor: String,
    key: Option<String>,
}

impl From<&NewBulkOperation<'_>> for OwnedNewBulk {
    fn from(new: &NewBulkOperation<'_>) -> Self {
        Self {
            action: new.action,
            filter: new.filter.clone(),
            rate: new.rate,
            matched: new.matched,
            reason: clean_reason(new.reason),
            actor: new.actor.to_owned(),
            key: new.key.map(str::to_owned),
        }
    }
}

fn start(db: &Connection, now: Timestamp, new: &OwnedNewBulk) -> Result<BulkOperation, CallError> {
    // Index: webhook_bulk_operations_request.
    let started: Option<i64> = db
        .prepare_cached("SELECT id FROM webhook_bulk_operations WHERE request_key = ?1")?
        .query_row([&new.key], |row| row.get(0))
        .optional()?;
    if let Some(id) = started {
        return find(db, BulkId(id));
    }
    let filter = &new.filter;
    let until = filter.until.map_or(now, |until| until.min(now));
    let id = db
        .prepare_cached(
            "INSERT INTO webhook_bulk_operations
                 (action, state, filter_url, filter_endpoint, filter_app, filter_event_type, filter_failure_kind,
                  filter_error, filter_since, filter_until, rate_per_second, cursor, matched_count, is_matched_exact,
                  examined_count, done_count, reason, actor, request_key, created_at, updated_at)
             VALUES (?1, 'running', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, ?12, 0, 0, ?13, ?14, ?15, ?16, ?16)",
        )?
        .insert(rusqlite::params![
            new.action.as_str(),
            filter.destination.as_ref().map(DestinationUrl::as_str),
            filter.endpoint.map(|endpoint| endpoint.0.0),
            filter.app.map(|app| app.0),
            filter.event_type,
            filter.failure_kind.map(FailureKind::as_str),
            filter.error.map(|error| error.to_string()),
            filter.since.map(Timestamp::as_micros),
            until.as_micros(),
            new.rate.per_second(),
            stored_count(new.matched.count),
            new.matched.is_exact,
            new.reason,
            new.actor,
            new.key,
            now.as_micros(),
        ])?;
    find(db, BulkId(id))
}

fn stop(db: &Connection, now: Timestamp, id: BulkId, actor: &str) -> Result<BulkOperation, CallError> {
    db.prepare_cached(
        "UPDATE webhook_bulk_operations SET state = 'stopped', stopped_by = ?2, updated_at = ?3
         WHERE id = ?1 AND state = 'running'",
    )?
    .execute((id.0, actor, now.as_micros()))?;
    find(db, id)
}

fn list(
    db: &Connection,
    state: Option<OperationState>,
    request: &ListRequest<BulkId>,
) -> Result<List<BulkOperation>, CallError> {
    let range = KeyRange::descending(request, BulkId(i64::MIN), BulkId(i64::MAX));
    let order = range.order();
    let mut listed = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM webhook_bulk_operations
         WHERE id > ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) ORDER BY id {order}"
    ))?;
    let bounds = (range.low.0, range.high.0, state.map(OperationState::as_str));
    Ok(range.page(listed.query_map(bounds, from_row)?)?)
}

/// Removes operations that ended before the horizon. Operators start few of them, so the table is small.
pub(crate) fn remove_old(db: &Connection, horizon: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_bulk_operations WHERE state <> 'running' AND updated_at <= ?1")?
        .execute([horizon.as_micros()])?;
    Ok(())
}

#[async_trait]
impl BulkOperations for SqliteStore {
    async fn count(&self, filter: &BulkFilter) -> Result<BulkCount, StoreError> {
        let filter = filter.clone();
        self.read(move |db| count(db, &filter)).await
    }

    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        let new = OwnedNewBulk::from(new);
        self.write(CommandKind::Other, move |context| start(context.db, context.now, &new)).await
    }

    async fn get(&self, id: BulkId) -> Result<BulkOperation, StoreError> {
        self.read(move |db| find(db, id)).await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<BulkId>,
    ) -> Result<List<BulkOperation>, StoreError> {
        let request = *request;
        self.read(move |db| list(db, state, &request)).await
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        let actor = actor.to_owned();
        self.write(CommandKind::Other, move |context| stop(context.db, context.now, id, &actor)).await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        self.write(CommandKind::Other, move |context| {
            let advance = step::advance(context.db, context.now, rows_max)?;
            *context.has_due_events |= advance.done > 0;
            Ok(advance)
        })
        .await
    }
}
