//! The schema, forwards only.

use futures_util::future::join_all;
use posthaste_domain::{DeliveryStatus, DestinationUrl};
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::{EventQuery, PageRequest, Store as _};
use posthaste_store_postgres::tokio_postgres::Client;
use posthaste_store_postgres::{MigrateError, Migrated, PostgresStore, examine, known_version, migrate};

use crate::fixture::*;

fn empty() -> Database {
    PostgresServer::shared().create_database("migrations")
}

fn whole() -> Migrated {
    Migrated { from: 0, to: known_version() }
}

fn nothing() -> Migrated {
    Migrated { from: known_version(), to: known_version() }
}

/// What there is of ours, whatever it is.
fn objects(database: &Database) -> String {
    let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('app')
               UNION ALL SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace('app')
               UNION ALL SELECT count(*) FROM pg_namespace WHERE nspname = 'app'";
    say(PostgresServer::shared(), &database.name, sql)
}

#[tokio::test]
async fn an_empty_database_is_migrated_once_and_then_left_alone() {
    let database = empty();
    assert_eq!(migrate(&config(&database.url)).await.unwrap(), whole());
    let sql = "SELECT string_agg(version || ' ' || name, ', ' ORDER BY version) FROM app.webhook_migrations";
    let recorded = say(PostgresServer::shared(), &database.name, sql);
    assert!(recorded.starts_with("1 outbox, 2 callers"), "{recorded}");
    let before = objects(&database);

    assert_eq!(migrate(&config(&database.url)).await.unwrap(), nothing());
    assert_eq!(objects(&database), before);
    let store = open(&database.url).await;
    enqueue(&store, spec()).await;
    claim_one(&store).await;
}

#[tokio::test]
async fn of_many_that_migrate_at_once_one_does_it_and_all_succeed() {
    let database = empty();
    let config = config(&database.url);
    let migrated = join_all((0..8).map(|_| migrate(&config))).await;
    let mut migrated: Vec<Migrated> =
        migrated.into_iter().map(|migrated| migrated.expect("nobody is in another's way")).collect();
    migrated.sort_by_key(|migrated| migrated.from);
    assert_eq!(migrated[0], whole());
    assert_eq!(migrated[1..], [nothing(); 7]);
}

#[tokio::test]
async fn a_database_that_a_newer_posthaste_has_migrated_is_refused_with_both_versions() {
    let database = empty();
    migrate(&config(&database.url)).await.unwrap();
    let (known, newer) = (known_version(), known_version() + 41);
    let sql = format!("INSERT INTO app.webhook_migrations (version, name) VALUES ({newer}, 'tomorrow')");
    say(PostgresServer::shared(), &database.name, &sql);
    let refused = migrate(&config(&database.url)).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Newer { found, known: k } if (found, k) == (newer, known)));
    let told = refused.to_string();
    assert!(
        told.contains(&format!("version {newer} ")) && told.contains(&format!("up to {known}:")),
        "{told}"
    );
    assert!(PostgresStore::open(config(&database.url)).await.is_err());
}

#[tokio::test]
async fn a_migration_that_fails_leaves_the_database_as_it_was() {
    let database = empty();
    let server = PostgresServer::shared();
    // The second migration stumbles over it, when the one before has done its work.
    say(server, &database.name, "CREATE SCHEMA app; CREATE TABLE app.webhook_settings (ours boolean);");
    let before = objects(&database);
    let failed = migrate(&config(&database.url)).await.unwrap_err();
    assert!(matches!(failed, MigrateError::Failed { version: 2, name: "callers", .. }), "{failed:?}");
    let told = failed.to_string();
    assert!(told.contains("webhook_settings") && told.contains("rolled back"), "{told}");
    assert_eq!(objects(&database), before);

    say(server, &database.name, "DROP TABLE app.webhook_settings;");
    assert_eq!(migrate(&config(&database.url)).await.unwrap(), whole());
}

/// A dead letter as version 2 wrote it.
fn dead_letter(key: u8) -> String {
    format!(
        "INSERT INTO app.webhook_events (
             id, message_id, destination_id, created_at, max_attempts, event_id, event_type
         ) VALUES (
             {key}, gen_random_uuid(), app.webhook_destination('{URL}'), now(), 6, 'dead_{key}', 'invoice.paid'
         );
         INSERT INTO app.webhook_endings (
             id, updated_at, attempts, claims, lost_leases, failure_kind, last_error,
             manual_last_action, manual_last_actor, manual_last_at
         ) VALUES (
             {key}, now(), 0, 0, 0, 'cancelled', 'manual_cancelled: why', 'cancel', 'ops', now()
         );
         INSERT INTO app.webhook_audit (event_key, action, actor, at) VALUES ({key}, 'cancel', 'ops', now());
         INSERT INTO app.webhook_counts (failed) VALUES (1);"
    )
}

/// A database as version 2 left it, with a dead letter.
async fn version_2() -> (Database, Client) {
    let database = empty();
    let client = client(&database.url).await;
    for sql in [
        include_str!("../../migrations/0001_outbox.sql"),
        include_str!("../../migrations/0002_callers.sql"),
        "CREATE TABLE app.webhook_migrations (
             version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
         );
         INSERT INTO app.webhook_migrations (version, name) VALUES (1, 'outbox'), (2, 'callers');",
        &dead_letter(1),
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    (database, client)
}

#[tokio::test]
async fn a_migration_that_waits_for_a_reader_does_not_hold_up_workers() {
    let (database, worker) = version_2().await;
    let reader = client(&database.url).await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM app.webhook_endings").await.unwrap();
    let migrating = tokio::spawn({
        let config = config(&database.url);
        async move { migrate(&config).await }
    });
    until(SOON, "the migration waits", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        worker.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= 1
    })
    .await;
    soon("a result is written meanwhile", worker.batch_execute(&dead_letter(2))).await.unwrap();
    reader.batch_execute("COMMIT").await.unwrap();
    let migrated = soon("the reader is gone", migrating).await.unwrap().unwrap();
    assert_eq!(migrated, Migrated { from: 2, to: known_version() });
}

#[tokio::test]
async fn dead_letters_of_version_2_are_listed_by_destination_and_so_are_those_its_workers_still_write() {
    let (database, client) = version_2().await;
    assert_eq!(migrate(&config(&database.url)).await.unwrap(), Migrated { from: 2, to: known_version() });
    client.batch_execute(&dead_letter(2)).await.unwrap();

    let store = open(&database.url).await;
    let query = EventQuery {
        status: Some(DeliveryStatus::Failed),
        destination: Some(DestinationUrl::parse(URL).unwrap()),
    };
    let listed = store.events(&query, &PageRequest::default()).await.unwrap().items;
    let ids: Vec<&str> = listed.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(ids, ["dead_2", "dead_1"]);
    for event in listed {
        let audit = store.event(&event.event_id).await.unwrap().audit;
        assert_eq!(event.manual_last.as_ref(), audit.last());
        assert_eq!(audit.last().unwrap().reason, None, "it was not recorded then");
    }
}

#[tokio::test]
async fn a_schema_that_is_missing_is_said_and_not_waited_for() {
    let database = empty();
    let store = PostgresStore::connect(config(&database.url));
    let refused = store.overview().await.unwrap_err();
    assert_eq!(refused.code(), "rejected", "{refused}");
    assert!(refused.to_string().contains("run the migrations"), "{refused}");
}

#[tokio::test]
async fn a_database_whose_transactions_are_serializable_by_default_is_migrated_and_used() {
    let database = empty();
    let sql =
        format!("ALTER DATABASE \"{}\" SET default_transaction_isolation = 'serializable'", database.name);
    say(PostgresServer::shared(), "postgres", &sql);
    let config = config(&database.url);
    let migrated = join_all((0..4).map(|_| migrate(&config))).await;
    assert_eq!(
        migrated.iter().filter(|migrated| migrated.as_ref().is_ok_and(|it| *it == whole())).count(),
        1
    );
    assert!(migrated.iter().all(Result::is_ok), "{migrated:?}");
    let store = open(&database.url).await;
    attempted(&store, spec(), 200).await;
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}

/// A role that may connect, and nothing else; and the URL under which it does.
fn role_of(database: &Database) -> (String, String) {
    let (name, role) = (&database.name, format!("role_of_{}", database.name));
    say(
        PostgresServer::shared(),
        name,
        &format!(
            "CREATE ROLE {role} LOGIN; REVOKE ALL ON DATABASE {name} FROM PUBLIC;
             REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO {role};"
        ),
    );
    let url = database.url.replace("postgres@", &format!("{role}@"));
    (role, url)
}

/// All that a process does with its rights: migrates, takes an event to its end, and looks after partitions.
async fn work_through(url: &str) {
    let store = open(url).await;
    attempted(&store, spec(), 200).await;
    let retention = posthaste_store::Retention { keep: Some(DAY), rows_max: 100 };
    store.maintain(&retention).await.unwrap();
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}

#[tokio::test]
async fn a_role_that_was_given_its_schema_needs_no_right_to_create_one() {
    let database = empty();
    let (role, url) = role_of(&database);
    say(PostgresServer::shared(), &database.name, &format!("CREATE SCHEMA app AUTHORIZATION {role}"));
    assert_eq!(migrate(&config(&url)).await.unwrap(), whole());
    work_through(&url).await;
}

#[tokio::test]
async fn a_role_that_made_its_schema_starts_when_the_right_to_was_taken_away_again() {
    let database = empty();
    let (name, server) = (&database.name, PostgresServer::shared());
    let (role, url) = role_of(&database);
    say(server, name, &format!("GRANT CREATE ON DATABASE {name} TO {role}"));
    assert_eq!(migrate(&config(&url)).await.unwrap(), whole());
    say(server, name, &format!("REVOKE CREATE ON DATABASE {name} FROM {role}"));
    assert_eq!(migrate(&config(&url)).await.unwrap(), nothing());
    work_through(&url).await;
}

#[tokio::test]
async fn a_role_that_may_not_create_the_schema_is_told_so_with_the_way_out() {
    let database = empty();
    let (_, url) = role_of(&database);
    let refused = migrate(&config(&url)).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Create { .. }), "{refused:?}");
    let told = refused.to_string();
    for words in
        ["the schema app could not be created", "permission denied", "CREATE SCHEMA app AUTHORIZATION"]
    {
        assert!(told.contains(words), "{told}");
    }
}

/// Whoever prints an error prints its sources behind it.
#[track_caller]
fn assert_told_once(error: &MigrateError, words: &str) {
    let told = error.to_string();
    assert_eq!(told.matches(words).count(), 1, "{told}");
    assert!(std::error::Error::source(error).is_none(), "{error:?}");
}

#[tokio::test]
async fn a_server_that_refuses_was_reached_and_one_that_is_not_there_was_not() {
    let database = empty();
    let refused = |url: String| async move { migrate(&config(&url)).await.unwrap_err() };
    let stranger = refused(database.url.replace("postgres@", "nobody@")).await;
    assert!(matches!(stranger, MigrateError::Refused(_)), "{stranger:?}");
    assert_told_once(&stranger, "role \"nobody\" does not exist");
    let told = stranger.to_string();
    assert!(told.contains("check user, password and database of the URL"), "{told}");
    assert!(!told.contains("reached"), "{told}");

    let nowhere = refused(database.url.replace(&database.name, "no_such_database")).await;
    assert!(matches!(nowhere, MigrateError::Refused(_)), "{nowhere:?}");
    assert_told_once(&nowhere, "database \"no_such_database\" does not exist");

    let absent = refused("postgres://postgres@127.0.0.1:1/shop".to_owned()).await;
    assert!(matches!(absent, MigrateError::Connect(_)), "{absent:?}");
    assert_told_once(&absent, "refused");
    assert!(absent.to_string().contains("check that it runs"), "{absent}");
}

#[tokio::test]
async fn examining_changes_nothing_and_tells_what_is_there() {
    let database = empty();
    let config = config(&database.url);
    assert_eq!(examine(&config).await.unwrap(), None);
    assert_eq!(objects(&database), "0\n0\n0");
    migrate(&config).await.unwrap();
    let vitals = examine(&config).await.unwrap().unwrap();
    assert!(vitals.is_current() && vitals.schema == i64::from(known_version()), "{vitals:?}");
}
