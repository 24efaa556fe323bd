//! Lists of events for operators. Each list is one statement that reads no payload. Its cost does not grow with the
//! number of events delivered long ago; a list that skips rows says so.

use posthaste_domain::{DeliveryStatus, FailureKind, Timestamp};
use posthaste_store::{DeadLetterFilter, EventQuery, EventView, Page, PageCursor, PageRequest, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::error::store_error;
use crate::event::{event_columns, parse_event};
use crate::session::Sql;

/// Lists failed events, the latest change first. Uses index webhook_failures_updated_at, backwards. Skips rows
/// whose kind is not $4, or is $5: an index by kind would serve only lists of a few among many.
pub(crate) static DEAD_LETTERS: Sql = Sql {
    text: concat!(
        "
SELECT ",
        event_columns!(),
        "
FROM (
    SELECT f.id
    FROM app.webhook_failures f
    WHERE (f.updated_at, f.id) < (timestamptz 'epoch' + $1 * interval '1 microsecond', $2)
          AND ($4 IS NULL OR f.failure_kind = $4) AND f.failure_kind IS DISTINCT FROM $5
    ORDER BY f.updated_at DESC, f.id DESC
    LIMIT $3
) d
JOIN app.webhook_outbox_events v ON v.id = d.id
ORDER BY v.updated_at DESC, v.id DESC"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8, Type::TEXT, Type::TEXT],
};

/// Builds a statement that lists events, the newest first. The fragments of `$keys` form a query of event keys below
/// $1; at most $2 are read. $3 is the destination, or NULL.
macro_rules! list_events {
    ($($keys:expr),+) => {
        Sql {
            text: concat!(
                "
SELECT ",
                event_columns!(),
                "
FROM (",
                $($keys,)+
                " LIMIT $2) d
JOIN app.webhook_outbox_events v ON v.id = d.id AND ($3::bigint IS NULL OR v.destination_id = $3)
ORDER BY v.id DESC"
            ),
            types: &[Type::INT8, Type::INT8, Type::INT8],
        }
    };
}

/// Builds the condition and order of a query for the keys of one destination, the newest first. The form admits only an
/// index on (`$destination`, id): with few destinations, the planner would otherwise walk the events of all of them.
macro_rules! of_destination {
    ($destination:literal) => {
        concat!(
            "(",
            $destination,
            ", d.id) < ($3, $1) AND ",
            $destination,
            " >= $3 ORDER BY ",
            $destination,
            " DESC, d.id DESC"
        )
    };
}

static ALL: Sql = list_events!("SELECT d.id FROM app.webhook_events d WHERE d.id < $1 ORDER BY d.id DESC");
static PENDING: Sql = list_events!(
    "SELECT d.id FROM app.webhook_queue d
     WHERE d.id < $1 AND d.id >= (SELECT w.min_key FROM app.webhook_pending_watermark w) ORDER BY d.id DESC"
);
static FAILED: Sql =
    list_events!("SELECT d.id FROM app.webhook_failures d WHERE d.id < $1 ORDER BY d.id DESC");
/// Lists delivered events. Uses index webhook_attempts_event, backwards, of all partitions together. Skips attempts that
/// delivered nothing.
static DELIVERED: Sql = list_events!(
    "SELECT d.event_key AS id
     FROM app.webhook_attempts d
     WHERE d.event_key < $1 AND d.delivery_claims IS NOT NULL
     ORDER BY d.event_key DESC"
);
/// Lists all events of a destination. Uses index webhook_events_destination, backwards.
static ALL_OF_DESTINATION: Sql =
    list_events!("SELECT d.id FROM app.webhook_events d WHERE ", of_destination!("d.destination_id"));
/// Lists the pending events of a destination.
///
/// No index orders the pending events of a destination by key, because every enqueue would have to maintain it. While a
/// destination is down, its pending events are its latest events, and a short scan of webhook_events_destination fills
/// the page. Otherwise a destination usually has few pending events: the statement reads its whole queue
/// (webhook_queue_destination_position) and sorts it. OFFSET 0 keeps the planner from walking the queue of all
/// destinations by key instead.
static PENDING_OF_DESTINATION: Sql = list_events!(
    "WITH latest AS MATERIALIZED (
         SELECT d.id FROM app.webhook_events d WHERE ",
    of_destination!("d.destination_id"),
    " LIMIT 1000
     ),
     latest_pending AS MATERIALIZED (
         SELECT l.id FROM latest l JOIN app.webhook_queue q ON q.id = l.id ORDER BY l.id DESC LIMIT $2
     ),
     queued AS (
         SELECT q.id
         FROM app.webhook_queue q
         WHERE (SELECT count(*) FROM latest_pending) < $2
               AND q.destination_id = $3 AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
         OFFSET 0
     )
     SELECT d.id
     FROM (
         SELECT n.id FROM latest_pending n
         UNION ALL
         SELECT q.id FROM queued q WHERE q.id < (SELECT min(l.id) FROM latest l)
     ) d
     ORDER BY d.id DESC"
);
/// Lists the failed events of a destination. Uses index webhook_failures_destination, backwards.
static FAILED_OF_DESTINATION: Sql =
    list_events!("SELECT d.id FROM app.webhook_failures d WHERE ", of_destination!("d.destination_id"));
/// Lists the delivered events of a destination. Uses index webhook_events_destination, backwards. Skips newer events
/// of the destination that are failed or pending, at about a microsecond each: an index of deliveries by destination
/// would slow down every settle.
static DELIVERED_OF_DESTINATION: Sql = list_events!(
    "SELECT d.id FROM app.webhook_events d
     WHERE NOT EXISTS (SELECT FROM app.webhook_queue q WHERE q.id = d.id)
           AND NOT EXISTS (SELECT FROM app.webhook_failures f WHERE f.id = d.id) AND ",
    of_destination!("d.destination_id")
);

/// Finds the destination of a URL. Uses index webhook_destinations_url.
pub(crate) static DESTINATION_BY_URL: Sql = Sql {
    text: "SELECT d.id FROM app.webhook_destinations d WHERE d.kind = 'url' AND d.url = $1",
    types: &[Type::TEXT],
};

/// Finds an endpoint, deleted or not. Uses index webhook_destinations_id.
pub(crate) static ENDPOINT_BY_ID: Sql = Sql {
    text: "SELECT d.id FROM app.webhook_destinations d WHERE d.id = $1 AND d.kind = 'endpoint'",
    types: &[Type::INT8],
};

/// Lists failed events, the latest change first.
pub(crate) async fn dead_letters(
    store: &StoreState,
    filter: DeadLetterFilter,
    page: &PageRequest,
) -> Result<Page<EventView>, StoreError> {
    /// The year 10000, later than any row.
    const END_OF_TIME: i64 = 253_402_300_800_000_000;
    let (at, key) = page.after.map_or((END_OF_TIME, i64::MAX), |after| (after.at.as_micros(), after.key.0));
    let (only, omitted) = (filter.only().map(FailureKind::as_str), filter.omitted().map(FailureKind::as_str));
    let rows = store.sessions.operate.with(async |session| {
        session.transact(&DEAD_LETTERS, &[&at, &key, &rows_to_read(page), &only, &omitted]).await
    });
    let rows = rows.await?;
    parse_page(&rows, page, |event| event.updated_at)
}

/// Lists events by status and destination, the newest first.
pub(crate) async fn events(
    store: &StoreState,
    query: &EventQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, StoreError> {
    let sql = match (query.status, query.destination.is_some() || query.endpoint.is_some()) {
        (None, false) => &ALL,
        (Some(DeliveryStatus::Pending), false) => &PENDING,
        (Some(DeliveryStatus::Failed), false) => &FAILED,
        (Some(DeliveryStatus::Delivered), false) => &DELIVERED,
        (None, true) => &ALL_OF_DESTINATION,
        (Some(DeliveryStatus::Pending), true) => &PENDING_OF_DESTINATION,
        (Some(DeliveryStatus::Failed), true) => &FAILED_OF_DESTINATION,
        (Some(DeliveryStatus::Delivered), true) => &DELIVERED_OF_DESTINATION,
    };
    let key = page.after.map_or(i64::MAX, |after| after.key.0);
    let rows = store.sessions.operate.with(async |session| {
        let found = match (&query.destination, query.endpoint) {
            (None, None) => None,
            (Some(url), None) => Some(session.query(&DESTINATION_BY_URL, &[&url.as_str()]).await?),
            (None, Some(endpoint)) => Some(session.query(&ENDPOINT_BY_ID, &[&endpoint.0.0]).await?),
            // Events to a URL are events of no endpoint.
            (Some(_), Some(_)) => Some(Vec::new()),
        };
        let destination: Option<i64> = match found.as_deref() {
            None => None,
            Some([]) => return Ok(Vec::new()),
            Some([row, ..]) => Some(row.try_get(0)?),
        };
        session.transact(sql, &[&key, &rows_to_read(page), &destination]).await
    });
    parse_page(&rows.await?, page, |event| event.created_at)
}

/// Returns the rows to read for a page: one more than it holds, which shows whether there is a next page.
fn rows_to_read(page: &PageRequest) -> i64 {
    i64::try_from(page.limit.get()).expect("a page limit is small") + 1
}

/// Parses the rows of a page. `at` returns the timestamp by which the list is ordered.
fn parse_page(
    rows: &[Row],
    page: &PageRequest,
    at: impl Fn(&EventView) -> Timestamp,
) -> Result<Page<EventView>, StoreError> {
    let limit = page.limit.get();
    let items: Vec<EventView> = rows
        .iter()
        .take(limit)
        .map(parse_event)
        .collect::<Result<_, _>>()
        .map_err(|error| store_error(&error))?;
    let last = items.last().filter(|_| rows.len() > limit);
    let next = last.map(|event| PageCursor { at: at(event), key: event.key });
    Ok(Page { items, next })
}
