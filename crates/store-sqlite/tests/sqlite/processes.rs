//! Several processes on one file, and a killed process. A test runs its own binary again to get a second process.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::EventId;
use posthaste_store::{SettleResult, Settlement, Store as _};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, system_rng};

use crate::support::{claim, connection, enqueue, event, new_event, settlement, spec, worker};

/// Environment variable of a child process: the database file to use.
const DATABASE: &str = "POSTHASTE_TEST_DATABASE";
/// More events than one claim grants.
const EVENTS: usize = 3_000;
/// Prefix of a child's output lines, which distinguishes them from those of the test harness.
const PREFIX: &str = "child: ";

/// Returns the database file in a child process, `None` in the parent.
fn child_database() -> Option<PathBuf> {
    env::var_os(DATABASE).map(PathBuf::from)
}

fn start_child(test: &str, database: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("processes::{test}"), "--nocapture", "--test-threads=1"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Prints a line for the parent process.
fn print_line(value: impl std::fmt::Display) {
    println!("\n{PREFIX}{value}");
}

/// Iterates over the lines that a child prints, without a last line that killing the child cut off.
fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    std::iter::from_fn(move || {
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return None;
            }
            if let Some(value) = line.trim_end().strip_prefix(PREFIX) {
                return Some(value.to_owned());
            }
        }
    })
}

/// Opens a store with long timeouts: a test does not repeat failed calls as a service does, and SQLite grants its write
/// lock to waiting processes in no particular order.
fn open(database: &Path) -> SqliteStore {
    let options = Options { busy_timeout: Duration::from_secs(60), call_timeout: Duration::from_secs(90) };
    SqliteStore::open(database, Arc::new(SystemClock), system_rng().unwrap(), options).unwrap()
}

/// Claims and delivers events until none is pending. Returns the number of applied settlements.
async fn deliver_everything(store: &SqliteStore) -> usize {
    let mut applied = 0;
    while store.overview().await.unwrap().pending > 0 {
        let leases = store.claim(&claim()).await.unwrap().leases;
        let batch: Vec<Settlement> = leases.iter().map(|lease| settlement(lease, 200)).collect();
        let settled = store.settle(&worker(), &batch).await.unwrap();
        applied += settled.iter().filter(|settled| **settled == SettleResult::Applied).count();
    }
    applied
}

#[tokio::test]
async fn processes_on_one_file_settle_every_event_once() {
    if let Some(database) = child_database() {
        print_line(deliver_everything(&open(&database)).await);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("outbox.db");
    let store = open(&database);
    let url = |n: usize| format!("https://receiver-{}.example/", n % 7);
    enqueue(&store, (0..EVENTS).map(|n| new_event(spec(&url(n)))).collect()).await;

    let test = "processes_on_one_file_settle_every_event_once";
    let mut children: Vec<Child> = (0..3).map(|_| start_child(test, &database)).collect();
    let mut settled = deliver_everything(&store).await;
    for child in &mut children {
        let counts: Vec<usize> = lines_of(child).map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts.len(), 1, "each child prints its count once");
        settled += counts[0];
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(settled, EVENTS);
    assert_eq!(store.overview().await.unwrap().delivered, EVENTS as u64);
    let counted: [i64; 3] = connection(&database)
        .query_row(
            "SELECT (SELECT count(DISTINCT event_key) FROM webhook_attempts),
                    (SELECT count(*) FROM webhook_attempts),
                    (SELECT sum(claims) FROM webhook_outbox_events)",
            [],
            |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]),
        )
        .unwrap();
    assert_eq!(counted, [i64::try_from(EVENTS).unwrap(); 3], "each event has one lease and one attempt");
}

#[tokio::test]
async fn acknowledged_events_survive_a_kill_of_their_process() {
    if let Some(database) = child_database() {
        let store = open(&database);
        loop {
            print_line(&enqueue(&store, vec![event()]).await[0]);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("outbox.db");
    let mut child = start_child("acknowledged_events_survive_a_kill_of_their_process", &database);
    let mut acknowledged = lines_of(&mut child);
    let mut ids: BTreeSet<String> = acknowledged.by_ref().take(200).collect();
    child.kill().unwrap();
    ids.extend(acknowledged);
    child.wait().unwrap();
    assert!(ids.len() >= 200, "the child was still enqueueing when it was killed");

    let store = open(&database);
    for id in &ids {
        let found = store.event(&EventId::new(id.as_str()).unwrap()).await;
        assert!(found.is_ok(), "{id}: {found:?}");
    }
    let pending = store.overview().await.unwrap().pending;
    assert!(pending >= ids.len() as u64, "{pending} are pending, {} were acknowledged", ids.len());
    let intact: String =
        connection(&database).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(intact, "ok");
}

#[test]
fn processes_that_open_a_new_file_at_once_migrate_it_once() {
    if let Some(database) = child_database() {
        drop(open(&database));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("outbox.db");
    let test = "processes_that_open_a_new_file_at_once_migrate_it_once";
    let children: Vec<Child> = (0..6).map(|_| start_child(test, &database)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let (versions, steps): (i64, i64) = connection(&database)
        .query_row("SELECT max(version), count(*) FROM webhook_migrations", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(versions > 0);
    assert_eq!(versions, steps);
}
