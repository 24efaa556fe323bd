//! `app.enqueue_webhook`: enqueueing from any language, in the producer's own transaction.

use std::process::Command;
use std::time::Duration;

use posthaste_domain::EventId;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ExpireRequest, Overview};
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::tokio_postgres::types::Type;
use posthaste_store_postgres::{EnqueueFunctionDefaults, PostgresStore};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// JSON that jsonb would rewrite: two spaces, a trailing zero, an empty array, non-ASCII letters, an escape, a key twice.
const PAYLOAD: &str = "{\"a\": 1.0,  \"b\":[ ], \"Zoë\": \"日本 \\u00e9\", \"a\": 2}";

/// The types of the arguments, by which a GRANT names the function.
const ARGUMENTS: &str = "text, text, json, text, text, text, text, text, text, integer, timestamptz";

const HOUR: Duration = Duration::from_secs(3_600);

fn psql(harness: &PostgresHarness, sql: &str) -> String {
    query_text(PostgresServer::shared(), &harness.database.name, sql)
}

#[tokio::test]
async fn psql_enqueues_with_arguments_by_position_and_by_name() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let made = psql(&harness, &format!("SELECT app.enqueue_webhook('{URL}', 'invoice.paid', '{PAYLOAD}')"));
    assert!(made.starts_with("msg_") && made.len() == 36, "{made}");
    let lease = claim_one(&*store).await;
    assert_eq!((lease.event_id.as_str(), lease.destination_url.as_str()), (made.as_str(), URL));
    assert_eq!(
        (lease.event_type.as_str(), lease.content_type.as_str()),
        ("invoice.paid", "application/json")
    );
    assert_eq!(lease.payload.expect_loaded(), PAYLOAD.as_bytes(), "the payload is stored byte for byte");
    assert_eq!((lease.attempts, lease.max_attempts, lease.traceparent), (0, 6, None));

    let chosen = psql(
        &harness,
        "SELECT app.enqueue_webhook(
             event_type => 'invoice.paid', payload => 'null', destination_url => 'https://other.example',
             max_attempts => 3, content_type => 'application/problem+json', event_id => 'chosen',
             payment_request_id => 'pr-1', webhook_id => 'wh-2', session_id => 'se-3', traceparent => '00-a-b-01')",
    );
    assert_eq!(chosen, "chosen");
    let lease = claim_one(&*store).await;
    assert_eq!((lease.event_id.as_str(), &lease.payload.expect_loaded()[..]), ("chosen", &b"null"[..]));
    assert_eq!(lease.destination_url.as_str(), "https://other.example/");
    assert_eq!((lease.max_attempts, lease.content_type.as_str()), (3, "application/problem+json"));
    assert_eq!(lease.traceparent.as_deref(), Some("00-a-b-01"));
    let event = store.event(&lease.event_id).await.unwrap().event;
    assert_eq!(event.payment_request_id.as_deref(), Some("pr-1"));
    assert_eq!((event.webhook_id.as_deref(), event.session_id.as_deref()), (Some("wh-2"), Some("se-3")));
    assert_eq!(store.overview().await.unwrap().pending, 2);
}

#[tokio::test]
async fn an_event_can_be_delivered_later() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let enqueue = |time: &str| {
        psql(&harness, &format!("SELECT app.enqueue_webhook('{URL}', 'x', '1', deliver_at => {time})"))
    };
    let later = enqueue("now() + interval '1 hour'");
    assert_eq!(claim(&*store).await, []);
    let view = store.event(&EventId::new(&*later).unwrap()).await.unwrap().event;
    let delay = view.next_attempt_at.expect("it is pending").since(view.created_at);
    assert!(delay <= HOUR && delay > HOUR - MINUTE, "{delay:?}");
    assert_eq!((view.claims, view.lease_owner), (0, None));
    harness.advance(HOUR + MINUTE).await;
    assert_eq!(claim_one(&*store).await.event_id.as_str(), later);

    // A time that has passed means now, and so does no time.
    for past in ["now() - interval '1 hour'", "'-infinity'", "NULL"] {
        let made = enqueue(past);
        assert_eq!(claim_one(&*store).await.event_id.as_str(), made, "{past}");
    }
}

#[tokio::test]
async fn an_event_that_is_delivered_later_does_not_expire_before() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let call = format!("app.enqueue_webhook('{URL}', 'x', '1', deliver_at => now() + interval '89 days')");
    let made = psql(&harness, &format!("SELECT {call}"));
    let expire = async || {
        let request = ExpireRequest { expire_after: DAY, after: None, rows_max: 100 };
        store.expire(&request).await.unwrap().expired
    };
    harness.advance(DAY * 88).await;
    assert_eq!(expire().await, []);
    harness.advance(DAY + HOUR).await;
    assert_eq!(expire().await, []);
    let lease = claim_one(&*store).await;
    assert_eq!(lease.event_id.as_str(), made);
    settle(&*store, &[lease], 500).await;
    harness.advance(DAY).await;
    assert_eq!(expire().await, [EventId::new(made).unwrap()]);
}

#[tokio::test]
async fn untyped_and_json_payloads_are_accepted_however_the_other_arguments_are_typed() {
    let harness = PostgresHarness::start().await;
    let urls = [format!("'{URL}'"), format!("'{URL}'::text"), format!("'{URL}'::varchar(99)")];
    let types = ["'x'", "'x'::text", "'x'::varchar", "'x'::char(1)"];
    for (url, event_type) in urls.iter().flat_map(|url| types.map(|event_type| (url, event_type))) {
        for payload in ["'1'", "'1'::json", "to_json(1)"] {
            for rest in [
                "",
                ", 'id', 'pr'",
                ", session_id => 'se'",
                ", max_attempts => 3, webhook_id => 'w'::varchar",
                ", deliver_at => '2026-01-31 11:29:00+00'",
                ", deliver_at => now() + interval '1 day'",
            ] {
                let call = format!("SELECT app.enqueue_webhook({url}, {event_type}, {payload}{rest})");
                psql(&harness, &format!("BEGIN; {call}; ROLLBACK;"));
            }
        }
    }
    // Parameters without a type, as drivers send them, get the types of the function.
    let client = client(&harness.database.url).await;
    let prepared = client.prepare("SELECT app.enqueue_webhook($1, $2, $3, event_id => $4)").await.unwrap();
    let names: Vec<&str> = prepared.params().iter().map(Type::name).collect();
    assert_eq!(names, ["text", "text", "json", "text"]);
    psql(
        &harness,
        &format!(
            "PREPARE call AS SELECT app.enqueue_webhook($1, $2, $3); EXECUTE call ('{URL}', 'x', '{PAYLOAD}');"
        ),
    );
    assert_eq!(claim_one(&*harness.store()).await.payload.expect_loaded(), PAYLOAD.as_bytes());
}

#[tokio::test]
async fn a_payload_of_type_jsonb_is_refused_with_the_reason_and_the_cast() {
    let harness = PostgresHarness::start().await;
    let role = format!("producer_of_{}", harness.database.name);
    psql(
        &harness,
        &format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA app TO {role};
             GRANT EXECUTE ON FUNCTION app.enqueue_webhook({ARGUMENTS}) TO {role};"
        ),
    );
    let call = |arguments: &str| {
        let sql = format!("SET ROLE {role}; SELECT app.enqueue_webhook({arguments})");
        PostgresServer::shared().psql(&harness.database.name, &sql)
    };
    for arguments in [
        format!("'{URL}', 'x', '{{}}'::jsonb"),
        format!("'{URL}'::text, 'x'::varchar, jsonb_build_object('a', 1), event_id => 'chosen'"),
        format!(
            "payload => to_jsonb(1), event_type => 'x'::text, destination_url => '{URL}', max_attempts => 3"
        ),
        format!("'{URL}', 'x', NULL::jsonb"),
        format!("'{URL}', 'x', '{{}}'::jsonb, deliver_at => now()"),
        format!("'{}', 'x', '{{}}'::jsonb", "https://receiver.example/".to_owned() + &"x".repeat(100)),
    ] {
        let refused = call(&arguments).unwrap_err().to_string();
        for words in ["payload is jsonb; it must be json", "HINT", "payload::json"] {
            assert!(refused.contains(words), "{arguments}: {refused}");
        }
    }
    let made = call(&format!("'{URL}', 'x', '{{\"a\":  1}}'::jsonb::json")).unwrap();
    let lease = claim_one(&*harness.store()).await;
    assert_eq!(
        (lease.event_id.as_str(), &lease.payload.expect_loaded()[..]),
        (made.as_str(), &br#"{"a": 1}"#[..])
    );

    // PostgreSQL's own answer to text names the cast.
    let refused = call(&format!("'{URL}', 'x', '1'::text")).unwrap_err().to_string();
    assert!(refused.contains("does not exist") && refused.contains("explicit type casts"), "{refused}");
    call(&format!("'{URL}', 'x', '1'::text::json")).unwrap();
}

/// Runs a Python script with a connection called `db`, and returns its output.
fn python(harness: &PostgresHarness, script: &str) -> String {
    let driver = Command::new("/usr/bin/python3").args(["-c", "import psycopg2"]).output();
    assert!(
        driver.is_ok_and(|driver| driver.status.success()),
        "/usr/bin/python3 has no psycopg2: run `apt-get install python3-psycopg2`"
    );
    let script = format!("import os, psycopg2\ndb = psycopg2.connect(os.environ['DATABASE'])\n{script}");
    let python = Command::new("/usr/bin/python3")
        .args(["-c", &script])
        .env("DATABASE", &harness.database.url)
        .env("PAYLOAD", PAYLOAD)
        .env("PYTHONIOENCODING", "utf-8")
        .output()
        .expect("it ran before");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    String::from_utf8_lossy(&python.stdout).trim().to_owned()
}

#[tokio::test]
async fn python_commits_a_business_row_and_its_event_together() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    psql(&harness, "CREATE TABLE invoices (id integer PRIMARY KEY)");
    let output = python(
        &harness,
        r#"
def pay(invoice, fails=False):
    with db, db.cursor() as cursor:
        cursor.execute("INSERT INTO invoices VALUES (%s)", (invoice,))
        cursor.execute(
            "SELECT app.enqueue_webhook(%s, %s, %s, event_id => %s)",
            ("https://receiver.example/hook", "invoice.paid", os.environ["PAYLOAD"], f"invoice-{invoice}"),
        )
        assert not fails
        return cursor.fetchone()[0]

print(pay(1))
try:
    pay(2, fails=True)
except AssertionError:
    print("rolled back")
try:
    pay(3) and pay(1)
except psycopg2.errors.UniqueViolation:
    print("invoice 1 is paid")
try:
    with db, db.cursor() as cursor:
        cursor.execute("SELECT app.enqueue_webhook('ftp://receiver.example', 'x', '1')")
except psycopg2.Error as error:
    print(error.pgcode, error.diag.message_primary, error.diag.message_hint, sep=" / ")
"#,
    );
    let expected = [
        "invoice-1",
        "rolled back",
        "invoice 1 is paid",
        "22023 / destination_url has the scheme \"ftp\"; only http and https are delivered to / \
         Write it as https://host/path.",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    let leases = claim(&*store).await;
    assert_eq!(event_ids(&leases), ["invoice-1", "invoice-3"]);
    assert_eq!(leases[0].payload.expect_loaded(), PAYLOAD.as_bytes());
    assert_eq!(psql(&harness, "SELECT string_agg(id::text, ',' ORDER BY id) FROM invoices"), "1,3");
}

#[tokio::test]
async fn a_rolled_back_function_call_leaves_no_rows() {
    let harness = PostgresHarness::start().await;
    let call = format!("SELECT app.enqueue_webhook('{URL}', 'x', '1')");
    psql(&harness, &format!("BEGIN; {call}; SAVEPOINT a; {call}; ROLLBACK TO a; ROLLBACK;"));
    let sql = "SELECT (SELECT count(*) FROM app.webhook_events)
                    + (SELECT count(*) FROM app.webhook_queue) + (SELECT count(*) FROM app.webhook_counts)
                    + (SELECT count(*) FROM app.webhook_destinations)";
    assert_eq!(psql(&harness, sql), "0");
    assert_eq!(harness.store().overview().await.unwrap(), Overview::default());
    // A rollback to a savepoint undoes only the calls after it.
    psql(&harness, &format!("BEGIN; {call}; SAVEPOINT a; {call}; ROLLBACK TO a; COMMIT;"));
    claim_one(&*harness.store()).await;
}

#[tokio::test]
async fn a_producer_with_usage_and_execute_enqueues_and_reads_nothing() {
    let harness = PostgresHarness::start().await;
    let role = format!("producer_of_{}", harness.database.name);
    psql(&harness, &format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA app TO {role};"));
    let server = PostgresServer::shared();
    let as_producer = |sql: &str| server.psql(&harness.database.name, &format!("SET ROLE {role}; {sql}"));
    let call = format!("SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => 'theirs')");

    let refused = as_producer(&call).unwrap_err().to_string();
    assert!(refused.contains("permission denied for function enqueue_webhook"), "{refused}");
    psql(&harness, &format!("GRANT EXECUTE ON FUNCTION app.enqueue_webhook({ARGUMENTS}) TO {role}"));
    assert_eq!(as_producer(&call).unwrap(), "theirs");
    for table in ["events", "queue", "failures", "attempts", "destinations", "secrets", "settings"] {
        let refused = as_producer(&format!("SELECT 1 FROM app.webhook_{table}")).unwrap_err().to_string();
        assert!(refused.contains("permission denied"), "{table}: {refused}");
    }
    for view in ["outbox_events", "deliveries"] {
        assert!(as_producer(&format!("SELECT 1 FROM app.webhook_{view}")).is_err(), "{view}");
    }
    assert_eq!(claim_one(&*harness.store()).await.event_id.as_str(), "theirs");
}

/// A function with its owner's privileges must not resolve names to objects of its caller.
#[tokio::test]
async fn the_function_is_not_fooled_by_its_callers_search_path() {
    let harness = PostgresHarness::start().await;
    psql(
        &harness,
        &format!(
            "CREATE SCHEMA evil;
             CREATE FUNCTION evil.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 1/0';
             CREATE FUNCTION evil.gen_random_uuid() RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid';
             SET search_path = evil, pg_catalog;
             SELECT app.enqueue_webhook('{URL}', 'x', '1');"
        ),
    );
    claim_one(&*harness.store()).await;
}

#[tokio::test]
async fn the_function_applies_the_configured_defaults_and_limits() {
    let harness = PostgresHarness::start().await;
    let store = PostgresStore::connect(config(&harness.database.url));
    let defaults = EnqueueFunctionDefaults { max_attempts: 9, payload_bytes_max: 10 };
    store.set_enqueue_function_defaults(defaults).await.unwrap();
    psql(&harness, &format!("SELECT app.enqueue_webhook('{URL}', 'x', '\"8 bytes.\"')"));
    assert_eq!(claim_one(&*harness.store()).await.max_attempts, 9);
    let sql = format!("SELECT app.enqueue_webhook('{URL}', 'x', '\"10 bytes.\"')");
    let refused = PostgresServer::shared().psql(&harness.database.name, &sql).unwrap_err().to_string();
    assert!(refused.contains("payload is 11 bytes; at most 10 are accepted"), "{refused}");
}

#[tokio::test]
async fn two_transactions_with_the_same_new_url_both_succeed() {
    let harness = PostgresHarness::start().await;
    let (mut one, two) = (client(&harness.database.url).await, client(&harness.database.url).await);
    let watch = client(&harness.database.url).await;
    let call = format!("SELECT app.enqueue_webhook('{URL}', 'x', '1')");
    let first = one.transaction().await.unwrap();
    first.execute(&call, &[]).await.unwrap();
    let second = two.execute(&call, &[]);
    let commit = async {
        wait_until(TIMEOUT, "the second waits for the first", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
            watch.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        first.commit().await.unwrap();
    };
    let (second, ()) = tokio::join!(second, commit);
    second.unwrap();
    let leases = claim(&*harness.store()).await;
    assert_eq!(leases.len(), 2);
    assert_eq!(leases[0].destination_id, leases[1].destination_id);
}
