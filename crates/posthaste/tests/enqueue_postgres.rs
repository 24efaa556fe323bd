//! `Posthaste::enqueue` on PostgreSQL goes through the same queue as the API: concurrent calls share commits, and an open
//! transaction of another client blocks only the calls that need its rows.

use std::future::Future;
use std::time::Duration;

use posthaste::domain::{NewEvent, NewEventSpec};
use posthaste::tokio_postgres::{Client, NoTls, connect};
use posthaste::{Database, Options, Posthaste};
use posthaste_postgres_server::PostgresServer;

/// Turns a hang into a failure.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for a server; nothing is scheduled by it")]
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(30);
    tokio::time::timeout(bound, future).await.unwrap_or_else(|_| panic!("not within {bound:?}: {what}"))
}

async fn open(url: &str) -> Posthaste {
    let database = Database::postgres(url).expect("the URL is the server's own");
    Posthaste::open(Options::new(database).expect("the system has entropy")).await.expect("the server is up")
}

/// Another client of the database.
async fn client(url: &str) -> Client {
    let (client, connection) = connect(url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

fn event(posthaste: &Posthaste, url: &str) -> Vec<NewEvent> {
    let event = NewEventSpec {
        destination_url: url.to_owned(),
        event_type: "invoice.paid".to_owned(),
        payload: "{}".into(),
        ..NewEventSpec::default()
    };
    vec![posthaste.accept(event).expect("the event is valid")]
}

#[tokio::test]
async fn an_open_transaction_blocks_only_the_enqueues_that_need_its_destination() {
    const NEW_URL: &str = "https://new.example/hook";
    let database = PostgresServer::shared().create_database("embedded_contention");
    let posthaste = open(&database.url).await;
    let caller = client(&database.url).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{NEW_URL}', 'x', '1')");
    caller.batch_execute(&sql).await.unwrap();

    let blocked = tokio::spawn({
        let (posthaste, events) = (posthaste.clone(), event(&posthaste, NEW_URL));
        async move { posthaste.enqueue(events).await }
    });
    for number in 0..10 {
        let other = event(&posthaste, &format!("https://other-{number}.example/"));
        soon("another destination is not blocked", posthaste.enqueue(other)).await.unwrap();
    }
    assert!(!blocked.is_finished(), "it waits for the open transaction");
    caller.batch_execute("COMMIT").await.unwrap();
    soon("the transaction has ended", blocked).await.unwrap().unwrap();
    assert_eq!(posthaste.store().overview().await.unwrap().pending, 12);
}

#[tokio::test]
async fn concurrent_enqueues_share_commits() {
    const CALLS: i64 = 200;
    let database = PostgresServer::shared().create_database("embedded_batches");
    let posthaste = open(&database.url).await;
    let url = "https://receiver.example/hook";
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let (posthaste, events) = (posthaste.clone(), event(&posthaste, url));
            tokio::spawn(async move { posthaste.enqueue(events).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().len(), 1);
    }
    assert_eq!(posthaste.store().overview().await.unwrap().pending, u64::try_from(CALLS).unwrap());
    // Every commit that stores events adds one row to the counts.
    let client = client(&database.url).await;
    let row = client.query_one("SELECT count(*) FROM app.webhook_counts", &[]).await.unwrap();
    let commits: i64 = row.get(0);
    assert!(commits <= 20, "{commits} commits for {CALLS} calls");
}
