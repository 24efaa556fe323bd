//! The schema and how it came to be: numbered steps forward, each applied once.
//!
//! All that are missing are applied in one transaction under the write lock. Whoever opens the same file meanwhile
//! waits for the lock and then finds nothing left to do.

use std::path::Path;

use posthaste_domain::Timestamp;
use posthaste_store::{StoreClock, Vitals};
use rusqlite::{Connection, OptionalExtension as _};

use crate::connect;
use crate::open::{OpenError, Options, absolute};

/// In order; the first is version 1. A step that was released is never changed.
const MIGRATIONS: &[(&str, &str)] = &[
    ("outbox", include_str!("../migrations/0001_outbox.sql")),
    ("deliveries_view", include_str!("../migrations/0002_deliveries_view.sql")),
    ("audit_reason", include_str!("../migrations/0003_audit_reason.sql")),
];

/// From which version a database was brought to which; the same when there was nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

/// Creates or upgrades the schema of a database file. Opening a store does this as well.
pub fn migrate(path: impl AsRef<Path>) -> Result<Migrated, OpenError> {
    let path = absolute(path.as_ref())?;
    let db = connect::writer(&path, Options::default().busy_timeout)?;
    bring_up(&db, &path, MIGRATIONS)
}

/// Looks at a database file and changes nothing.
pub fn examine(path: impl AsRef<Path>, clock: &dyn StoreClock) -> Result<Vitals, OpenError> {
    let path = absolute(path.as_ref())?;
    let db = connect::reader(&path, Options::default().busy_timeout)
        .map_err(|error| OpenError::of(error, &path))?;
    vitals(&db, clock.now()).map_err(|error| OpenError::of(error, &path))
}

pub(crate) fn vitals(db: &Connection, now: Timestamp) -> rusqlite::Result<Vitals> {
    Ok(Vitals { now, schema: version(db)?, schema_known: version_after(MIGRATIONS.len()) })
}

pub(crate) fn bring_up_to_date(db: &Connection, path: &Path) -> Result<Migrated, OpenError> {
    bring_up(db, path, MIGRATIONS)
}

fn bring_up(db: &Connection, path: &Path, migrations: &[(&str, &str)]) -> Result<Migrated, OpenError> {
    let sqlite = |error| OpenError::of(error, path);
    let known = version_after(migrations.len());
    // Without the lock first: most openings find nothing to do, and must not wait behind a writer for that.
    if version(db).map_err(sqlite)? == known {
        return Ok(Migrated { from: known, to: known });
    }
    db.execute_batch("BEGIN IMMEDIATE").map_err(sqlite)?;
    let migrated = apply_missing(db, path, migrations, known);
    let ended = db.execute_batch(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" });
    migrated.and_then(|migrated| ended.map(|()| migrated).map_err(sqlite))
}

fn apply_missing(
    db: &Connection,
    path: &Path,
    migrations: &[(&str, &str)],
    known: i64,
) -> Result<Migrated, OpenError> {
    let from = version(db).map_err(|error| OpenError::of(error, path))?;
    if from > known {
        return Err(OpenError::SchemaTooNew { path: path.to_owned(), found: from, known });
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
    Ok(Migrated { from, to: known })
}

fn apply(db: &Connection, version: i64, name: &str, sql: &str) -> rusqlite::Result<()> {
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS webhook_migrations (
             version    INTEGER PRIMARY KEY,
             name       TEXT    NOT NULL,
             applied_at INTEGER NOT NULL
         ) STRICT",
    )?;
    db.execute_batch(sql)?;
    db.execute(
        "INSERT INTO webhook_migrations (version, name, applied_at)
         VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
        (version, name),
    )?;
    Ok(())
}

/// The latest step that was applied; 0 for a database that has never seen one.
fn version(db: &Connection) -> rusqlite::Result<i64> {
    let recorded = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'webhook_migrations'";
    match db.query_row(recorded, [], |_| Ok(())).optional()? {
        None => Ok(0),
        Some(()) => {
            db.query_row("SELECT coalesce(max(version), 0) FROM webhook_migrations", [], |row| row.get(0))
        }
    }
}

fn version_after(steps: usize) -> i64 {
    i64::try_from(steps).expect("there are a few migrations")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn database() -> (tempfile::TempDir, std::path::PathBuf, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let db = connect::writer(&path, Duration::from_secs(5)).unwrap();
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
    fn steps_are_applied_once_and_only_those_that_are_missing() {
        let (_directory, path, db) = database();
        assert_eq!(bring_up(&db, &path, &[FIRST]).unwrap(), Migrated { from: 0, to: 1 });
        assert_eq!(bring_up(&db, &path, &[FIRST]).unwrap(), Migrated { from: 1, to: 1 });
        assert_eq!(bring_up(&db, &path, &[FIRST, SECOND]).unwrap(), Migrated { from: 1, to: 2 });
        assert_eq!(tables(&db), ["a", "b"]);
    }

    #[test]
    fn what_was_audited_before_there_were_reasons_is_kept_without_one() {
        let (_directory, path, db) = database();
        bring_up(&db, &path, &MIGRATIONS[..2]).unwrap();
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
        assert_eq!(bring_up(&db, &path, MIGRATIONS).unwrap().from, 2);
        let last: (String, i64, Option<String>) = db
            .query_row(
                "SELECT manual_last_actor, manual_last_at, manual_last_reason FROM webhook_outbox_events",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert_eq!(last, ("ops".to_owned(), 7, None));
        // The view of deliveries reads the one that was made anew, and its triggers are still there.
        let reset = "UPDATE webhook_deliveries SET status = 'pending', attempt_count = 0 WHERE id = 'msg_1'";
        db.execute(reset, []).unwrap();
        let status: String =
            db.query_row("SELECT status FROM webhook_deliveries", [], |row| row.get(0)).unwrap();
        assert_eq!(status, "pending");
    }

    #[test]
    fn a_step_that_fails_leaves_the_database_as_it_was() {
        let (_directory, path, db) = database();
        bring_up(&db, &path, &[FIRST]).unwrap();
        let error = bring_up(&db, &path, &[FIRST, SECOND, BROKEN]).unwrap_err().to_string();
        assert!(error.contains("migration 3") && error.contains("outbox.db"), "{error}");
        assert_eq!(tables(&db), ["a"]);
        assert_eq!(bring_up(&db, &path, &[FIRST, SECOND]).unwrap(), Migrated { from: 1, to: 2 });
    }

    #[test]
    fn a_database_of_a_newer_version_is_refused_and_left_alone() {
        let (_directory, path, db) = database();
        bring_up(&db, &path, &[FIRST, SECOND]).unwrap();
        let error = bring_up(&db, &path, &[FIRST]).unwrap_err().to_string();
        for told in ["outbox.db", "version 2", "up to 1", "upgrade"] {
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(tables(&db), ["a", "b"]);
    }
}
