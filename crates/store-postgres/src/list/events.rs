//! Searches of events in any state, the newest first.

use posthaste_domain::{DeliveryStatus, EventId, FailureKind, Timestamp};
use posthaste_store::{ErrorFilter, EventQuery, EventView, Page, PageRequest, StoreError};
use tokio_postgres::types::{ToSql, Type};

use super::key_range::KeyRange;
use super::{end_of_search, entries_to_examine, parse_page, rows_to_read};
use crate::StoreState;
use crate::bulk::Scope;
use crate::session::Sql;

/// Builds a statement that lists events, the newest first. The fragments of `$walk` form a query of up to $5 event keys, from
/// $4 on and below $1, in the order `$order`; at most $2 are listed. $3 is the destination, or NULL.
macro_rules! search_events {
    ($order:expr; $($walk:expr),+) => {
        Sql {
            text: concat!(
                "
WITH examined AS NOT MATERIALIZED (
     ",
                $($walk,)+
                "
),
page AS MATERIALIZED (
    SELECT x.id
    FROM examined x
    JOIN app.webhook_events e ON e.id = x.id
    LEFT JOIN app.webhook_queue q ON q.id = x.id
    LEFT JOIN app.webhook_failures f ON f.id = x.id
    WHERE ($3::bigint IS NULL OR e.destination_id = $3)
          AND ($6::text IS NULL
               OR $6 = CASE WHEN q.id IS NOT NULL THEN 'pending' WHEN f.id IS NOT NULL THEN 'failed' ELSE 'delivered' END)
          AND ($7::bigint IS NULL OR e.app_id = $7)
          AND ($8::text IS NULL OR e.event_type = $8)
          AND ($9::text IS NULL OR f.failure_kind = $9)
          AND ($10::text IS NULL OR split_part(coalesce(q.last_error, f.last_error), ':', 1) LIKE $10)
          AND ($11::bigint IS NULL OR e.created_at >= timestamptz 'epoch' + $11 * interval '1 microsecond')
          AND ($12::bigint IS NULL OR e.created_at <= timestamptz 'epoch' + $12 * interval '1 microsecond')
          AND ($13::text IS NULL OR e.event_id = $13)
          AND ($14::text IS NULL OR e.payment_request_id = $14)
          AND ($15::text IS NULL OR e.session_id = $15)
          AND ($16::text IS NULL OR e.webhook_id = $16 AND e.app_id = 0)
          AND (NOT $17 OR q.attempts > 0)
    ORDER BY ",
                $order,
                "
    LIMIT $2
)",
                end_of_search!($order, "v.id DESC", "$2", "$5")
            ),
            types: &[
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::TEXT,
                Type::INT8,
                Type::TEXT,
                Type::TEXT,
                Type::TEXT,
                Type::INT8,
                Type::INT8,
                Type::TEXT,
                Type::TEXT,
                Type::TEXT,
                Type::TEXT,
                Type::BOOL,
            ],
        }
    };
}

/// Walks over the keys of one table, the newest first.
macro_rules! walk_by_key {
    ($walk:literal) => {
        search_events!("x.id DESC"; $walk, " ORDER BY d.id DESC LIMIT $5")
    };
}

/// Builds the end of a walk over the keys with one value of a column, the newest first. The form admits only an index on
/// (`$column`, id): with few values, the planner would otherwise walk over the events of all of them.
macro_rules! of_value {
    ($column:literal, $value:literal) => {
        concat!(
            "(",
            $column,
            ", d.id) < (",
            $value,
            ", $1) AND (",
            $column,
            ", d.id) >= (",
            $value,
            ", $4) ORDER BY ",
            $column,
            " DESC, d.id DESC LIMIT $5"
        )
    };
}

/// Walks over the keys with one value of a column of a table. The index contains only rows that meet the condition `$of`.
macro_rules! walk_by_value {
    ($table:literal, $column:literal, $value:literal, $of:literal) => {
        search_events!(
            "x.value DESC, x.id DESC";
            "SELECT d.id, ",
            $column,
            " AS value FROM ",
            $table,
            " d WHERE ",
            $of,
            " AND ",
            of_value!($column, $value)
        )
    };
}

static ALL: Sql = walk_by_key!("SELECT d.id FROM app.webhook_events d WHERE d.id < $1 AND d.id >= $4");
static PENDING: Sql = walk_by_key!(
    "SELECT d.id FROM app.webhook_queue d
     WHERE d.id < $1 AND d.id >= greatest($4, (SELECT w.min_key FROM app.webhook_pending_watermark w))"
);
static FAILED: Sql = walk_by_key!("SELECT d.id FROM app.webhook_failures d WHERE d.id < $1 AND d.id >= $4");
/// Walks over the events that have attempts. Uses index webhook_attempts_event, backwards, of all partitions together.
static DELIVERED: Sql = search_events!(
    "x.id DESC";
    "SELECT DISTINCT d.event_key AS id FROM app.webhook_attempts d WHERE d.event_key < $1 AND d.event_key >= $4
     ORDER BY d.event_key DESC LIMIT $5"
);
/// Walks over all events of a destination. Uses index webhook_events_destination, backwards.
static OF_DESTINATION: Sql = walk_by_value!("app.webhook_events", "d.destination_id", "$3", "true");
/// Searches the pending events of a destination.
///
/// No index orders the pending events of a destination by key, because every enqueue would have to maintain it. If the queue of
/// the destination is short (webhook_queue_destination_position), the statement reads all of it and sorts it. Otherwise most
/// of the destination's latest events are pending, and the walk over its events meets them.
static PENDING_OF_DESTINATION: Sql = search_events!(
    "x.id DESC";
    "WITH queued AS MATERIALIZED (
         SELECT q.id
         FROM app.webhook_queue q
         WHERE q.destination_id = $3 AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
         LIMIT $5 + 1
     )
     SELECT q.id FROM queued q WHERE (SELECT count(*) FROM queued) <= $5 AND q.id < $1 AND q.id >= $4
     UNION ALL
     (SELECT d.id FROM app.webhook_events d WHERE (SELECT count(*) FROM queued) > $5 AND ",
    of_value!("d.destination_id", "$3"),
    ") ORDER BY id DESC"
);
/// Walks over the failed events of a destination. Uses index webhook_failures_destination, backwards.
static FAILED_OF_DESTINATION: Sql = walk_by_value!("app.webhook_failures", "d.destination_id", "$3", "true");
/// Finds one event. Uses index webhook_events_event_id.
static BY_EVENT_ID: Sql = search_events!("x.id DESC"; "SELECT d.id FROM app.webhook_events d WHERE d.event_id = $13 AND d.id < $1 AND d.id >= $4");
/// Uses index webhook_events_payment_request_id, backwards.
static BY_PAYMENT_REQUEST: Sql =
    walk_by_value!("app.webhook_events", "d.payment_request_id", "$14", "d.payment_request_id IS NOT NULL");
/// Uses index webhook_events_session_id, backwards.
static BY_SESSION: Sql =
    walk_by_value!("app.webhook_events", "d.session_id", "$15", "d.session_id IS NOT NULL");
/// Uses index webhook_events_webhook_id, backwards.
static BY_WEBHOOK: Sql =
    walk_by_value!("app.webhook_events", "d.webhook_id", "$16", "d.webhook_id IS NOT NULL AND d.app_id = 0");

/// Chooses the walk that meets the fewest events which the query leaves out.
fn choose_walk(query: &EventQuery, has_destination: bool) -> &'static Sql {
    use DeliveryStatus::{Delivered, Failed, Pending};
    match (query.implied_status(), has_destination) {
        _ if query.event_id.is_some() => &BY_EVENT_ID,
        _ if query.payment_request_id.is_some() => &BY_PAYMENT_REQUEST,
        _ if query.session_id.is_some() => &BY_SESSION,
        _ if query.webhook_id.is_some() => &BY_WEBHOOK,
        (None, false) => &ALL,
        (Some(Pending), false) => &PENDING,
        (Some(Failed), false) => &FAILED,
        (Some(Delivered), false) => &DELIVERED,
        (None | Some(Delivered), true) => &OF_DESTINATION,
        (Some(Pending), true) => &PENDING_OF_DESTINATION,
        (Some(Failed), true) => &FAILED_OF_DESTINATION,
    }
}

/// Lists events, the newest first.
pub(crate) async fn events(
    store: &StoreState,
    query: &EventQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, StoreError> {
    let high = page.after.map_or(i64::MAX, |after| after.key.0);
    let rows = store.sessions.operate.with(async |session| {
        let destination = match Scope::of(session, query.destination.as_ref(), query.endpoint).await? {
            Scope::All => None,
            Scope::Destination(id) => Some(id),
            Scope::None => return Ok(Vec::new()),
        };
        let range = KeyRange::of(session, query, high).await?;
        let params: [&(dyn ToSql + Sync); 17] = [
            &range.high,
            &rows_to_read(page),
            &destination,
            &range.low,
            &entries_to_examine(query.examine),
            &query.status.map(DeliveryStatus::as_str),
            &query.app.map(|app| app.0),
            &query.event_type,
            &query.failure_kind.map(FailureKind::as_str),
            &query.error.map(ErrorFilter::pattern),
            &query.since.map(Timestamp::as_micros),
            &query.until.map(Timestamp::as_micros),
            &query.event_id.as_ref().map(EventId::as_str),
            &query.payment_request_id,
            &query.session_id,
            &query.webhook_id,
            &query.retrying,
        ];
        session.transact(choose_walk(query, destination.is_some()), &params).await
    });
    parse_page(&rows.await?, page, |event| event.created_at)
}
