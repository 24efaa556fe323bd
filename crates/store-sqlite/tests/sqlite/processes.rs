//! Several processes on one file, and the death of one. A test starts its own binary again to have a second process.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::EventId;
use posthaste_store::{Settled, Settlement, Store as _};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, entropy};

use crate::support::{accepted, claim, connection, enqueue, event, settlement, spec, worker};

/// Set in a child: the database that it is to work on.
const DATABASE: &str = "POSTHASTE_TEST_DATABASE";
/// More than one claim takes.
const EVENTS: usize = 3_000;
/// What the test harness prints besides has no such mark.
const MARK: &str = "told: ";

/// In a child, the database that its parent named.
fn child_of() -> Option<PathBuf> {
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

fn tell(what: impl std::fmt::Display) {
    println!("\n{MARK}{what}");
}

/// The lines that a child told, as they come. A line that its death cut off is none.
fn told(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    std::iter::from_fn(move || {
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return None;
            }
            if let Some(told) = line.trim_end().strip_prefix(MARK) {
                return Some(told.to_owned());
            }
        }
    })
}

/// More patient than a service, which would ask again: SQLite lets those who wait in no order.
fn open(database: &Path) -> SqliteStore {
    let options = Options { busy_timeout: Duration::from_secs(60), answer_within: Duration::from_secs(90) };
    SqliteStore::open(database, Arc::new(SystemClock), entropy().unwrap(), options).unwrap()
}

/// Claims and delivers until nothing is pending; the number that it settled.
async fn deliver_everything(store: &SqliteStore) -> usize {
    let mut applied = 0;
    while store.overview().await.unwrap().pending > 0 {
        let leases = store.claim(&claim()).await.unwrap().leases;
        let batch: Vec<Settlement> = leases.iter().map(|lease| settlement(lease, 200)).collect();
        let settled = store.settle(&worker(), &batch).await.unwrap();
        applied += settled.iter().filter(|settled| **settled == Settled::Applied).count();
    }
    applied
}

#[tokio::test]
async fn processes_on_one_file_settle_every_event_once() {
    if let Some(database) = child_of() {
        tell(deliver_everything(&open(&database)).await);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("outbox.db");
    let store = open(&database);
    let url = |n: usize| format!("https://receiver-{}.example/", n % 7);
    enqueue(&store, (0..EVENTS).map(|n| accepted(spec(&url(n)))).collect()).await;

    let test = "processes_on_one_file_settle_every_event_once";
    let mut children: Vec<Child> = (0..3).map(|_| start_child(test, &database)).collect();
    let mut settled = deliver_everything(&store).await;
    for child in &mut children {
        let counts: Vec<usize> = told(child).map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts.len(), 1, "each child tells its count");
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
    assert_eq!(counted, [i64::try_from(EVENTS).unwrap(); 3], "one lease and one outcome each");
}

#[tokio::test]
async fn what_was_acknowledged_survives_the_kill_of_its_process() {
    if let Some(database) = child_of() {
        let store = open(&database);
        loop {
            tell(&enqueue(&store, vec![event()]).await[0]);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("outbox.db");
    let mut child = start_child("what_was_acknowledged_survives_the_kill_of_its_process", &database);
    let mut acknowledged = told(&mut child);
    let mut ids: BTreeSet<String> = acknowledged.by_ref().take(200).collect();
    child.kill().unwrap();
    ids.extend(acknowledged);
    child.wait().unwrap();
    assert!(ids.len() >= 200, "the child was at work when it was killed");

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
    if let Some(database) = child_of() {
        drop(open(&database));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("outbox.db");
    let test = "processes_that_open_a_new_file_at_once_migrate_it_once";
    let children: Vec<Child> = (0..6).map(|_| start_child(test, &database)).collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let (versions, steps): (i64, i64) = connection(&database)
        .query_row("SELECT max(version), count(*) FROM webhook_migrations", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(versions > 0);
    assert_eq!(versions, steps);
}
