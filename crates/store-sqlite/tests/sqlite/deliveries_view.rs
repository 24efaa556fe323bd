//! The view `webhook_deliveries`: its columns and states, and the one write that it accepts, also from the clients that
//! operators have: their SQLite is older than the one that is linked into Posthaste.

use std::process::Command;

use crate::support::{
    Fixture, HOUR, attempt_all, claim, enqueue, event, new_event, run, settlement, spec, worker,
};
use posthaste_domain::{DeliveryStatus, EventId, Timestamp, Trigger};
use posthaste_store::{ClaimRequest, ManualAction, Overview, Store as _, StoreClock as _};
use posthaste_store_sqlite::SystemClock;
use posthaste_store_sqlite::rusqlite::{Connection, Error};

const RESET: &str = "UPDATE webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE id = ?1";

/// Creates one event in each state: pending, failed, dead, delivered.
async fn events_in_each_state(fixture: &Fixture) -> [EventId; 4] {
    let mut ids = Vec::new();
    for status in [410, 200, 500] {
        ids.extend(enqueue(&fixture.store, vec![event()]).await);
        assert_eq!(attempt_all(&fixture.store, status).await, 1);
    }
    ids.extend(enqueue(&fixture.store, vec![event()]).await);
    let [dead, delivered, failed, pending] = ids.try_into().unwrap();
    [pending, failed, dead, delivered]
}

fn status(db: &Connection, id: &EventId) -> (String, i64, Option<i64>) {
    let sql = "SELECT status, attempt_count, next_retry_at FROM webhook_deliveries WHERE id = ?1";
    db.query_row(sql, [id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
}

#[track_caller]
fn assert_refused(result: Result<usize, Error>, expected: &str) {
    let error = result.expect_err("the view refuses this").to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn the_view_of_sqlite_shows_every_state_of_an_event() {
    let fixture = Fixture::new();
    let [pending, failed, dead, delivered] = events_in_each_state(&fixture).await;
    let db = fixture.sql();
    let now = fixture.clock.now().as_micros();
    assert_eq!(status(&db, &pending), ("pending".to_owned(), 0, Some(now)));
    let (state, attempts, next_retry_at) = status(&db, &failed);
    assert_eq!((state.as_str(), attempts), ("failed", 1));
    assert!(next_retry_at.is_some_and(|at| at > now));
    assert_eq!(status(&db, &dead), ("dead".to_owned(), 1, None));
    assert_eq!(status(&db, &delivered), ("delivered".to_owned(), 1, None));
}

#[tokio::test]
async fn the_view_of_sqlite_shows_the_fields_of_an_event() {
    let fixture = Fixture::new();
    let mut full = spec("https://receiver.example/paid");
    full.webhook_id = Some("wh-1".to_owned());
    full.session_id = Some("se-2".to_owned());
    let id = enqueue(&fixture.store, vec![new_event(full)]).await.remove(0);
    attempt_all(&fixture.store, 410).await;
    let shown: (String, String, String, String, i64, i64) = fixture
        .sql()
        .query_row(
            "SELECT webhook_id, session_id, target_url, error_detail, last_attempted_at, created_at
             FROM webhook_deliveries WHERE id = ?1",
            [id.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)),
        )
        .unwrap();
    let event = fixture.store.event(&id).await.unwrap().event;
    let expected = ("wh-1".to_owned(), "se-2".to_owned(), "https://receiver.example/paid".to_owned());
    assert_eq!((shown.0, shown.1, shown.2), expected);
    assert_eq!(Some(shown.3), event.last_error);
    assert_eq!(Some(Timestamp::from_micros(shown.4)), event.last_attempted_at);
    assert_eq!(Timestamp::from_micros(shown.5), event.created_at);
}

#[tokio::test]
async fn s4_reset_through_the_view_of_sqlite_makes_a_dead_event_due_now() {
    let fixture = Fixture::new();
    let id = enqueue(&fixture.store, vec![event()]).await.remove(0);
    attempt_all(&fixture.store, 410).await;
    let before = fixture.store.event(&id).await.unwrap();

    let earliest = SystemClock.now().before(HOUR);
    fixture.sql().execute(RESET, [id.as_str()]).unwrap();

    let after = fixture.store.event(&id).await.unwrap();
    assert_eq!((after.event.status, after.event.failure_kind), (DeliveryStatus::Pending, None));
    assert_eq!((after.event.attempts, after.event.lost_leases, &after.event.last_error), (0, 0, &None));
    assert_eq!((&after.event.lease_owner, after.event.lease_until), (&None, None));
    assert_eq!((after.event.claims, &after.history), (before.event.claims, &before.history));
    assert!(after.event.next_attempt_at.unwrap() > earliest, "due now, by the clock of SQLite");
    assert_eq!(after.event.next_attempt_at, Some(after.event.updated_at));
    assert_eq!((after.audit.len(), after.audit[0].action), (1, ManualAction::Requeue));
    assert_eq!(after.audit[0].actor, "sql");
    assert_eq!(after.event.manual_last.as_ref(), after.audit.last());

    let overview = fixture.store.overview().await.unwrap();
    let expected = Overview { pending: 1, pending_ready: 1, ..Overview::default() };
    assert_eq!(Overview { oldest_pending_age: None, ..overview }, expected);
    let leases = fixture.store.claim(&claim()).await.unwrap().leases;
    assert_eq!((leases.len(), leases[0].trigger), (1, Trigger::Manual));
}

#[tokio::test]
async fn reset_of_a_cancelled_event_of_sqlite_is_no_longer_counted_as_cancelled() {
    let fixture = Fixture::new();
    let ids = enqueue(&fixture.store, vec![event(), event()]).await;
    for id in &ids {
        fixture.store.cancel(id, "operator".into(), None).await.unwrap();
    }
    fixture.sql().execute(RESET, [ids[0].as_str()]).unwrap();
    let overview = fixture.store.overview().await.unwrap();
    assert_eq!((overview.pending, overview.failed, overview.cancelled), (1, 1, 1));
}

#[tokio::test]
async fn s4_reset_from_the_sqlite3_command_and_from_python_makes_a_dead_event_due_now() {
    let fixture = Fixture::new();
    let ids = enqueue(&fixture.store, vec![event(); 2]).await;
    attempt_all(&fixture.store, 410).await;
    let earliest = SystemClock.now().before(HOUR);
    let reset = |condition: &str| {
        format!(
            "UPDATE webhook_deliveries SET attempt_count = 0, status = 'pending', next_retry_at = CURRENT_TIMESTAMP
             WHERE id = {condition} RETURNING id"
        )
    };

    let by_command =
        run(Command::new("sqlite3").arg(&fixture.path).arg(reset(&format!("'{}'", ids[0].as_str()))));
    assert_eq!(by_command, ids[0].as_str(), "the command lists the reset rows");

    let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute(sys.argv[2], (sys.argv[3],)).fetchall()[0][0])
db.commit()";
    let python = ["-c", script, fixture.path.to_str().unwrap(), &reset("?"), ids[1].as_str()];
    let by_python = run(Command::new("/usr/bin/python3").args(python));
    assert_eq!(by_python, ids[1].as_str(), "Python lists the reset rows");

    for id in &ids {
        let after = fixture.store.event(id).await.unwrap();
        assert_eq!((after.event.status, after.event.attempts), (DeliveryStatus::Pending, 0));
        assert!(after.event.next_attempt_at.unwrap() > earliest, "due now, by the clock of the client");
        assert_eq!((after.audit.len(), after.audit[0].actor.as_str()), (1, "sql"));
    }
    assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases.len(), 2);
}

#[tokio::test]
async fn a_reset_may_set_the_next_retry_to_now_or_to_null() {
    let fixture = Fixture::new();
    for next_retry_at in [
        "NULL",
        "CURRENT_TIMESTAMP",
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
        "unixepoch()",
        "unixepoch('subsec')",
        "unixepoch() * 1000",
        "unixepoch() * 1000000",
        "unixepoch() * 1000000 - 55000000",
    ] {
        let id = enqueue(&fixture.store, vec![event()]).await.remove(0);
        attempt_all(&fixture.store, 410).await;
        let sql = format!(
            "UPDATE webhook_deliveries SET attempt_count = 0, status = 'pending', next_retry_at = {next_retry_at}
             WHERE id = ?1"
        );
        fixture.sql().execute(&sql, [id.as_str()]).unwrap_or_else(|error| panic!("{next_retry_at}: {error}"));
        let event = fixture.store.event(&id).await.unwrap().event;
        assert_eq!(event.status, DeliveryStatus::Pending, "{next_retry_at}");
        assert_eq!(event.next_attempt_at, Some(event.updated_at), "{next_retry_at}");
    }
}

#[tokio::test]
async fn the_view_of_sqlite_resets_only_dead_events() {
    let fixture = Fixture::new();
    let [pending, failed, _, delivered] = events_in_each_state(&fixture).await;
    let db = fixture.sql();
    for id in [&pending, &failed, &delivered] {
        let before = fixture.store.event(id).await.unwrap();
        assert_refused(db.execute(RESET, [id.as_str()]), "only a dead delivery can be reset");
        assert_eq!(fixture.store.event(id).await.unwrap(), before);
    }
}

#[tokio::test]
async fn the_view_of_sqlite_refuses_every_other_change() {
    let fixture = Fixture::new();
    let [_, _, dead, _] = events_in_each_state(&fixture).await;
    let db = fixture.sql();
    let before = fixture.store.event(&dead).await.unwrap();
    for change in [
        "status = 'pending'",
        "attempt_count = 0",
        "attempt_count = 1, status = 'pending'",
        "attempt_count = 0, status = 'failed'",
        "attempt_count = 0, status = 'delivered'",
        "attempt_count = 0, status = NULL",
        "attempt_count = NULL, status = 'pending'",
        "attempt_count = 0, status = 'pending', id = 'other'",
        "attempt_count = 0, status = 'pending', webhook_id = 'wh'",
        "attempt_count = 0, status = 'pending', session_id = 'se'",
        "attempt_count = 0, status = 'pending', target_url = 'https://elsewhere.example/'",
        "attempt_count = 0, status = 'pending', last_attempted_at = NULL",
        "attempt_count = 0, status = 'pending', next_retry_at = 1",
        "attempt_count = 0, status = 'pending', next_retry_at = 'soon'",
        "attempt_count = 0, status = 'pending', next_retry_at = datetime('now', '+1 hour')",
        "attempt_count = 0, status = 'pending', next_retry_at = (unixepoch() - 3600) * 1000000",
        "attempt_count = 0, next_retry_at = CURRENT_TIMESTAMP",
        "attempt_count = 0, status = 'pending', error_detail = NULL",
        "attempt_count = 0, status = 'pending', created_at = 1",
    ] {
        let sql = format!("UPDATE webhook_deliveries SET {change} WHERE id = ?1");
        assert_refused(db.execute(&sql, [dead.as_str()]), "the only write through webhook_deliveries");
    }
    assert_refused(
        db.execute("DELETE FROM webhook_deliveries WHERE id = ?1", [dead.as_str()]),
        "does not accept DELETE",
    );
    assert_refused(
        db.execute("INSERT INTO webhook_deliveries (id) VALUES ('new')", []),
        "does not accept INSERT",
    );
    assert_eq!(fixture.store.event(&dead).await.unwrap(), before);
}

#[tokio::test]
async fn a_reset_of_several_rows_is_all_or_nothing() {
    let fixture = Fixture::new();
    let [_, _, dead, _] = events_in_each_state(&fixture).await;
    let db = fixture.sql();
    let before = fixture.store.overview().await.unwrap();
    assert_refused(
        db.execute("UPDATE webhook_deliveries SET attempt_count = 0, status = 'pending'", []),
        "only a dead delivery",
    );
    assert_eq!(fixture.store.overview().await.unwrap(), before);
    assert_eq!(status(&db, &dead).0, "dead");
}

#[tokio::test]
async fn a_reset_event_is_granted_once_after_its_queue_advanced() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let ids = enqueue(store, vec![event(); 5]).await;
    let one = || ClaimRequest { limit: 1, ..claim() };
    let dead = store.claim(&one()).await.unwrap().leases.remove(0);
    store.settle(&worker(), &[settlement(&dead, 410)]).await.unwrap();
    let second = store.claim(&one()).await.unwrap().leases.remove(0);
    assert_eq!((&dead.event_id, &second.event_id), (&ids[0], &ids[1]));
    fixture.sql().execute(RESET, [dead.event_id.as_str()]).unwrap();
    let leases = store.claim(&claim()).await.unwrap().leases;
    let granted: Vec<&EventId> = leases.iter().map(|lease| &lease.event_id).collect();
    assert_eq!(granted, [&ids[0], &ids[2], &ids[3], &ids[4]]);
    assert_eq!(leases[0].trigger, Trigger::Manual);
}
