//! The schema, forwards only.
//!
//! Whoever comes first migrates, in one transaction and under a lock; everyone else waits for it and finds nothing left
//! to do. A database that a newer Posthaste has migrated is refused.

use std::time::Duration;

use posthaste_store::Vitals;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::config::PostgresConfig;
use crate::error::{gave_way, told, words};

/// Whoever looks is answered within this. Migrating waits for as long as another migrates.
const EXAMINE_WITHIN: Duration = Duration::from_secs(15);
/// Each waits for two seconds at most where a table is in use, and lets others go on in between.
const TRIES: usize = 30;
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// In order; a migration that has been released is never changed.
const MIGRATIONS: &[(&str, &str)] = &[
    ("outbox", include_str!("../migrations/0001_outbox.sql")),
    ("callers", include_str!("../migrations/0002_callers.sql")),
    ("operators", include_str!("../migrations/0003_operators.sql")),
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
    #[error(
        "PostgreSQL could not be reached: {}; check that it runs, and the host, port and sslmode of the URL",
        told(.0)
    )]
    Connect(tokio_postgres::Error),
    #[error("PostgreSQL refused the connection: {}", told(.0))]
    Refused(tokio_postgres::Error),
    #[error("PostgreSQL does not answer; check that it is well, and the host and port of the URL")]
    NoAnswer,
    #[error("{what} could not be created: {}{}", words(.error), missing_right(.error))]
    Create { what: &'static str, error: tokio_postgres::Error },
    #[error("migration {version} ({name}) failed and was rolled back: {}", told(.error))]
    Failed { version: i32, name: &'static str, error: tokio_postgres::Error },
    #[error("the schema could not be examined: {}", told(.0))]
    Examine(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for MigrateError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Examine(error)
    }
}

/// The way out for a role that may not create what is missing.
fn missing_right(error: &tokio_postgres::Error) -> &'static str {
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        "; have the schema app made this role's own, by CREATE SCHEMA app AUTHORIZATION or ALTER SCHEMA app OWNER TO"
    } else {
        ""
    }
}

/// The schema version that this Posthaste works with.
pub fn known_version() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("there are few migrations")
}

/// Brings the schema up to date, on a connection of its own. Where somebody uses a table that has to change, it lets them,
/// and everybody who would queue behind it, and tries again.
pub async fn migrate(config: &PostgresConfig) -> Result<Migrated, MigrateError> {
    for _ in 1..TRIES {
        match connected(config, migrate_on).await {
            Err(MigrateError::Failed { error, name, .. }) if gave_way(&error) => {
                tracing::info!(name, "a table that is to change is in use; trying again");
                crate::pause(TRY_AGAIN_AFTER).await;
            }
            done => return done,
        }
    }
    connected(config, migrate_on).await
}

/// Looks at a database and changes nothing; none where it has no schema yet.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for the network; nothing is scheduled by it")]
pub async fn examine(config: &PostgresConfig) -> Result<Option<Vitals>, MigrateError> {
    let examining = connected(config, async |client| examine_on(client).await);
    tokio::time::timeout(EXAMINE_WITHIN, examining).await.unwrap_or(Err(MigrateError::NoAnswer))
}

async fn connected<T>(
    config: &PostgresConfig,
    work: impl AsyncFnOnce(&mut Client) -> Result<T, MigrateError>,
) -> Result<T, MigrateError> {
    let (mut client, connection) = config.dial().await.ok_or(MigrateError::NoAnswer)?.map_err(|error| {
        if error.as_db_error().is_some() {
            MigrateError::Refused(error)
        } else {
            MigrateError::Connect(error)
        }
    })?;
    let connection = tokio::spawn(connection);
    let done = work(&mut client).await;
    drop(client);
    // Ends by itself, now that its client is gone.
    let _ = connection.await;
    done
}

async fn examine_on(client: &Client) -> Result<Option<Vitals>, MigrateError> {
    let is_there = "SELECT to_regclass('app.webhook_migrations') IS NOT NULL";
    if !client.query_typed(is_there, &[]).await?[0].try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let rows = client.query_typed(crate::read::VITALS.text, &[]).await?;
    Ok(Some(crate::read::vitals_of(&rows[0])?))
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
    transaction.batch_execute("SELECT pg_advisory_xact_lock(7526, 0)").await?;
    make_room(&transaction).await?;
    let rows =
        transaction.query_typed("SELECT coalesce(max(version), 0) FROM app.webhook_migrations", &[]).await?;
    let from: i32 = rows[0].try_get(0)?;
    let to = known_version();
    if from > to {
        return Err(MigrateError::Newer { found: from, known: to });
    }
    transaction.batch_execute("SET LOCAL lock_timeout = '2s'").await?;
    for ((name, sql), version) in MIGRATIONS.iter().zip(1..).skip_while(|(_, version)| *version <= from) {
        let record =
            format!("INSERT INTO app.webhook_migrations (version, name) VALUES ({version}, '{name}')");
        for part in [sql, record.as_str()] {
            transaction.batch_execute(part).await.map_err(|error| MigrateError::Failed {
                version,
                name,
                error,
            })?;
        }
    }
    transaction.commit().await?;
    Ok(Migrated { from, to })
}

/// Creates only what is not there: even `IF NOT EXISTS` asks for the right to create, which a role that was given its
/// schema need not have.
async fn make_room(transaction: &Transaction<'_>) -> Result<(), MigrateError> {
    for (what, is_there, create) in [
        ("the schema app", "SELECT to_regnamespace('app') IS NOT NULL", "CREATE SCHEMA app"),
        (
            "the table app.webhook_migrations",
            "SELECT to_regclass('app.webhook_migrations') IS NOT NULL",
            "CREATE TABLE app.webhook_migrations (
                 version    integer     PRIMARY KEY,
                 name       text        NOT NULL,
                 applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
             )",
        ),
    ] {
        let rows = transaction.query_typed(is_there, &[]).await?;
        if !rows[0].try_get::<_, bool>(0)? {
            let created = transaction.batch_execute(create).await;
            created.map_err(|error| MigrateError::Create { what, error })?;
        }
    }
    Ok(())
}
