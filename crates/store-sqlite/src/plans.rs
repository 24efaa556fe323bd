//! How SQLite runs the statements that must stay cheap: which index each uses, and that its cost does not follow what
//! it should not.

use std::path::PathBuf;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationUrl};
use posthaste_store::EventQuery;
use rusqlite::{Connection, Params, StatementStatus};

use crate::claim::{self, grant};
use crate::{claims, connect, migrate, read, row};

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
    assert_steps_seek(&plan(db, sql), indexes);
}

#[track_caller]
fn assert_steps_seek(plan: &[String], indexes: &[&str]) {
    for step in plan {
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

/// Events of one destination in one state, as bare as the schema allows.
fn fill(db: &Connection, destination: i64, count: i64, status: &str, attempts: i64, due: i64) {
    let first: i64 = db.query_row("SELECT last_key + 1 FROM webhook_totals", [], |row| row.get(0)).unwrap();
    let of_these = |insert: &str| {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1 + ?2) {insert} FROM n"
        );
        // Each names those of the parameters that it needs, and all have the same.
        db.execute(
            &format!("{sql} WHERE ?3 + ?4 + ?5 IS NOT NULL"),
            (first, count, destination, attempts, due),
        )
        .unwrap();
    };
    of_these(
        "INSERT INTO webhook_events
             (id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at)
         SELECT i, hex(randomblob(16)), i, randomblob(16), ?3, 't', 6, i",
    );
    match (status, attempts) {
        ("pending", attempts) => {
            of_these(
                "INSERT INTO webhook_queue (id, destination_id, attempts, next_attempt_at, updated_at)
                 SELECT i, ?3, ?4, ?5, i",
            );
            of_these(match attempts {
                0 => "INSERT INTO webhook_ready (destination_id, id) SELECT ?3, i",
                _ => "INSERT INTO webhook_retries (destination_id, next_attempt_at, id) SELECT ?3, ?5, i",
            });
        }
        ("failed", _) => of_these(
            "INSERT INTO webhook_failures
                 (id, destination_id, failure_kind, attempts, claims, lost_leases, updated_at)
             SELECT i, ?3, 'exhausted', ?4, ?4, 0, i",
        ),
        _ => {
            assert_eq!(status, "delivered");
            of_these(
                "INSERT INTO webhook_attempts
                     (event_key, lease, lease_token, attempt, trigger, started_at, duration_us, excerpt, worker_id,
                      recorded_at)
                 SELECT i, 1, randomblob(16), ?4, 'scheduled', 0, 0, '', 'w', 0",
            );
        }
    }
    db.execute("UPDATE webhook_totals SET last_key = last_key + ?1", [count]).unwrap();
}

#[test]
fn s2_nfr001_overview_and_dead_letters_of_sqlite_read_no_payload_and_scan_no_table() {
    let Database { db, _directory } = database();
    // Claims that hold leases are few, and are all counted; nothing else is read from end to end.
    let few = |step: &String| step == "SCAN webhook_claims";
    let counted = plan(&db, read::OVERVIEW);
    assert_eq!(counted.iter().filter(|step| few(step)).count(), 1, "{counted:#?}");
    let others: Vec<String> = counted.into_iter().filter(|step| !few(step)).collect();
    assert_steps_seek(&others, &["webhook_destinations_retries"]);
    assert_seeks(&db, read::DEAD_LETTERS, &["webhook_failures_updated_at"]);
    assert_seeks(&db, row::EVENT, &["webhook_audit_event"]);
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
fn a_list_of_one_destination_costs_nothing_of_what_was_delivered_there() {
    let here = DestinationUrl::parse("https://here.example/").unwrap();
    let cost = |delivered| {
        let Database { db, _directory } = database();
        db.execute(
            "INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, ?1, 0)",
            [here.as_str()],
        )
        .unwrap();
        fill(&db, 1, 2, "failed", 1, 0);
        fill(&db, 1, 2, "pending", 0, 0);
        fill(&db, 1, delivered, "delivered", 1, 0);
        // To the end of the list, which is short, or to the end of a page.
        let steps = |status| {
            let query = EventQuery { status, destination: Some(here.clone()) };
            let mut listed = db.prepare(&read::listing(&query)).unwrap();
            let rows: Vec<i64> = listed
                .query_map((i64::MAX, 3, here.as_str()), |row| row.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            (rows.len(), listed.get_status(StatementStatus::VmStep))
        };
        [None, Some(DeliveryStatus::Pending), Some(DeliveryStatus::Failed), Some(DeliveryStatus::Delivered)]
            .map(steps)
    };
    let costs = cost(20_000);
    assert_eq!(costs.map(|(rows, _)| rows), [3, 2, 2, 3]);
    assert_eq!(costs, cost(100));
}

#[test]
fn a_claim_finds_everything_through_its_indexes() {
    let Database { db, _directory } = database();
    assert_seeks(&db, claim::NEXT_DESTINATION, &[]);
    assert_seeks(&db, claim::DUE_DESTINATIONS, &["webhook_destinations_retries"]);
    assert_seeks(&db, claim::PAUSED, &["webhook_destinations_paused"]);
    assert_seeks(&db, claims::DUE_FOR_A_CHECK, &["webhook_claims_check_at"]);
    assert_seeks(&db, claim::RAISE_RETRY_AT, &[]);
    for (sql, line) in [
        (grant::FIRST_ATTEMPTS, "PRIMARY KEY (destination_id=? AND id>?)"),
        (grant::RETRIES, "PRIMARY KEY (destination_id=? AND next_attempt_at<?)"),
    ] {
        let plan = plan(&db, sql);
        assert!(plan[0].starts_with("SEARCH l") && plan[0].contains(line), "{plan:?}");
        assert_eq!(plan[1], "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)");
        assert_eq!(plan[2], "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)");
        let rest = &plan[3..];
        assert!(
            rest.iter()
                .all(|step| step.starts_with("SEARCH q USING INTEGER PRIMARY KEY")
                    || step.contains("SUBQUERY")),
            "{plan:?}"
        );
    }
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
