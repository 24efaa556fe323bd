//! Opening a database: creation, upgrade, and refusal with a reason.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::connection;
use posthaste_store_sqlite::{
    MigrationReport, OpenError, Options, SqliteStore, SystemClock, migrate, system_rng,
};

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, Arc::new(SystemClock), system_rng()?, Options::default())
}

fn refusal(path: &Path) -> String {
    open(path).map(|_| ()).expect_err("this cannot be opened").to_string()
}

#[test]
fn a_file_that_is_not_a_database_is_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    let text = "not written by SQLite, and long enough for a file header ".repeat(20);
    std::fs::write(&path, &text).unwrap();
    let error = refusal(&path);
    assert!(error.contains("notes.txt") && error.contains("not an SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_missing_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = refusal(&directory.path().join("missing/outbox.db"));
    assert!(error.contains("missing") && error.contains("create it"), "{error}");
}

#[test]
fn a_directory_is_not_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let error = refusal(directory.path());
    assert!(error.contains("is a directory"), "{error}");
}

#[test]
fn no_path_opens_an_in_memory_database() {
    let error = refusal(Path::new(""));
    assert!(error.contains("name a database file"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(":memory:");
    drop(open(&path).unwrap());
    assert!(path.is_file());
}

#[test]
fn migrate_reports_the_versions_before_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox.db");
    let MigrationReport { from, to } = migrate(&path).unwrap();
    assert!(from == 0 && to > 0);
    assert_eq!(migrate(&path).unwrap(), MigrationReport { from: to, to });
    drop(open(&path).unwrap());
    assert_eq!(migrate(&path).unwrap(), MigrationReport { from: to, to }, "opening a store migrates as well");
}

#[test]
fn a_database_newer_than_the_binary_is_refused_with_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox.db");
    let supported = migrate(&path).unwrap().to;
    connection(&path)
        .execute("INSERT INTO webhook_migrations VALUES (999, 'from the future', 0)", [])
        .unwrap();
    for error in [refusal(&path), migrate(&path).unwrap_err().to_string()] {
        for expected in ["outbox.db", "version 999", &format!("up to {supported}"), "upgrade Posthaste"] {
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn threads_that_open_a_new_file_at_once_migrate_it_once() {
    for _ in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let barrier = Barrier::new(8);
        let from: Vec<i64> = thread::scope(|scope| {
            let migrate_at_once = || {
                barrier.wait();
                migrate(&path).unwrap().from
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(migrate_at_once)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(
            from.iter().filter(|from| **from == 0).count(),
            1,
            "exactly one thread migrates: {from:?}"
        );
    }
}

/// Returns the file modes of a database and of its `-wal` and `-shm` files.
#[cfg(unix)]
fn modes(path: &Path) -> [u32; 3] {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    [mode(path), mode(&path.with_extension("db-wal")), mode(&path.with_extension("db-shm"))]
}

#[cfg(unix)]
#[test]
fn a_new_database_is_readable_by_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox.db");
    let _store = open(&path).unwrap();
    assert_eq!(modes(&path), [0o600; 3]);
}

#[cfg(unix)]
#[test]
fn an_existing_database_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("outbox.db");
    drop(open(&path).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let _store = open(&path).unwrap();
    assert_eq!(modes(&path), [0o640; 3]);
}
