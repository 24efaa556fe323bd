//! The durability of commits: enqueues and settles commit with `synchronous_commit` at least `on`, whatever the database
//! or the caller has set.

use posthaste_postgres_server::{PostgresServer, TEST_SETTINGS};
use posthaste_store::{EnqueueRequest, Idempotency, Store};
use posthaste_store_postgres::{PostgresStore, enqueue_in};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// Records the setting under which each insert into these tables commits.
pub(crate) const RECORD_COMMITS: &str = "
    CREATE TABLE commits (of text, setting text);
    CREATE FUNCTION record_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        -- An attempt is in the partition of its day.
        INSERT INTO commits VALUES (regexp_replace(TG_TABLE_NAME, '_([0-9]{8}|default)$', ''), current_setting('synchronous_commit'));
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER record_commit AFTER INSERT ON app.webhook_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_commit();
    CREATE CONSTRAINT TRIGGER record_commit AFTER INSERT ON app.webhook_attempts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_commit()";

/// Enqueues in every way, and settles.
async fn commit_in_every_way(store: &dyn Store, url: &str) {
    enqueue(store, spec()).await;
    let idempotency = Idempotency { key: "key".to_owned(), fingerprint: [0; 32], keep_for: DAY };
    let with_key = EnqueueRequest { idempotency: Some(idempotency), ..request(vec![spec()]) };
    store.enqueue(with_key).await.unwrap();
    let mut caller = client(url).await;
    let transaction = caller.transaction().await.unwrap();
    enqueue_in(&transaction, &[new_event(spec())]).await.unwrap();
    transaction.commit().await.unwrap();
    caller.batch_execute(&format!("SELECT app.enqueue_webhook('{URL}', 'x', '1')")).await.unwrap();
    let leases = claim(store).await;
    assert_eq!(leases.len(), 4);
    settle(store, &leases, 200).await;
}

#[tokio::test]
async fn enqueues_and_settles_commit_durably_whatever_the_database_has_set() {
    for (setting, expected) in [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        let harness = PostgresHarness::start().await;
        let (server, database) = (PostgresServer::shared(), &harness.database);
        query_text(server, &database.name, RECORD_COMMITS);
        let set = format!("ALTER DATABASE \"{}\" SET synchronous_commit = '{setting}'", database.name);
        query_text(server, "postgres", &set);
        // Connects after the setting has changed.
        let store = PostgresStore::connect(config(&database.url));
        commit_in_every_way(&store, &database.url).await;
        let sql = "SELECT of, setting, count(*) FROM commits GROUP BY 1, 2 ORDER BY 1";
        let commits = query_text(server, &database.name, sql);
        let expected = format!("webhook_attempts|{expected}|4\nwebhook_events|{expected}|4");
        assert_eq!(commits, expected, "{setting}");
        let sql = "SHOW synchronous_commit";
        assert_eq!(
            query_text(server, &database.name, sql),
            setting,
            "the setting is local to the transactions"
        );
        drop(harness);
    }
}

#[tokio::test]
async fn a_setting_that_is_weakened_later_does_not_weaken_open_connections() {
    let server = PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
    let database = server.create_database("reloaded");
    let store = open(&database.url).await;
    query_text(&server, &database.name, RECORD_COMMITS);
    commit_through(&store).await;
    query_text(&server, "postgres", "ALTER SYSTEM SET synchronous_commit = off");
    query_text(&server, "postgres", "SELECT pg_reload_conf()");
    wait_until(TIMEOUT, "the server has reloaded its configuration", async || {
        query_text(&server, "postgres", "SHOW synchronous_commit") == "off"
    })
    .await;
    commit_through(&store).await;
    let sql = "SELECT of, setting, count(*) FROM commits GROUP BY 1, 2 ORDER BY 1";
    let commits = query_text(&server, &database.name, sql);
    assert_eq!(commits, "webhook_attempts|on|2\nwebhook_events|on|2");
}

/// Enqueues and settles an event.
async fn commit_through(store: &dyn Store) {
    enqueue(store, spec()).await;
    settle(store, &[claim_one(store).await], 200).await;
}
