//! Schema migrations, forwards only.
//!
//! The first process migrates, in one transaction and under an advisory lock; other processes wait for the lock and then
//! find nothing left to do. A database that a newer Posthaste has migrated is refused.

mod migrations_table;

use std::time::Duration;

use posthaste_store::StoreHealth;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel};

use crate::config::PostgresConfig;
use crate::error::{describe, is_lock_conflict, passes_by_itself, server_message};
use crate::schema::SchemaName;
use crate::schema_check;

/// Timeout of [`inspect`]. [`migrate`] has none: it waits for as long as another process migrates.
const INSPECT_WITHIN: Duration = Duration::from_secs(15);
/// Maximum number of tries of a migration that changes a table in use. A try waits at most two seconds for the table's
/// lock; statements that queued behind it run between tries.
const TRIES_MAX: usize = 30;
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// One step of the schema: its name and its SQL.
type Migration = (&'static str, &'static str);

/// All migrations, in order. A released migration is never changed.
pub(crate) const MIGRATIONS: &[Migration] = &[
    ("outbox", include_str!("../migrations/0001_outbox.sql")),
    ("callers", include_str!("../migrations/0002_callers.sql")),
];

/// Schema versions before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    pub from: i32,
    pub to: i32,
}

/// Why a database could not be migrated or inspected.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error(
        "the database is at schema version {found} and this Posthaste supports versions up to {supported}: a newer \
         Posthaste has migrated it; upgrade this one"
    )]
    Newer { found: i32, supported: i32 },
    #[error("PostgreSQL {found} is too old; Posthaste needs 13 or newer")]
    ServerTooOld { found: String },
    #[error(
        "PostgreSQL could not be reached: {}; check that it runs, and the host, port and sslmode of the URL",
        describe(.0)
    )]
    Connect(tokio_postgres::Error),
    #[error("PostgreSQL refused the connection: {}", describe(.0))]
    Refused(tokio_postgres::Error),
    #[error("PostgreSQL does not answer; check that it runs, and the host and port of the URL")]
    NoAnswer,
    #[error("{what} could not be created: {}{}", server_message(.error), privilege_advice(.schema, .error))]
    Create { what: String, schema: SchemaName, error: tokio_postgres::Error },
    /// Another application uses the schema.
    #[error(
        "the schema {schema} belongs to another application: it has {example}, and no table of Posthaste; set database_schema \
         (POSTHASTE_DATABASE_SCHEMA) to another name, such as posthaste, for a schema of Posthaste's own"
    )]
    ForeignSchema { schema: SchemaName, example: String },
    #[error("migration {version} ({name}) failed and was rolled back: {}", describe(.error))]
    Failed { version: i32, name: &'static str, error: tokio_postgres::Error },
    #[error("the schema could not be read: {}", describe(.0))]
    Inspect(tokio_postgres::Error),
}

impl MigrateError {
    /// Returns true if the same call may succeed later, because the server was not reachable, starting or overloaded. A
    /// wrong password, a missing database or an unsuitable schema does not pass by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Newer { .. } | Self::ServerTooOld { .. } | Self::ForeignSchema { .. } => false,
            Self::NoAnswer => true,
            Self::Connect(error)
            | Self::Refused(error)
            | Self::Inspect(error)
            | Self::Create { error, .. }
            | Self::Failed { error, .. } => passes_by_itself(error),
        }
    }
}

impl From<tokio_postgres::Error> for MigrateError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Inspect(error)
    }
}

/// Returns advice for the operator if the database role may not create the schema or its objects, otherwise an empty
/// string.
fn privilege_advice(schema: &SchemaName, error: &tokio_postgres::Error) -> String {
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        format!(
            "; make this role the owner of the schema {schema}, by CREATE SCHEMA {schema} AUTHORIZATION or ALTER SCHEMA \
             {schema} OWNER TO, or choose another schema with database_schema"
        )
    } else {
        String::new()
    }
}

/// Returns the schema version that this build of Posthaste works with.
pub fn supported_schema_version() -> i32 {
    version_of(MIGRATIONS)
}

/// Returns the schema version after these migrations.
fn version_of(migrations: &[Migration]) -> i32 {
    i32::try_from(migrations.len()).expect("there are few migrations")
}

/// Migrates the schema to the current version, on its own connection. If a table that it changes stays in use, the
/// migration rolls back after a lock timeout, so that the transactions behind it can run, and tries again later.
pub async fn migrate(config: &PostgresConfig) -> Result<MigrationReport, MigrateError> {
    apply(config, MIGRATIONS).await
}

async fn apply(config: &PostgresConfig, migrations: &[Migration]) -> Result<MigrationReport, MigrateError> {
    for _ in 1..TRIES_MAX {
        match apply_once(config, migrations).await {
            Err(MigrateError::Failed { error, name, .. }) if is_lock_conflict(&error) => {
                tracing::info!(name, "a table that the migration changes is in use; trying again");
                crate::sleep(RETRY_AFTER).await;
            }
            result => return result,
        }
    }
    apply_once(config, migrations).await
}

async fn apply_once(
    config: &PostgresConfig,
    migrations: &[Migration],
) -> Result<MigrationReport, MigrateError> {
    with_connection(config, async |client| apply_on(client, &config.schema, migrations).await).await
}

/// Reads the server's time and the schema version without changing anything. Returns `None` if there is no schema yet.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for the network; nothing is scheduled by it")]
pub async fn inspect(config: &PostgresConfig) -> Result<Option<StoreHealth>, MigrateError> {
    let inspecting = with_connection(config, async |client| inspect_on(client, &config.schema).await);
    tokio::time::timeout(INSPECT_WITHIN, inspecting).await.unwrap_or(Err(MigrateError::NoAnswer))
}

/// Returns what is missing from the schema of a current database, or differs from what the migrations create: tables,
/// columns, indexes, functions, triggers, views, and rights of this role. Empty if the schema is intact.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for the network; nothing is scheduled by it")]
pub async fn check_schema(config: &PostgresConfig) -> Result<Vec<String>, MigrateError> {
    let checking =
        with_connection(
            config,
            async |client| Ok(schema_check::find_problems(client, &config.schema).await?),
        );
    tokio::time::timeout(INSPECT_WITHIN, checking).await.unwrap_or(Err(MigrateError::NoAnswer))
}

/// Runs `work` on a new connection, and closes the connection afterwards.
async fn with_connection<T>(
    config: &PostgresConfig,
    work: impl AsyncFnOnce(&mut Client) -> Result<T, MigrateError>,
) -> Result<T, MigrateError> {
    let (mut client, connection) =
        config.connect().await.ok_or(MigrateError::NoAnswer)?.map_err(|error| {
            if error.as_db_error().is_some() {
                MigrateError::Refused(error)
            } else {
                MigrateError::Connect(error)
            }
        })?;
    let connection = tokio::spawn(connection);
    let result = work(&mut client).await;
    drop(client);
    // The connection's task ends once its client is dropped.
    let _ = connection.await;
    result
}

async fn inspect_on(client: &Client, schema: &SchemaName) -> Result<Option<StoreHealth>, MigrateError> {
    if !migrations_table::is_migrated(client, schema).await? {
        migrations_table::refuse_foreign_schema(client, schema).await?;
        return Ok(None);
    }
    let rows = client.query_typed(&schema.rewrite(crate::read::HEALTH.text), &[]).await?;
    Ok(Some(crate::read::parse_health(&rows[0])?))
}

/// Applies the migrations that the database lacks, all in one transaction.
async fn apply_on(
    client: &mut Client,
    schema: &SchemaName,
    migrations: &[Migration],
) -> Result<MigrationReport, MigrateError> {
    let version: i32 =
        client.query_typed("SELECT current_setting('server_version_num')::integer", &[]).await?[0]
            .try_get(0)?;
    if version < 130_000 {
        return Err(MigrateError::ServerTooOld { found: format!("{}", version / 10_000) });
    }
    let transaction =
        client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
    // A process that is stopped in the middle of its migration must not keep the others from starting.
    let lock = "SET LOCAL idle_in_transaction_session_timeout = '10s'; SELECT pg_advisory_xact_lock(7526, 0)";
    transaction.batch_execute(&schema.rewrite(lock)).await?;
    migrations_table::create_migrations_table(&transaction, schema).await?;
    let last_version = "SELECT coalesce(max(version), 0) FROM app.webhook_migrations";
    let rows = transaction.query_typed(&schema.rewrite(last_version), &[]).await?;
    let from: i32 = rows[0].try_get(0)?;
    let to = version_of(migrations);
    if from > to {
        return Err(MigrateError::Newer { found: from, supported: to });
    }
    transaction.batch_execute("SET LOCAL lock_timeout = '2s'").await?;
    for ((name, sql), version) in migrations.iter().zip(1..).skip_while(|(_, version)| *version <= from) {
        let record =
            format!("INSERT INTO app.webhook_migrations (version, name) VALUES ({version}, '{name}')");
        for part in [sql, record.as_str()] {
            transaction.batch_execute(&schema.rewrite(part)).await.map_err(|error| MigrateError::Failed {
                version,
                name,
                error,
            })?;
        }
    }
    transaction.commit().await?;
    Ok(MigrationReport { from, to })
}

#[cfg(test)]
mod tests;
