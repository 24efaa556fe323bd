//! What is on the disk: everything in one file after a stop, and what is told when there is no room.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::stage::{EVENTS, Event, Home, Receiver, Service, Store, until};

/// How many events a copy of the file alone has.
fn events_in_copy(home: &Home) -> i64 {
    let copy = home.file("copy.db");
    std::fs::copy(home.file("outbox.db"), &copy).unwrap();
    let copy = rusqlite::Connection::open(copy).unwrap();
    copy.query_row("SELECT count(*) FROM webhook_events", [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn assert_no_log(path: &Path) {
    let left = std::fs::metadata(path).map_or(0, |log| log.len());
    assert_eq!(left, 0, "{} holds what the database lacks", path.display());
}

#[test]
fn everything_is_in_the_file_of_a_process_that_was_stopped() {
    let home = Home::on(Store::Sqlite);
    let (log, receiver) = (home.file("outbox.db-wal"), Receiver::answering(200));
    let service = home.serve_with(&["--no-worker"]);
    service.enqueue_all(&vec![Event::to(&receiver); 3]);
    // A stream is followed by a task that has a handle of its own.
    let follower = service.follow(None);
    assert_eq!(service.overview()["pending_count"], 3);
    assert!(log.metadata().unwrap().len() > 0, "there is something to take over");
    service.stop();
    follower.finish();
    assert_no_log(&log);
    assert_eq!(events_in_copy(&home), 3);

    let dispatched = home.run(&["dispatch", "--once"]);
    assert_eq!(dispatched.code, Some(0), "{}", dispatched.stderr);
    assert_no_log(&log);
    receiver.received(3);
    home.worker().stop();
    assert_no_log(&log);
    home.serve().stop();
    assert_no_log(&log);
    assert_eq!(events_in_copy(&home), 3);
}

/// Whether the store is well, once this is told with this status: an answer may be a second old.
#[track_caller]
fn told_of_the_store(service: &Service, status: u16) -> Value {
    let told = || Some(service.get("/readyz")).filter(|answer| answer.status == status);
    let told = until(&format!("readiness is told with {status}"), told).json(status);
    let mut checks = told["checks"].as_array().unwrap().iter();
    checks.find(|check| check["name"] == "store").unwrap()["ok"].clone()
}

#[test]
fn a_service_without_room_for_events_is_not_ready_until_there_is_some() {
    let home = Home::on(Store::Sqlite);
    // A limit on files stands for a full disk: a shell can set it, and it can be lifted again.
    let service = home.serve_within(2_000, &["--no-worker"]);
    let receiver = Receiver::answering(200);
    let large = Event::to(&receiver).payload(&format!("\"{}\"", "x".repeat(100_000)));
    assert_eq!(service.get("/readyz").status, 200);
    let refused = (0..100).map(|_| service.post(EVENTS, &large.body())).find(|answer| answer.status != 202);
    refused.expect("the limit is reached").refused(503, "unavailable");
    assert_eq!(told_of_the_store(&service, 503), false);
    assert_eq!(service.get("/healthz").status, 200, "a restart would not help");
    service.overview();
    assert_eq!(service.get("/readyz").status, 503, "what can be read changes nothing");

    service.lift_file_limit();
    // Nobody has to enqueue for it: a balancer sends nobody.
    assert_eq!(told_of_the_store(&service, 200), true);
    service.enqueue(&large);
    service.stop();
}

#[test]
fn a_database_is_for_its_owner_and_the_doctor_tells_where_it_is_not() {
    let home = Home::on(Store::Sqlite);
    assert_eq!(home.run(&["migrate"]).code, Some(0));
    let file = home.file("outbox.db");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let doctor = || home.run(&["doctor"]).stdout;
    assert!(!doctor().contains("permissions"), "{}", doctor());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let told = doctor();
    assert!(told.contains("everyone on this host may read") && told.contains("chmod o="), "{told}");
    assert!(told.contains(" are free"), "how much room there is: {told}");
}
