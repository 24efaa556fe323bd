//! The range of keys to which a search by time is limited.

use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::{EventQuery, KeySearch};
use tokio_postgres::types::Type;

use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// Reads the newest key. Uses index webhook_events_id, backwards.
static NEWEST: Sql =
    Sql { text: "SELECT e.id FROM app.webhook_events e ORDER BY e.id DESC LIMIT 1", types: &[] };

/// Reads the first event from the key $1 on. Uses index webhook_events_id.
static FROM_KEY: Sql = Sql {
    text: "SELECT e.id, e.created_at FROM app.webhook_events e WHERE e.id >= $1 ORDER BY e.id LIMIT 1",
    types: &[Type::INT8],
};

/// The keys that a statement walks over: from `low` on, below `high`.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyRange {
    pub(super) low: i64,
    pub(super) high: i64,
}

impl KeyRange {
    /// Finds the keys below `high` of the times of a query.
    pub(super) async fn of(
        session: &Session,
        query: &EventQuery,
        high: i64,
    ) -> Result<Self, tokio_postgres::Error> {
        let mut range = Self { low: 0, high };
        if query.since.is_none() && query.until.is_none() {
            return Ok(range);
        }
        let rows = session.transact(&NEWEST, &[]).await?;
        let newest = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
        let newest = EventKey(newest.min(high.saturating_sub(1)));
        if let Some(since) = query.since {
            range.low = find(session, KeySearch::start_of(since, newest)).await?.0;
        }
        if let Some(until) = query.until {
            range.high = find(session, KeySearch::end_of(until, newest)).await?.0.min(high);
        }
        Ok(range)
    }
}

async fn find(session: &Session, mut search: KeySearch) -> Result<EventKey, tokio_postgres::Error> {
    while let Some(EventKey(probe)) = search.probe() {
        let rows = session.transact(&FROM_KEY, &[&probe]).await?;
        let found = rows.first().map(|row| -> Result<(EventKey, Timestamp), tokio_postgres::Error> {
            Ok((EventKey(row.try_get(0)?), row.try_get::<_, PgTimestamp>(1)?.0))
        });
        search.narrow(found.transpose()?);
    }
    Ok(search.bound())
}
