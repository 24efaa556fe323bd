//! Attempt records by day: partitions are made ahead, and dropped whole when a day is over and done with.

use std::error::Error as _;

use tokio_postgres::types::Type;

use crate::session::{Session, Sql};

/// Days, of UTC, that have no partition and soon need one.
static WANTED: Sql = Sql {
    text: "
SELECT format('webhook_attempts_%s', to_char(day, 'YYYYMMDD')),
       to_char(day, 'YYYY-MM-DD'), to_char(day + interval '1 day', 'YYYY-MM-DD')
FROM generate_series(0, 3) AS ahead,
     LATERAL (SELECT date_trunc('day', app.webhook_now() AT TIME ZONE 'UTC') + ahead * interval '1 day') AS d (day)
WHERE to_regclass(format('app.webhook_attempts_%s', to_char(day, 'YYYYMMDD'))) IS NULL",
    types: &[],
};

/// Partitions of days that ended before the horizon.
static OLD: Sql = Sql {
    text: "
SELECT c.relname
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'app.webhook_attempts'::regclass
      AND c.relname ~ '^webhook_attempts_[0-9]{8}$'
      AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1
          <= (app.webhook_now() - $1 * interval '1 microsecond') AT TIME ZONE 'UTC'
ORDER BY c.relname",
    types: &[Type::INT8],
};

/// What came on a day without a partition.
static FORGET_OTHERS: Sql = Sql {
    text: "
DELETE FROM app.webhook_attempts_other a
WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid
    FROM app.webhook_attempts_other o
    WHERE o.recorded_at <= app.webhook_now() - $1 * interval '1 microsecond'
    LIMIT $2
))
RETURNING 1",
    types: &[Type::INT8, Type::INT8],
};

/// Makes the partitions of today and the next days.
pub(crate) async fn ahead(session: &Session) -> Result<(), tokio_postgres::Error> {
    for row in session.query(&WANTED, &[]).await? {
        let (name, from, to): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        change(
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

/// Drops what is old; true when there is more of it.
pub(crate) async fn drop_old(
    session: &Session,
    keep: i64,
    rows_max: i64,
) -> Result<bool, tokio_postgres::Error> {
    for row in session.query(&OLD, &[&keep]).await? {
        change(session, &format!("DROP TABLE IF EXISTS app.{}", row.try_get::<_, &str>(0)?)).await?;
    }
    let others = session.query(&FORGET_OTHERS, &[&keep, &rows_max]).await?.len();
    Ok(i64::try_from(others).unwrap_or(i64::MAX) >= rows_max)
}

/// A change of the schema waits for nobody: whoever settles would wait behind it. When it does not get its lock at
/// once, or the day's records are elsewhere already, it is left for another time.
async fn change(session: &Session, ddl: &str) -> Result<(), tokio_postgres::Error> {
    let sql = format!("BEGIN; SET LOCAL lock_timeout = '100ms'; {ddl}; COMMIT");
    match session.client().batch_execute(&sql).await {
        Ok(()) => Ok(()),
        Err(error) if error.code().is_some() => {
            tracing::debug!(error = %error, cause = error.source().map(tracing::field::display), "a partition is left for another time");
            session.client().batch_execute("ROLLBACK").await
        }
        Err(error) => Err(error),
    }
}
