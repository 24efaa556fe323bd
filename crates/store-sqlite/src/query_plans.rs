//! Tests of query plans: which index each of the frequent statements uses, and that its cost does not grow with the
//! backlog or the history.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationUrl, EventId};
use posthaste_store::{BulkFilter, DeadLetterQuery, ErrorFilter, EventQuery, ExamineLimit, PageRequest};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, Params, StatementStatus, params_from_iter};

use crate::claim::{self, grant, line};
use crate::registry::plans;
use crate::search::{self, KeyRange, Scope, choose_dead_letters_walk, choose_events_walk};
use crate::{
    activity, claims, clock_repair, connect, destination, destination_view, expire, lease, maintain, migrate,
    operate, read, remove, row, unused_destinations,
};

struct Database {
    db: Connection,
    _directory: tempfile::TempDir,
}

fn database() -> Database {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("outbox.db");
    let db = connect::open_writer(&path, Duration::from_secs(5)).unwrap();
    migrate::migrate_to_latest(&db, &path).unwrap();
    Database { db, _directory: directory }
}

fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // Unbound parameters are NULL, which does not change the plan.
    let steps = explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>();
    steps.unwrap()
}

/// Asserts that every step of the plan seeks in an index or reads one row by its key, that no step sorts, and that none
/// reads a payload.
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

/// Counts the virtual machine steps that a statement takes to its first row.
fn steps(db: &Connection, sql: &str, params: impl Params) -> i32 {
    let mut statement = db.prepare(sql).unwrap();
    statement.query(params).unwrap().next().unwrap();
    statement.get_status(StatementStatus::VmStep)
}

/// Inserts events of one destination in one state, with only the columns that the schema requires.
fn insert_events(db: &Connection, destination: i64, count: i64, status: &str, attempts: i64, due: i64) {
    let first: i64 =
        db.query_row("SELECT last_event_key + 1 FROM webhook_totals", [], |row| row.get(0)).unwrap();
    let insert_each = |insert: &str| {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1 + ?2) {insert} FROM n"
        );
        // Every statement gets the same parameters; this condition uses those that the statement itself does not.
        db.execute(
            &format!("{sql} WHERE ?3 + ?4 + ?5 IS NOT NULL"),
            (first, count, destination, attempts, due),
        )
        .unwrap();
    };
    insert_each(
        "INSERT INTO webhook_events
             (id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at)
         SELECT i, hex(randomblob(16)), i, randomblob(16), ?3, 't', 6, i",
    );
    match (status, attempts) {
        ("pending", attempts) => {
            insert_each(
                "INSERT INTO webhook_queue (id, destination_id, attempts, next_attempt_at, updated_at)
                 SELECT i, ?3, ?4, ?5, i",
            );
            insert_each(match attempts {
                0 => "INSERT INTO webhook_first_attempts (destination_id, id) SELECT ?3, i",
                _ => "INSERT INTO webhook_retries (destination_id, next_attempt_at, id) SELECT ?3, ?5, i",
            });
        }
        ("failed", _) => insert_each(
            "INSERT INTO webhook_failures
                 (id, destination_id, failure_kind, attempts, claims, lost_leases, updated_at)
             SELECT i, ?3, 'exhausted', ?4, ?4, 0, i",
        ),
        _ => {
            assert_eq!(status, "delivered");
            insert_each(
                "INSERT INTO webhook_attempts
                     (event_key, position, applied, lease_token, attempt, trigger, started_at, duration_us, excerpt, worker_id,
                      recorded_at)
                 SELECT i, 256, 1, randomblob(16), ?4, 'scheduled', 0, 0, '', 'w', 0",
            );
        }
    }
    db.execute("UPDATE webhook_totals SET last_event_key = last_event_key + ?1", [count]).unwrap();
}

#[test]
fn s2_nfr001_overview_and_dead_letters_of_sqlite_read_no_payload_and_scan_no_table() {
    let Database { db, _directory } = database();
    // Claims that hold leases are few, and the query sums over all of them. It scans no other table.
    let is_claims_scan = |step: &String| step == "SCAN webhook_claims";
    let overview = plan(&db, read::OVERVIEW);
    assert_eq!(overview.iter().filter(|step| is_claims_scan(step)).count(), 1, "{overview:#?}");
    let others: Vec<String> = overview.into_iter().filter(|step| !is_claims_scan(step)).collect();
    assert_steps_seek(&others, &["webhook_destinations_earliest_retry_at"]);
    let walk = choose_dead_letters_walk(&db, &DeadLetterQuery::default(), Scope::All, None).unwrap();
    assert_seeks(&db, &walk.page_sql(51), &["webhook_failures_updated_at"]);
    assert_seeks(&db, row::EVENT, &["webhook_audit_event"]);
    assert_seeks(&db, operate::RECORDED_ACTION, &["webhook_audit_operation"]);
}

/// Counts the statements that SQLite runs for `query`.
fn count_statements<T>(db: &mut Connection, query: impl FnOnce(&Connection) -> T) -> (usize, T) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let add = move |_: TraceEvent<'_>| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(add)).unwrap();
    let result = query(db);
    db.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>).unwrap();
    (count.load(Ordering::Relaxed), result)
}

#[test]
fn s2_nfr001_a_page_of_dead_letters_or_events_of_sqlite_is_one_statement() {
    let Database { mut db, _directory } = database();
    let url = DestinationUrl::parse("https://a.example/").unwrap();
    db.execute("INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, ?1, 0)", [url.as_str()])
        .unwrap();
    for status in ["failed", "delivered", "pending"] {
        insert_events(&db, 1, 60, status, 1, 0);
    }
    let page = PageRequest::default();
    let (statements, dead_letters) =
        count_statements(&mut db, |db| search::dead_letters(db, &DeadLetterQuery::all(), &page).unwrap());
    assert_eq!((statements, dead_letters.items.len()), (1, page.limit.get()));
    assert!(dead_letters.next.is_some());
    for destination in [None, Some(url)] {
        // Another statement finds the destination.
        let statements_max = 1 + usize::from(destination.is_some());
        let query = EventQuery { status: Some(DeliveryStatus::Failed), destination, ..EventQuery::default() };
        let (statements, events) = count_statements(&mut db, |db| search::events(db, &query, &page).unwrap());
        assert_eq!((statements, events.items.len()), (statements_max, page.limit.get()));
    }
}

/// The keys of all events.
const ALL_KEYS: KeyRange = KeyRange { low: 0, high: i64::MAX };

#[test]
fn every_search_for_events_seeks_in_an_index_and_does_not_sort() {
    let Database { db, _directory } = database();
    let states = [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed].map(Some);
    let text = || Some("x".to_owned());
    let query = EventQuery::default;
    for status in states.into_iter().chain([None]) {
        for scope in [Scope::All, Scope::Destination(1)] {
            let filtered =
                EventQuery { event_type: text(), error: ErrorFilter::parse("http_5xx"), ..query() };
            for (query, index) in [
                (query(), None),
                (filtered, None),
                (EventQuery { event_id: EventId::new("x").ok(), ..query() }, Some("webhook_events_event_id")),
                (
                    EventQuery { payment_request_id: text(), ..query() },
                    Some("webhook_events_payment_request_id"),
                ),
                (EventQuery { session_id: text(), ..query() }, Some("webhook_events_session_id")),
                (EventQuery { webhook_id: text(), ..query() }, Some("webhook_events_webhook_id")),
            ] {
                let walk = choose_events_walk(&EventQuery { status, ..query }, scope, ALL_KEYS);
                assert_seeks(&db, &walk.page_sql(51), index.as_slice());
                let last_examined = plan(&db, &walk.last_examined_sql(ExamineLimit::default()));
                assert!(last_examined.iter().all(|step| step.starts_with("SEARCH l")), "{last_examined:?}");
            }
        }
    }
}

#[test]
fn cost_of_listing_a_destination_does_not_grow_with_its_deliveries() {
    let cost = |delivered| {
        let Database { db, _directory } = database();
        db.execute(
            "INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, 'https://here.example/', 0)",
            [],
        )
        .unwrap();
        insert_events(&db, 1, 2, "failed", 1, 0);
        insert_events(&db, 1, 2, "pending", 0, 0);
        insert_events(&db, 1, delivered, "delivered", 1, 0);
        // Reads to the end of the page, or of the listing if that is shorter.
        let steps = |status| {
            let query = EventQuery { status, ..EventQuery::default() };
            let walk = choose_events_walk(&query, Scope::Destination(1), ALL_KEYS);
            let mut listed = db.prepare(&walk.page_sql(3)).unwrap();
            let rows = listed.query_map(params_from_iter(walk.params()), |_| Ok(())).unwrap().count();
            (rows, listed.get_status(StatementStatus::VmStep))
        };
        [None, Some(DeliveryStatus::Pending), Some(DeliveryStatus::Failed), Some(DeliveryStatus::Delivered)]
            .map(steps)
    };
    let costs = cost(20_000);
    assert_eq!(costs.map(|(rows, _)| rows), [3, 2, 2, 3]);
    assert_eq!(costs, cost(100));
}

#[test]
fn a_page_of_a_search_examines_ten_thousand_rows_at_most() {
    let Database { db, _directory } = database();
    db.execute(
        "INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, 'https://a.example/', 0)",
        [],
    )
    .unwrap();
    for (status, attempts) in [("delivered", 1), ("failed", 1), ("pending", 0)] {
        insert_events(&db, 1, 11_000, status, attempts, 0);
    }
    let page = PageRequest::default();
    let nothing = Some("another".to_owned());
    for (status, newest) in [
        (None, 33_000),
        (Some(DeliveryStatus::Pending), 33_000),
        (Some(DeliveryStatus::Failed), 22_000),
        (Some(DeliveryStatus::Delivered), 33_000),
    ] {
        let query = EventQuery { status, event_type: nothing.clone(), ..EventQuery::default() };
        let found = search::events(&db, &query, &page).unwrap();
        assert!(found.items.is_empty());
        assert_eq!(found.next.unwrap().key.0, newest - 9_999, "{status:?}");
    }
    let filter = BulkFilter { event_type: nothing, ..BulkFilter::default() };
    let query = DeadLetterQuery { filter, ..DeadLetterQuery::default() };
    let found = search::dead_letters(&db, &query, &page).unwrap();
    assert_eq!((found.items.len(), found.next.unwrap().key.0), (0, 22_000 - 9_999));
}

#[test]
fn every_query_of_a_claim_seeks_in_an_index() {
    let Database { db, _directory } = database();
    assert_seeks(&db, claim::DUE_DEFERRED_DESTINATIONS, &["webhook_destinations_earliest_deferred_at"]);
    assert_seeks(&db, claim::RAISE_EARLIEST_DEFERRED_AT, &[]);
    assert_seeks(&db, clock_repair::DEFERRED_AFTER, &[]);
    assert_seeks(&db, line::LEASED, &[]);
    assert_seeks(&db, claim::NEXT_DESTINATION, &[]);
    assert_seeks(&db, claim::DUE_DESTINATIONS, &["webhook_destinations_earliest_retry_at"]);
    // Claims that hold leases are few, and have no index.
    for sql in [claims::FIND, claims::DUE_FOR_EXPIRY_CHECK] {
        assert_eq!(plan(&db, sql), ["SCAN webhook_claims"]);
    }
    assert_seeks(&db, claim::RAISE_EARLIEST_RETRY_AT, &[]);
    assert_seeks(&db, lease::PAYLOAD, &[]);
    assert_seeks(&db, clock_repair::RETRIES_AFTER, &[]);
    assert_seeks(&db, clock_repair::RESTART_PAUSES, &["webhook_destinations_paused"]);
    assert_seeks(&db, clock_repair::DATE_RESUMES, &["webhook_destinations_resumed"]);
    for (sql, queue_key) in [
        (grant::FIRST_ATTEMPTS, "PRIMARY KEY (destination_id=? AND id>?)"),
        (grant::RETRIES, "PRIMARY KEY (destination_id=? AND next_attempt_at<?)"),
        (grant::DEFERRED, "PRIMARY KEY (destination_id=? AND next_attempt_at<?)"),
    ] {
        let plan = plan(&db, sql);
        assert!(plan[0].starts_with("SEARCH l") && plan[0].contains(queue_key), "{plan:?}");
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

/// Statements that read a message by its key seek in `webhook_messages`; whether they read its payload is a parameter.
#[test]
fn every_query_of_the_registry_seeks_in_an_index_and_does_not_sort() {
    let Database { db, _directory } = database();
    for (sql, indexes) in plans::seeking() {
        let plan = plan(&db, &sql);
        for step in &plan {
            let seeks = step.starts_with("SEARCH") || step.contains("SUBQUERY") || step.contains("LIST");
            assert!(seeks, "{step:?} in {plan:#?}");
        }
        for index in indexes {
            assert!(
                plan.iter().any(|step| step.split_whitespace().any(|word| word == *index)),
                "no {index} in {plan:#?}"
            );
        }
    }
    for (sql, index) in plans::scanning() {
        let plan = plan(&db, &sql);
        let uses_index = |step: &&String| step.split_whitespace().any(|word| word == index);
        let (through_index, others): (Vec<&String>, Vec<&String>) = plan.iter().partition(uses_index);
        assert_eq!(through_index.len(), 1, "{plan:#?}");
        assert!(others.iter().all(|step| !step.starts_with("SCAN")), "{plan:#?}");
    }
}

#[test]
fn every_query_of_activity_seeks_in_an_index_and_does_not_sort() {
    let Database { db, _directory } = database();
    let by_primary_key = [activity::LAST_SEQUENCE, activity::BUCKET, activity::BUCKETS];
    for sql in by_primary_key {
        assert_seeks(&db, sql, &[]);
    }
    for sql in [activity::DATE_HEARTBEATS, activity::WORKERS, activity::RECEIVERS] {
        assert_seeks(&db, sql, &["webhook_workers_heartbeat"]);
    }
    let removals =
        [activity::REMOVE_OLD_BUCKETS, activity::REMOVE_BUCKETS_AHEAD, activity::REMOVE_OLD_WORKERS];
    for sql in removals {
        let plan = plan(&db, sql);
        assert!(plan.iter().all(|step| step.starts_with("SEARCH") || step.contains("SUBQUERY")), "{plan:#?}");
    }
}

#[test]
fn cost_of_a_publish_does_not_grow_with_the_endpoints_that_do_not_match() {
    let cost = |others: i64| {
        let Database { db, _directory } = database();
        db.execute_batch(
            "INSERT INTO webhook_applications (org, uid, name, metadata, created_at, updated_at)
             VALUES ('org_default', 'a', 'a', '{}', 0, 0)",
        )
        .unwrap();
        for (event_type, count) in [("t", 3), ("other", others)] {
            db.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO webhook_destinations (app_id, kind, url, created_at)
                 SELECT 1, 'endpoint', 'https://a.example/', 0 FROM n",
                [count],
            )
            .unwrap();
            db.execute(
                "INSERT INTO webhook_subscriptions (app_id, event_type, channel, destination_id)
                 SELECT 1, ?1, '', id FROM webhook_destinations
                 WHERE id NOT IN (SELECT destination_id FROM webhook_subscriptions)",
                [event_type],
            )
            .unwrap();
        }
        let sql = "INSERT INTO webhook_publish (app, event_type, payload) VALUES ('a', 't', '{}')";
        let mut publish = db.prepare(sql).unwrap();
        publish.execute([]).unwrap();
        let events: i64 = db.query_row("SELECT count(*) FROM webhook_events", [], |row| row.get(0)).unwrap();
        assert_eq!(events, 3);
        publish.get_status(StatementStatus::VmStep)
    };
    assert_eq!(cost(10_000), cost(1));
}

#[test]
fn cost_of_retention_does_not_grow_with_the_events_that_stay() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        let insert = "INSERT INTO webhook_destinations (url, created_at) VALUES ('https://a.example/', 0)";
        db.execute(insert, []).unwrap();
        insert_events(&db, 1, rows, "failed", 1, 0);
        (
            steps(&db, maintain::OLD_FAILURES, (0, 10)),
            steps(&db, remove::OLD_DISCARDS, (0, 10)),
            steps(&db, unused_destinations::EXAMINE, (0, 0, 10, 0)),
        )
    };
    assert_eq!(cost(20_000), cost(100));
    let Database { db, _directory } = database();
    assert_seeks(&db, maintain::OLD_FAILURES, &["webhook_failures_updated_at"]);
    assert_seeks(&db, remove::OLD_DISCARDS, &["webhook_discarded_events_discarded_at"]);
    assert_seeks(&db, unused_destinations::EXAMINE, &["webhook_events_destination"]);
}

#[test]
fn cost_of_skipping_a_destination_does_not_grow_with_its_backlog() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        insert_events(&db, 1, rows, "pending", 0, 0);
        insert_events(&db, 2, 1, "pending", 0, 0);
        (
            steps(&db, claim::NEXT_DESTINATION, (0, i64::MAX)),
            steps(&db, claim::NEXT_DESTINATION, (1, i64::MAX)),
        )
    };
    assert_eq!(cost(20_000), cost(1));
}

#[test]
fn cost_of_a_claim_does_not_grow_with_retries_that_are_not_due() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        insert_events(&db, 1, rows, "pending", 1, 1_000);
        insert_events(&db, 2, 1, "pending", 1, 10);
        (
            steps(&db, claim::NEXT_DESTINATION, (0, i64::MAX)),
            steps(&db, grant::RETRIES, (1, 10, 500, 1_000_000)),
            steps(&db, grant::RETRIES, (2, 10, 500, 1_000_000)),
            steps(&db, claim::RAISE_EARLIEST_RETRY_AT, [1]),
        )
    };
    assert_eq!(cost(20_000), cost(1));
}

#[test]
fn cost_of_an_overview_does_not_grow_with_the_history() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        insert_events(&db, 1, rows, "delivered", 1, 0);
        insert_events(&db, 1, rows, "failed", 1, 0);
        insert_events(&db, 1, rows, "pending", 0, 0);
        let walk = choose_dead_letters_walk(&db, &DeadLetterQuery::all(), Scope::All, None).unwrap();
        (steps(&db, read::OVERVIEW, [500]), steps(&db, &walk.page_sql(10), params_from_iter(walk.params())))
    };
    assert_eq!(cost(20_000), cost(100));
}

#[test]
fn cost_of_a_step_of_a_walk_does_not_grow_with_the_backlog_or_the_history() {
    let cost = |rows| {
        let Database { db, _directory } = database();
        db.execute(
            "INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, 'https://a.example/', 0)",
            [],
        )
        .unwrap();
        insert_events(&db, 1, rows, "delivered", 1, 0);
        insert_events(&db, 1, rows, "failed", 1, 0);
        insert_events(&db, 1, rows, "pending", 0, 0);
        insert_events(&db, 1, rows, "pending", 1, 500);
        assert_seeks(&db, expire::PENDING_EVENTS, &[]);
        let mut examined = db.prepare(expire::PENDING_EVENTS).unwrap();
        assert_eq!(examined.query_map((0, 10, 0), |_| Ok(())).unwrap().count(), 10);
        examined.get_status(StatementStatus::VmStep)
    };
    assert_eq!(cost(20_000), cost(100));
}

#[test]
fn destinations_that_need_attention_are_listed_by_partial_indexes() {
    let Database { db, _directory } = database();
    assert_seeks(&db, destination_view::FAILING, &["webhook_destinations_failing"]);
    assert_seeks(&db, destination::RESUMED, &["webhook_destinations_resumed"]);
    assert_seeks(&db, destination::REQUESTED_PROBES, &["webhook_destinations_probed"]);
    // The destinations that are paused now are sorted.
    let paused = plan(&db, destination_view::PAUSED);
    assert!(paused.iter().any(|step| step.contains("webhook_destinations_paused")), "{paused:#?}");
    let circuits = plan(&db, destination_view::CIRCUIT_OPEN);
    assert!(circuits.iter().all(|step| !step.starts_with("SCAN")), "{circuits:#?}");
}

#[test]
fn counting_pending_events_stops_at_its_limit() {
    let Database { db, _directory } = database();
    db.execute(
        "INSERT INTO webhook_destinations (id, url, created_at) VALUES (1, 'https://a.example/', 0)",
        [],
    )
    .unwrap();
    insert_events(&db, 1, 2_000, "pending", 0, 0);
    let before = steps(&db, destination_view::COUNT_FIRST_ATTEMPTS, (1, 1_000));
    insert_events(&db, 1, 20_000, "pending", 0, 0);
    let after = steps(&db, destination_view::COUNT_FIRST_ATTEMPTS, (1, 1_000));
    assert!(after <= before + 10, "{before} steps grew to {after}");
}
