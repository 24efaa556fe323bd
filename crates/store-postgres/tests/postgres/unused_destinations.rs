//! Removal of unused destinations while producers enqueue: no event may refer to a removed destination.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_store::{Retention, Store};
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::tokio_postgres::Client;
use posthaste_store_postgres::tokio_postgres::error::SqlState;

use crate::fixture::*;
use crate::support::PostgresHarness;

/// Removes every destination as soon as no event refers to it.
const AT_ONCE: Retention = Retention {
    keep_for: None,
    keep_dead_letters_for: None,
    keep_unused_destinations_for: Some(Duration::ZERO),
    rows_max: 100,
};
const ENQUEUE: &str = "SELECT app.enqueue_webhook($1, 'invoice.paid', '{}')";

async fn maintain(store: &dyn Store, steps: usize) {
    for _ in 0..steps {
        store.maintain(&AT_ONCE).await.expect("the store is up");
    }
}

/// Enqueues an event in the client's transaction, or in one of its own.
async fn enqueue_by_sql(client: &Client, url: &str) -> String {
    client.query_one(ENQUEUE, &[&url]).await.expect("the event is accepted").get(0)
}

async fn remove_event(store: &dyn Store, event_id: &str) {
    let event_id = event_id.parse_id();
    store.cancel(&event_id, "test".into(), None).await.expect("a pending event can be cancelled");
    store.discard(&event_id, "test".into(), None).await.expect("a failed event can be discarded");
}

trait ParseId {
    fn parse_id(&self) -> posthaste_domain::EventId;
}

impl ParseId for str {
    fn parse_id(&self) -> posthaste_domain::EventId {
        posthaste_domain::EventId::new(self).expect("the server returns valid ids")
    }
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("the server is up").get(0)
}

async fn count_destinations(client: &Client) -> i64 {
    count(client, "SELECT count(*) FROM app.webhook_destinations").await
}

/// The number of committed events that refer to a removed destination.
async fn count_orphans(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM app.webhook_events e
               WHERE NOT EXISTS (SELECT FROM app.webhook_destinations d WHERE d.id = e.destination_id)";
    count(client, sql).await
}

/// Runs maintenance until no destination is left. Transactions of other tests on the same server delay the removal.
async fn maintain_until_removed(store: &dyn Store, client: &Client) {
    wait_until(TIMEOUT, "the destination is removed", async || {
        maintain(store, 1).await;
        count_destinations(client).await == 0
    })
    .await;
}

/// Creates a destination that no event refers to.
async fn add_unused_destination(store: &dyn Store) {
    let event_id = enqueue(store, spec()).await;
    remove_event(store, event_id.as_str()).await;
}

#[tokio::test]
async fn an_unused_destination_is_removed_in_the_third_pass_at_the_earliest() {
    let harness = PostgresHarness::start().await;
    let (store, client) = (harness.store(), client(&harness.database.url).await);
    add_unused_destination(&*store).await;
    maintain(&*store, 2).await;
    assert_eq!(count_destinations(&client).await, 1);
    maintain_until_removed(&*store, &client).await;
    enqueue(&*store, spec()).await;
    assert_eq!(claim(&*store).await.len(), 1, "the cached id of the removed destination is not used");
}

/// The number of maintenance steps before the producer reads the destination: it sees no removal, an announced one, and a
/// dated one.
#[tokio::test]
async fn an_open_transaction_keeps_the_destination_of_its_event() {
    for steps_before in 0..3 {
        let harness = PostgresHarness::start().await;
        let (store, producer) = (harness.store(), client(&harness.database.url).await);
        add_unused_destination(&*store).await;
        maintain(&*store, steps_before).await;
        producer.batch_execute("BEGIN").await.unwrap();
        let event_id = enqueue_by_sql(&producer, URL).await;
        maintain(&*store, 10).await;
        producer.batch_execute("COMMIT").await.unwrap();
        assert_eq!(count_orphans(&producer).await, 0, "{steps_before} steps before the enqueue");
        maintain(&*store, 10).await;
        assert_eq!(event_ids(&claim(&*store).await), [event_id.as_str()]);
        assert_eq!(
            count(&producer, "SELECT count(*) FROM app.webhook_destinations WHERE removal_xid IS NOT NULL")
                .await,
            0
        );
    }
}

#[tokio::test]
async fn a_rolled_back_transaction_does_not_keep_the_destination() {
    let harness = PostgresHarness::start().await;
    let (store, producer) = (harness.store(), client(&harness.database.url).await);
    add_unused_destination(&*store).await;
    producer.batch_execute("BEGIN").await.unwrap();
    enqueue_by_sql(&producer, URL).await;
    maintain(&*store, 10).await;
    assert_eq!(count_destinations(&producer).await, 1);
    producer.batch_execute("ROLLBACK").await.unwrap();
    maintain_until_removed(&*store, &producer).await;
}

#[tokio::test]
async fn a_transaction_with_an_older_snapshot_fails_instead_of_using_a_removed_destination() {
    let harness = PostgresHarness::start().await;
    let (store, producer) = (harness.store(), client(&harness.database.url).await);
    add_unused_destination(&*store).await;
    let observer = client(&harness.database.url).await;
    producer.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    assert_eq!(count_destinations(&producer).await, 1);
    maintain_until_removed(&*store, &observer).await;
    let refused = producer.query_one(ENQUEUE, &[&URL]).await.expect_err("the destination is removed");
    assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
    producer.batch_execute("ROLLBACK").await.unwrap();
    enqueue_by_sql(&producer, URL).await;
    assert_eq!(claim(&*store).await.len(), 1);
}

/// Waits until a worker has removed one of the destinations. The producers stop for it once in a while: other tests' open
/// transactions delay removals, and destinations that are always in use are never removed.
async fn wait_for_a_removal(client: &Client, destinations: usize) {
    let all = i64::try_from(destinations).expect("a small number");
    wait_until(TIMEOUT, "a destination is removed", async || count_destinations(client).await < all).await;
}

#[tokio::test]
async fn no_event_refers_to_a_removed_destination_while_producers_and_two_workers_race() {
    const ROUNDS: usize = 60;
    const ROUNDS_BETWEEN_PAUSES: usize = 6;
    let harness = PostgresHarness::start().await;
    let stores = [harness.store(), harness.second_handle()];
    let observer = client(&harness.database.url).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let workers = stores.clone().map(|store| {
        let is_over = Arc::clone(&is_over);
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                maintain(&*store, 1).await;
            }
        })
    });
    let urls = ["https://a.example/", "https://b.example/"];
    let pause = async |round: usize| {
        if round % ROUNDS_BETWEEN_PAUSES == ROUNDS_BETWEEN_PAUSES - 1 {
            wait_for_a_removal(&observer, urls.len()).await;
        }
    };
    // Producers through the stores, whose caches know the ids of removed destinations.
    let pause = &pause;
    let through_stores = stores.iter().enumerate().map(|(number, store)| async move {
        for round in 0..ROUNDS {
            let event_id = enqueue(&**store, spec_to(urls[(number + round) % 2])).await;
            remove_event(&**store, event_id.as_str()).await;
            pause(round).await;
        }
    });
    // Producers in SQL, whose transactions stay open while the workers try to remove their destinations.
    let sql = join_all((0..2).map(|_| client(&harness.database.url))).await;
    let through_sql = sql.iter().enumerate().map(|(number, client)| {
        let store = Arc::clone(&stores[number]);
        async move {
            for round in 0..ROUNDS {
                client.batch_execute("BEGIN").await.unwrap();
                let event_id = enqueue_by_sql(client, urls[(number + round) % 2]).await;
                for _ in 0..round % 7 {
                    client.query("SELECT 1", &[]).await.unwrap();
                }
                client.batch_execute("COMMIT").await.unwrap();
                remove_event(&*store, &event_id).await;
                pause(round).await;
            }
        }
    });
    let checks = async {
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(count_orphans(&observer).await, 0);
        }
    };
    let producers = async {
        tokio::join!(join_all(through_stores), join_all(through_sql));
        is_over.store(true, Ordering::Relaxed);
    };
    within(4 * TIMEOUT, "the producers finish", async { tokio::join!(producers, checks) }).await;
    for worker in workers {
        expect_soon("maintenance ends", worker).await.expect("maintenance does not fail");
    }
    assert_eq!(count_orphans(&observer).await, 0);
    let created =
        count(&observer, "SELECT nextval(pg_get_serial_sequence('app.webhook_destinations', 'id'))").await;
    assert!(created > 10, "destinations were removed and created again: {created}");
}
