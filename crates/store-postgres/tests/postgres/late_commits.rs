//! Transactions that commit long after their events drew their sequence numbers. A few claims must find such events,
//! without the sweep, which runs only every 10 seconds. One test waits for the sweep.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_store::Store;
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::tokio_postgres::Client;
use posthaste_store_postgres::{PostgresStore, enqueue_in};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// Upper bound of the claims until a late event is granted.
const CLAIMS_MAX: usize = 50;

/// Begins a transaction, enqueues an event in it, and leaves it open.
async fn begin_enqueue(client: &Client, event_id: &str, url: &str) {
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{url}', 'x', '1', event_id => '{event_id}')");
    client.batch_execute(&sql).await.unwrap();
}

/// Returns how many claims it takes until the event is granted. No other event may be claimable.
async fn claims_until(store: &dyn Store, event_id: &str) -> usize {
    for number in 1..=CLAIMS_MAX {
        let leases = claim(store).await;
        if !leases.is_empty() {
            assert_eq!(event_ids(&leases), [event_id]);
            settle(store, &leases, 200).await;
            return number;
        }
    }
    panic!("{event_id} was committed and is not granted in {CLAIMS_MAX} claims");
}

/// A store that has claimed before. Its destination exists, because a new one stays locked until its transaction ends.
async fn warmed_up(harness: &PostgresHarness) -> Arc<dyn Store> {
    let store = harness.store();
    enqueue_and_attempt(&*store, spec(), 200).await;
    store
}

/// Delivers other events while a transaction is open.
async fn deliver_events(store: &dyn Store, url: &str, events: usize) {
    for _ in 0..events {
        enqueue_and_attempt(store, spec_to(url), 200).await;
    }
}

#[tokio::test]
async fn an_event_that_commits_after_later_ones_were_settled_is_granted_by_the_next_claims() {
    for url in [URL, "https://elsewhere.example/"] {
        let harness = PostgresHarness::start().await;
        let store = warmed_up(&harness).await;
        let late = client(&harness.database.url).await;
        begin_enqueue(&late, "late", URL).await;
        deliver_events(&*store, url, 10).await;
        late.batch_execute("COMMIT").await.unwrap();
        let claims = claims_until(&*store, "late").await;
        assert!(claims <= 2, "it took {claims} claims");
    }
}

#[tokio::test]
async fn an_event_of_enqueue_in_that_commits_late_is_granted_by_the_next_claims() {
    let harness = PostgresHarness::start().await;
    let store = warmed_up(&harness).await;
    let mut client = client(&harness.database.url).await;
    let transaction = client.transaction().await.unwrap();
    enqueue_in(&transaction, &[new_event(spec_with_id("late"))]).await.unwrap();
    deliver_events(&*store, "https://elsewhere.example/", 10).await;
    transaction.commit().await.unwrap();
    assert!(claims_until(&*store, "late").await <= 2);
}

#[tokio::test]
async fn an_event_of_a_transaction_that_was_open_before_the_first_claim_is_granted() {
    let harness = PostgresHarness::start().await;
    let late = client(&harness.database.url).await;
    begin_enqueue(&late, "late", "https://elsewhere.example/").await;
    // The store of a process that starts with a backlog.
    let producer = harness.store();
    enqueue_all(&*producer, (0..500).map(|_| spec()).collect()).await;
    let store = PostgresStore::connect(config(&harness.database.url));
    assert_eq!(claim(&store).await.len(), 500);
    deliver_events(&store, URL, 5).await;
    late.batch_execute("COMMIT").await.unwrap();
    assert!(claims_until(&store, "late").await <= 2);
}

#[tokio::test]
async fn an_event_whose_transaction_stays_open_for_minutes_is_granted_after_its_commit() {
    let harness = PostgresHarness::start().await;
    let store = warmed_up(&harness).await;
    let late = client(&harness.database.url).await;
    begin_enqueue(&late, "late", URL).await;
    for _ in 0..5 {
        deliver_events(&*store, URL, 2).await;
        harness.advance(MINUTE).await;
        claim(&*store).await;
    }
    late.batch_execute("COMMIT").await.unwrap();
    assert!(claims_until(&*store, "late").await <= 2);
}

#[tokio::test]
async fn a_late_event_among_more_gaps_than_the_limit_is_granted() {
    let harness = PostgresHarness::start().await;
    let store = warmed_up(&harness).await;
    let (late, other) = (client(&harness.database.url).await, client(&harness.database.url).await);
    begin_enqueue(&late, "late", URL).await;
    // Every second number stays unused, as after a rollback.
    for _ in 0..400 {
        other.execute("SELECT nextval('app.webhook_event_key')", &[]).await.unwrap();
        enqueue(&*store, spec()).await;
    }
    let leases = claim(&*store).await;
    assert_eq!(leases.len(), 400);
    settle(&*store, &leases, 200).await;
    late.batch_execute("COMMIT").await.unwrap();
    assert!(claims_until(&*store, "late").await <= 2);
}

#[tokio::test]
async fn the_sweep_finds_an_event_far_below_the_start_of_discovery() {
    let harness = PostgresHarness::start().await;
    let late = client(&harness.database.url).await;
    begin_enqueue(&late, "late", URL).await;
    let other = client(&harness.database.url).await;
    other
        .execute("SELECT nextval('app.webhook_event_key') FROM generate_series(1, 20000)", &[])
        .await
        .unwrap();
    let store = harness.store();
    assert_eq!(event_ids(&claim(&*store).await), [""; 0]);
    late.batch_execute("COMMIT").await.unwrap();
    wait_until(3 * TIMEOUT, "the sweep finds it", async || event_ids(&claim(&*store).await) == ["late"])
        .await;
}

/// A producer in a random interleaving.
struct Producer {
    client: Client,
    /// Event ids of its open transaction.
    open: Vec<String>,
}

/// Runs five producers that begin, enqueue, commit and roll back in random order while stores claim and settle.
async fn interleave(harness: &PostgresHarness, stores: &[&dyn Store], seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut producers = Vec::new();
    for _ in 0..5 {
        producers.push(Producer { client: client(&harness.database.url).await, open: Vec::new() });
    }
    let mut committed: BTreeMap<String, usize> = BTreeMap::new();
    let mut granted: BTreeMap<String, usize> = BTreeMap::new();
    for step in 0..200 {
        let (dice, who) = (random.random_range(0..10_u8), random.random_range(0..5_usize));
        let producer = &mut producers[who];
        match dice {
            0..4 => {
                let event_id = format!("event-{seed}-{step}");
                // A destination per producer, because a new destination stays locked until its transaction ends.
                let url = format!("https://receiver-{who}.example/");
                let begin = if producer.open.is_empty() { "BEGIN;" } else { "" };
                let sql = format!(
                    "{begin} SELECT app.enqueue_webhook('{url}', 'x', '1', event_id => '{event_id}')"
                );
                producer.client.batch_execute(&sql).await.unwrap();
                producer.open.push(event_id);
            }
            4..6 if !producer.open.is_empty() => {
                producer.client.batch_execute("COMMIT").await.unwrap();
                committed.extend(producer.open.drain(..).map(|event_id| (event_id, 1)));
            }
            6 if !producer.open.is_empty() => {
                producer.client.batch_execute("ROLLBACK").await.unwrap();
                producer.open.clear();
            }
            _ => claim_and_settle(stores[random.random_range(0..stores.len())], &mut granted).await,
        }
    }
    for producer in &mut producers {
        if !producer.open.is_empty() {
            producer.client.batch_execute("COMMIT").await.unwrap();
            committed.extend(producer.open.drain(..).map(|event_id| (event_id, 1)));
        }
    }
    for _ in 0..CLAIMS_MAX {
        for store in stores {
            claim_and_settle(*store, &mut granted).await;
        }
        if granted.len() == committed.len() {
            break;
        }
    }
    assert_eq!(granted, committed, "seed {seed}: each committed event is granted once, and no other");
}

/// Claims and settles events, and counts the grants of each.
async fn claim_and_settle(store: &dyn Store, granted: &mut BTreeMap<String, usize>) {
    let leases = claim(store).await;
    for lease in &leases {
        *granted.entry(lease.event_id.as_str().to_owned()).or_default() += 1;
    }
    if !leases.is_empty() {
        settle(store, &leases, 200).await;
    }
}

#[tokio::test]
async fn every_committed_event_of_interleaved_transactions_is_granted_once() {
    for seed in 0..6 {
        let harness = PostgresHarness::start().await;
        interleave(&harness, &[&*harness.store()], seed).await;
    }
}

#[tokio::test]
async fn two_stores_together_grant_every_event_of_interleaved_transactions_once() {
    for seed in 100..106 {
        let harness = PostgresHarness::start().await;
        interleave(&harness, &[&*harness.store(), &*harness.second_handle()], seed).await;
    }
}
