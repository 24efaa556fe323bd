//! The schema, forwards only.
//!
//! Whoever comes first migrates, in one transaction and under a lock; everyone else waits for it and finds nothing left
//! to do. A database that a newer Posthaste has migrated is refused.

use tokio_postgres::{Client, IsolationLevel};

use crate::config::PostgresConfig;

/// In order; a migration that has been released is never changed.
const MIGRATIONS: &[(&str, &str)] = &[
    ("outbox", include_str!("../migrations/0001_outbox.sql")),
    ("callers", include_str!("../migrations/0002_callers.sql")),
];

/// What a migration did: schema versions before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    pub from: i32,
    pub to: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error(
        "the database is at schema version {found} and this Posthaste knows up to {known}: a newer one has been here; \
         upgrade this one"
    )]
    Newer { found: i32, known: i32 },
    #[error("PostgreSQL {found} is too old; Posthaste needs 13 or newer")]
    ServerTooOld { found: String },
    #[error("PostgreSQL could not be reached: {}", words(.0))]
    Connect(#[source] tokio_postgres::Error),
    #[error("PostgreSQL does not answer; check the host and port of the URL")]
    NoAnswer,
    #[error("migration {version} ({name}) failed and was rolled back: {}", words(.source))]
    Failed { version: i32, name: &'static str, source: tokio_postgres::Error },
    #[error("the schema could not be examined: {}", words(.0))]
    Examine(#[from] tokio_postgres::Error),
}

/// What the server said is in the error's source.
fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

/// The schema version that this Posthaste works with.
pub fn known_version() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("there are few migrations")
}

/// Brings the schema up to date, on a connection of its own.
pub async fn migrate(config: &PostgresConfig) -> Result<Migrated, MigrateError> {
    let (mut client, connection) =
        config.dial().await.ok_or(MigrateError::NoAnswer)?.map_err(MigrateError::Connect)?;
    let connection = tokio::spawn(connection);
    let migrated = migrate_on(&mut client).await;
    drop(client);
    // Ends by itself, now that its client is gone.
    let _ = connection.await;
    migrated
}

async fn migrate_on(client: &mut Client) -> Result<Migrated, MigrateError> {
    let version: i32 =
        client.query_typed("SELECT current_setting('server_version_num')::integer", &[]).await?[0]
            .try_get(0)?;
    if version < 130_000 {
        return Err(MigrateError::ServerTooOld { found: format!("{}", version / 10_000) });
    }
    let transaction =
        client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
    transaction
        .batch_execute(
            "SELECT pg_advisory_xact_lock(7526, 0);
             CREATE SCHEMA IF NOT EXISTS app;
             CREATE TABLE IF NOT EXISTS app.webhook_migrations (
                 version    integer     PRIMARY KEY,
                 name       text        NOT NULL,
                 applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
             )",
        )
        .await?;
    let rows =
        transaction.query_typed("SELECT coalesce(max(version), 0) FROM app.webhook_migrations", &[]).await?;
    let from: i32 = rows[0].try_get(0)?;
    let to = known_version();
    if from > to {
        return Err(MigrateError::Newer { found: from, known: to });
    }
    for ((name, sql), version) in MIGRATIONS.iter().zip(1..).skip_while(|(_, version)| *version <= from) {
        let record =
            format!("INSERT INTO app.webhook_migrations (version, name) VALUES ({version}, '{name}')");
        for part in [sql, record.as_str()] {
            transaction.batch_execute(part).await.map_err(|source| MigrateError::Failed {
                version,
                name,
                source,
            })?;
        }
    }
    transaction.commit().await?;
    Ok(Migrated { from, to })
}
