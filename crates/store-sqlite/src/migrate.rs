//! Schema migrations: numbered steps, each applied once.
//!
//! All missing steps are applied in one transaction under the write lock. Another process that opens the same file
//! meanwhile waits for the lock and then has nothing left to apply.

use std::collections::BTreeMap;
use std::path::Path;

use posthaste_domain::Timestamp;
use posthaste_store::{StoreClock, StoreHealth};
use rusqlite::{Connection, OptionalExtension as _};

use crate::connect;
use crate::open::{OpenError, Options, absolute_path};

/// Name and SQL of each migration, in order; the first is version 1. A released migration never changes.
const MIGRATIONS: &[(&str, &str)] = &[
    ("outbox", include_str!("../migrations/0001_outbox.sql")),
    ("registry", include_str!("../migrations/0002_registry.sql")),
    ("deliveries_view", include_str!("../migrations/0003_deliveries_view.sql")),
    ("producers", include_str!("../migrations/0004_producers.sql")),
];

/// Schema versions before and after a migration; equal if there was nothing to apply. Version 0 is an empty database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    pub from: i64,
    pub to: i64,
}

/// Creates or upgrades the schema of a database file. Opening a store does this as well.
pub fn migrate(path: impl AsRef<Path>) -> Result<MigrationReport, OpenError> {
    let path = absolute_path(path.as_ref())?;
    let db = connect::open_writer(&path, Options::default().busy_timeout)?;
    apply_migrations(&db, &path, MIGRATIONS)
}

/// Reads the schema version of a database file, without changing the file.
pub fn inspect(path: impl AsRef<Path>, clock: &dyn StoreClock) -> Result<StoreHealth, OpenError> {
    let path = absolute_path(path.as_ref())?;
    let db = connect::open_reader(&path, Options::default().busy_timeout)
        .map_err(|error| OpenError::from_sqlite(error, &path))?;
    read_health(&db, clock.now()).map_err(|error| OpenError::from_sqlite(error, &path))
}

pub(crate) fn read_health(db: &Connection, now: Timestamp) -> rusqlite::Result<StoreHealth> {
    Ok(StoreHealth { now, schema: schema_version(db)?, schema_supported: version_after(MIGRATIONS.len()) })
}

/// Returns what is missing from the schema of a current database, or differs from what the migrations create; empty if the
/// schema is intact. Objects that an operator has added are ignored.
pub fn check_schema(path: impl AsRef<Path>) -> Result<Vec<String>, OpenError> {
    let path = absolute_path(path.as_ref())?;
    let sqlite = |error| OpenError::from_sqlite(error, &path);
    let db = connect::open_reader(&path, Options::default().busy_timeout).map_err(sqlite)?;
    find_schema_problems(&db, &path)
}

pub(crate) fn find_schema_problems(db: &Connection, path: &Path) -> Result<Vec<String>, OpenError> {
    let sqlite = |error| OpenError::from_sqlite(error, path);
    let fresh = Connection::open_in_memory().map_err(sqlite)?;
    apply_migrations(&fresh, path, MIGRATIONS)?;
    let (expected, found) = (list_objects(&fresh).map_err(sqlite)?, list_objects(db).map_err(sqlite)?);
    let problem = |(name, definition): (&String, &String)| match found.get(name) {
        Some(other) if other == definition => None,
        Some(_) => Some(format!("{name} differs; it should be: {definition}")),
        None => Some(format!("{name} is missing")),
    };
    Ok(expected.iter().filter_map(problem).collect())
}

/// Lists the objects of the schema: kind and name, with the statement that creates each.
fn list_objects(db: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let objects = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'";
    let mut objects = db.prepare(objects)?;
    objects.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Applies all missing migrations on an open connection.
pub(crate) fn migrate_to_latest(db: &Connection, path: &Path) -> Result<MigrationReport, OpenError> {
    apply_migrations(db, path, MIGRATIONS)
}

fn apply_migrations(
    db: &Connection,
    path: &Path,
    migrations: &[(&str, &str)],
) -> Result<MigrationReport, OpenError> {
    let sqlite = |error| OpenError::from_sqlite(error, path);
    let latest = version_after(migrations.len());
    // First without the lock: usually there is nothing to apply, and then opening must not wait for a writer.
    if schema_version(db).map_err(sqlite)? == latest {
        return Ok(MigrationReport { from: latest, to: latest });
    }
    db.execute_batch("BEGIN IMMEDIATE").map_err(sqlite)?;
    let report = apply_missing(db, path, migrations, latest);
    let ended = db.execute_batch(if report.is_ok() { "COMMIT" } else { "ROLLBACK" });
    report.and_then(|report| ended.map(|()| report).map_err(sqlite))
}

fn apply_missing(
    db: &Connection,
    path: &Path,
    migrations: &[(&str, &str)],
    latest: i64,
) -> Result<MigrationReport, OpenError> {
    let from = schema_version(db).map_err(|error| OpenError::from_sqlite(error, path))?;
    if from > latest {
        return Err(OpenError::SchemaTooNew { path: path.to_owned(), found: from, supported: latest });
    }
    for (index, (name, sql)) in migrations.iter().enumerate() {
        let version = version_after(index + 1);
        if version > from {
            apply(db, version, name, sql).map_err(|source| OpenError::Migration {
                path: path.to_owned(),
                version,
                source,
            })?;
        }
    }
    Ok(MigrationReport { from, to: latest })
}

fn apply(db: &Connection, version: i64, name: &str, sql: &str) -> rusqlite::Result<()> {
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS webhook_migrations (
             version    INTEGER PRIMARY KEY,
             name       TEXT    NOT NULL,
             applied_at INTEGER NOT NULL
         )",
    )?;
    db.execute_batch(sql)?;
    db.execute(
        "INSERT INTO webhook_migrations (version, name, applied_at)
         VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
        (version, name),
    )?;
    Ok(())
}

/// Returns the version of the last applied migration; 0 for a database without any.
fn schema_version(db: &Connection) -> rusqlite::Result<i64> {
    let table_exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'webhook_migrations'";
    match db.query_row(table_exists, [], |_| Ok(())).optional()? {
        None => Ok(0),
        Some(()) => {
            db.query_row("SELECT coalesce(max(version), 0) FROM webhook_migrations", [], |row| row.get(0))
        }
    }
}

/// Returns the schema version after the first `steps` migrations.
fn version_after(steps: usize) -> i64 {
    i64::try_from(steps).expect("the number of migrations is small")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn database() -> (tempfile::TempDir, std::path::PathBuf, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let db = connect::open_writer(&path, Duration::from_secs(5)).unwrap();
        (directory, path, db)
    }

    const FIRST: (&str, &str) = ("first", "CREATE TABLE a (x)");
    const SECOND: (&str, &str) = ("second", "CREATE TABLE b (x)");
    const BROKEN: (&str, &str) = ("broken", "CREATE TABLE c (x); CREATE TABLE a (x)");

    fn tables(db: &Connection) -> Vec<String> {
        let mut tables = db
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND length(name) = 1 ORDER BY name")
            .unwrap();
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn only_missing_migrations_are_applied() {
        let (_directory, path, db) = database();
        assert_eq!(apply_migrations(&db, &path, &[FIRST]).unwrap(), MigrationReport { from: 0, to: 1 });
        assert_eq!(apply_migrations(&db, &path, &[FIRST]).unwrap(), MigrationReport { from: 1, to: 1 });
        assert_eq!(
            apply_migrations(&db, &path, &[FIRST, SECOND]).unwrap(),
            MigrationReport { from: 1, to: 2 }
        );
        assert_eq!(tables(&db), ["a", "b"]);
    }

    #[test]
    fn missing_and_changed_objects_are_named_and_additions_are_ignored() {
        let (_directory, path, db) = database();
        apply_migrations(&db, &path, MIGRATIONS).unwrap();
        db.execute_batch("CREATE INDEX own ON webhook_events (event_type)").unwrap();
        assert_eq!(check_schema(&path).unwrap(), Vec::<String>::new());
        db.execute_batch("DROP INDEX webhook_idempotency_key; ALTER TABLE webhook_audit ADD COLUMN own TEXT")
            .unwrap();
        let problems = check_schema(&path).unwrap();
        assert_eq!(problems[0], "index webhook_idempotency_key is missing");
        assert!(
            problems[1].starts_with("table webhook_audit differs") && problems.len() == 2,
            "{problems:?}"
        );
    }

    #[test]
    fn an_audit_row_without_a_reason_survives_an_upgrade() {
        let (_directory, path, db) = database();
        apply_migrations(&db, &path, &MIGRATIONS[..1]).unwrap();
        db.execute_batch(
            "INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, 'https://a.example/', 0);
             INSERT INTO webhook_events
                 (id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at)
             VALUES (1, 'msg_1', 1, x'00', 1, 't', 6, 0);
             INSERT INTO webhook_failures
                 (id, destination_id, failure_kind, attempts, claims, lost_leases, updated_at)
             VALUES (1, 1, 'cancelled', 0, 0, 0, 0);
             INSERT INTO webhook_audit (event_key, action, actor, at) VALUES (1, 'cancel', 'ops', 7)",
        )
        .unwrap();
        assert_eq!(apply_migrations(&db, &path, MIGRATIONS).unwrap().from, 1);
        let last: (String, i64, Option<String>) = db
            .query_row(
                "SELECT manual_last_actor, manual_last_at, manual_last_reason FROM webhook_outbox_events",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert_eq!(last, ("ops".to_owned(), 7, None));
        // The view of deliveries and its requeue trigger, which the upgrade added, work on the older row.
        let reset = "UPDATE webhook_deliveries SET status = 'pending', attempt_count = 0 WHERE id = 'msg_1'";
        db.execute(reset, []).unwrap();
        let status: String =
            db.query_row("SELECT status FROM webhook_deliveries", [], |row| row.get(0)).unwrap();
        assert_eq!(status, "pending");
    }

    #[test]
    fn the_schema_uses_nothing_that_sqlite_3_35_does_not_know() {
        let (_directory, path, db) = database();
        apply_migrations(&db, &path, MIGRATIONS).unwrap();
        let mut schema = db.prepare("SELECT lower(sql) FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
        let statements: Vec<String> =
            schema.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        for (newer, since) in [
            ("strict", "3.37"),
            ("unixepoch", "3.38"),
            ("'auto'", "3.38"),
            ("format(", "3.38"),
            ("->", "3.38"),
            ("right join", "3.39"),
            ("full join", "3.39"),
            ("distinct from", "3.39"),
            ("'subsec'", "3.42"),
            ("timediff(", "3.43"),
            ("octet_length(", "3.43"),
            ("concat(", "3.44"),
            ("string_agg(", "3.44"),
            ("unistr(", "3.50"),
        ] {
            let uses = statements.iter().find(|statement| statement.contains(newer));
            assert_eq!(uses, None, "{newer} is unknown before SQLite {since}");
        }
    }

    #[test]
    fn a_failed_migration_leaves_the_database_unchanged() {
        let (_directory, path, db) = database();
        apply_migrations(&db, &path, &[FIRST]).unwrap();
        let error = apply_migrations(&db, &path, &[FIRST, SECOND, BROKEN]).unwrap_err().to_string();
        assert!(error.contains("migration 3") && error.contains("outbox.db"), "{error}");
        assert_eq!(tables(&db), ["a"]);
        assert_eq!(
            apply_migrations(&db, &path, &[FIRST, SECOND]).unwrap(),
            MigrationReport { from: 1, to: 2 }
        );
    }

    #[test]
    fn a_database_with_a_newer_schema_is_refused_and_unchanged() {
        let (_directory, path, db) = database();
        apply_migrations(&db, &path, &[FIRST, SECOND]).unwrap();
        let error = apply_migrations(&db, &path, &[FIRST]).unwrap_err().to_string();
        for expected in ["outbox.db", "version 2", "up to 1", "upgrade"] {
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(tables(&db), ["a", "b"]);
    }
}
