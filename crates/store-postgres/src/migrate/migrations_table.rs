//! The schema before its first migration: whether Posthaste may use it, and the table of applied migrations.

use tokio_postgres::{GenericClient, Transaction};

use super::MigrateError;
use crate::schema::SchemaName;

const CREATE_MIGRATIONS: &str = "
CREATE TABLE app.webhook_migrations (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
)";

/// Describes an object of the schema: a relation if there is one, otherwise a function or a type.
const ANY_OBJECT: &str = "
SELECT o.description
FROM (
    SELECT 1 AS kind,
           CASE c.relkind WHEN 'v' THEN 'the view ' WHEN 'm' THEN 'the view ' WHEN 'S' THEN 'the sequence '
                          ELSE 'the table ' END || c.relname AS description
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace = pg_catalog.to_regnamespace('app') AND c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S')
    UNION ALL
    SELECT 2, 'the function ' || p.proname
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = pg_catalog.to_regnamespace('app')
    UNION ALL
    SELECT 3, 'the type ' || t.typname
    FROM pg_catalog.pg_type t
    WHERE t.typnamespace = pg_catalog.to_regnamespace('app')
) AS o
ORDER BY o.kind, o.description
LIMIT 1";

/// Returns whether the schema has a table of applied migrations.
pub(super) async fn is_migrated(
    client: &impl GenericClient,
    schema: &SchemaName,
) -> Result<bool, tokio_postgres::Error> {
    is_true(client, &schema.rewrite("SELECT to_regclass('app.webhook_migrations') IS NOT NULL")).await
}

/// Returns an error if a schema that Posthaste has not migrated has objects. A migration would mix Posthaste's tables with
/// those of another application, or fail on an equal name. An empty schema is for Posthaste.
pub(super) async fn refuse_foreign_schema(
    client: &impl GenericClient,
    schema: &SchemaName,
) -> Result<(), MigrateError> {
    match client.query_typed(&schema.rewrite(ANY_OBJECT), &[]).await?.first() {
        None => Ok(()),
        Some(row) => Err(MigrateError::ForeignSchema { schema: schema.clone(), example: row.try_get(0)? }),
    }
}

/// Creates the schema and the table of applied migrations where they are missing. `IF NOT EXISTS` would require the
/// privilege to create them even where they exist.
pub(super) async fn create_migrations_table(
    transaction: &Transaction<'_>,
    schema: &SchemaName,
) -> Result<(), MigrateError> {
    let create = async |what: String, sql| {
        let created = transaction.batch_execute(&schema.rewrite(sql)).await;
        created.map_err(|error| MigrateError::Create { what, schema: schema.clone(), error })
    };
    if !is_true(transaction, &schema.rewrite("SELECT to_regnamespace('app') IS NOT NULL")).await? {
        create(format!("the schema {schema}"), "CREATE SCHEMA app").await?;
    }
    if !is_migrated(transaction, schema).await? {
        refuse_foreign_schema(transaction, schema).await?;
        create(format!("the table {schema}.webhook_migrations"), CREATE_MIGRATIONS).await?;
    }
    Ok(())
}

async fn is_true(client: &impl GenericClient, sql: &str) -> Result<bool, tokio_postgres::Error> {
    client.query_typed(sql, &[]).await?[0].try_get(0)
}
