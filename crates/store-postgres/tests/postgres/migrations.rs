//! The schema, forwards only.

use futures_util::future::join_all;
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store as _;
use posthaste_store_postgres::{MigrateError, Migrated, PostgresStore, known_version, migrate};

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
    // The last migration stumbles over it, when the ones before have done their work.
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
