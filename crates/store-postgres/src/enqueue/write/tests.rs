//! Batches beside another client's open transaction, on a real server.

use bytes::Bytes;
use posthaste_domain::{NewEvent, NewEventSpec};
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store as _;
use tokio_postgres::{Client, NoTls};

use super::*;
use crate::{PostgresConfig, PostgresStore};

const URL: &str = "https://receiver.example/hook";
const NEW_URL: &str = "https://new.example/hook";

/// Opens a store on a database of its own.
async fn open() -> (Database, PostgresStore) {
    let database = PostgresServer::shared().create_database("write_batch");
    let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
    let store = PostgresStore::open(config).await.expect("the server is up");
    (database, store)
}

/// Connects another client to the database.
async fn connect(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

fn request(url: &str, event_id: Option<&str>) -> EnqueueRequest {
    let spec = NewEventSpec {
        destination_url: url.to_owned(),
        event_type: "invoice.paid".to_owned(),
        event_id: event_id.map(str::to_owned),
        payload: Bytes::from_static(b"{}"),
        ..NewEventSpec::default()
    };
    let event = NewEvent::accept(spec, 1_024, 5).expect("a valid event");
    EnqueueRequest::new(vec![event])
}

fn blocked(resource: &str) -> WriteResult {
    Err(WriteError::Blocked { resource: Some(resource.to_owned()) })
}

#[tokio::test]
async fn a_new_destination_of_an_open_transaction_blocks_only_the_requests_that_need_it() {
    let (database, store) = open().await;
    store.enqueue(request(URL, None)).await.unwrap();
    let caller = connect(&database).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{NEW_URL}', 'x', '1')");
    caller.batch_execute(&sql).await.unwrap();

    let batch = [
        request(NEW_URL, None),
        request(URL, None),
        request("https://another.example/", None),
        request(URL, Some("beside-it")),
    ];
    let results = write(&store.shared, &batch).await.unwrap();
    assert_eq!(results[0], blocked(NEW_URL), "the locked destination is named");
    assert!(results[1..].iter().all(Result::is_ok), "{results:?}");

    caller.batch_execute("COMMIT").await.unwrap();
    let results = write(&store.shared, &batch[..1]).await.unwrap();
    assert!(results[0].is_ok(), "{results:?}");
    assert_eq!(store.overview().await.unwrap().pending, 6, "the blocked request was stored once");
}

#[tokio::test]
async fn an_event_id_of_an_open_transaction_blocks_only_the_requests_that_name_it() {
    let (database, store) = open().await;
    store.enqueue(request(URL, None)).await.unwrap();
    let caller = connect(&database).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => 'wanted')");
    caller.batch_execute(&sql).await.unwrap();

    let batch = [request(URL, Some("wanted")), request(URL, None)];
    let results = write(&store.shared, &batch).await.unwrap();
    assert_eq!(results[0], blocked("wanted"));
    assert!(results[1].is_ok(), "{results:?}");

    caller.batch_execute("COMMIT").await.unwrap();
    let results = write(&store.shared, &batch[..1]).await.unwrap();
    assert!(matches!(results[0], Err(WriteError::Failed(StoreError::EventIdTaken { .. }))), "{results:?}");
}

#[tokio::test]
async fn many_new_destinations_of_an_open_transaction_block_only_the_requests_that_need_them() {
    const LOCKED: usize = 3;
    let (database, store) = open().await;
    let url = |number: usize| format!("https://new-{number}.example/");
    let caller = connect(&database).await;
    caller.batch_execute("BEGIN").await.unwrap();
    for number in 0..LOCKED {
        let sql = format!("SELECT app.enqueue_webhook('{}', 'x', '1')", url(number));
        caller.batch_execute(&sql).await.unwrap();
    }
    let batch: Vec<_> = (0..40).map(|number| request(&url(number % 10), None)).collect();
    let results = write(&store.shared, &batch).await.unwrap();
    for (number, result) in results.iter().enumerate() {
        if number % 10 < LOCKED {
            assert_eq!(*result, blocked(&url(number % 10)));
        } else {
            assert!(result.is_ok(), "{result:?}");
        }
    }
    caller.batch_execute("ROLLBACK").await.unwrap();
}
