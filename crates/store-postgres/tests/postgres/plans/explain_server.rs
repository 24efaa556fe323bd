//! A server that logs the plan of every statement through `auto_explain`, and the plans parsed from its log.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_postgres_server::{Database, PostgresServer, TEST_SETTINGS};
use posthaste_store::{LeaseRef, Store};
use serde_json::Value;

use crate::fixture::*;

/// Tables that grow with the number of events.
const LARGE_TABLES: [&str; 6] = [
    "webhook_queue",
    "webhook_events",
    "webhook_failures",
    "webhook_attempts",
    "webhook_messages",
    "webhook_subscriptions",
];

/// Part of the statement by which a process with a worker polls for new events.
pub(crate) const POLL: &str = "q.id <= s.high AND q.lease_until IS NULL";

/// A server that logs plans, with one database.
pub(crate) struct ExplainServer {
    pub(crate) server: PostgresServer,
    pub(crate) database: Database,
}

/// The logged plan of one statement.
pub(crate) struct StatementPlan {
    pub(crate) text: String,
    /// Scans of tables and indexes, including those of nested plan nodes.
    pub(crate) scans: Vec<Scan>,
    /// Rows of large tables that the scans have read.
    pub(crate) rows_read: f64,
    /// Rows of `webhook_destinations` that the scans have read.
    pub(crate) destinations_read: f64,
}

/// One scan of a plan.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(crate) struct Scan {
    pub(crate) node: String,
    pub(crate) table: String,
    pub(crate) index: String,
}

impl ExplainServer {
    pub(crate) fn start() -> Self {
        let explain = [
            ("shared_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_format", "json"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
            ("autovacuum", "off"),
        ];
        let settings: Vec<_> = TEST_SETTINGS.iter().copied().chain(explain).collect();
        let server = PostgresServer::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        let database = server.create_database("explained");
        Self { server, database }
    }

    fn log(&self) -> String {
        let log = std::fs::read(self.server.directory().join("log")).expect("the server writes a log");
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Claims, after which the store polls, and waits for two polls.
    pub(crate) async fn wait_for_poll(&self, store: &dyn Store) {
        let claimed = claim(store).await;
        store.release(&claimed.iter().map(LeaseRef::from).collect::<Vec<_>>()).await.unwrap();
        let polls = || self.log().matches(POLL).count();
        let before = polls();
        wait_until(Duration::from_secs(30), "the store polls", async || polls() >= before + 2).await;
    }

    /// Returns the plans of the statements that ran during `calls`, including those of the store's background tasks.
    pub(crate) async fn plans_during(&self, calls: impl Future<Output = ()>) -> Vec<StatementPlan> {
        static MARKERS: AtomicU64 = AtomicU64::new(0);
        let marker = |name: &str| format!("/* marker {} {name} */", MARKERS.fetch_add(1, Ordering::Relaxed));
        let (begin, end) = (marker("begin"), marker("end"));
        query_text(&self.server, &self.database.name, &format!("SELECT 1 {begin}"));
        calls.await;
        query_text(&self.server, &self.database.name, &format!("SELECT 1 {end}"));
        let log = self.log();
        let from = log.find(&begin).expect("the marker is in the log");
        let to = log.find(&end).expect("the marker is in the log");
        parse_plans(&log[from..to])
    }
}

/// Parses the plans of a log. Each follows `plan:`, and all of its lines are indented.
fn parse_plans(log: &str) -> Vec<StatementPlan> {
    let plans = log.split("plan:\n").skip(1);
    let parse = |text: &str| {
        let json: String = text.lines().take_while(|line| line.starts_with('\t')).collect();
        let json: Value = serde_json::from_str(&json).ok()?;
        let text = json["Query Text"].as_str()?.to_owned();
        let mut plan = StatementPlan { text, scans: Vec::new(), rows_read: 0.0, destinations_read: 0.0 };
        collect_scans(&json["Plan"], &mut plan);
        Some(plan)
    };
    // The last plan is that of the marker and may be cut off.
    plans.filter_map(parse).collect()
}

fn collect_scans(node: &Value, plan: &mut StatementPlan) {
    let text = |field: &str| node[field].as_str().unwrap_or_default().to_owned();
    if text("Node Type").ends_with("Scan") && !text("Relation Name").is_empty() {
        let scan = Scan { node: text("Node Type"), table: text("Relation Name"), index: text("Index Name") };
        let number = |field: &str| node[field].as_f64().unwrap_or_default();
        // Row counts are per loop. A loop that finds no row counts as one.
        let rows_per_loop = number("Actual Rows") + number("Rows Removed by Filter");
        let rows = rows_per_loop.max(1.0) * number("Actual Loops");
        if is_large(&scan.table) {
            plan.rows_read += rows;
        }
        if scan.table == "webhook_destinations" {
            plan.destinations_read += rows;
        }
        plan.scans.push(scan);
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_scans(child, plan);
    }
}

/// Returns the scans of the statements that contain all of these fragments. Fails if no such statement ran.
pub(crate) fn scans_of(plans: &[StatementPlan], fragments: &[&str]) -> BTreeSet<Scan> {
    let contains_all = |plan: &&StatementPlan| fragments.iter().all(|text| plan.text.contains(text));
    let mut found = plans.iter().filter(contains_all).peekable();
    assert!(found.peek().is_some(), "no statement with {fragments:?} was run");
    found.flat_map(|plan| plan.scans.iter().cloned()).collect()
}

fn is_large(table: &str) -> bool {
    LARGE_TABLES.iter().any(|large| table.starts_with(large))
}

/// Asserts that no large table is scanned sequentially and that each of these indexes is used.
#[track_caller]
pub(crate) fn assert_uses_indexes(scans: &BTreeSet<Scan>, indexes: &[&str]) {
    let sequential: Vec<_> =
        scans.iter().filter(|scan| is_large(&scan.table) && scan.node == "Seq Scan").collect();
    assert!(sequential.is_empty(), "large tables are scanned sequentially: {sequential:?}");
    for index in indexes {
        assert!(scans.iter().any(|scan| scan.index == *index), "{index} is not used: {scans:#?}");
    }
}
