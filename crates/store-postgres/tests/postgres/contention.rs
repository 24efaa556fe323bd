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
async fn a_caller_that_holds_many_holds_up_only_those_who_need_them() {
    const HELD: usize = 3;
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let url = |number: usize| format!("https://new-{number}.example/");
    let caller = client(&harness.database.url).await;
    caller.batch_execute("BEGIN").await.unwrap();
    for number in 0..HELD {
        let sql = format!("SELECT app.enqueue_webhook('{}', 'x', '1')", url(number));
        caller.batch_execute(&sql).await.unwrap();
    }
    let batch: Vec<_> = (0..40).map(|number| request(vec![spec_to(&url(number % 10))])).collect();
    let answers = soon("they do not wait one after the other", store.enqueue(&batch)).await.unwrap();
    for (number, answer) in answers.iter().enumerate() {
        let held = Some(url(number % 10)).filter(|_| number % 10 < HELD);
        match held {
            Some(_) => assert_eq!(*answer, Err(StoreError::Contended { held })),
            None => assert!(answer.is_ok(), "{answer:?}"),
        }
    }
    caller.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn who_waits_for_something_else_waits_longer_and_for_all_together() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let somebody = client(&harness.database.url).await;
    somebody.batch_execute("BEGIN; LOCK TABLE app.webhook_events").await.unwrap();
    let waiting = tokio::spawn({
        let store = harness.store();
        let batch: Vec<_> = (0..100).map(|_| request(vec![spec()])).collect();
        async move { store.enqueue(&batch).await }
    });
    let watch = client(&harness.database.url).await;
    until(SOON, "the batch waits", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        watch.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= 1
    })
    .await;
    somebody.batch_execute("ROLLBACK").await.unwrap();
    let answers = soon("the lock is gone", waiting).await.unwrap().unwrap();
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
