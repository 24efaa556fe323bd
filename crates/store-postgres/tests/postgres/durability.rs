//! The durability of commits: enqueues and settles commit with `synchronous_commit` at least `on`, whatever the database
//! or the caller has set. Claims commit without waiting for the disk.

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::{PostgresServer, StopMode, TEST_SETTINGS};
use posthaste_store::{EnqueueRequest, Idempotency, SettleResult, Store};
use posthaste_store_conformance::Harness as _;
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

/// Records the setting under which each claim commits.
const RECORD_CLAIMS: &str = "
    CREATE TABLE claims (setting text);
    CREATE FUNCTION record_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO claims VALUES (current_setting('synchronous_commit'));
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER record_claim AFTER INSERT ON app.webhook_claims
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_claim()";

#[tokio::test]
async fn claims_do_not_wait_for_the_disk_and_the_commits_after_them_do() {
    let harness = PostgresHarness::start().await;
    let (server, database) = (PostgresServer::shared(), &harness.database.name);
    query_text(server, database, RECORD_CLAIMS);
    query_text(server, database, RECORD_COMMITS);
    // One connection makes all of these commits.
    for _ in 0..2 {
        commit_through(&*harness.store()).await;
    }
    assert_eq!(query_text(server, database, "SELECT setting, count(*) FROM claims GROUP BY 1"), "off|2");
    let sql = "SELECT of, setting, count(*) FROM commits GROUP BY 1, 2 ORDER BY 1";
    assert_eq!(query_text(server, database, sql), "webhook_attempts|on|2\nwebhook_events|on|2");
}

/// Crashes the server after a claim, until a crash has lost the claim: the server may have flushed it for another reason.
#[tokio::test]
async fn a_claim_that_a_crash_of_the_server_has_lost_leaves_its_event_claimable() {
    let late_flushes = [TEST_SETTINGS, &[("wal_writer_delay", "10s")]].concat();
    let server = PostgresServer::start(&late_flushes).unwrap_or_else(|error| panic!("{error}"));
    let database = server.create_database("lost_claims");
    let store = open(&database.url).await;
    for _ in 0..5 {
        let event_id = enqueue(&store, spec()).await;
        let lease = claim_one(&store).await;
        server.stop(StopMode::Immediate).unwrap();
        // The worker learns of the crash, as it does with the next poll. Otherwise a sweep finds the event within 20 s.
        store.claim(&claim_by("worker-a")).await.unwrap_err();
        server.start_again().unwrap();
        wait_until(TIMEOUT, "the store recovers", async || store.overview().await.is_ok()).await;
        let is_lost = settle(&store, std::slice::from_ref(&lease), 200).await == [SettleResult::Stale];
        if is_lost {
            let again = claim_one(&store).await;
            assert_eq!((&again.event_id, again.attempts), (&event_id, 0));
            assert_ne!(again.token, lease.token);
            assert_eq!(settle(&store, &[again], 200).await, [SettleResult::Applied]);
        }
        let detail = store.event(&event_id).await.unwrap();
        assert_eq!(detail.event.status, DeliveryStatus::Delivered);
        if is_lost {
            return;
        }
    }
    panic!("no crash has lost a claim: claims wait for the disk");
}
