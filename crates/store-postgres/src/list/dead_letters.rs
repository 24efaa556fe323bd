//! Searches of failed events, the latest change first.

use posthaste_domain::Timestamp;
use posthaste_store::{DeadLetterQuery, EventView, Page, PageRequest, StoreError};
use tokio_postgres::types::Type;

use super::{end_of_search, entries_to_examine, parse_page, rows_to_read};
use crate::StoreState;
use crate::bulk::{Conditions, Scope, conditions};
use crate::session::Sql;

/// The types of [`Conditions`], followed by the destination $7, the position ($8, $9) after which the page starts, the rows
/// $10 of a page and the entries $11 to examine.
const TYPES: &[Type] = &[
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
];

/// Walks over the failures by the time of their last change. Uses index webhook_failures_updated_at, backwards. The condition
/// in `$only` ends the walk before it starts.
macro_rules! walk_by_time {
    ($only:literal) => {
        concat!(
            "SELECT f.id, f.destination_id, f.updated_at, f.failure_kind, f.last_error
     FROM app.webhook_failures f
     WHERE ",
            $only,
            "(f.updated_at, f.id) < (timestamptz 'epoch' + $8 * interval '1 microsecond', $9)
           AND f.updated_at >= timestamptz 'epoch' + coalesce($5, 0) * interval '1 microsecond'
     ORDER BY f.updated_at DESC, f.id DESC
     LIMIT $11"
        )
    };
}

macro_rules! search_dead_letters {
    ($walk:expr) => {
        Sql {
            text: concat!(
                "
WITH examined AS NOT MATERIALIZED (
     ",
                $walk,
                "
),
page AS MATERIALIZED (
    SELECT f.id
    FROM examined f
    WHERE ($7::bigint IS NULL OR f.destination_id = $7)
         AND ",
                conditions!(),
                "
    ORDER BY f.updated_at DESC, f.id DESC
    LIMIT $10
)",
                end_of_search!("x.updated_at DESC, x.id DESC", "v.updated_at DESC, v.id DESC", "$10", "$11")
            ),
            types: TYPES,
        }
    };
}

static ALL: Sql = search_dead_letters!(walk_by_time!(""));
/// Searches the failures of one destination. If they are few, the statement reads all of them and sorts them. Uses index
/// webhook_failures_destination. If there are more than a page may examine, the walk by time meets many of them.
static OF_DESTINATION: Sql = search_dead_letters!(concat!(
    "WITH of_destination AS MATERIALIZED (
         SELECT f.id, f.destination_id, f.updated_at, f.failure_kind, f.last_error
         FROM app.webhook_failures f WHERE f.destination_id = $7 LIMIT $11 + 1
     )
     SELECT f.* FROM of_destination f
     WHERE (SELECT count(*) FROM of_destination) <= $11
           AND (f.updated_at, f.id) < (timestamptz 'epoch' + $8 * interval '1 microsecond', $9)
     UNION ALL
     (",
    walk_by_time!("(SELECT count(*) FROM of_destination) > $11 AND "),
    ")
     ORDER BY updated_at DESC, id DESC"
));

/// Lists failed events, the latest change first.
pub(crate) async fn dead_letters(
    store: &StoreState,
    query: &DeadLetterQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, StoreError> {
    /// The year 10000, later than any row.
    const END_OF_TIME: i64 = 253_402_300_800_000_000;
    let filter = &query.filter;
    let after = page.after.map_or((END_OF_TIME, i64::MAX), |after| (after.at.as_micros(), after.key.0));
    let until = filter.until.map_or(END_OF_TIME, Timestamp::as_micros);
    let (at, key) = after.min((until, i64::MAX));
    let conditions = Conditions::of_list(query);
    let rows = store.sessions.operate.with(async |session| {
        let scope = Scope::of(session, filter.destination.as_ref(), filter.endpoint).await?;
        let (sql, destination) = match scope {
            Scope::All => (&ALL, None),
            Scope::Destination(id) => (&OF_DESTINATION, Some(id)),
            Scope::None => return Ok(Vec::new()),
        };
        let (rows, examine) = (rows_to_read(page), entries_to_examine(query.examine));
        let params = conditions.followed_by(&[&destination, &at, &key, &rows, &examine]);
        session.transact(sql, &params).await
    });
    parse_page(&rows.await?, page, |event| event.updated_at)
}
