//! How SQLite runs the statements that must stay cheap: which index each uses, and that its cost does not follow what
//! it should not.

use std::path::PathBuf;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationUrl};
use posthaste_store::EventQuery;
use rusqlite::{Connection, Params, StatementStatus};

use crate::claim::{self, abandon, grant};
use crate::{connect, migrate, read};

struct Database {
    db: Connection,
    _directory: tempfile::TempDir,
}

fn database() -> Database {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("outbox.db");
    let db = connect::writer(&path, Duration::from_secs(5)).unwrap();
    migrate::bring_up_to_date(&db, &path).unwrap();
    Database { db, _directory: directory }
}

fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // Parameters left unbound are NULL, which changes no plan.
    let steps = explained.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>();
    steps.unwrap()
}

/// Every step of the plan seeks in an index or reads one row by its key; no step sorts, and none touches a payload.
#[track_caller]
fn assert_seeks(db: &Connection, sql: &str, indexes: &[&str]) {
    let plan = plan(db, sql);
    for step in &plan {
        let seeks = step.starts_with("SEARCH") || step.contains("SUBQUERY");
        assert!(seeks, "{step:?} in {plan:#?}");
        assert!(!step.contains("webhook_messages"), "{step:?}");
    }
    for index in indexes {
        let uses = |step: &String| step.split_whitespace().any(|word| word == *index);
        assert!(plan.iter().any(uses), "no {index} in {plan:#?}");
    }
}

/// Steps of SQLite's machine that a statement takes to its first row.
fn steps(db: &Connection, sql: &str, params: impl Params) -> i32 {
    let mut statement = db.prepare(sql).unwrap();
    statement.query(params).unwrap().next().unwrap();
    statement.get_status(StatementStatus::VmStep)
}

/// Rows of one destination, as bare as the schema allows.
fn fill(db: &Connection, destination: i64, count: i64, status: &str, attempts: i64, due: i64) {
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
         INSERT INTO webhook_outbox_events
             (event_id, message_id, destination_id, destination_url, event_type, max_attempts,
              delivery_status, attempts, next_attempt_at, created_at, updated_at)
         SELECT hex(randomblob(16)), randomblob(16), ?1, 'https://a.example/', 't', 6, ?3, ?4, ?5, i, i FROM n",
        (destination, count, status, attempts, due),
    )
    .unwrap();
}

#[test]
fn s2_nfr001_overview_and_dead_letters_of_sqlite_read_no_payload_and_scan_no_table() {
    let Database { db, _directory } = database();
    assert_seeks(
        &db,
        read::OVERVIEW,
        &[
            "webhook_outbox_events_leases",
            "webhook_destinations_retries",
            "webhook_outbox_events_retries",
            "webhook_outbox_events_pending",
        ],
    );
    assert_seeks(&db, read::DEAD_LETTERS, &["webhook_outbox_events_dead_letters"]);
}

#[test]
fn every_list_of_events_seeks_in_an_index_in_its_order() {
    let Database { db, _directory } = database();
    let url = DestinationUrl::parse("https://a.example/").unwrap();
    let states = [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed].map(Some);
    for status in states.into_iter().chain([None]) {
        for destination in [None, Some(url.clone())] {
            assert_seeks(&db, &read::listing(&EventQuery { status, destination }), &[]);
        }
    }
}

#[test]
fn a_claim_finds_everything_through_its_indexes() {
    let Database { db, _directory } = database();
    assert_seeks(&db, claim::NEXT_DESTINATION, &["webhook_outbox_events_first_attempts"]);
    assert_seeks(&db, claim::DUE_DESTINATIONS, &["webhook_destinations_retries"]);
    assert_seeks(&db, claim::PAUSED, &["webhook_destinations_paused"]);
    assert_seeks(&db, abandon::EXPIRED, &["webhook_outbox_events_leases"]);
    assert_seeks(&db, claim::RAISE_RETRY_AT, &["webhook_outbox_events_retries"]);
    for (sql, index) in [
        (grant::FIRST_ATTEMPTS, "webhook_outbox_events_first_attempts"),
        (grant::RETRIES, "webhook_outbox_events_retries"),
    ] {
        let plan = plan(&db, sql);
        assert_eq!(plan.len(), 2, "{plan:?}");
        assert!(plan[0].starts_with("SEARCH e") && plan[0].contains(index), "{plan:?}");
        assert!(plan[1].starts_with("SEARCH m") && plan[1].contains("webhook_messages_id"), "{plan:?}");
    }
    let before = plan(&db, grant::GRANTED_BEFORE);
    assert!(before[0].contains("COVERING INDEX webhook_outbox_events_leases"), "{before:?}");
}

#[test]
fn stepping_over_a_destination_costs_the_same_however_many_rows_it_has() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        fill(&db, 1, rows, "pending", 0, 0);
        fill(&db, 2, 1, "pending", 0, 0);
        (
            steps(&db, claim::NEXT_DESTINATION, (0, i64::MAX)),
            steps(&db, claim::NEXT_DESTINATION, (1, i64::MAX)),
        )
    };
    assert_eq!(cost(20_000), cost(1));
}

#[test]
fn retries_that_are_not_due_or_not_wanted_cost_a_claim_nothing() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        fill(&db, 1, rows, "pending", 1, 1_000);
        fill(&db, 2, 1, "pending", 1, 10);
        (
            steps(&db, claim::NEXT_DESTINATION, (0, i64::MAX)),
            steps(&db, grant::RETRIES, (1, 10, 500)),
            steps(&db, grant::RETRIES, (2, 10, 500)),
            steps(&db, claim::RAISE_RETRY_AT, [1]),
        )
    };
    assert_eq!(cost(20_000), cost(1));
}

#[test]
fn history_costs_an_overview_nothing() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        fill(&db, 1, rows, "delivered", 1, 0);
        fill(&db, 1, rows, "failed", 1, 0);
        fill(&db, 1, rows, "pending", 0, 0);
        (steps(&db, read::OVERVIEW, [500]), steps(&db, read::DEAD_LETTERS, (i64::MAX, i64::MAX, 10)))
    };
    assert_eq!(cost(20_000), cost(100));
}
