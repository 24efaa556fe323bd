//! Searches of operators for events. A page is one statement that reads no payload.
//!
//! Each statement walks over an index, newest first, and examines a limited number of its entries, so that the cost of a page
//! grows neither with the backlog nor with the history. If the page is then not full, the statement also returns the last
//! entry that it has examined: the next page continues there.

mod dead_letters;
mod events;
mod key_range;

use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::{EventView, ExamineLimit, Page, PageCursor, PageRequest, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::store_error;
use crate::event::{EVENT_COLUMN_COUNT, parse_event};
use crate::session::Sql;

pub(crate) use dead_letters::dead_letters;
pub(crate) use events::events;

/// Builds the end of a statement. Its CTE `examined` has the entries of the walk, `page` those that match, both with the order
/// of the list in `$order`. `$rows` is one more than a page holds, `$examine` the limit of `examined`. The last entry examined may
/// be that of an event which retention has removed.
macro_rules! end_of_search {
    ($order:expr, $view_order:literal, $rows:literal, $examine:literal) => {
        concat!(
            ",
last_examined AS MATERIALIZED (
    SELECT x.id FROM examined x WHERE (SELECT count(*) FROM page) < ",
            $rows,
            " ORDER BY ",
            $order,
            " OFFSET ",
            $examine,
            " - 1 LIMIT 1
)
SELECT ",
            crate::event::event_columns!(),
            ", d.is_last_examined, d.id
FROM (
    SELECT p.id, false AS is_last_examined FROM page p
    UNION ALL
    SELECT l.id, true FROM last_examined l
) d
LEFT JOIN app.webhook_outbox_events v ON v.id = d.id
WHERE v.id IS NOT NULL OR d.is_last_examined
ORDER BY d.is_last_examined, ",
            $view_order
        )
    };
}

use end_of_search;

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

/// Returns the rows to read for a page: one more than it holds, which shows whether there is a next page.
fn rows_to_read(page: &PageRequest) -> i64 {
    i64::try_from(page.limit.get()).expect("a page limit is small") + 1
}

/// Returns the most entries that a statement examines.
fn entries_to_examine(limit: ExamineLimit) -> i64 {
    i64::try_from(limit.get()).unwrap_or(i64::MAX - 1)
}

/// A row of a search.
enum ListedRow {
    OfPage(EventView),
    /// The last entry examined, with its event unless that has been removed.
    LastExamined(EventKey, Option<EventView>),
}

impl ListedRow {
    fn parse(row: &Row) -> Result<Self, tokio_postgres::Error> {
        if !row.try_get::<_, bool>(EVENT_COLUMN_COUNT)? {
            return Ok(Self::OfPage(parse_event(row)?));
        }
        let key = EventKey(row.try_get(EVENT_COLUMN_COUNT + 1)?);
        let exists = row.try_get::<_, Option<i64>>(0)?.is_some();
        Ok(Self::LastExamined(key, exists.then(|| parse_event(row)).transpose()?))
    }
}

/// Parses the rows of a page. `at` returns the timestamp by which the list is ordered.
fn parse_page(
    rows: &[Row],
    page: &PageRequest,
    at: impl Fn(&EventView) -> Timestamp,
) -> Result<Page<EventView>, StoreError> {
    let mut items = Vec::new();
    let mut last_examined = None;
    for row in rows {
        match ListedRow::parse(row).map_err(|error| store_error(&error))? {
            ListedRow::OfPage(event) => items.push(event),
            ListedRow::LastExamined(key, event) => {
                // The list of all events, in which one may have been removed, has the order of their keys.
                let at = event.as_ref().map_or(Timestamp::from_micros(0), &at);
                last_examined = Some(PageCursor { at, key });
            }
        }
    }
    let has_more = items.len() > page.limit.get();
    items.truncate(page.limit.get());
    let last = items.last().filter(|_| has_more).map(|event| PageCursor { at: at(event), key: event.key });
    Ok(Page { items, next: last.or(last_examined) })
}
