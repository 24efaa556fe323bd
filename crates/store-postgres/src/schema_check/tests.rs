use posthaste_postgres_server::{Database, PostgresServer};
use tokio_postgres::NoTls;

use super::*;
use crate::{PostgresConfig, migrate};

async fn migrated() -> (Database, Client) {
    let database = PostgresServer::shared().create_database("schema");
    migrate(&PostgresConfig::from_url(&database.url).expect("the URL is the server's own")).await.unwrap();
    let client = connect(&database.url).await;
    (database, client)
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn schema_txt_lists_a_freshly_migrated_database() {
    let (_database, mut client) = migrated().await;
    let lines = list(&mut client, &SchemaName::default()).await.unwrap();
    let listed: String = lines.iter().map(|(name, definition)| format!("{name}\t{definition}\n")).collect();
    if std::env::var_os("POSTHASTE_UPDATE").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/schema.txt"), &listed).unwrap();
        return;
    }
    assert!(
        listed == EXPECTED,
        "the migrations create other objects than migrations/schema.txt lists; run POSTHASTE_UPDATE=1 cargo test -p \
         posthaste-store-postgres --lib schema_txt"
    );
}

#[tokio::test]
async fn objects_of_operators_and_partitions_of_days_are_no_problem() {
    let (database, mut client) = migrated().await;
    let store = crate::PostgresStore::open(PostgresConfig::from_url(&database.url).unwrap()).await.unwrap();
    client
        .batch_execute(
            "CREATE INDEX own ON app.webhook_events (event_type); ALTER TABLE app.webhook_audit ADD own text",
        )
        .await
        .unwrap();
    assert_eq!(find_problems(&mut client, &SchemaName::default()).await.unwrap(), Vec::<String>::new());
    drop(store);
}

#[tokio::test]
async fn each_damage_is_named() {
    for (damage, problem) in [
        ("DROP TABLE app.webhook_claims CASCADE", "table webhook_claims is missing"),
        ("ALTER TABLE app.webhook_queue RENAME TO elsewhere", "table webhook_queue is missing"),
        (
            "ALTER TABLE app.webhook_attempts DROP COLUMN excerpt",
            "column webhook_attempts.excerpt is missing",
        ),
        (
            "ALTER TABLE app.webhook_counts ALTER pending TYPE integer",
            "column webhook_counts.pending differs: it is \"integer NOT NULL DEFAULT 0\" instead of \"bigint NOT NULL \
             DEFAULT 0\"",
        ),
        (
            "DROP INDEX app.webhook_queue_position",
            "index webhook_queue_position is missing: CREATE INDEX webhook_queue_position ON app.webhook_queue USING btree \
             (queue_position) WHERE (queue_position <> id)",
        ),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'app.webhook_queue_id'::regclass",
            "index webhook_queue_id differs: it is \"CREATE UNIQUE INDEX webhook_queue_id ON app.webhook_queue USING btree \
             (id) (invalid)\" instead of \"CREATE UNIQUE INDEX webhook_queue_id ON app.webhook_queue USING btree (id)\"",
        ),
        (
            "DROP FUNCTION app.webhook_destination_id(text)",
            "function webhook_destination_id(wanted_url text) is missing",
        ),
        (
            "DROP TRIGGER webhook_deliveries_requeue ON app.webhook_deliveries",
            "trigger webhook_deliveries_requeue on webhook_deliveries is missing",
        ),
        (
            "ALTER TABLE app.webhook_queue DROP CONSTRAINT webhook_queue_lease_form",
            "constraint webhook_queue_lease_form on webhook_queue is missing",
        ),
    ] {
        let (_database, mut client) = migrated().await;
        client.batch_execute(damage).await.unwrap();
        let problems = find_problems(&mut client, &SchemaName::default()).await.unwrap();
        assert!(problems.iter().any(|found| found.starts_with(problem)), "{damage}: {problems:?}");
        assert!(problems.len() < 4, "consequences are listed as well: {problems:?}");
    }
}

#[tokio::test]
async fn missing_rights_of_the_role_are_named() {
    let (database, client) = migrated().await;
    let role = format!("role_of_{}", database.name);
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA app TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA app TO {role};
             GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA app TO {role};"
        ))
        .await
        .unwrap();
    let mut limited = connect(&database.url.replace("postgres@", &format!("{role}@"))).await;
    assert_eq!(find_problems(&mut limited, &SchemaName::default()).await.unwrap(), Vec::<String>::new());
    client.batch_execute(&format!("REVOKE INSERT ON app.webhook_attempts FROM {role}")).await.unwrap();
    let problems = find_problems(&mut limited, &SchemaName::default()).await.unwrap();
    assert_eq!(problems, ["this role has no right to INSERT on webhook_attempts"]);
}
