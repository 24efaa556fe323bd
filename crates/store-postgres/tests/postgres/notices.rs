//! The broadcast on the topic, as anybody hears it who listens.

use posthaste_domain::{NewEventSpec, TOPIC};
use posthaste_store::{NoticeCursor, Settled, Store};
use posthaste_store_conformance::Harness as _;
use serde_json::{Value, json};

use crate::fixture::*;
use crate::support::PostgresHarness;

const NOTIFICATION_BYTES_MAX: usize = 8_000;

/// The notices of the next notification.
async fn next(listener: &mut Listener) -> Vec<Value> {
    let text = listener.next().await;
    assert!(text.len() < NOTIFICATION_BYTES_MAX, "{} bytes", text.len());
    match serde_json::from_str(&text) {
        Ok(Value::Array(notices)) if !notices.is_empty() => notices,
        other => panic!("a notification is a JSON array of notices: {other:?} in {text}"),
    }
}

async fn next_of(listener: &mut Listener, count: usize) -> Vec<Value> {
    let mut notices = Vec::new();
    while notices.len() < count {
        notices.extend(next(listener).await);
    }
    notices
}

fn delivery_id(notice: &Value) -> &str {
    notice["webhook_delivery_id"].as_str().expect("every notice names its delivery")
}

/// Proves that nothing else was broadcast: what comes next is of this event.
async fn assert_next_is_a_new_delivery(store: &dyn Store, listener: &mut Listener) {
    let event_id = attempted(store, spec(), 200).await;
    let notices = next(listener).await;
    assert_eq!(notices.iter().map(delivery_id).collect::<Vec<_>>(), [event_id.as_str()]);
    assert_eq!(listener.heard(), [""; 0]);
}

#[tokio::test]
async fn a_notice_on_the_topic_has_the_fields_that_were_agreed() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut listener = Listener::on(&harness.database.url, TOPIC).await;
    let spec = NewEventSpec {
        payment_request_id: Some("pr-1".to_owned()),
        webhook_id: Some("wh-2".to_owned()),
        session_id: Some("se-\"3\"\\".to_owned()),
        ..named("dead")
    };
    attempted(&*store, spec, 410).await;
    let mut notice = next(&mut listener).await.remove(0);
    let at = notice["at"].take();
    assert!(at.as_str().is_some_and(|at| at.len() == 27 && at.ends_with('Z') && &at[10..11] == "T"), "{at}");
    let expected = json!({
        "topic": "gateway:webhooks", "type": "WebhookDLQEvent", "webhook_delivery_id": "dead", "webhook_id": "wh-2",
        "session_id": "se-\"3\"\\", "payment_request_id": "pr-1", "attempts": 1, "at": null,
    });
    assert_eq!(notice, expected);

    attempted(&*store, named("fine"), 200).await;
    let notice = next(&mut listener).await.remove(0);
    assert_eq!((notice["type"].as_str(), delivery_id(&notice)), (Some("WebhookDeliveredEvent"), "fine"));
    assert_eq!((&notice["webhook_id"], &notice["session_id"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_settle_of_five_hundred_is_broadcast_whole_once_and_in_the_order_of_the_log() {
    let harness = PostgresHarness::start().await;
    let (store, second) = (harness.store(), harness.second_handle());
    let mut listener = Listener::on(&harness.database.url, TOPIC).await;
    let start = store.notices(None, 1).await.unwrap().cursor;
    let long = |n: usize| Some(format!("{n:0>256}"));
    let specs =
        |n| NewEventSpec { session_id: long(n), webhook_id: long(n), payment_request_id: long(n), ..spec() };
    enqueue_all(&*store, (0..500).map(specs).collect()).await;
    let leases = claim(&*store).await;
    assert_eq!(settle(&*store, &leases, 200).await, [Settled::Applied; 500]);
    // Both look at once, and neither broadcasts what the other has.
    let (one, two) = tokio::join!(store.notices(Some(start), 1), second.notices(Some(start), 1));
    assert_eq!(one.unwrap().notices, two.unwrap().notices);

    let broadcast = next_of(&mut listener, 500).await;
    let log = log_after(&*store, start).await;
    assert_eq!(broadcast.iter().map(delivery_id).collect::<Vec<_>>(), log);
    assert_next_is_a_new_delivery(&*store, &mut listener).await;
}

/// Ids of the log's notices, in its order.
async fn log_after(store: &dyn Store, mut cursor: NoticeCursor) -> Vec<String> {
    let mut log = Vec::new();
    loop {
        let page = store.notices(Some(cursor), 100).await.unwrap();
        if page.notices.is_empty() {
            return log;
        }
        log.extend(page.notices.iter().map(|published| published.notice.event_id.as_str().to_owned()));
        cursor = page.cursor;
    }
}

#[tokio::test]
async fn a_long_transaction_elsewhere_holds_no_notice_back() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    attempted(&*store, spec(), 200).await;
    let start = store.notices(None, 1).await.unwrap().cursor;
    let mut listener = Listener::on(&harness.database.url, TOPIC).await;
    let long = client(&harness.database.url).await;
    long.batch_execute(&format!("BEGIN; SELECT app.enqueue_webhook('{URL}', 'x', '1')")).await.unwrap();
    let event_id = attempted(&*store, spec(), 200).await;
    assert_eq!(delivery_id(&next(&mut listener).await[0]), event_id.as_str());
    assert_eq!(log_after(&*store, start).await, [event_id.as_str()]);
    long.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn nothing_is_broadcast_for_what_was_not_written() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut listener = Listener::on(&harness.database.url, TOPIC).await;
    // Stale: the lease was taken over. Its new holder's outcome is a retry, which is no news.
    enqueue(&*store, spec()).await;
    let lost = claim_one(&*store).await;
    harness.advance(2 * LEASE).await;
    let taken = claim_one(&*store).await;
    assert_eq!(settle(&*store, &[lost], 200).await, [Settled::Stale]);
    assert_eq!(settle(&*store, &[taken], 500).await, [Settled::Applied]);
    // Rolled back: one of the batch cannot be written, so none is.
    let client = client(&harness.database.url).await;
    client
        .batch_execute("ALTER TABLE app.webhook_endings ADD CONSTRAINT no CHECK (failure_kind IS NULL)")
        .await
        .unwrap();
    enqueue_all(&*store, vec![spec(), spec()]).await;
    let leases = claim(&*store).await;
    let batch = [settlement(&leases[0], 200), settlement(&leases[1], 410)];
    assert!(store.settle(&worker("worker-a"), &batch).await.is_err());
    client.batch_execute("ALTER TABLE app.webhook_endings DROP CONSTRAINT no").await.unwrap();
    // Replayed: told the first time.
    assert_next_is_a_new_delivery(&*store, &mut listener).await;
    assert_eq!(settle(&*store, &leases, 200).await, [Settled::Applied; 2]);
    assert_eq!(next_of(&mut listener, 2).await.len(), 2);
    assert_eq!(settle(&*store, &leases, 200).await, [Settled::Replayed; 2]);
    assert_next_is_a_new_delivery(&*store, &mut listener).await;
}
