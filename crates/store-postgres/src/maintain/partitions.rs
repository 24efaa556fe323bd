//! Daily partitions of the attempt records: created ahead of time, and dropped whole when retention no longer keeps
//! them.

use std::error::Error as _;

use tokio_postgres::types::Type;

use crate::session::{Session, Sql};

/// Selects the partitions that are missing for today and the next three days, in UTC: name, start and end.
static MISSING_PARTITIONS: Sql = Sql {
    text: "
SELECT format('webhook_attempts_%s', to_char(day, 'YYYYMMDD')),
       to_char(day, 'YYYY-MM-DD'), to_char(day + interval '1 day', 'YYYY-MM-DD')
FROM generate_series(0, 3) AS ahead,
     LATERAL (SELECT date_trunc('day', app.webhook_now() AT TIME ZONE 'UTC') + ahead * interval '1 day') AS d (day)
WHERE to_regclass(format('app.webhook_attempts_%s', to_char(day, 'YYYYMMDD'))) IS NULL",
    types: &[],
};

/// Selects the partitions of days that ended before $1, in microseconds since the epoch.
static OLD_PARTITIONS: Sql = Sql {
    text: "
SELECT c.relname
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'app.webhook_attempts'::regclass
      AND c.relname ~ '^webhook_attempts_[0-9]{8}$'
      AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1
          <= (timestamptz 'epoch' + $1 * interval '1 microsecond') AT TIME ZONE 'UTC'
ORDER BY c.relname",
    types: &[Type::INT8],
};

/// Deletes attempts before $1 from the default partition, which holds those of days without a partition.
static DELETE_UNPARTITIONED: Sql = Sql {
    text: "
DELETE FROM app.webhook_attempts_default a
WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid
    FROM app.webhook_attempts_default o
    WHERE o.recorded_at <= timestamptz 'epoch' + $1 * interval '1 microsecond'
    LIMIT $2
))
RETURNING 1",
    types: &[Type::INT8, Type::INT8],
};

/// Creates the missing partitions of today and the next three days.
pub(crate) async fn create_partitions(session: &Session) -> Result<(), tokio_postgres::Error> {
    for row in session.query(&MISSING_PARTITIONS, &[]).await? {
        let (name, from, to): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        try_ddl(
            session,
            &format!(
                "CREATE TABLE IF NOT EXISTS app.{name} PARTITION OF app.webhook_attempts
                 FOR VALUES FROM ('{from} 00:00:00+00') TO ('{to} 00:00:00+00')"
            ),
        )
        .await?;
    }
    Ok(())
}

/// Drops the partitions of attempts before `before`, in microseconds since the epoch, and deletes up to `rows_max` such
/// attempts from the default partition. Returns whether the default partition may hold more.
pub(crate) async fn drop_old_partitions(
    session: &Session,
    before: i64,
    rows_max: i64,
) -> Result<bool, tokio_postgres::Error> {
    for row in session.query(&OLD_PARTITIONS, &[&before]).await? {
        try_ddl(session, &format!("DROP TABLE IF EXISTS app.{}", row.try_get::<_, &str>(0)?)).await?;
    }
    let deleted = session.query(&DELETE_UNPARTITIONED, &[&before, &rows_max]).await?.len();
    Ok(i64::try_from(deleted).unwrap_or(i64::MAX) >= rows_max)
}

/// Runs DDL with a short lock timeout, because settles would queue behind its wait for the table lock. Skips the DDL,
/// for the next round to retry, if it gets no lock or if the default partition holds attempts of the new partition's
/// day.
async fn try_ddl(session: &Session, ddl: &str) -> Result<(), tokio_postgres::Error> {
    let sql = format!("BEGIN; SET LOCAL lock_timeout = '100ms'; {ddl}; COMMIT");
    match session.client().batch_execute(&session.schema().rewrite(&sql)).await {
        Ok(()) => Ok(()),
        Err(error) if error.code().is_some() => {
            tracing::debug!(error = %error, cause = error.source().map(tracing::field::display), "partition not changed; retrying in the next round");
            session.client().batch_execute("ROLLBACK").await
        }
        Err(error) => Err(error),
    }
}
