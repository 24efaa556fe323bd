//! Producers beside a caller's open transaction that has stored for a new destination, or under an event id.

use posthaste_store::StoreError;
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::support::PostgresHarness;

const NEW_URL: &str = "https://new.example/hook";

#[tokio::test]
async fn a_caller_that_holds_a_new_destination_holds_up_those_who_need_it_and_nobody_else() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let caller = client(&harness.database.url).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{NEW_URL}', 'x', '1')");
    caller.batch_execute(&sql).await.unwrap();

    let batch = [
        request(vec![spec_to(NEW_URL)]),
        request(vec![spec()]),
        request(vec![spec_to("https://another.example/")]),
        request(vec![named("beside-it")]),
    ];
    let answers = soon("a batch does not wait for one of its requests", store.enqueue(&batch)).await.unwrap();
    let held = Some(NEW_URL.to_owned());
    assert_eq!(answers[0], Err(StoreError::Contended { held }), "which destination it is can be told");
    assert!(answers[1..].iter().all(Result::is_ok), "{answers:?}");

    caller.batch_execute("COMMIT").await.unwrap();
    let answers = store.enqueue(&batch[..1]).await.unwrap();
    assert!(answers[0].is_ok(), "{answers:?}");
    assert_eq!(store.overview().await.unwrap().pending, 6, "what was put off was not stored then");
}

#[tokio::test]
async fn a_caller_that_holds_an_event_id_holds_up_those_who_want_it_and_nobody_else() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let caller = client(&harness.database.url).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => 'wanted')");
    caller.batch_execute(&sql).await.unwrap();

    let batch = [request(vec![named("wanted")]), request(vec![spec()])];
    let answers = soon("a batch does not wait for one of its requests", store.enqueue(&batch)).await.unwrap();
    assert_eq!(answers[0], Err(StoreError::Contended { held: Some("wanted".into()) }));
    assert!(answers[1].is_ok(), "{answers:?}");

    caller.batch_execute("COMMIT").await.unwrap();
    let answers = store.enqueue(&batch[..1]).await.unwrap();
    assert!(matches!(answers[0], Err(StoreError::EventIdTaken { .. })), "{answers:?}");
}

#[tokio::test]
async fn when_everything_waits_the_batch_is_put_off_after_a_moment() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let somebody = client(&harness.database.url).await;
    somebody.batch_execute("BEGIN; LOCK TABLE app.webhook_events").await.unwrap();
    let batch: Vec<_> = (0..100).map(|_| request(vec![spec()])).collect();
    let answers = soon("they do not wait one after the other", store.enqueue(&batch)).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Contended { .. }))), "{answers:?}");
    somebody.batch_execute("ROLLBACK").await.unwrap();
    let answers = store.enqueue(&batch).await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn requests_that_name_the_same_events_in_another_order_do_not_wait_in_a_circle() {
    const EVENTS: usize = 300;
    let harness = PostgresHarness::start().await;
    enqueue_all(&*harness.store(), vec![spec()]).await;
    for round in 0..5 {
        let forwards: Vec<_> = (0..EVENTS).map(|number| named(&format!("{round}-{number}"))).collect();
        let backwards: Vec<_> = forwards.iter().rev().cloned().collect();
        let stored = [forwards, backwards].map(|specs| {
            let store = harness.store();
            async move { store.enqueue(&[request(specs)]).await.unwrap().remove(0) }
        });
        let answers = soon("both are answered", futures_util::future::join_all(stored)).await;
        let (ok, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!((ok.len(), refused.len()), (1, 1), "{refused:?}");
        assert!(matches!(refused[0], Err(StoreError::EventIdTaken { .. })), "{refused:?}");
    }
}
