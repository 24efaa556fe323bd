//! Query plans of the store's statements, read from the server's log: on a fresh database, and on one with tens of
//! thousands of events.

mod activity;
pub(crate) mod explain_server;
mod registry;

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationId, DestinationUrl, EventId, EventKey, WorkerId};
use posthaste_store::{
    BulkFilter, CircuitReport, DeadLetterQuery, DestinationState, EventQuery, ExamineLimit, ExpireRequest,
    LeaseRef, OpenCircuitReport, PageLimit, PageRequest, PauseRequest, Store,
};
use posthaste_store_postgres::PostgresStore;

use crate::fixture::*;
use crate::support::PostgresHarness;
use explain_server::{ExplainServer, POLL, Scan, StatementPlan, assert_uses_indexes, scans_of};

/// Runs the operations of a worker and an operator.
async fn run_all_operations(store: &dyn Store) {
    enqueue_all(store, (0..20).map(|_| spec()).collect()).await;
    let leases = claim(store).await;
    let held: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
    store.renew(&held, LEASE).await.unwrap();
    store.read_payload(held[0]).await.unwrap();
    let (delivered, rest) = leases.split_at(5);
    let (retried, rest) = rest.split_at(5);
    let (dead, released) = rest.split_at(5);
    settle(store, delivered, 200).await;
    settle(store, retried, 500).await;
    settle(store, dead, 410).await;
    settle(store, delivered, 200).await;
    store.release(&released.iter().map(LeaseRef::from).collect::<Vec<_>>()).await.unwrap();
    read_overview_and_dead_letters(store).await;
    store.event(&dead[0].event_id).await.unwrap();
    store.requeue(&dead[0].event_id, "operator".into()).await.unwrap();
    store.cancel(&dead[0].event_id, "operator".into(), None).await.unwrap();
    store.events(&EventQuery::default(), &PageRequest::default()).await.unwrap();
    let waiting = enqueue_all(store, vec![spec(), spec()]).await;
    let before = EventKey(store.event(&waiting[0]).await.unwrap().event.key.0 - 1);
    let expired = expire(store, Duration::ZERO, Some(before)).await;
    assert_eq!(expired, waiting);
    operate_destinations(store, dead[0].destination_id).await;
    settle(store, &claim(store).await, 200).await;
}

/// Runs one step of a walk over the pending events.
async fn expire(store: &dyn Store, expire_after: Duration, after: Option<EventKey>) -> Vec<EventId> {
    store.expire(&ExpireRequest { expire_after, after, rows_max: 100 }).await.unwrap().expired
}

/// Reports a circuit, pauses and resumes a destination, and reads all lists of destinations.
async fn operate_destinations(store: &dyn Store, id: DestinationId) {
    let open = OpenCircuitReport {
        open_for: Duration::ZERO,
        next_probe_in: Duration::from_secs(30),
        last_error: Some("HTTP 500".to_owned()),
        expires_in: Duration::from_secs(60),
    };
    let worker = WorkerId::new("worker").unwrap();
    store.report_circuits(&[CircuitReport { worker, destination: id, open: Some(open) }]).await.unwrap();
    store.pause_destination(id, &PauseRequest::new("operator", None, None)).await.unwrap();
    for state in DestinationState::ALL.iter().copied().map(Some).chain([None]) {
        store.destinations(state, &PageRequest::default()).await.unwrap();
    }
    store.destination(id).await.unwrap();
    store.resume_destination(id, "operator").await.unwrap();
}

async fn read_overview_and_dead_letters(store: &dyn Store) {
    store.overview().await.unwrap();
    store.dead_letters(&DeadLetterQuery::default(), &PageRequest::default()).await.unwrap();
}

/// Adds fifty thousand events: pending, retrying, delivered and dead.
async fn fill(explained: &ExplainServer, store: &dyn Store) {
    // Without logging: no test reads these plans.
    let name = &explained.database.name;
    let log = |on: &str| format!("ALTER DATABASE \"{name}\" SET auto_explain.log_min_duration = {on}");
    query_text(&explained.server, "postgres", &log("-1"));
    let quiet = open(&explained.database.url).await;
    for batch in 0..50_u16 {
        let url = |n: u16| format!("https://receiver-{}.example/", (batch + n) % 100);
        enqueue_all(&quiet, (0..1_000).map(|n| spec_to(&url(n))).collect()).await;
        let http_status = match batch {
            0..15 => 200,
            15..20 => 410,
            20..25 => 500,
            _ => continue,
        };
        settle(&quiet, &claim(&quiet).await, http_status).await;
    }
    query_text(&explained.server, "postgres", &log("0"));
    query_text(&explained.server, name, "ANALYZE");
    assert_eq!(store.overview().await.unwrap().pending, 30_005);
}

/// Asserts the properties of plans that hold for any amount of data.
fn assert_indexed_plans(plans: &[StatementPlan]) {
    assert_uses_indexes(&plans.iter().flat_map(|plan| plan.scans.iter().cloned()).collect(), &[]);
    // Discovery, a claim, a settle and a renewal.
    let new_rows = scans_of(plans, &["q.lease_until IS NOT NULL AS leased"]);
    assert_uses_indexes(&new_rows, &["webhook_queue_position"]);
    let grant = scans_of(plans, &["UPDATE app.webhook_queue", "SKIP LOCKED"]);
    assert_uses_indexes(&grant, &["webhook_queue_destination_position", "webhook_events_id"]);
    let settle = scans_of(plans, &["INSERT INTO app.webhook_attempts", "DELETE FROM app.webhook_queue"]);
    assert_uses_indexes(&settle, &["webhook_queue_id"]);
    assert!(settle.iter().all(|scan| scan.table != "webhook_events"), "{settle:?}");
    let late = scans_of(plans, &["WITH late AS MATERIALIZED"]);
    assert_uses_indexes(&late, &["webhook_events_id", "webhook_attempts_default_event_key_idx"]);
    let renew = scans_of(plans, &["SET lease_until = app.webhook_now()", "RETURNING q.id, q.lease_claim"]);
    assert_uses_indexes(&renew, &["webhook_queue_id"]);
    let expire = scans_of(plans, &["horizon AS", "ORDER BY q.id"]);
    assert_uses_indexes(&expire, &["webhook_queue_id", "webhook_events_id", "webhook_destinations_id"]);
}

#[tokio::test]
async fn no_statement_scans_a_large_table_sequentially_on_a_fresh_or_a_filled_database() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    assert_indexed_plans(&explained.plans_during(run_all_operations(&store)).await);
    fill(&explained, &store).await;
    let walk = explained.plans_during(async { drop(expire(&store, LEASE * 1_000, None).await) }).await;
    let rows_read: f64 = walk.iter().map(|plan| plan.rows_read).sum();
    assert!(rows_read < 1_000.0, "a step that examines 100 of 30,000 pending events read {rows_read} rows");
    let polls = explained.plans_during(explained.wait_for_poll(&store)).await;
    let polls: Vec<_> = polls.into_iter().filter(|plan| plan.text.contains(POLL)).collect();
    assert_uses_indexes(&scans_of(&polls, &[POLL]), &["webhook_queue_id", "webhook_queue_position"]);
    let rows_read = polls.iter().map(|plan| plan.rows_read).fold(0.0, f64::max);
    assert!(rows_read < 10.0, "a poll beside 30,000 pending events read {rows_read} rows");
    // First with the plans prepared on the empty tables, then with new ones.
    assert_indexed_plans(&explained.plans_during(run_all_operations(&store)).await);
    assert_indexed_plans(
        &explained
            .plans_during(async { run_all_operations(&open(&explained.database.url).await).await })
            .await,
    );
}

#[tokio::test]
async fn s2_nfr001_overview_and_dead_letters_of_postgres_read_no_payload_and_scan_no_table() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    let sql = "SELECT count(*) FROM information_schema.columns
               WHERE table_name = 'webhook_outbox_events' AND column_name LIKE '%payload%'";
    assert_eq!(query_text(&explained.server, &explained.database.name, sql), "0");
    for filled in [false, true] {
        if filled {
            run_all_operations(&store).await;
            fill(&explained, &store).await;
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            let plans = explained.plans_during(read_overview_and_dead_letters(store)).await;
            let overview = scans_of(&plans, &["sum(pending)", "webhook_retry_position"]);
            assert_uses_indexes(&overview, &["webhook_queue_position", "webhook_queue_id"]);
            let dead_letters =
                scans_of(&plans, &["f.failure_kind <> 'cancelled'", "ORDER BY f.updated_at DESC"]);
            assert_uses_indexes(&dead_letters, &["webhook_failures_updated_at", "webhook_events_id"]);
            // The view through which they read events has no payload either.
            for plan in &plans {
                assert!(!plan.text.contains("payload"), "{}", plan.text);
            }
        }
    }
}

/// Adds thirty thousand events of a destination. One in a thousand is pending; the others are delivered, or failed with
/// this kind.
async fn add_history(explained: &ExplainServer, url: &str, failure_kind: &str) {
    let client = client(&explained.database.url).await;
    let sql = format!(
        "SET auto_explain.log_min_duration = -1;
         WITH destination AS MATERIALIZED (SELECT app.webhook_destination_id('{url}') AS id),
         events AS (
             INSERT INTO app.webhook_events (
                 id, message_id, destination_id, created_at, max_attempts, event_id, event_type, content_type
             )
             SELECT nextval('app.webhook_event_key'), gen_random_uuid(), destination.id, now(), 6, gen_random_uuid()::text,
                    't', 'text/plain'
             FROM destination, generate_series(1, 30000)
             RETURNING id, destination_id
         ),
         queue AS (
             INSERT INTO app.webhook_queue (id, destination_id, queue_position, next_attempt_at, payload_bytes, updated_at)
             SELECT id, destination_id, id, now(), 2, now() FROM events WHERE id % 1000 = 0
         )
         INSERT INTO app.webhook_failures (id, destination_id, updated_at, attempts, claims, lost_leases, failure_kind)
         SELECT id, destination_id, now(), 1, 1, 0, {failure_kind} FROM events
         WHERE id % 1000 <> 0 AND {failure_kind} IS NOT NULL"
    );
    client.batch_execute(&sql).await.expect("the store has migrated the schema");
}

#[tokio::test]
async fn listing_one_destination_reads_few_rows_of_its_history() {
    const DELIVERING: &str = "https://delivers.example/";
    const FAILING: &str = "https://dies.example/";
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    add_history(&explained, DELIVERING, "NULL").await;
    add_history(&explained, FAILING, "'exhausted'").await;
    let list_pages = async |store: &dyn Store, url: &str, status: Option<DeliveryStatus>| {
        let destination = Some(DestinationUrl::parse(url).unwrap());
        let query = EventQuery { status, destination, ..EventQuery::default() };
        let page = |after| PageRequest { after, limit: PageLimit::new(20).unwrap() };
        let mut listed = Vec::new();
        let plans = explained
            .plans_during(async {
                let first = store.events(&query, &page(None)).await.unwrap();
                listed.extend(first.items);
                if first.next.is_some() {
                    listed.extend(store.events(&query, &page(first.next)).await.unwrap().items);
                }
            })
            .await;
        assert!(listed.windows(2).all(|pair| pair[0].key > pair[1].key), "newest first, without duplicates");
        for event in &listed {
            assert_eq!(event.destination_url.as_str(), url);
            assert_eq!(event.status, status.unwrap_or(event.status));
        }
        let fragments = ["app.webhook_outbox_events v ON v.id = d.id"];
        let scans = scans_of(&plans, &fragments);
        let index = match status {
            Some(DeliveryStatus::Failed) => "webhook_failures_destination",
            _ => "webhook_events_destination",
        };
        assert_uses_indexes(&scans, &[index, "webhook_events_id"]);
        let rows: f64 =
            plans.iter().filter(|plan| plan.text.contains(fragments[0])).map(|plan| plan.rows_read).sum();
        (listed.len(), rows)
    };
    // With plans made before and after the tables have statistics.
    for analyzed in [false, true] {
        if analyzed {
            query_text(&explained.server, &explained.database.name, "ANALYZE");
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            use DeliveryStatus::{Delivered, Failed, Pending};
            for (url, status, expected) in [
                (DELIVERING, None, 40),
                (DELIVERING, Some(Pending), 30),
                (DELIVERING, Some(Failed), 0),
                (DELIVERING, Some(Delivered), 40),
                (FAILING, None, 40),
                (FAILING, Some(Pending), 30),
                (FAILING, Some(Failed), 40),
            ] {
                let (listed, rows) = list_pages(store, url, status).await;
                assert_eq!(listed, expected, "{status:?} to {url}");
                assert!(rows < 5_000.0, "{rows} rows for the {status:?} to {url}, analyzed: {analyzed}");
            }
        }
    }
}

#[tokio::test]
async fn a_search_examines_a_limited_number_of_rows_of_any_history() {
    const DELIVERING: &str = "https://delivers.example/";
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    add_history(&explained, DELIVERING, "NULL").await;
    add_history(&explained, "https://dies.example/", "'exhausted'").await;
    let client = client(&explained.database.url).await;
    let sql = "
        SET auto_explain.log_min_duration = -1;
        UPDATE app.webhook_events
        SET payment_request_id = 'pr-1', session_id = 'se-1', webhook_id = 'wh-1', created_at = now() - interval '1 hour'
        WHERE id % 10000 = 7";
    client.batch_execute(sql).await.expect("the store has migrated the schema");
    let text = |text: &str| Some(text.to_owned());
    let query = || EventQuery { examine: ExamineLimit::new(500), ..EventQuery::default() };
    // With plans made before and after the tables have statistics.
    for analyzed in [false, true] {
        if analyzed {
            query_text(&explained.server, &explained.database.name, "ANALYZE");
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            let search = async |query: EventQuery| {
                let mut found = None;
                let plans = explained
                    .plans_during(async { found = store.events(&query, &PageRequest::default()).await.ok() })
                    .await;
                let scans = scans_of(&plans, &["WITH examined AS"]);
                assert_uses_indexes(&scans, &[]);
                (found.expect("the store is up"), scans, plans.iter().map(|plan| plan.rows_read).sum::<f64>())
            };
            for status in DeliveryStatus::ALL.iter().copied().map(Some).chain([None]) {
                for destination in [None, DestinationUrl::parse(DELIVERING).ok()] {
                    let (found, _, rows) =
                        search(EventQuery { status, destination, event_type: text("another"), ..query() })
                            .await;
                    assert_eq!(found.items.len(), 0, "{status:?}");
                    assert!(rows < 4_000.0, "{rows} rows for {status:?}, analyzed: {analyzed}");
                }
            }
            for (query, index) in [
                (
                    EventQuery { payment_request_id: text("pr-1"), ..query() },
                    "webhook_events_payment_request_id",
                ),
                (EventQuery { session_id: text("se-1"), ..query() }, "webhook_events_session_id"),
                (EventQuery { webhook_id: text("wh-1"), ..query() }, "webhook_events_webhook_id"),
                (EventQuery { event_id: EventId::new("none").ok(), ..query() }, "webhook_events_event_id"),
            ] {
                let (found, scans, rows) = search(query).await;
                assert!(found.next.is_none() && [0, 6].contains(&found.items.len()), "{found:?}");
                assert_uses_indexes(&scans, &[index]);
                assert!(rows < 200.0, "{rows} rows by {index}, analyzed: {analyzed}");
            }
            let filter = BulkFilter { event_type: text("another"), ..BulkFilter::default() };
            let dead =
                DeadLetterQuery { filter, examine: ExamineLimit::new(500), ..DeadLetterQuery::default() };
            let plans = explained.plans_during(async {
                let found = store.dead_letters(&dead, &PageRequest::default()).await.unwrap();
                assert!(found.items.is_empty() && found.next.is_some());
            });
            let rows: f64 = plans.await.iter().map(|plan| plan.rows_read).sum();
            assert!(rows < 4_000.0, "{rows} rows of dead letters, analyzed: {analyzed}");
        }
    }
}

#[tokio::test]
async fn destinations_that_need_attention_are_listed_without_reading_the_healthy_ones() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    let client = client(&explained.database.url).await;
    let sql = "
        SET auto_explain.log_min_duration = -1;
        INSERT INTO app.webhook_destinations (url, paused_until, failing_since)
        SELECT 'https://receiver.example/' || n,
               CASE n % 1000 WHEN 0 THEN timestamptz 'infinity' WHEN 1 THEN now() - interval '1 hour' END,
               CASE n % 1000 WHEN 2 THEN now() END
        FROM generate_series(1, 20000) n;
        INSERT INTO app.webhook_circuits (destination_id, worker, since, next_probe_at, reported_at, expires_at)
        SELECT id, 'w', now(), now(), now(), now() + interval '1 hour' FROM app.webhook_destinations WHERE id % 1000 = 3;";
    client.batch_execute(sql).await.expect("the store has migrated the schema");
    // With plans made before and after the tables have statistics.
    for analyzed in [false, true] {
        if analyzed {
            query_text(&explained.server, &explained.database.name, "ANALYZE");
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            for (state, index) in [
                (DestinationState::Paused, "webhook_destinations_paused"),
                (DestinationState::Failing, "webhook_destinations_failing"),
                (DestinationState::CircuitOpen, "webhook_circuits_destination"),
            ] {
                let list = async {
                    let listed = store.destinations(Some(state), &PageRequest::default()).await.unwrap();
                    assert_eq!(listed.items.len(), 20, "{state:?}");
                };
                let plans = explained.plans_during(list).await;
                let scans = scans_of(&plans, &["WITH listed AS MATERIALIZED"]);
                assert_uses_indexes(&scans, &[index]);
                let is_full = |scan: &Scan| scan.table == "webhook_destinations" && scan.index.is_empty();
                assert!(!scans.iter().any(is_full), "{state:?}: {scans:#?}");
            }
            let read_overview = async {
                store.overview().await.unwrap();
            };
            let plans = explained.plans_during(read_overview).await;
            let overview = scans_of(&plans, &["held_destinations"]);
            assert_uses_indexes(&overview, &["webhook_destinations_paused"]);
        }
    }
}

#[tokio::test]
async fn a_claim_reads_only_the_destinations_that_were_resumed_recently() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    let client = client(&explained.database.url).await;
    let sql = "
        SET auto_explain.log_min_duration = -1;
        INSERT INTO app.webhook_destinations (url, resumed_at)
        SELECT 'https://receiver.example/' || n, CASE n % 2 WHEN 0 THEN now() - interval '1 day' END
        FROM generate_series(1, 100000) n;
        UPDATE app.webhook_destinations SET resumed_at = now() WHERE url = 'https://receiver.example/17'";
    client.batch_execute(sql).await.expect("the store has migrated the schema");
    // With plans made before and after the table has statistics.
    for analyzed in [false, true] {
        if analyzed {
            query_text(&explained.server, &explained.database.name, "ANALYZE");
        }
        let fresh = open(&explained.database.url).await;
        for store in [&store, &fresh] {
            let read_resumed = async {
                let claimed = store.claim(&claim_by("worker-a")).await.unwrap();
                assert_eq!(claimed.resumed.len(), 1);
            };
            let plans = explained.plans_during(read_resumed).await;
            let scans = scans_of(&plans, &["pg_snapshot_xmin", "d.resumed_at >"]);
            assert_uses_indexes(&scans, &["webhook_destinations_resumed"]);
            let sequential =
                scans.iter().find(|scan| scan.table == "webhook_destinations" && scan.node == "Seq Scan");
            assert_eq!(sequential, None, "analyzed: {analyzed}");
        }
    }
}

#[tokio::test]
async fn a_settle_of_deliveries_reads_no_failing_destination_but_its_own() {
    let explained = ExplainServer::start();
    let store = open(&explained.database.url).await;
    enqueue_all(&store, (0..100).map(|_| spec()).collect()).await;
    let leases = claim(&store).await;
    settle(&store, &leases[..1], 200).await;
    let client = client(&explained.database.url).await;
    let sql = "SET auto_explain.log_min_duration = -1;
               INSERT INTO app.webhook_destinations (url, failing_since)
               SELECT 'https://fails.example/' || n, now() FROM generate_series(1, 10000) n";
    client.batch_execute(sql).await.expect("the store has migrated the schema");
    // With a plan made before there were failing destinations, and with one made when the table has statistics.
    for (analyzed, leases) in [(false, &leases[1..50]), (true, &leases[50..])] {
        if analyzed {
            query_text(&explained.server, &explained.database.name, "ANALYZE");
        }
        let plans = explained.plans_during(async { drop(settle(&store, leases, 200).await) }).await;
        let settles = plans.iter().filter(|plan| plan.text.contains("DELETE FROM app.webhook_queue"));
        let read: f64 = settles.map(|plan| plan.destinations_read).sum();
        assert!(read < 100.0, "{read} destinations read, analyzed: {analyzed}");
    }
}

#[tokio::test]
async fn claims_write_no_index_and_settles_rewrite_no_event() {
    let harness = PostgresHarness::start().await;
    let store = PostgresStore::connect(config(&harness.database.url));
    for _ in 0..3 {
        enqueue_all(&store, (0..1_000).map(|_| spec()).collect()).await;
    }
    let mut leases = Vec::new();
    while leases.len() < 3_000 {
        leases.extend(claim(&store).await);
    }
    // A backend reports its statistics when it exits, at the latest.
    drop(store);
    let client = client(&harness.database.url).await;
    let updates = async |table: &str| {
        let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1";
        let row = client.query_one(sql, &[&table]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    wait_until(3 * TIMEOUT, "the claims were counted", async || updates("webhook_queue").await.0 >= 3_000)
        .await;
    assert_eq!(updates("webhook_queue").await, (3_000, 3_000), "every claim is a HOT update");

    let store = PostgresStore::connect(config(&harness.database.url));
    for batch in leases.chunks(500) {
        settle(&store, batch, 200).await;
    }
    drop(store);
    wait_until(3 * TIMEOUT, "the settles were counted", async || {
        let sql = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'webhook_queue'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= 3_000
    })
    .await;
    assert_eq!(updates("webhook_queue").await.0, 3_000, "a delivery updates no row of the queue");
    for table in ["webhook_events", "webhook_failures"] {
        assert_eq!(updates(table).await.0, 0, "{table}");
    }
}
