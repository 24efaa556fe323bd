//! Searches of operators for events. A page is one statement that reads no payload.
//!
//! Each statement walks over an index, newest first, and examines a limited number of its entries, so that the cost of a page
//! grows neither with the backlog nor with the history. If the page is then not full, the statement also returns the last
//! entry that it has examined: the next page continues there.

mod dead_letters;
mod events;
mod key_range;

use posthaste_domain::Timestamp;
use posthaste_store::{EventView, ExamineLimit, Page, PageCursor, PageRequest, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::store_error;
use crate::event::{EVENT_COLUMN_COUNT, parse_event};
use crate::session::Sql;

pub(crate) use dead_letters::dead_letters;
pub(crate) use events::events;

/// Builds the end of a statement. Its CTE `examined` has the entries of the walk, `page` those that match, both with the order
/// of the list in `$order`. `$rows` is one more than a page holds, `$examine` the limit of `examined`.
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
            ", d.is_last_examined
FROM (
    SELECT p.id, false AS is_last_examined FROM page p
    UNION ALL
    SELECT l.id, true FROM last_examined l
) d
JOIN app.webhook_outbox_events v ON v.id = d.id
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

/// Parses the rows of a page. `at` returns the timestamp by which the list is ordered.
fn parse_page(
    rows: &[Row],
    page: &PageRequest,
    at: impl Fn(&EventView) -> Timestamp,
) -> Result<Page<EventView>, StoreError> {
    let mut items = Vec::new();
    let mut last_examined = None;
    for row in rows {
        let parsed = parse_event(row).and_then(|event| Ok((event, row.try_get(EVENT_COLUMN_COUNT)?)));
        match parsed.map_err(|error| store_error(&error))? {
            (event, true) => last_examined = Some(event),
            (event, false) => items.push(event),
        }
    }
    let has_more = items.len() > page.limit.get();
    items.truncate(page.limit.get());
    let last = if has_more { items.last() } else { last_examined.as_ref() };
    let next = last.map(|event| PageCursor { at: at(event), key: event.key });
    Ok(Page { items, next })
}
