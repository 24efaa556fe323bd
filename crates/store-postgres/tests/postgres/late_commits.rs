//! Transactions that commit long after their events got their numbers. Everything is found by claims alone, in a few
//! of them: the sweep, which would find it as well, comes every 20 seconds. One test waits for it.

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

/// Claims that may pass until a late event is granted.
const CLAIMS_MAX: usize = 50;

/// Begins a transaction that enqueues and stays open.
async fn begin_enqueue(client: &Client, event_id: &str, url: &str) {
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{url}', 'x', '1', event_id => '{event_id}')");
    client.batch_execute(&sql).await.unwrap();
}

/// How many claims it takes until the event is granted; nothing else may be claimable.
async fn claims_until(store: &dyn Store, event_id: &str) -> usize {
    for number in 1..=CLAIMS_MAX {
        let leases = claim(store).await;
        if !leases.is_empty() {
            assert_eq!(ids(&leases), [event_id]);
            settle(store, &leases, 200).await;
            return number;
        }
    }
    panic!("{event_id} was committed and is not granted in {CLAIMS_MAX} claims");
}

/// A store that has claimed before, and knows a destination: one that is new is locked until its transaction ends.
async fn warmed_up(harness: &PostgresHarness) -> Arc<dyn Store> {
    let store = harness.store();
    attempted(&*store, spec(), 200).await;
    store
}

/// Others come, go and are forgotten, while somebody's transaction is open.
async fn traffic(store: &dyn Store, url: &str, events: usize) {
    for _ in 0..events {
        attempted(store, spec_to(url), 200).await;
    }
}

#[tokio::test]
async fn an_event_that_commits_after_later_ones_were_settled_is_found_by_the_next_claims() {
    for url in [URL, "https://elsewhere.example/"] {
        let harness = PostgresHarness::start().await;
        let store = warmed_up(&harness).await;
        let late = client(&harness.database.url).await;
        begin_enqueue(&late, "late", URL).await;
        traffic(&*store, url, 10).await;
        late.batch_execute("COMMIT").await.unwrap();
        let claims = claims_until(&*store, "late").await;
        assert!(claims <= 2, "it took {claims} claims");
    }
}

#[tokio::test]
async fn an_event_of_enqueue_in_that_commits_late_is_found_too() {
    let harness = PostgresHarness::start().await;
    let store = warmed_up(&harness).await;
    let mut client = client(&harness.database.url).await;
    let transaction = client.transaction().await.unwrap();
    enqueue_in(&transaction, &[accepted(named("late"))]).await.unwrap();
    traffic(&*store, "https://elsewhere.example/", 10).await;
    transaction.commit().await.unwrap();
    assert!(claims_until(&*store, "late").await <= 2);
}

#[tokio::test]
async fn a_transaction_that_was_open_before_the_first_claim_is_found() {
    let harness = PostgresHarness::start().await;
    let late = client(&harness.database.url).await;
    begin_enqueue(&late, "late", "https://elsewhere.example/").await;
    // The store of a process that starts now, with a backlog that others have left.
    let producer = harness.store();
    enqueue_all(&*producer, (0..500).map(|_| spec()).collect()).await;
    let store = PostgresStore::connect(config(&harness.database.url));
    assert_eq!(claim(&store).await.len(), 500);
    traffic(&store, URL, 5).await;
    late.batch_execute("COMMIT").await.unwrap();
    assert!(claims_until(&store, "late").await <= 2);
}

#[tokio::test]
async fn a_transaction_stays_looked_for_however_much_time_passes() {
    let harness = PostgresHarness::start().await;
    let store = warmed_up(&harness).await;
    let late = client(&harness.database.url).await;
    begin_enqueue(&late, "late", URL).await;
    for _ in 0..5 {
        traffic(&*store, URL, 2).await;
        harness.advance(MINUTE).await;
        claim(&*store).await;
    }
    late.batch_execute("COMMIT").await.unwrap();
    assert!(claims_until(&*store, "late").await <= 2);
}

#[tokio::test]
async fn more_gaps_than_are_remembered_one_by_one_lose_nothing() {
    let harness = PostgresHarness::start().await;
    let store = warmed_up(&harness).await;
    let (late, other) = (client(&harness.database.url).await, client(&harness.database.url).await);
    begin_enqueue(&late, "late", URL).await;
    // Every second number is drawn for nothing, as by transactions that are rolled back.
    for _ in 0..400 {
        other.execute("SELECT nextval('app.webhook_turn')", &[]).await.unwrap();
        enqueue(&*store, spec()).await;
    }
    let leases = claim(&*store).await;
    assert_eq!(leases.len(), 400);
    settle(&*store, &leases, 200).await;
    late.batch_execute("COMMIT").await.unwrap();
    assert!(claims_until(&*store, "late").await <= 2);
}

/// The safety net under all of the above.
#[tokio::test]
async fn what_lies_far_below_where_discovery_began_is_found_by_the_sweep() {
    let harness = PostgresHarness::start().await;
    let late = client(&harness.database.url).await;
    begin_enqueue(&late, "late", URL).await;
    let other = client(&harness.database.url).await;
    other.execute("SELECT nextval('app.webhook_turn') FROM generate_series(1, 20000)", &[]).await.unwrap();
    let store = harness.store();
    assert_eq!(ids(&claim(&*store).await), [""; 0]);
    late.batch_execute("COMMIT").await.unwrap();
    until(3 * SOON, "the sweep finds it", async || ids(&claim(&*store).await) == ["late"]).await;
}

/// One producer of the random interleavings.
struct Producer {
    client: Client,
    /// Events of its open transaction.
    open: Vec<String>,
}

/// Five producers begin, add, commit and roll back in any order, while stores claim and settle.
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
                // A destination per producer: one that is new is locked until its transaction ends.
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
            _ => take(stores[random.random_range(0..stores.len())], &mut granted).await,
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
            take(*store, &mut granted).await;
        }
        if granted.len() == committed.len() {
            break;
        }
    }
    assert_eq!(granted, committed, "seed {seed}: each committed event once, and no other");
}

async fn take(store: &dyn Store, granted: &mut BTreeMap<String, usize>) {
    let leases = claim(store).await;
    for lease in &leases {
        *granted.entry(lease.event_id.as_str().to_owned()).or_default() += 1;
    }
    if !leases.is_empty() {
        settle(store, &leases, 200).await;
    }
}

#[tokio::test]
async fn of_interleaved_transactions_every_committed_event_is_granted_once() {
    for seed in 0..6 {
        let harness = PostgresHarness::start().await;
        interleave(&harness, &[&*harness.store()], seed).await;
    }
}

#[tokio::test]
async fn two_stores_grant_every_event_of_interleaved_transactions_once_between_them() {
    for seed in 100..106 {
        let harness = PostgresHarness::start().await;
        interleave(&harness, &[&*harness.store(), &*harness.second_handle()], seed).await;
    }
}
