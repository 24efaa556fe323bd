//! The SQLite file: complete after a stop, private to its owner, and readiness when the disk is full.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::harness::{EVENTS, Event, Receiver, Sandbox, Service, Store, wait_until};

/// Counts the events in a copy of the database file without its write-ahead log.
fn count_events_in_copy(sandbox: &Sandbox) -> i64 {
    let copy = sandbox.path("copy.db");
    std::fs::copy(sandbox.path("outbox.db"), &copy).unwrap();
    let copy = rusqlite::Connection::open(copy).unwrap();
    copy.query_row("SELECT count(*) FROM webhook_events", [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn assert_wal_is_empty(path: &Path) {
    let bytes = std::fs::metadata(path).map_or(0, |wal| wal.len());
    assert_eq!(bytes, 0, "{} has data that is not in the database file", path.display());
}

#[test]
fn stopped_process_leaves_all_data_in_the_database_file() {
    let sandbox = Sandbox::new(Store::Sqlite);
    let (wal, receiver) = (sandbox.path("outbox.db-wal"), Receiver::responding(200));
    let service = sandbox.serve_with(&["--no-worker"]);
    service.enqueue_all(&vec![Event::to(&receiver); 3]);
    // The task of a notice stream has its own handle of the store.
    let subscriber = service.subscribe(None);
    assert_eq!(service.overview()["pending_count"], 3);
    assert!(wal.metadata().unwrap().len() > 0, "the write-ahead log has nothing to check");
    service.stop();
    subscriber.read_to_end();
    assert_wal_is_empty(&wal);
    assert_eq!(count_events_in_copy(&sandbox), 3);

    let dispatched = sandbox.run(&["dispatch", "--once"]);
    assert_eq!(dispatched.code, Some(0), "{}", dispatched.stderr);
    assert_wal_is_empty(&wal);
    receiver.wait_for_requests(3);
    sandbox.start_worker().stop();
    assert_wal_is_empty(&wal);
    sandbox.serve().stop();
    assert_wal_is_empty(&wal);
    assert_eq!(count_events_in_copy(&sandbox), 3);
}

/// Waits until `/readyz` has this status, and returns the result of its store check. The response may be a second old.
#[track_caller]
fn wait_for_store_check(service: &Service, status: u16) -> Value {
    let poll = || Some(service.get("/readyz")).filter(|response| response.status == status);
    let readiness = wait_until(&format!("/readyz has status {status}"), poll).expect_json(status);
    let mut checks = readiness["checks"].as_array().unwrap().iter();
    checks.find(|check| check["name"] == "store").unwrap()["ok"].clone()
}

#[test]
fn service_on_a_full_disk_is_not_ready_until_there_is_space() {
    let sandbox = Sandbox::new(Store::Sqlite);
    // A limit on the size of files simulates a full disk. A shell can set it, and prlimit can remove it.
    let service = sandbox.serve_with_file_limit(2_000, &["--no-worker"]);
    let receiver = Receiver::responding(200);
    let large = Event::to(&receiver).with_payload(&format!("\"{}\"", "x".repeat(100_000)));
    assert_eq!(service.get("/readyz").status, 200);
    let refusal =
        (0..100).map(|_| service.post(EVENTS, &large.request_body())).find(|response| response.status != 202);
    refusal.expect("the file limit was not reached").expect_error(503, "unavailable");
    assert_eq!(wait_for_store_check(&service, 503), false);
    assert_eq!(
        service.get("/healthz").status,
        200,
        "the liveness probe must not fail, because a restart would not help"
    );
    service.overview();
    assert_eq!(service.get("/readyz").status, 503, "a successful read made the service ready");

    service.remove_file_limit();
    // The service becomes ready without an enqueue, because a load balancer sends none to it.
    assert_eq!(wait_for_store_check(&service, 200), true);
    service.enqueue(&large);
    service.stop();
}

#[test]
fn database_is_private_and_the_doctor_reports_other_permissions() {
    let sandbox = Sandbox::new(Store::Sqlite);
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    let file = sandbox.path("outbox.db");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let doctor = || sandbox.run(&["doctor"]).stdout;
    assert!(!doctor().contains("permissions"), "{}", doctor());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let report = doctor();
    assert!(report.contains("every user of this host can read") && report.contains("chmod o="), "{report}");
    assert!(report.contains(" are free"), "the free space is missing: {report}");
}

#[test]
fn service_whose_database_was_deleted_acknowledges_nothing_and_is_not_ready() {
    let sandbox = Sandbox::new(Store::Sqlite);
    let service = sandbox.serve_with(&["--no-worker"]);
    let event = Event::to(&Receiver::responding(200));
    service.enqueue(&event);
    assert_eq!(service.get("/readyz").status, 200);
    for file in ["outbox.db", "outbox.db-wal", "outbox.db-shm"] {
        std::fs::remove_file(sandbox.path(file)).unwrap();
    }
    service.post(EVENTS, &event.request_body()).expect_error(503, "unavailable");
    assert_eq!(wait_for_store_check(&service, 503), false);
    assert_eq!(service.get("/healthz").status, 200);
    let log = service.stop().stderr;
    assert!(log.contains("the database file is lost") && log.contains("outbox.db was deleted"), "{log}");
}

#[test]
fn doctor_reports_damage_the_trial_write_and_the_write_ahead_log() {
    use std::os::unix::fs::FileExt as _;
    let sandbox = Sandbox::new(Store::Sqlite);
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    let healthy = sandbox.run(&["doctor"]);
    assert_eq!(healthy.code, Some(0), "{}", healthy.stdout);
    for part in ["every page is intact, and a trial write was accepted", "write-ahead log"] {
        assert!(healthy.stdout.contains(part), "{}", healthy.stdout);
    }
    let page: i64 = {
        let db = rusqlite::Connection::open(sandbox.path("outbox.db")).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'webhook_audit'";
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let file = std::fs::OpenOptions::new().write(true).open(sandbox.path("outbox.db")).unwrap();
    file.write_all_at(&[0xff; 4_096], (page.unsigned_abs() - 1) * 4_096).unwrap();
    let damaged = sandbox.run(&["doctor"]);
    assert_eq!(damaged.code, Some(1), "{}", damaged.stdout);
    assert!(damaged.stdout.contains("the database is damaged"), "{}", damaged.stdout);
}
