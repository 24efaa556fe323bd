use std::time::Duration;

use posthaste_postgres_server::PostgresServer;
use tokio_postgres::NoTls;

use super::*;

/// Longer than any step that works takes.
const BOUND: Duration = Duration::from_secs(30);

/// The migrations of a later version, which changes a table.
fn later_migrations() -> Vec<Migration> {
    let change = ("change", "ALTER TABLE app.webhook_failures ADD COLUMN added text");
    MIGRATIONS.iter().copied().chain([change]).collect()
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

#[expect(clippy::disallowed_methods, reason = "turns a hang into a failure; nothing is scheduled by it")]
async fn within_bound<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.unwrap_or_else(|_| panic!("not within {BOUND:?}: {what}"))
}

#[tokio::test]
async fn a_migration_that_waits_for_a_reader_does_not_block_workers() {
    let database = PostgresServer::shared().create_database("migrate");
    let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
    migrate(&config).await.unwrap();
    let (reader, worker) = (connect(&database.url).await, connect(&database.url).await);
    reader.batch_execute("BEGIN; SELECT count(*) FROM app.webhook_failures").await.unwrap();
    let migrating = tokio::spawn(async move { apply(&config, &later_migrations()).await });
    let migration_waits = async {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while worker.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    within_bound("the migration waits", migration_waits).await;
    let insert = "INSERT INTO app.webhook_failures (id, destination_id, updated_at, attempts, claims, lost_leases, failure_kind)
                  VALUES (1, 1, now(), 1, 1, 0, 'exhausted')";
    within_bound("a result is written meanwhile", worker.batch_execute(insert)).await.unwrap();
    reader.batch_execute("COMMIT").await.unwrap();
    let report = within_bound("the reader has finished", migrating).await.unwrap().unwrap();
    assert_eq!(
        report,
        MigrationReport { from: supported_schema_version(), to: supported_schema_version() + 1 }
    );
}
