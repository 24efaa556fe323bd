//! Schema migrations.

use futures_util::future::join_all;
use posthaste_domain::{DeliveryStatus, DestinationUrl};
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::{EventQuery, PageRequest, Store as _};
use posthaste_store_postgres::{
    MigrateError, MigrationReport, PostgresStore, inspect, migrate, supported_schema_version,
};

use crate::fixture::*;

fn empty() -> Database {
    PostgresServer::shared().create_database("migrations")
}

fn all_applied() -> MigrationReport {
    MigrationReport { from: 0, to: supported_schema_version() }
}

fn none_applied() -> MigrationReport {
    MigrationReport { from: supported_schema_version(), to: supported_schema_version() }
}

/// Counts the relations, functions and schemas of Posthaste.
fn objects(database: &Database) -> String {
    let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('app')
               UNION ALL SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace('app')
               UNION ALL SELECT count(*) FROM pg_namespace WHERE nspname = 'app'";
    query_text(PostgresServer::shared(), &database.name, sql)
}

#[tokio::test]
async fn an_empty_database_is_migrated_once_and_then_left_alone() {
    let database = empty();
    assert_eq!(migrate(&config(&database.url)).await.unwrap(), all_applied());
    let sql = "SELECT string_agg(version || ' ' || name, ', ' ORDER BY version) FROM app.webhook_migrations";
    let recorded = query_text(PostgresServer::shared(), &database.name, sql);
    assert!(recorded.starts_with("1 outbox, 2 callers"), "{recorded}");
    let before = objects(&database);

    assert_eq!(migrate(&config(&database.url)).await.unwrap(), none_applied());
    assert_eq!(objects(&database), before);
    let store = open(&database.url).await;
    enqueue(&store, spec()).await;
    claim_one(&store).await;
}

#[tokio::test]
async fn of_many_concurrent_migrations_one_does_the_work_and_all_succeed() {
    let database = empty();
    let config = config(&database.url);
    let migrated = join_all((0..8).map(|_| migrate(&config))).await;
    let mut migrated: Vec<MigrationReport> = migrated
        .into_iter()
        .map(|migrated| migrated.expect("concurrent migrations do not conflict"))
        .collect();
    migrated.sort_by_key(|migrated| migrated.from);
    assert_eq!(migrated[0], all_applied());
    assert_eq!(migrated[1..], [none_applied(); 7]);
}

#[tokio::test]
async fn a_database_that_a_newer_posthaste_has_migrated_is_refused_with_both_versions() {
    let database = empty();
    migrate(&config(&database.url)).await.unwrap();
    let (supported, newer) = (supported_schema_version(), supported_schema_version() + 41);
    let sql = format!("INSERT INTO app.webhook_migrations (version, name) VALUES ({newer}, 'tomorrow')");
    query_text(PostgresServer::shared(), &database.name, &sql);
    let refused = migrate(&config(&database.url)).await.unwrap_err();
    assert!(
        matches!(refused, MigrateError::Newer { found, supported: s } if (found, s) == (newer, supported))
    );
    let message = refused.to_string();
    assert!(
        message.contains(&format!("version {newer} ")) && message.contains(&format!("up to {supported}:")),
        "{message}"
    );
    assert!(PostgresStore::open(config(&database.url)).await.is_err());
}

#[tokio::test]
async fn a_migration_that_fails_leaves_the_database_as_it_was() {
    let database = empty();
    let server = PostgresServer::shared();
    // The second migration fails on this table, after the first has succeeded.
    query_text(
        server,
        &database.name,
        "CREATE SCHEMA app; CREATE TABLE app.webhook_settings (ours boolean);
         CREATE TABLE app.webhook_migrations (version integer, name text);",
    );
    let before = objects(&database);
    let failed = migrate(&config(&database.url)).await.unwrap_err();
    assert!(matches!(failed, MigrateError::Failed { version: 2, name: "callers", .. }), "{failed:?}");
    let message = failed.to_string();
    assert!(message.contains("webhook_settings") && message.contains("rolled back"), "{message}");
    assert_eq!(objects(&database), before);

    query_text(server, &database.name, "DROP TABLE app.webhook_settings, app.webhook_migrations;");
    assert_eq!(migrate(&config(&database.url)).await.unwrap(), all_applied());
}

/// A cancelled event, written without a reason.
fn dead_letter(key: u8) -> String {
    format!(
        "INSERT INTO app.webhook_events (
             id, message_id, destination_id, created_at, max_attempts, event_id, event_type, content_type
         ) VALUES (
             {key}, gen_random_uuid(), app.webhook_destination_id('{URL}'), now(), 6, 'dead_{key}', 'invoice.paid', 'text/plain'
         );
         INSERT INTO app.webhook_failures (
             id, destination_id, updated_at, attempts, claims, lost_leases, failure_kind, last_error
         ) VALUES (
             {key}, app.webhook_destination_id('{URL}'), now(), 0, 0, 0, 'cancelled', 'manual_cancelled: why'
         );
         INSERT INTO app.webhook_audit (event_key, action, actor, at) VALUES ({key}, 'cancel', 'ops', now());
         INSERT INTO app.webhook_counts (failed, cancelled) VALUES (1, 1);"
    )
}

#[tokio::test]
async fn dead_letters_written_by_sql_are_listed_by_destination() {
    let database = empty();
    let store = open(&database.url).await;
    let client = client(&database.url).await;
    for key in [1, 2] {
        client.batch_execute(&dead_letter(key)).await.unwrap();
    }
    let query = EventQuery {
        status: Some(DeliveryStatus::Failed),
        destination: Some(DestinationUrl::parse(URL).unwrap()),
        ..EventQuery::default()
    };
    let listed = store.events(&query, &PageRequest::default()).await.unwrap().items;
    let ids: Vec<&str> = listed.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(ids, ["dead_2", "dead_1"]);
    for event in listed {
        let audit = store.event(&event.event_id).await.unwrap().audit;
        assert_eq!(event.manual_last.as_ref(), audit.last());
        assert_eq!(audit.last().unwrap().reason, None, "no reason was recorded");
    }
}

#[tokio::test]
async fn a_missing_schema_is_reported_at_once() {
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
    query_text(PostgresServer::shared(), "postgres", &sql);
    let config = config(&database.url);
    let migrated = join_all((0..4).map(|_| migrate(&config))).await;
    assert_eq!(
        migrated.iter().filter(|migrated| migrated.as_ref().is_ok_and(|it| *it == all_applied())).count(),
        1
    );
    assert!(migrated.iter().all(Result::is_ok), "{migrated:?}");
    let store = open(&database.url).await;
    enqueue_and_attempt(&store, spec(), 200).await;
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}

/// A role that may only connect, and the URL with its name.
fn role_of(database: &Database) -> (String, String) {
    let (name, role) = (&database.name, format!("role_of_{}", database.name));
    query_text(
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

/// Migrates, delivers an event and runs maintenance: everything for which a process needs privileges.
async fn use_every_privilege(url: &str) {
    let store = open(url).await;
    enqueue_and_attempt(&store, spec(), 200).await;
    let retention = posthaste_store::Retention {
        keep_for: Some(DAY),
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    store.maintain(&retention).await.unwrap();
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}

#[tokio::test]
async fn a_role_that_owns_its_schema_needs_no_privilege_to_create_one() {
    let database = empty();
    let (role, url) = role_of(&database);
    query_text(PostgresServer::shared(), &database.name, &format!("CREATE SCHEMA app AUTHORIZATION {role}"));
    assert_eq!(migrate(&config(&url)).await.unwrap(), all_applied());
    use_every_privilege(&url).await;
}

#[tokio::test]
async fn a_role_that_created_its_schema_starts_after_losing_the_privilege_to_create() {
    let database = empty();
    let (name, server) = (&database.name, PostgresServer::shared());
    let (role, url) = role_of(&database);
    query_text(server, name, &format!("GRANT CREATE ON DATABASE {name} TO {role}"));
    assert_eq!(migrate(&config(&url)).await.unwrap(), all_applied());
    query_text(server, name, &format!("REVOKE CREATE ON DATABASE {name} FROM {role}"));
    assert_eq!(migrate(&config(&url)).await.unwrap(), none_applied());
    use_every_privilege(&url).await;
}

#[tokio::test]
async fn a_role_that_may_not_create_the_schema_gets_advice() {
    let database = empty();
    let (_, url) = role_of(&database);
    let refused = migrate(&config(&url)).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Create { .. }), "{refused:?}");
    let message = refused.to_string();
    for words in
        ["the schema app could not be created", "permission denied", "CREATE SCHEMA app AUTHORIZATION"]
    {
        assert!(message.contains(words), "{message}");
    }
}

/// The message contains the words once, and no source repeats them.
#[track_caller]
fn assert_says_once(error: &MigrateError, words: &str) {
    let message = error.to_string();
    assert_eq!(message.matches(words).count(), 1, "{message}");
    assert!(std::error::Error::source(error).is_none(), "{error:?}");
}

#[tokio::test]
async fn a_refusing_server_and_an_absent_server_have_different_errors() {
    let database = empty();
    let refused = |url: String| async move { migrate(&config(&url)).await.unwrap_err() };
    let stranger = refused(database.url.replace("postgres@", "stranger@")).await;
    assert!(matches!(stranger, MigrateError::Refused(_)), "{stranger:?}");
    assert_says_once(&stranger, "role \"stranger\" does not exist");
    let message = stranger.to_string();
    assert!(message.contains("check user, password and database of the URL"), "{message}");
    assert!(!message.contains("reached"), "{message}");

    let nowhere = refused(database.url.replace(&database.name, "no_such_database")).await;
    assert!(matches!(nowhere, MigrateError::Refused(_)), "{nowhere:?}");
    assert_says_once(&nowhere, "database \"no_such_database\" does not exist");

    let absent = refused("postgres://postgres@127.0.0.1:1/shop".to_owned()).await;
    assert!(matches!(absent, MigrateError::Connect(_)), "{absent:?}");
    assert_says_once(&absent, "refused");
    assert!(absent.to_string().contains("check that it runs"), "{absent}");
}

#[tokio::test]
async fn inspecting_changes_nothing_and_returns_the_schema_version() {
    let database = empty();
    let config = config(&database.url);
    assert_eq!(inspect(&config).await.unwrap(), None);
    assert_eq!(objects(&database), "0\n0\n0");
    migrate(&config).await.unwrap();
    let health = inspect(&config).await.unwrap().unwrap();
    assert!(health.is_current() && health.schema == i64::from(supported_schema_version()), "{health:?}");
}
