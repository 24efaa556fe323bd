//! How the server carries out what the store asks: read from the plans that it logs itself.
//!
//! `auto_explain` writes the plan of every statement that was run, whoever prepared it, on a fresh database and on one
//! with tens of thousands of events.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_domain::{DeliveryStatus, DestinationUrl};
use posthaste_postgres_server::{Database, FOR_TESTS, PostgresServer};
use posthaste_store::{EventQuery, HeldLease, PageLimit, PageRequest, Store};
use serde_json::Value;

use crate::fixture::*;
use crate::support::PostgresHarness;

/// Tables that grow with the events.
const LARGE: [&str; 5] =
    ["webhook_queue", "webhook_events", "webhook_messages", "webhook_endings", "webhook_attempts"];

/// A server that logs plans.
struct Explained {
    server: PostgresServer,
    database: Database,
}

/// One statement that was run.
struct Ran {
    text: String,
    /// Scans of tables and their indexes, nested ones included.
    scans: Vec<Scan>,
    /// Rows of large tables that the scans looked at.
    rows: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Scan {
    node: String,
    table: String,
    index: String,
}

impl Explained {
    fn start() -> Self {
        let explain = [
            ("shared_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_format", "json"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
            ("autovacuum", "off"),
        ];
        let settings: Vec<_> = FOR_TESTS.iter().copied().chain(explain).collect();
        let server = PostgresServer::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        let database = server.create_database("explained");
        Self { server, database }
    }

    fn log(&self) -> String {
        let log = std::fs::read(self.server.directory().join("log")).expect("the server keeps a log");
        String::from_utf8_lossy(&log).into_owned()
    }

    /// What was run while `calls` were made. Others of the store's own doing are among it.
    async fn ran_by(&self, calls: impl Future<Output = ()>) -> Vec<Ran> {
        static MARKS: AtomicU64 = AtomicU64::new(0);
        let mark = |when: &str| format!("/* mark {} {when} */", MARKS.fetch_add(1, Ordering::Relaxed));
        let (begin, end) = (mark("begin"), mark("end"));
        say(&self.server, &self.database.name, &format!("SELECT 1 {begin}"));
        calls.await;
        say(&self.server, &self.database.name, &format!("SELECT 1 {end}"));
        let log = self.log();
        let from = log.find(&begin).expect("the mark was run");
        let to = log.find(&end).expect("the mark was run");
        plans(&log[from..to])
    }
}

/// A plan follows the word, every line of it indented.
fn plans(log: &str) -> Vec<Ran> {
    let after = log.split("plan:\n").skip(1);
    let plan = |text: &str| {
        let json: String = text.lines().take_while(|line| line.starts_with('\t')).collect();
        let plan: Value = serde_json::from_str(&json).ok()?;
        let mut ran = Ran { text: plan["Query Text"].as_str()?.to_owned(), scans: Vec::new(), rows: 0.0 };
        scans_of(&plan["Plan"], &mut ran);
        Some(ran)
    };
    // The last one may be cut off by the mark that is inside it.
    after.filter_map(plan).collect()
}

fn scans_of(node: &Value, ran: &mut Ran) {
    let word = |field: &str| node[field].as_str().unwrap_or_default().to_owned();
    if word("Node Type").ends_with("Scan") && !word("Relation Name").is_empty() {
        let scan = Scan { node: word("Node Type"), table: word("Relation Name"), index: word("Index Name") };
        if is_large(&scan.table) {
            let number = |field: &str| node[field].as_f64().unwrap_or_default();
            // Counts are of one loop each; a loop that finds nothing has looked as well.
            let of_a_loop = number("Actual Rows") + number("Rows Removed by Filter");
            ran.rows += of_a_loop.max(1.0) * number("Actual Loops");
        }
        ran.scans.push(scan);
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        scans_of(child, ran);
    }
}

/// Of the statements with all of these words, the scans; there must be such statements.
fn scans(ran: &[Ran], words: &[&str]) -> BTreeSet<Scan> {
    let mut found = ran.iter().filter(|ran| words.iter().all(|word| ran.text.contains(word))).peekable();
    assert!(found.peek().is_some(), "no statement with {words:?} was run");
    found.flat_map(|ran| ran.scans.iter().cloned()).collect()
}

fn is_large(table: &str) -> bool {
    LARGE.iter().any(|large| table.starts_with(large))
}

#[track_caller]
fn assert_walks_indexes_only(scans: &BTreeSet<Scan>, indexes: &[&str]) {
    let whole: Vec<_> =
        scans.iter().filter(|scan| is_large(&scan.table) && scan.node == "Seq Scan").collect();
    assert!(whole.is_empty(), "tables that grow are read whole: {whole:?}");
    for index in indexes {
        assert!(scans.iter().any(|scan| scan.index == *index), "{index} is not used: {scans:#?}");
    }
}

/// Everything that a worker and an operator do.
async fn life(store: &dyn Store) {
    enqueue_all(store, (0..20).map(|_| spec()).collect()).await;
    let leases = claim(store).await;
    let held: Vec<HeldLease> = leases.iter().map(HeldLease::from).collect();
    store.renew(&held, LEASE).await.unwrap();
    let (delivered, rest) = leases.split_at(5);
    let (retried, rest) = rest.split_at(5);
    let (dead, released) = rest.split_at(5);
    settle(store, delivered, 200).await;
    settle(store, retried, 500).await;
    settle(store, dead, 410).await;
    settle(store, delivered, 200).await;
    store.release(&released.iter().map(HeldLease::from).collect::<Vec<_>>()).await.unwrap();
    operators_look(store).await;
    store.event(&dead[0].event_id).await.unwrap();
    store.requeue(&dead[0].event_id, "operator").await.unwrap();
    store.cancel(&dead[0].event_id, "operator", None).await.unwrap();
    store.events(&EventQuery::default(), &PageRequest::default()).await.unwrap();
    settle(store, &claim(store).await, 200).await;
}

async fn operators_look(store: &dyn Store) {
    store.overview().await.unwrap();
    store.dead_letters(&PageRequest::default()).await.unwrap();
}

/// Fifty thousand events: pending, retrying, delivered and dead ones.
async fn fill(explained: &Explained, store: &dyn Store) {
    // Nobody reads the plans of this.
    let name = &explained.database.name;
    let log = |on: &str| format!("ALTER DATABASE \"{name}\" SET auto_explain.log_min_duration = {on}");
    say(&explained.server, "postgres", &log("-1"));
    let quiet = open(&explained.database.url).await;
    for batch in 0..50_u16 {
        let url = |n: u16| format!("https://receiver-{}.example/", (batch + n) % 100);
        enqueue_all(&quiet, (0..1_000).map(|n| spec_to(&url(n))).collect()).await;
        let answer = match batch {
            0..15 => 200,
            15..20 => 410,
            20..25 => 500,
            _ => continue,
        };
        settle(&quiet, &claim(&quiet).await, answer).await;
    }
    say(&explained.server, "postgres", &log("0"));
    say(&explained.server, name, "ANALYZE");
    assert_eq!(store.overview().await.unwrap().pending, 30_005);
}

/// What holds on any amount of data.
fn assert_good(ran: &[Ran]) {
    assert_walks_indexes_only(&ran.iter().flat_map(|ran| ran.scans.iter().cloned()).collect(), &[]);
    // Discovery, the claim's grant, a settle, a heartbeat, a release.
    let news = scans(ran, &["q.lease_until IS NOT NULL AS leased"]);
    assert_walks_indexes_only(&news, &["webhook_queue_turn"]);
    let grant = scans(ran, &["UPDATE app.webhook_queue", "SKIP LOCKED"]);
    assert_walks_indexes_only(
        &grant,
        &["webhook_queue_destination_turn", "webhook_events_id", "webhook_messages_id"],
    );
    let settle = scans(ran, &["INSERT INTO app.webhook_attempts", "DELETE FROM app.webhook_queue"]);
    assert_walks_indexes_only(&settle, &["webhook_queue_id"]);
    assert!(
        settle.iter().all(|scan| !["webhook_events", "webhook_messages"].contains(&&*scan.table)),
        "{settle:?}"
    );
    let renew = scans(ran, &["SET lease_until = app.webhook_now()", "RETURNING q.id, q.lease_token"]);
    assert_walks_indexes_only(&renew, &["webhook_queue_id"]);
}

#[tokio::test]
async fn no_statement_reads_a_growing_table_whole_on_fresh_or_on_much_data() {
    let explained = Explained::start();
    let store = open(&explained.database.url).await;
    assert_good(&explained.ran_by(life(&store)).await);
    fill(&explained, &store).await;
    // Plans that were made when there was nothing, and plans that are made now.
    assert_good(&explained.ran_by(life(&store)).await);
    assert_good(&explained.ran_by(async { life(&open(&explained.database.url).await).await }).await);
}

#[tokio::test]
async fn s2_nfr001_overview_and_dead_letters_of_postgres_read_no_payload_and_scan_no_table() {
    let explained = Explained::start();
    let store = open(&explained.database.url).await;
    for filled in [false, true] {
        if filled {
            life(&store).await;
            fill(&explained, &store).await;
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            let ran = explained.ran_by(operators_look(store)).await;
            let overview = scans(&ran, &["sum(pending)", "webhook_turn_at"]);
            assert_walks_indexes_only(&overview, &["webhook_queue_turn", "webhook_queue_id"]);
            let dead_letters = scans(&ran, &["x.failure_kind IS NOT NULL", "ORDER BY x.updated_at DESC"]);
            assert_walks_indexes_only(&dead_letters, &["webhook_endings_dead_letters", "webhook_events_id"]);
            for scan in overview.iter().chain(&dead_letters) {
                assert_ne!(scan.table, "webhook_messages", "payloads are there");
            }
        }
    }
}

/// Thirty thousand events of a destination, one in a thousand of them pending, the others all at the same end.
async fn history(explained: &Explained, url: &str, failure_kind: &str) {
    let client = client(&explained.database.url).await;
    let sql = format!(
        "SET auto_explain.log_min_duration = -1;
         WITH there AS MATERIALIZED (SELECT app.webhook_destination('{url}') AS id),
         events AS (
             INSERT INTO app.webhook_events (
                 id, message_id, destination_id, created_at, max_attempts, event_id, event_type
             )
             SELECT nextval('app.webhook_turn'), gen_random_uuid(), there.id, now(), 6, gen_random_uuid()::text, 't'
             FROM there, generate_series(1, 30000)
             RETURNING id, destination_id
         ),
         queue AS (
             INSERT INTO app.webhook_queue (id, destination_id, turn, next_attempt_at, updated_at)
             SELECT id, destination_id, id, now(), now() FROM events WHERE id % 1000 = 0
         )
         INSERT INTO app.webhook_endings (id, updated_at, attempts, claims, lost_leases, failure_kind)
         SELECT id, now(), 1, 1, 0, {failure_kind} FROM events WHERE id % 1000 <> 0"
    );
    client.batch_execute(&sql).await.expect("the schema is there");
}

#[tokio::test]
async fn a_list_of_one_destination_costs_nothing_of_what_was_delivered_there() {
    const DELIVERS: &str = "https://delivers.example/";
    const DIES: &str = "https://dies.example/";
    let explained = Explained::start();
    let store = open(&explained.database.url).await;
    history(&explained, DELIVERS, "NULL").await;
    history(&explained, DIES, "'exhausted'").await;
    let looked_at = async |store: &dyn Store, url: &str, status: Option<DeliveryStatus>| {
        let query = EventQuery { status, destination: Some(DestinationUrl::parse(url).unwrap()) };
        let page = |after| PageRequest { after, limit: PageLimit::new(20).unwrap() };
        let mut listed = Vec::new();
        let ran = explained
            .ran_by(async {
                let first = store.events(&query, &page(None)).await.unwrap();
                listed.extend(first.items);
                if first.next.is_some() {
                    listed.extend(store.events(&query, &page(first.next)).await.unwrap().items);
                }
            })
            .await;
        assert!(listed.windows(2).all(|pair| pair[0].key > pair[1].key), "the newest first, none twice");
        for event in &listed {
            assert_eq!(event.destination_url.as_str(), url);
            assert_eq!(event.status, status.unwrap_or(event.status));
        }
        let words = ["app.webhook_outbox_events v ON v.id = d.id"];
        let scans = scans(&ran, &words);
        let index = match status {
            Some(DeliveryStatus::Failed) => "webhook_endings_failed_destination",
            _ => "webhook_events_destination",
        };
        assert_walks_indexes_only(&scans, &[index, "webhook_events_id"]);
        let rows: f64 = ran.iter().filter(|ran| ran.text.contains(words[0])).map(|ran| ran.rows).sum();
        (listed.len(), rows)
    };
    // Plans that were made on no statistics, and plans that are made on those of now.
    for analyzed in [false, true] {
        if analyzed {
            say(&explained.server, &explained.database.name, "ANALYZE");
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            use DeliveryStatus::{Delivered, Failed, Pending};
            for (url, status, expected) in [
                (DELIVERS, None, 40),
                (DELIVERS, Some(Pending), 30),
                (DELIVERS, Some(Failed), 0),
                (DELIVERS, Some(Delivered), 40),
                (DIES, None, 40),
                (DIES, Some(Pending), 30),
                (DIES, Some(Failed), 40),
            ] {
                let (listed, rows) = looked_at(store, url, status).await;
                assert_eq!(listed, expected, "{status:?} to {url}");
                assert!(rows < 5_000.0, "{rows} rows for the {status:?} to {url}, analyzed: {analyzed}");
            }
        }
    }
}

#[tokio::test]
async fn claims_write_no_index_and_settles_rewrite_no_event() {
    let harness = PostgresHarness::start().await;
    let store = posthaste_store_postgres::PostgresStore::connect(config(&harness.database.url));
    for _ in 0..3 {
        enqueue_all(&store, (0..1_000).map(|_| spec()).collect()).await;
    }
    let mut leases = Vec::new();
    while leases.len() < 3_000 {
        leases.extend(claim(&store).await);
    }
    // A backend tells what it did when it goes, at the latest.
    drop(store);
    let client = client(&harness.database.url).await;
    let updates = async |table: &str| {
        let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1";
        let row = client.query_one(sql, &[&table]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    until(3 * SOON, "the claims were counted", async || updates("webhook_queue").await.0 >= 3_000).await;
    assert_eq!(updates("webhook_queue").await, (3_000, 3_000), "every claim is a HOT update");

    let store = posthaste_store_postgres::PostgresStore::connect(config(&harness.database.url));
    for batch in leases.chunks(500) {
        settle(&store, batch, 200).await;
    }
    drop(store);
    until(3 * SOON, "the settles were counted", async || {
        let sql = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'webhook_queue'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= 3_000
    })
    .await;
    assert_eq!(updates("webhook_queue").await.0, 3_000, "a delivery updates nothing");
    for table in ["webhook_events", "webhook_messages", "webhook_endings"] {
        assert_eq!(updates(table).await.0, 0, "{table}");
    }
}
