//! `app.publish_webhook`: publishing to all subscribed endpoints from any language, in the producer's own transaction.

use std::process::Command;

use posthaste_domain::{EndpointSpec, EventId, MessageRef};
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{AppScope, MessageContent, Store};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::registry_fixture::*;
use crate::support::PostgresHarness;

/// JSON that jsonb would rewrite.
const PAYLOAD: &str = "{\"a\": 1.0,  \"b\":[ ], \"Zoë\": \"日本 \\u00e9\", \"a\": 2}";
/// The types of the arguments, by which a GRANT names the function.
const ARGUMENTS: &str =
    "text, text, json, text, text[], text[], timestamptz, integer, text, text, text, text, text, integer";

fn psql(harness: &PostgresHarness, sql: &str) -> String {
    query_text(PostgresServer::shared(), &harness.database.name, sql)
}

/// Runs SQL that must fail, and returns the server's message.
fn refusal(harness: &PostgresHarness, sql: &str) -> String {
    PostgresServer::shared().psql(&harness.database.name, sql).unwrap_err().to_string()
}

async fn stored(store: &dyn Store, id: &str) -> posthaste_store::MessageView {
    let (org, app) = (posthaste_domain::OrgId::default_org(), app_ref());
    let message = MessageRef::parse(id).unwrap();
    store.messages().get(AppScope { org: &org, app: &app }, &message, true).await.unwrap()
}

#[tokio::test]
async fn psql_publishes_to_each_subscribed_endpoint() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    let all = add_endpoint(&*store, 1, EndpointSpec::default()).await;
    let channels = EndpointSpec { channels: Some(vec!["eu".into()]), ..EndpointSpec::default() };
    let some = add_endpoint(&*store, 2, channels).await;
    let first = psql(&harness, &format!("SELECT app.publish_webhook('{APP}', 'invoice.paid', '{PAYLOAD}')"));
    assert!(first.starts_with("msg_") && first.len() == 36, "{first}");
    let lease = claim_one(&*store).await;
    assert_eq!((lease.destination_id, lease.wire_id.as_str()), (all.destination(), first.as_str()));
    assert_eq!(lease.event_id.as_str(), format!("{first}-{}", all.destination().0));
    assert_eq!(lease.payload.expect_loaded(), PAYLOAD.as_bytes(), "the payload is stored byte for byte");
    assert_eq!(
        stored(&*store, &first).await.content,
        MessageContent::Payload(lease.payload.expect_loaded().clone())
    );

    let second = psql(
        &harness,
        &format!(
            "SELECT app.publish_webhook(
                 application => '{APP}', event_type => 'invoice.paid', payload => '{{}}', uid => 'order-17',
                 channels => '{{eu,us}}', tags => '{{a,b}}', payload_retention_days => 5, max_attempts => 3,
                 payment_request_id => 'pr-1', session_id => 'se-3', traceparent => '00-a-b-01')"
        ),
    );
    let leases = claim(&*store).await;
    assert_eq!(destinations(&leases), [all.destination().0, some.destination().0].into());
    assert!(leases.iter().all(|lease| lease.max_attempts == 3 && lease.wire_id.as_str() == second));
    let message = stored(&*store, "order-17").await;
    assert_eq!((message.channels.len(), message.tags.len()), (2, 2));
    let event = store.event(&leases[0].event_id).await.unwrap().event;
    assert_eq!(
        (event.payment_request_id.as_deref(), event.session_id.as_deref()),
        (Some("pr-1"), Some("se-3"))
    );
    assert_eq!(store.overview().await.unwrap().pending, 3);
}

#[tokio::test]
async fn a_message_can_be_delivered_later() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    add_endpoint(&*store, 1, EndpointSpec::default()).await;
    let call = format!("app.publish_webhook('{APP}', 'x', '1', deliver_at => now() + interval '1 hour')");
    let id = psql(&harness, &format!("SELECT {call}"));
    assert!(stored(&*store, &id).await.deliver_at.is_some());
    assert_eq!(claim(&*store).await, []);
    harness.advance(DAY / 12).await;
    assert_eq!(claim_one(&*store).await.wire_id.as_str(), id);
    let past = format!("app.publish_webhook('{APP}', 'x', '1', deliver_at => now() - interval '1 hour')");
    psql(&harness, &format!("SELECT {past}"));
    claim_one(&*store).await;
}

#[tokio::test]
async fn every_refusal_names_the_value_and_what_to_do() {
    let harness = PostgresHarness::start().await;
    add_app(&*harness.store()).await;
    psql(&harness, &format!("SELECT app.publish_webhook('{APP}', 'x', '1', uid => 'taken')"));
    let cases = [
        (format!("'{APP}', 'a b', '1'"), "event_type \"a b\" is not usable"),
        (format!("'{APP}', NULL, '1'"), "event_type"),
        (format!("'{APP}', 'x', NULL::json"), "payload is missing"),
        (format!("'{APP}', 'x', '{{}}'::jsonb"), "payload is jsonb"),
        (format!("'{APP}', 'x', '1', uid => 'taken'"), "uid \"taken\" is taken"),
        (format!("'{APP}', 'x', '1', uid => 'msg_1'"), "uid \"msg_1\" is not usable"),
        (format!("'{APP}', 'x', '1', channels => '{{}}'"), "1 to 5 channels"),
        (format!("'{APP}', 'x', '1', channels => '{{a b}}'"), "channel \"a b\" is not usable"),
        (format!("'{APP}', 'x', '1', tags => array_fill('t'::text, '{{11}}')"), "at most 10"),
        (format!("'{APP}', 'x', '1', payload_retention_days => 4"), "payload_retention_days must be 5 to 90"),
        (format!("'{APP}', 'x', '1', deliver_at => now() + interval '91 days'"), "90 days"),
        (format!("'{APP}', 'x', '1', max_attempts => 0"), "max_attempts must be 1 to 1000"),
        (format!("'{APP}', 'x', '1', session_id => ' '"), "session_id"),
        (format!("'{APP}', 'x', '1', org => 'org_other'"), "there is no application"),
        ("'app_00000000000000ff', 'x', '1'".to_owned(), "there is no application"),
        ("'unknown', 'x', '1'".to_owned(), "there is no application \"unknown\""),
    ];
    for (arguments, words) in cases {
        let refused = refusal(&harness, &format!("SELECT app.publish_webhook({arguments})"));
        assert!(refused.contains(words) && refused.contains("HINT"), "{arguments}: {refused}");
    }
    assert_eq!(psql(&harness, "SELECT count(*) FROM app.webhook_messages"), "1");
}

#[tokio::test]
async fn a_producer_needs_only_the_right_to_call_the_function() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    add_endpoint(&*store, 1, EndpointSpec::default()).await;
    let role = format!("publisher_of_{}", harness.database.name);
    psql(&harness, &format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA app TO {role};"));
    let call = format!("SET ROLE {role}; SELECT app.publish_webhook('{APP}', 'x', '1')");
    assert!(refusal(&harness, &call).contains("permission denied"));
    psql(&harness, &format!("GRANT EXECUTE ON FUNCTION app.publish_webhook({ARGUMENTS}) TO {role};"));
    let id = psql(&harness, &call);
    assert_eq!(claim_one(&*store).await.wire_id.as_str(), id);
}

/// Runs a Python script with a connection called `db`, and returns its output.
fn python(harness: &PostgresHarness, script: &str) -> String {
    let script = format!("import os, psycopg2\ndb = psycopg2.connect(os.environ['DATABASE'])\n{script}");
    let python = Command::new("/usr/bin/python3")
        .args(["-c", &script])
        .env("DATABASE", &harness.database.url)
        .env("PAYLOAD", PAYLOAD)
        .output()
        .expect("Python is installed");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    String::from_utf8(python.stdout).expect("the script prints text").trim().to_owned()
}

#[tokio::test]
async fn psycopg2_publishes_in_its_own_transaction_and_a_rollback_publishes_nothing() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    let endpoint = add_endpoint(&*store, 1, EndpointSpec::default()).await;
    let id = python(
        &harness,
        "
cursor = db.cursor()
cursor.execute('CREATE TABLE orders (id integer)')
db.commit()
def publish(order, payload):
    cursor.execute('INSERT INTO orders VALUES (%s)', (order,))
    cursor.execute('SELECT app.publish_webhook(%s, %s, %s, uid => %s)', ('customer-1', 'order.placed', payload, f'order-{order}'))
    return cursor.fetchone()[0]
publish(1, os.environ['PAYLOAD'])
db.rollback()
made = publish(2, os.environ['PAYLOAD'])
db.commit()
print(made)
",
    );
    assert_eq!(psql(&harness, "SELECT string_agg(id::text, ',') FROM orders"), "2");
    assert_eq!(psql(&harness, "SELECT string_agg(uid, ',') FROM app.webhook_messages"), "order-2");
    let lease = claim_one(&*store).await;
    assert_eq!(lease.event_id, EventId::of_fan_out(lease.message_id, endpoint.destination()));
    assert_eq!(
        (lease.wire_id.as_str(), &lease.payload.expect_loaded()[..]),
        (id.as_str(), PAYLOAD.as_bytes())
    );
    assert_eq!(store.overview().await.unwrap().pending, 1);
}

#[tokio::test]
async fn psql_publishes_within_a_transaction_with_a_snapshot_of_its_own() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    add_endpoint(&*store, 1, in_fifo_order()).await;
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        let call = format!("SELECT app.publish_webhook('{APP}', 'x', '1')");
        psql(&harness, &format!("BEGIN ISOLATION LEVEL {isolation}; {call}; COMMIT;"));
        settle(&*store, &[claim_one(&*store).await], 200).await;
    }
    assert_eq!(store.overview().await.unwrap().delivered, 2);
}

#[tokio::test]
async fn a_line_follows_the_order_of_commits() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    add_endpoint(&*store, 1, in_fifo_order()).await;
    let mut first = client(&harness.database.url).await;
    let second = client(&harness.database.url).await;
    let call = format!("SELECT app.publish_webhook('{APP}', 'x', '1')");
    let transaction = first.transaction().await.unwrap();
    let earlier: String = transaction.query_one(call.as_str(), &[]).await.unwrap().get(0);
    // The second producer waits for the first, so it cannot commit before it with a smaller key.
    let later = tokio::spawn({
        let call = call.clone();
        async move { second.query_one(call.as_str(), &[]).await.unwrap().get::<_, String>(0) }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%publish_webhook%'";
    wait_until(TIMEOUT, "the second producer waits", async || psql(&harness, waiting) == "1").await;
    assert_eq!(claim(&*store).await, [], "neither message is committed");
    transaction.commit().await.unwrap();
    let later = later.await.unwrap();
    for expected in [earlier, later] {
        let lease = claim_one(&*store).await;
        assert_eq!(lease.wire_id.as_str(), expected);
        settle(&*store, &[lease], 200).await;
    }
}
