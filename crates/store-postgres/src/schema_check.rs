//! Compares the objects and rights in the database with those that the migrations create.
//!
//! The expected objects are in `migrations/schema.txt`: the list of a freshly migrated database. A test compares the file
//! with such a database, and writes it when `POSTHASTE_UPDATE` is set. Objects that an operator has added are ignored.

use std::collections::BTreeMap;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::migrate::MIGRATIONS;
use crate::schema::SchemaName;

/// The list of a freshly migrated database whose schema is `app`, one object per line: its kind and name, a tab, and
/// its definition.
const EXPECTED: &str = include_str!("../migrations/schema.txt");

/// Lists the objects of the schema, and the rights of the current role on them. Leaves out the partitions of single
/// days. The definitions are the same on every version of PostgreSQL. A function whose body is the text $1[n] is listed
/// with that of $2[n]: the body that it has in the schema `app`.
const LIST: &str = "
WITH relations AS (
    SELECT c.oid, c.relname, c.relkind
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace = pg_catalog.to_regnamespace('app')
          AND (NOT c.relispartition OR c.relname LIKE 'webhook\\_attempts\\_default%')
)
SELECT CASE r.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END || r.relname, ''
FROM relations r
WHERE r.relkind IN ('r', 'p', 'v', 'S')
UNION ALL
SELECT 'column ' || r.relname || '.' || a.attname,
       pg_catalog.format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
       || CASE WHEN a.attidentity <> '' THEN ' IDENTITY' ELSE '' END
       || coalesce(' DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid), '')
FROM relations r
JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
WHERE r.relkind IN ('r', 'p', 'v')
UNION ALL
SELECT 'index ' || r.relname,
       pg_catalog.pg_get_indexdef(r.oid) || CASE WHEN i.indisvalid AND i.indisready THEN '' ELSE ' (invalid)' END
FROM relations r
JOIN pg_catalog.pg_index i ON i.indexrelid = r.oid
UNION ALL
SELECT 'constraint ' || k.conname || ' on ' || r.relname, CASE WHEN k.convalidated THEN '' ELSE '(not validated)' END
FROM relations r
JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype = 'c'
UNION ALL
SELECT 'trigger ' || t.tgname || ' on ' || r.relname,
       'calls ' || p.proname || CASE WHEN t.tgenabled = 'O' THEN '' ELSE ' (disabled)' END
FROM relations r
JOIN pg_catalog.pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
UNION ALL
SELECT 'function ' || p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')',
       'returns ' || pg_catalog.format_type(p.prorettype, NULL) || ', body '
       || left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(coalesce(b.written, 'other ' || p.prosrc), 'UTF8')), 'hex'), 16)
FROM pg_catalog.pg_proc p
LEFT JOIN (SELECT DISTINCT * FROM unnest($1, $2) AS u (rewritten, written)) AS b ON b.rewritten = p.prosrc
WHERE p.pronamespace = pg_catalog.to_regnamespace('app')
UNION ALL
SELECT 'right to ' || g.right || ' on ' || r.relname, ''
FROM relations r
JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS g (\"right\")
     ON r.relkind IN ('r', 'p') AND pg_catalog.has_table_privilege(r.oid, g.right)
UNION ALL
SELECT 'right to ' || g.right || ' on ' || r.relname, ''
FROM relations r
JOIN (VALUES ('SELECT'), ('USAGE')) AS g (\"right\")
     ON r.relkind = 'S' AND pg_catalog.has_sequence_privilege(r.oid, g.right)
ORDER BY 1";

/// Objects by kind and name, with their definitions.
type Objects = BTreeMap<String, String>;

/// Returns what is missing from the schema, or differs from what it should be; empty if the schema is intact.
pub(crate) async fn find_problems(
    client: &mut Client,
    schema: &SchemaName,
) -> Result<Vec<String>, tokio_postgres::Error> {
    let found = list(client, schema).await?;
    // PostgreSQL quotes a schema's name in definitions only if the name is a keyword.
    let quoted = client.query_typed("SELECT quote_ident($1)", &[(&schema.as_str(), Type::TEXT)]).await?;
    let qualifier: &str = quoted[0].try_get(0)?;
    Ok(compare(&parse(&schema.rewrite_as(EXPECTED, qualifier)), &found, qualifier))
}

async fn list(client: &mut Client, schema: &SchemaName) -> Result<Objects, tokio_postgres::Error> {
    let written: Vec<String> = MIGRATIONS.iter().flat_map(|(_, sql)| function_bodies(sql)).collect();
    let rewritten: Vec<_> = written.iter().map(|body| schema.rewrite(body)).collect();
    // Definitions name the schema of an object only if the search path does not have it.
    let transaction = client.transaction().await?;
    transaction.batch_execute("SET LOCAL search_path = pg_catalog").await?;
    let bodies = [(&rewritten as _, Type::TEXT_ARRAY), (&written as _, Type::TEXT_ARRAY)];
    let rows = transaction.query_typed(&schema.rewrite(LIST), &bodies).await?;
    transaction.rollback().await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Returns the bodies of the functions that a migration creates, as PostgreSQL stores them. A body is in quotes or between
/// two `$$`.
fn function_bodies(migration: &str) -> Vec<String> {
    let definitions = migration.split("\nAS ").skip(1);
    let body = |definition: &str| match definition.strip_prefix("$$") {
        Some(rest) => rest.split_once("$$").map(|(body, _)| body.to_owned()),
        None => definition.strip_prefix('\'')?.split_once("';").map(|(body, _)| body.replace("''", "'")),
    };
    definitions.filter_map(body).collect()
}

fn parse(list: &str) -> Objects {
    let lines = list.lines().map(|line| line.split_once('\t').unwrap_or((line, "")));
    lines.map(|(name, definition)| (name.to_owned(), definition.to_owned())).collect()
}

/// Returns one sentence per object that is missing or differs. The columns, indexes and rights of a missing table, and
/// what else belongs to it, are not listed. Definitions name a table with this qualifier.
fn compare(expected: &Objects, found: &Objects, qualifier: &str) -> Vec<String> {
    let is_missing = |name: &str| !found.contains_key(name);
    let of_missing_table = |name: &str| {
        let of_table = |table: &str| {
            name.starts_with(&format!("column {table}."))
                || name.ends_with(&format!(" on {table}"))
                || expected
                    .get(name)
                    .is_some_and(|definition| definition.contains(&format!(" {qualifier}.{table} ")))
        };
        let tables = expected.keys().filter_map(|name| {
            ["table ", "view ", "sequence "]
                .iter()
                .find_map(|kind| name.strip_prefix(kind))
                .filter(|_| is_missing(name))
        });
        tables.into_iter().any(of_table)
    };
    let problem = |(name, definition): (&String, &String)| match found.get(name) {
        Some(other) if other == definition => None,
        _ if of_missing_table(name) => None,
        Some(other) => Some(format!("{name} differs: it is {other:?} instead of {definition:?}")),
        None if name.starts_with("right ") => Some(format!("this role has no {name}")),
        None if name.starts_with("index ") => Some(format!("{name} is missing: {definition}")),
        None => Some(format!("{name} is missing")),
    };
    expected.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests;
