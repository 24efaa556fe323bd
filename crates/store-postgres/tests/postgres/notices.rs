//! The broadcast of notices on the topic, received by a client that listens.

use posthaste_domain::{EndpointSpec, NOTICE_TOPIC, NewEventSpec};
use posthaste_store::{NoticeCursor, SettleResult, Store};
use posthaste_store_conformance::Harness as _;
use serde_json::{Value, json};

use crate::fixture::*;
use crate::registry_fixture::{add_app, add_endpoint, publish};
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

/// The next `count` notices, or a few more: whole notifications are read.
async fn next_notices(listener: &mut Listener, count: usize) -> Vec<Value> {
    let mut notices = Vec::new();
    while notices.len() < count {
        notices.extend(next(listener).await);
    }
    notices
}

fn delivery_id(notice: &Value) -> &str {
    notice["webhook_delivery_id"].as_str().expect("every notice names its delivery")
}

/// Proves that nothing else was broadcast: the next notice is about an event delivered now.
async fn assert_next_is_a_new_delivery(store: &dyn Store, listener: &mut Listener) {
    let event_id = enqueue_and_attempt(store, spec(), 200).await;
    let notices = next(listener).await;
    assert_eq!(notices.iter().map(delivery_id).collect::<Vec<_>>(), [event_id.as_str()]);
    assert_eq!(listener.received(), [""; 0]);
}

#[tokio::test]
async fn a_notice_on_the_topic_has_the_agreed_fields() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut listener = Listener::on(&harness.database.url, NOTICE_TOPIC).await;
    let spec = NewEventSpec {
        payment_request_id: Some("pr-1".to_owned()),
        webhook_id: Some("wh-2".to_owned()),
        session_id: Some("se-\"3\"\\".to_owned()),
        ..spec_with_id("dead")
    };
    enqueue_and_attempt(&*store, spec, 410).await;
    let mut notice = next(&mut listener).await.remove(0);
    let at = notice["at"].take();
    assert!(at.as_str().is_some_and(|at| at.len() == 27 && at.ends_with('Z') && &at[10..11] == "T"), "{at}");
    let expected = json!({
        "topic": "gateway:webhooks", "type": "WebhookDLQEvent", "webhook_delivery_id": "dead", "webhook_id": "wh-2",
        "session_id": "se-\"3\"\\", "payment_request_id": "pr-1", "attempts": 1, "failure_kind": "gone",
        "at": null,
    });
    assert_eq!(notice, expected);

    enqueue_and_attempt(&*store, spec_with_id("fine"), 200).await;
    let notice = next(&mut listener).await.remove(0);
    assert_eq!((notice["type"].as_str(), delivery_id(&notice)), (Some("WebhookDeliveredEvent"), "fine"));
    assert_eq!(notice.get("failure_kind"), Some(&Value::Null));
    assert_eq!((&notice["webhook_id"], &notice["session_id"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_notice_of_a_disabled_endpoint_names_it_with_its_application_and_the_reason() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut listener = Listener::on(&harness.database.url, NOTICE_TOPIC).await;
    add_app(&*store).await;
    let endpoint = add_endpoint(&*store, 1, EndpointSpec::default()).await;
    publish(&*store).await.unwrap();
    let leases = claim(&*store).await;
    settle(&*store, &leases, 410).await;
    let mut notices = next_notices(&mut listener, 2).await;
    let (mut disabled, dead) = (notices.remove(1), notices.remove(0));
    let has_fields = ["endpoint_id", "app_id", "reason"].map(|field| dead.get(field).is_some());
    assert_eq!((dead["type"].as_str(), has_fields), (Some("WebhookDLQEvent"), [false; 3]));
    disabled["at"].take();
    let expected = json!({
        "topic": "gateway:webhooks", "type": "WebhookEndpointDisabledEvent",
        "webhook_delivery_id": leases[0].event_id.as_str(), "webhook_id": endpoint.id.to_string(), "session_id": null,
        "payment_request_id": null, "attempts": 1, "failure_kind": null, "at": null,
        "endpoint_id": endpoint.id.to_string(), "app_id": endpoint.app.to_string(), "reason": "gone",
    });
    assert_eq!(disabled, expected);
}

#[tokio::test]
async fn notices_of_a_large_settle_are_broadcast_once_and_in_log_order() {
    let harness = PostgresHarness::start().await;
    let (store, second) = (harness.store(), harness.second_handle());
    let mut listener = Listener::on(&harness.database.url, NOTICE_TOPIC).await;
    let start = store.notices(None, 1).await.unwrap().cursor;
    let long = |n: usize| Some(format!("{n:0>256}"));
    let specs =
        |n| NewEventSpec { session_id: long(n), webhook_id: long(n), payment_request_id: long(n), ..spec() };
    enqueue_all(&*store, (0..500).map(specs).collect()).await;
    let leases = claim(&*store).await;
    assert_eq!(settle(&*store, &leases, 200).await, [SettleResult::Applied; 500]);
    // Both stores publish at the same time; neither broadcasts a notice of the other again.
    let (one, two) = tokio::join!(store.notices(Some(start), 1), second.notices(Some(start), 1));
    assert_eq!(one.unwrap().notices, two.unwrap().notices);

    let broadcast = next_notices(&mut listener, 500).await;
    let log = log_after(&*store, start).await;
    assert_eq!(broadcast.iter().map(delivery_id).collect::<Vec<_>>(), log);
    assert_next_is_a_new_delivery(&*store, &mut listener).await;
}

/// The event ids of the notices after a cursor, in log order.
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
async fn an_open_transaction_of_another_client_delays_no_notice() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_and_attempt(&*store, spec(), 200).await;
    let start = store.notices(None, 1).await.unwrap().cursor;
    let mut listener = Listener::on(&harness.database.url, NOTICE_TOPIC).await;
    let long = client(&harness.database.url).await;
    long.batch_execute(&format!("BEGIN; SELECT app.enqueue_webhook('{URL}', 'x', '1')")).await.unwrap();
    let event_id = enqueue_and_attempt(&*store, spec(), 200).await;
    assert_eq!(delivery_id(&next(&mut listener).await[0]), event_id.as_str());
    assert_eq!(log_after(&*store, start).await, [event_id.as_str()]);
    long.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn stale_rolled_back_and_replayed_settlements_broadcast_nothing() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut listener = Listener::on(&harness.database.url, NOTICE_TOPIC).await;
    // Stale: another worker took the lease over. Its own outcome is a retry, which causes no notice.
    enqueue(&*store, spec()).await;
    let lost = claim_one(&*store).await;
    harness.advance(2 * LEASE).await;
    let taken = claim_one(&*store).await;
    assert_eq!(settle(&*store, &[lost], 200).await, [SettleResult::Stale]);
    assert_eq!(settle(&*store, &[taken], 500).await, [SettleResult::Applied]);
    // Rolled back: one settlement of the batch cannot be written, so none is.
    let client = client(&harness.database.url).await;
    client
        .batch_execute("ALTER TABLE app.webhook_failures ADD CONSTRAINT no CHECK (failure_kind IS NULL)")
        .await
        .unwrap();
    enqueue_all(&*store, vec![spec(), spec()]).await;
    let leases = claim(&*store).await;
    let batch = [settlement(&leases[0], 200), settlement(&leases[1], 410)];
    assert!(store.settle(&worker("worker-a"), &batch).await.is_err());
    client.batch_execute("ALTER TABLE app.webhook_failures DROP CONSTRAINT no").await.unwrap();
    // Replayed: the notices were broadcast with the first settle.
    assert_next_is_a_new_delivery(&*store, &mut listener).await;
    assert_eq!(settle(&*store, &leases, 200).await, [SettleResult::Applied; 2]);
    assert_eq!(next_notices(&mut listener, 2).await.len(), 2);
    assert_eq!(settle(&*store, &leases, 200).await, [SettleResult::Replayed; 2]);
    assert_next_is_a_new_delivery(&*store, &mut listener).await;
}
