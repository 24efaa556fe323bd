//! The oldest-pending watermark, and old events that an operator requeues.

use std::time::Duration;

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{EventQuery, PageRequest, Store as _};
use posthaste_store_postgres::tokio_postgres::Client;

use crate::fixture::*;

/// Upper bound of the wait for a housekeeping round, which runs every 5 seconds.
const ROUND_MAX: Duration = Duration::from_secs(30);

/// Waits for a housekeeping round. A round ends by compacting the counts into one row.
async fn wait_for_housekeeping(client: &Client) {
    client.batch_execute("INSERT INTO app.webhook_counts DEFAULT VALUES").await.unwrap();
    client.batch_execute("INSERT INTO app.webhook_counts DEFAULT VALUES").await.unwrap();
    wait_until(ROUND_MAX, "a housekeeping round ends", async || {
        let sql = "SELECT count(*) FROM app.webhook_counts";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
}

#[tokio::test]
async fn an_old_event_whose_reset_spans_a_housekeeping_round_is_listed_as_pending() {
    let database = PostgresServer::shared().create_database("oldest");
    let store = open(&database.url).await;
    let old = enqueue_and_attempt(&store, spec_with_id("old"), 410).await;
    enqueue(&store, spec_with_id("new")).await;
    let (watch, operator) = (client(&database.url).await, client(&database.url).await);
    wait_for_housekeeping(&watch).await;
    let reset = "UPDATE app.webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE id = 'old'";
    operator.batch_execute(&format!("BEGIN; {reset}")).await.unwrap();
    wait_for_housekeeping(&watch).await;
    operator.batch_execute("COMMIT").await.unwrap();

    let pending = EventQuery { status: Some(DeliveryStatus::Pending), ..EventQuery::default() };
    let listed = store.events(&pending, &PageRequest::default()).await.unwrap().items;
    let listed: Vec<&str> = listed.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(listed, ["new", "old"]);
    let detail = store.event(&old).await.unwrap().event;
    let age = store.overview().await.unwrap().oldest_pending_age.expect("two are pending");
    let newer = store.event(&posthaste_domain::EventId::new("new").unwrap()).await.unwrap().event;
    // The age is measured from the older of the two pending events.
    assert!(detail.created_at < newer.created_at);
    let now = detail.created_at.after(age);
    assert!(now >= detail.updated_at, "the oldest is the old one, {age:?} old: {detail:?}");
}
