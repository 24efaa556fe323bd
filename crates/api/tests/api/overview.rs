//! The event counts of the overview.

use serde_json::{Value, json};

use crate::test_api::{EVENTS, OVERVIEW, TestApi, TestOptions, event};

crate::on_every_store! {
    s2_fr001_ac1_overview_over_http_counts_every_state,
    s2_fr001_ac2_oldest_pending_age_over_http_is_null_when_nothing_is_pending,
    s2_fr001_ac3_overview_over_http_reflects_every_change_immediately,
}

fn counts(overview: &Value) -> [u64; 5] {
    ["pending_count", "pending_ready_count", "retrying_count", "failed_count", "delivered_count"]
        .map(|name| overview[name].as_u64().unwrap())
}

async fn s2_fr001_ac1_overview_over_http_counts_every_state(api: TestApi) {
    api.delivered_event(&event()).await;
    api.dead_lettered_event(&event()).await;
    api.retrying_event(&event()).await;
    api.pending_event(&event()).await;
    api.pending_event(&event()).await;
    let overview = api.get(OVERVIEW).await.json(200);
    assert_eq!(counts(&overview), [3, 2, 1, 1, 1]);
    let mut fields: Vec<&String> = overview.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "cancelled_count",
            "delivered_count",
            "failed_count",
            "held_count",
            "held_count_capped",
            "oldest_held_age_seconds",
            "oldest_pending_age_seconds",
            "pending_count",
            "pending_ready_count",
            "retrying_count"
        ]
    );
}

async fn s2_fr001_ac2_oldest_pending_age_over_http_is_null_when_nothing_is_pending(api: TestApi) {
    assert_eq!(api.get(OVERVIEW).await.json(200)["oldest_pending_age_seconds"], Value::Null);
    api.delivered_event(&event()).await;
    api.dead_lettered_event(&event()).await;
    assert_eq!(api.get(OVERVIEW).await.json(200)["oldest_pending_age_seconds"], Value::Null);
    api.pending_event(&event()).await;
    let age = api.get(OVERVIEW).await.json(200)["oldest_pending_age_seconds"].as_u64();
    assert!(age.is_some_and(|age| age < 60), "{age:?}");
}

async fn s2_fr001_ac3_overview_over_http_reflects_every_change_immediately(api: TestApi) {
    assert_eq!(counts(&api.get(OVERVIEW).await.json(200)), [0; 5]);
    let many: Vec<Value> = vec![event(); 3];
    api.post(EVENTS, json!(many).to_string()).await.json(202);
    assert_eq!(counts(&api.get(OVERVIEW).await.json(200)), [3, 3, 0, 0, 0]);
    let event_id = api.pending_event(&event()).await;
    assert_eq!(counts(&api.get(OVERVIEW).await.json(200)), [4, 4, 0, 0, 0]);
    api.post_empty(&format!("{EVENTS}/{event_id}/cancel")).await.json(200);
    assert_eq!(counts(&api.get(OVERVIEW).await.json(200)), [3, 3, 0, 1, 0]);
    api.post_empty(&format!("/v1/webhook-outbox/dlq/{event_id}/requeue")).await.json(200);
    assert_eq!(counts(&api.get(OVERVIEW).await.json(200)), [4, 4, 0, 0, 0]);
}

#[tokio::test]
async fn the_age_is_in_whole_seconds() {
    let (store, clock) = crate::test_api::memory_at(1_700_000_000);
    let api = TestApi::on_store(std::sync::Arc::new(store), std::sync::Arc::new(()));
    api.pending_event(&event()).await;
    clock.advance(std::time::Duration::from_millis(90_999));
    assert_eq!(api.get(OVERVIEW).await.json(200)["oldest_pending_age_seconds"], 90);
}

#[tokio::test]
async fn configuration_warnings_are_part_of_the_overview() {
    let warnings = vec!["allow_fast_retries is on".to_owned()];
    let api = TestApi::on_memory().await.with_options(TestOptions { warnings, ..TestOptions::default() });
    assert_eq!(api.get(OVERVIEW).await.json(200)["warnings"], json!(["allow_fast_retries is on"]));
}
