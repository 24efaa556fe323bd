//! Schemas of other names than `app`: all objects are in the configured schema, and two schemas of one database share
//! nothing.

use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::{ActionRequest, EnqueueRequest, Idempotency, Retention, Store as _};
use posthaste_store_postgres::{
    CallerError, MigrateError, MigrationReport, PostgresConfig, PostgresStore, SchemaName, check_schema,
    enqueue_in, enqueue_in_schema, inspect, migrate, supported_schema_version,
};

use crate::fixture::*;

fn empty() -> Database {
    PostgresServer::shared().create_database("schemas")
}

fn psql(database: &Database, sql: &str) -> String {
    query_text(PostgresServer::shared(), &database.name, sql)
}

fn schema(name: &str) -> SchemaName {
    name.parse().expect("the name is valid")
}

fn config_in(database: &Database, name: &str) -> PostgresConfig {
    config(&database.url).in_schema(schema(name))
}

async fn open_in(database: &Database, name: &str) -> PostgresStore {
    PostgresStore::open(config_in(database, name)).await.expect("the server is up")
}

/// An event with an id and an idempotency key that every schema uses.
fn same_request() -> EnqueueRequest {
    let idempotency = Idempotency { key: "key".to_owned(), fingerprint: [0; 32], keep_for: DAY };
    EnqueueRequest { idempotency: Some(idempotency), ..request(vec![spec_with_id("same")]) }
}

#[tokio::test]
async fn two_schemas_of_one_database_have_events_and_keys_of_their_own() {
    let database = empty();
    let stores = [
        open_in(&database, "app").await,
        open_in(&database, "billing").await,
        open_in(&database, "shop").await,
    ];
    for (number, store) in stores.iter().enumerate() {
        assert!(!store.enqueue(same_request()).await.unwrap().replayed, "the key is new in this schema");
        for (other, store) in stores.iter().enumerate() {
            let expected = u64::from(other <= number);
            assert_eq!(store.overview().await.unwrap().pending, expected, "store {other} after {number}");
        }
    }
    for store in &stores {
        let lease = claim_one(store).await;
        assert_eq!(lease.event_id.as_str(), "same");
        settle(store, &[lease], 200).await;
        assert!(claim(store).await.is_empty());
    }
}

#[tokio::test]
async fn wake_ups_and_notices_stay_in_their_schema() {
    let database = empty();
    let (billing, shop) = (open_in(&database, "billing").await, open_in(&database, "shop").await);
    let channels = [
        "posthaste_due:billing",
        "gateway:webhooks:billing",
        "posthaste_due:shop",
        "gateway:webhooks:shop",
        "posthaste_due",
        "gateway:webhooks",
    ];
    let mut listeners = Vec::new();
    for channel in channels {
        listeners.push(Listener::on(&database.url, channel).await);
    }
    enqueue_and_attempt(&billing, spec_with_id("heard"), 200).await;
    let mut wakeups = billing.wakeups();
    psql(&database, &format!("SELECT billing.enqueue_webhook('{URL}', 'x', '1')"));
    expect_soon("the worker of the schema is woken", wakeups.wait()).await;
    assert!(claim(&shop).await.is_empty(), "the event is in the other schema");
    let [due, notices, others @ ..] = listeners.as_mut_slice() else { panic!("there are six") };
    assert_eq!(due.next().await, "", "by a store whose process has no worker yet");
    assert!(notices.next().await.contains("\"webhook_delivery_id\":\"heard\""));
    for (listener, channel) in others.iter_mut().zip(&channels[2..]) {
        psql(&database, &format!("NOTIFY \"{channel}\", 'end'"));
        let received = std::iter::once(listener.next().await).chain(listener.received()).collect::<Vec<_>>();
        // A store that has just opened tests its own channel.
        let foreign: Vec<_> = received.iter().filter(|payload| *payload != "listening").collect();
        assert!(foreign.iter().all(|payload| *payload == "end"), "{channel}: {foreign:?}");
    }
}

#[tokio::test]
async fn locks_of_the_default_schema_delay_no_other_schema() {
    let database = empty();
    open(&database.url).await;
    let holder = client(&database.url).await;
    let locks = "BEGIN; SELECT pg_advisory_xact_lock(7526, n) FROM generate_series(0, 3) AS n;
                 SELECT pg_advisory_xact_lock(hashtextextended('key', 7526));
                 SELECT pg_advisory_xact_lock(7527, hashtext('again'))";
    holder.batch_execute(locks).await.unwrap();
    let use_every_lock = async {
        let store = open_in(&database, "billing").await;
        store.enqueue(same_request()).await.unwrap();
        let lease = claim_one(&store).await;
        settle(&store, std::slice::from_ref(&lease), 410).await;
        let again = ActionRequest { actor: "ops", key: Some("again") };
        store.requeue(&lease.event_id, again).await.unwrap();
        store.notices(None, 1).await.unwrap();
        let retention = Retention {
            keep_for: Some(DAY),
            keep_dead_letters_for: Some(DAY),
            keep_unused_destinations_for: Some(DAY),
            rows_max: 100,
        };
        store.maintain(&retention).await.unwrap();
    };
    expect_soon("another schema has other locks", use_every_lock).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn all_objects_are_in_the_configured_schema() {
    let database = empty();
    let config = config_in(&database, "order");
    assert_eq!(inspect(&config).await.unwrap(), None);
    let store = open_in(&database, "order").await;
    enqueue_and_attempt(&store, spec(), 200).await;
    assert_eq!(psql(&database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'app'"), "0");
    let elsewhere = "SELECT (SELECT count(*) FROM pg_class
                             WHERE relname LIKE 'webhook%' AND relnamespace <> to_regnamespace('\"order\"'))
                          + (SELECT count(*) FROM pg_proc
                             WHERE proname LIKE '%webhook%' AND pronamespace <> to_regnamespace('\"order\"'))";
    assert_eq!(psql(&database, elsewhere), "0");
    let partitions =
        "SELECT count(*) FROM pg_inherits WHERE inhparent = '\"order\".webhook_attempts'::regclass";
    assert_eq!(psql(&database, partitions), "5", "the default one, today and three days");

    let version = supported_schema_version();
    assert_eq!(migrate(&config).await.unwrap(), MigrationReport { from: version, to: version });
    assert!(inspect(&config).await.unwrap().unwrap().is_current());
    assert_eq!(check_schema(&config).await.unwrap(), Vec::<String>::new());
    PostgresStore::try_writes(&config).await.unwrap();
}

#[tokio::test]
async fn damage_in_another_schema_is_named() {
    let database = empty();
    let config = config_in(&database, "order");
    migrate(&config).await.unwrap();
    migrate(&config_in(&database, "app")).await.unwrap();
    psql(&database, "DROP TABLE \"order\".webhook_claims CASCADE");
    let problems = check_schema(&config).await.unwrap();
    assert!(problems.contains(&"table webhook_claims is missing".to_owned()), "{problems:?}");
    assert!(problems.len() < 4, "consequences are listed as well: {problems:?}");

    // A body that uses the tables of another schema is not intact.
    let intact = config_in(&database, "billing");
    migrate(&intact).await.unwrap();
    assert_eq!(check_schema(&intact).await.unwrap(), Vec::<String>::new());
    let sql = "UPDATE pg_proc p SET prosrc = a.prosrc FROM pg_proc a
               WHERE p.pronamespace = 'billing'::regnamespace AND a.pronamespace = 'app'::regnamespace
                     AND p.proname = 'webhook_next_event_key' AND a.proname = p.proname";
    psql(&database, sql);
    let problems = check_schema(&intact).await.unwrap();
    assert!(problems.len() == 1 && problems[0].contains("webhook_next_event_key"), "{problems:?}");
}

#[tokio::test]
async fn a_schema_of_another_application_is_left_alone_and_the_error_names_the_setting() {
    for (object, name) in [
        ("CREATE TABLE app.orders (id integer)", "the table orders"),
        ("CREATE VIEW app.recent AS SELECT 1", "the view recent"),
        ("CREATE FUNCTION app.total() RETURNS integer LANGUAGE sql AS 'SELECT 1'", "the function total"),
        ("CREATE TYPE app.colour AS ENUM ('red')", "the type "),
    ] {
        let database = empty();
        psql(&database, &format!("CREATE SCHEMA app; {object};"));
        let default = config(&database.url);
        for refused in [migrate(&default).await.unwrap_err(), inspect(&default).await.unwrap_err()] {
            assert!(matches!(refused, MigrateError::ForeignSchema { .. }), "{refused:?}");
            assert!(!refused.is_transient());
            let message = refused.to_string();
            for words in ["the schema app", name, "database_schema", "POSTHASTE_DATABASE_SCHEMA"] {
                assert!(message.contains(words), "{message}");
            }
        }
        let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'webhook%'";
        assert_eq!(psql(&database, tables), "0", "nothing was created");
        enqueue_and_attempt(&open_in(&database, "posthaste").await, spec(), 200).await;
        psql(&database, "DROP SCHEMA app CASCADE");
    }
}

#[tokio::test]
async fn callers_enqueue_into_the_schema_they_name() {
    let database = empty();
    let store = open_in(&database, "billing").await;
    let mut caller = client(&database.url).await;
    let transaction = caller.transaction().await.unwrap();
    store.enqueue_in(&transaction, &[new_event(spec_with_id("by-store"))]).await.unwrap();
    let events = [new_event(spec_with_id("by-function"))];
    enqueue_in_schema(store.schema(), &transaction, &events).await.unwrap();
    transaction.commit().await.unwrap();
    let sql = format!("SELECT billing.enqueue_webhook('{URL}', 'x', '1', event_id => 'by-sql')");
    psql(&database, &sql);
    assert_eq!(event_ids(&claim(&store).await), ["by-store", "by-function", "by-sql"]);

    let transaction = caller.transaction().await.unwrap();
    let refused = enqueue_in(&transaction, &events).await.unwrap_err();
    assert!(matches!(refused, CallerError::NoSchema(_)), "{refused:?}");
    assert!(refused.to_string().contains("enqueue_in_schema"), "{refused}");
}

#[tokio::test]
async fn operators_and_producers_get_hints_with_the_name_of_the_schema() {
    let database = empty();
    let store = open_in(&database, "billing").await;
    enqueue_and_attempt(&store, spec_with_id("dead"), 410).await;
    let run = |sql: &str| PostgresServer::shared().psql(&database.name, sql);
    let refused = run("DELETE FROM billing.webhook_deliveries").unwrap_err().to_string();
    assert!(refused.contains("Enqueue with \"billing\".enqueue_webhook"), "{refused}");
    run("UPDATE billing.webhook_deliveries SET status = 'pending', attempt_count = 0 WHERE id = 'dead'")
        .unwrap();
    assert_eq!(claim_one(&store).await.event_id.as_str(), "dead");
    let refused = run(&format!("SELECT billing.enqueue_webhook('{URL}', 'x', '{{}}'::jsonb)")).unwrap_err();
    assert!(refused.to_string().contains("payload is jsonb"), "{refused}");
}
