//! The filter of a bulk operation as conditions in SQL.

use posthaste_domain::{DestinationUrl, EndpointId, FailureKind, Timestamp};
use posthaste_store::{BULK_COUNT_MAX, BulkCount, BulkFilter, DeadLetterQuery, ErrorFilter};
use tokio_postgres::types::{ToSql, Type};

use crate::list::{DESTINATION_BY_URL, ENDPOINT_BY_ID};
use crate::session::{Session, Sql};

/// The conditions on a failure `f`, with the parameters $1 to $6 of [`Conditions`]; the kind `any` stands for every kind. Uses
/// index webhook_events_id, if the filter names an application or a type.
macro_rules! conditions {
    () => {
        "($1::bigint IS NULL AND $2::text IS NULL
          OR EXISTS (SELECT FROM app.webhook_events e
                     WHERE e.id = f.id AND ($1 IS NULL OR e.app_id = $1) AND ($2 IS NULL OR e.event_type = $2)))
         AND CASE WHEN $3::text IS NULL THEN f.failure_kind <> 'cancelled' ELSE $3 IN ('any', f.failure_kind) END
         AND ($4::text IS NULL OR split_part(f.last_error, ':', 1) LIKE $4)
         AND ($5::bigint IS NULL OR f.updated_at >= timestamptz 'epoch' + $5 * interval '1 microsecond')
         AND ($6::bigint IS NULL OR f.updated_at <= timestamptz 'epoch' + $6 * interval '1 microsecond')"
    };
}

pub(crate) use conditions;

/// The types of [`Conditions`], followed by three of the statement.
pub(super) const TYPES: &[Type] = &[
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
];

/// Counts the failures with keys above $8 that a filter selects, up to $9. Uses index webhook_failures_id.
static COUNT: Sql = Sql {
    text: concat!(
        "SELECT count(*) FROM (
             SELECT FROM app.webhook_failures f WHERE $7::bigint IS NULL AND f.id > $8 AND ",
        conditions!(),
        " LIMIT $9
         ) f"
    ),
    types: TYPES,
};

/// Counts the failures of the destination $7 with keys above $8 that a filter selects, up to $9. Uses index
/// webhook_failures_destination.
static COUNT_OF_DESTINATION: Sql = Sql {
    text: concat!(
        "SELECT count(*) FROM (
             SELECT FROM app.webhook_failures f WHERE f.destination_id = $7 AND f.id > $8 AND ",
        conditions!(),
        " LIMIT $9
         ) f"
    ),
    types: TYPES,
};

/// The URL or the endpoint of a filter, resolved.
pub(crate) enum Scope {
    All,
    Destination(i64),
    /// The filter names a destination that does not exist.
    None,
}

impl Scope {
    pub(crate) async fn of(
        session: &Session,
        destination: Option<&DestinationUrl>,
        endpoint: Option<EndpointId>,
    ) -> Result<Self, tokio_postgres::Error> {
        let found = match (destination, endpoint) {
            (None, None) => return Ok(Self::All),
            (Some(url), None) => session.query(&DESTINATION_BY_URL, &[&url.as_str()]).await?,
            (None, Some(endpoint)) => session.query(&ENDPOINT_BY_ID, &[&endpoint.0.0]).await?,
            // Events to a URL are events of no endpoint.
            (Some(_), Some(_)) => Vec::new(),
        };
        let id = found.first().map(|row| row.try_get(0)).transpose()?;
        Ok(id.map_or(Self::None, Self::Destination))
    }
}

/// The parameters of `conditions!`.
pub(crate) struct Conditions<'a> {
    app: Option<i64>,
    event_type: Option<&'a str>,
    failure_kind: Option<&'static str>,
    error_pattern: Option<String>,
    since: Option<i64>,
    until: Option<i64>,
}

impl<'a> Conditions<'a> {
    pub(crate) fn of(filter: &'a BulkFilter) -> Self {
        Self {
            app: filter.app.map(|app| app.0),
            event_type: filter.event_type.as_deref(),
            failure_kind: filter.failure_kind.map(FailureKind::as_str),
            error_pattern: filter.error.map(ErrorFilter::pattern),
            since: filter.since.map(Timestamp::as_micros),
            until: filter.until.map(Timestamp::as_micros),
        }
    }

    /// The conditions of a list. Without a kind, it may have cancelled events.
    pub(crate) fn of_list(query: &'a DeadLetterQuery) -> Self {
        let conditions = Self::of(&query.filter);
        let any_kind = query.with_cancelled.then_some("any");
        Self { failure_kind: conditions.failure_kind.or(any_kind), ..conditions }
    }

    /// Returns the parameters in the order of the conditions, followed by those of the statement.
    pub(crate) fn followed_by<'p>(&'p self, own: &[&'p (dyn ToSql + Sync)]) -> Vec<&'p (dyn ToSql + Sync)> {
        let conditions: [&(dyn ToSql + Sync); 6] =
            [&self.app, &self.event_type, &self.failure_kind, &self.error_pattern, &self.since, &self.until];
        [&conditions[..], own].concat()
    }
}

/// Counts the failures that a filter selects.
pub(super) async fn count(
    session: &Session,
    filter: &BulkFilter,
) -> Result<BulkCount, tokio_postgres::Error> {
    let (sql, destination) = match Scope::of(session, filter.destination.as_ref(), filter.endpoint).await? {
        Scope::All => (&COUNT, None),
        Scope::Destination(id) => (&COUNT_OF_DESTINATION, Some(id)),
        Scope::None => return Ok(BulkCount::of(0)),
    };
    let limit = super::stored_count(BULK_COUNT_MAX + 1);
    let conditions = Conditions::of(filter);
    let rows = session.transact(sql, &conditions.followed_by(&[&destination, &0_i64, &limit])).await?;
    let counted: i64 = rows.first().expect("the statement returns one row").try_get(0)?;
    Ok(BulkCount::of(u64::try_from(counted).unwrap_or(0)))
}
