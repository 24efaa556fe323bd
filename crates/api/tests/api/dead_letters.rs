//! Listing the dead-letter queue page by page.

use serde_json::{Value, json};

use crate::test_api::{DLQ, EVENTS, OVERVIEW, TestApi, claim_all, event, http_status, settle};

crate::on_every_store! {
    s2_fr003_ac1_the_dlq_over_http_lists_the_latest_change_first,
    s2_fr003_ac2_the_dlq_over_http_has_a_limit_of_1_to_200_and_defaults_to_50,
    s2_fr003_ac3_the_dlq_over_http_has_all_operator_fields,
    s2_nfr003_operator_responses_never_contain_a_payload,
    a_page_continues_after_the_previous_one_despite_changes_in_between,
    dead_letters_are_listed_by_kind_and_cancelled_ones_are_counted_apart,
    dead_letters_are_found_by_the_conditions_of_a_bulk_operation,
}

async fn dead_letter_many(api: &TestApi, count: usize) -> Vec<String> {
    let response = api.post(EVENTS, json!(vec![event(); count]).to_string()).await.json(202);
    for lease in claim_all(&api.store).await {
        settle(&api.store, &lease, http_status(410)).await;
    }
    ids(&response)
}

fn ids(page: &Value) -> Vec<String> {
    page["events"].as_array().unwrap().iter().map(|event| text(&event["event_id"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn s2_fr003_ac1_the_dlq_over_http_lists_the_latest_change_first(api: TestApi) {
    let event_ids = dead_letter_many(&api, 5).await;
    api.pending_event(&event()).await;
    let page = api.get(DLQ).await.json(200);
    let listed = page["events"].as_array().unwrap();
    assert_eq!(listed.len(), event_ids.len(), "only failed events are listed");
    // Events with the same updated_at are sorted by id, and ids were assigned in the order of the request.
    let order: Vec<(String, usize)> = listed
        .iter()
        .map(|event| {
            let number = event_ids.iter().position(|id| event["event_id"] == **id).unwrap();
            (text(&event["updated_at"]), number)
        })
        .collect();
    assert!(order.is_sorted_by(|earlier, later| earlier > later), "{order:?}");
}

async fn s2_fr003_ac2_the_dlq_over_http_has_a_limit_of_1_to_200_and_defaults_to_50(api: TestApi) {
    dead_letter_many(&api, 201).await;
    for (query, expected) in
        [("", 50), ("?limit=1", 1), ("?limit=50", 50), ("?limit=200", 200), ("?limit=007", 7)]
    {
        let page = api.get(&format!("{DLQ}{query}")).await.json(200);
        assert_eq!(ids(&page).len(), expected, "{query}");
        assert!(page["next_cursor"].is_string(), "{query}: there is another page");
    }
    for limit in
        ["0", "201", "-1", "1.5", "", "abc", "%2B5", "+5", "1e2", "99999999999999999999", "%20", "5%00"]
    {
        let (message, details) =
            api.get(&format!("{DLQ}?limit={limit}")).await.expect_error(400, "invalid_request");
        assert!(message.contains("limit must be a number from 1 to 200"), "{limit}: {message}");
        assert_eq!(details, json!({ "parameter": "limit" }), "{limit}");
    }
}

async fn s2_fr003_ac3_the_dlq_over_http_has_all_operator_fields(api: TestApi) {
    let mut full = event();
    for reference in ["payment_request_id", "webhook_id", "session_id"] {
        full[reference] = json!(format!("{reference}-17"));
    }
    full["max_attempts"] = json!(3);
    let event_id = api.dead_lettered_event(&full).await;
    let page = api.get(DLQ).await.json(200);
    let letter = &page["events"][0];
    let mut fields: Vec<&str> = letter.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut expected = [
        "event_id",
        "event_type",
        "payment_request_id",
        "webhook_id",
        "session_id",
        "stored_by",
        "replay_of",
        "destination_id",
        "destination_url",
        "attempts",
        "max_attempts",
        "last_error",
        "failure_kind",
        "updated_at",
        "created_at",
    ];
    expected.sort_unstable();
    assert_eq!(fields, expected);
    let expected = [
        ("event_id", json!(event_id)),
        ("event_type", json!("invoice.paid")),
        ("payment_request_id", json!("payment_request_id-17")),
        ("webhook_id", json!("webhook_id-17")),
        ("session_id", json!("session_id-17")),
        ("destination_url", json!("https://receiver.example/hook")),
        ("attempts", json!(1)),
        ("max_attempts", json!(3)),
        ("last_error", json!("HTTP 410")),
        ("failure_kind", json!("gone")),
    ];
    for (field, value) in expected {
        assert_eq!(letter[field], value, "{field}");
    }
    for field in ["updated_at", "created_at"] {
        let shown = letter[field].as_str().unwrap();
        assert!(shown.len() == 27 && shown.ends_with('Z'), "{field}: {shown}");
    }
    assert_eq!(page["next_cursor"], Value::Null);
}

async fn s2_nfr003_operator_responses_never_contain_a_payload(api: TestApi) {
    let mut secret = event();
    secret["payload"] = json!({ "card": "4111-secret" });
    let event_id = api.dead_lettered_event(&secret).await;
    let responses = [
        api.get(DLQ).await,
        api.get(EVENTS).await,
        api.get(&format!("{EVENTS}/{event_id}")).await,
        api.post_empty(&format!("{DLQ}/{event_id}/requeue")).await,
        api.post_empty(&format!("{EVENTS}/{event_id}/cancel")).await,
    ];
    for response in responses {
        assert_eq!(response.status.as_u16(), 200);
        assert!(!response.text().contains("4111"), "{}", response.text());
        assert!(!response.text().contains("\"payload\""), "{}", response.text());
    }
}

async fn a_page_continues_after_the_previous_one_despite_changes_in_between(api: TestApi) {
    dead_letter_many(&api, 7).await;
    let all = ids(&api.get(DLQ).await.json(200));
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("{DLQ}?limit=3{cursor}")).await.json(200);
        paged.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert!(next.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{next}");
        cursor = format!("&cursor={next}");
        // A newer dead letter sorts before the first page, so it must not appear on later pages.
        if paged.len() == 3 {
            api.dead_lettered_event(&event()).await;
        }
    }
    assert_eq!(paged, all);
    assert_eq!(ids(&api.get(DLQ).await.json(200)).len(), 8);
}

#[tokio::test]
async fn a_full_page_without_successor_has_no_cursor() {
    let api = TestApi::on_memory().await;
    dead_letter_many(&api, 3).await;
    assert_eq!(api.get(&format!("{DLQ}?limit=3")).await.json(200)["next_cursor"], Value::Null);
}

#[tokio::test]
async fn an_empty_queue_is_an_empty_page() {
    let api = TestApi::on_memory().await;
    assert_eq!(
        api.get(DLQ).await.json(200),
        json!({ "events": [], "next_cursor": null, "searched_until": null })
    );
}

#[tokio::test]
async fn an_invalid_cursor_is_rejected() {
    let api = TestApi::on_memory().await;
    dead_letter_many(&api, 2).await;
    let valid = text(&api.get(&format!("{DLQ}?limit=1")).await.json(200)["next_cursor"]);
    let of_events = text(&api.get(&format!("{EVENTS}?limit=1")).await.json(200)["next_cursor"]);
    let padded = format!("{valid}%3D");
    let bad = [
        "",
        "abc",
        "!!!",
        "null",
        "AAAA",
        &valid[1..],
        &padded,
        of_events.as_str(),
        "ZP__________AAAAAAAAAAAB",
        "%FF",
    ];
    for cursor in bad {
        let (message, details) =
            api.get(&format!("{DLQ}?cursor={cursor}")).await.expect_error(400, "invalid_request");
        assert!(message.contains("not a cursor of this listing"), "{cursor}: {message}");
        assert_eq!(details, json!({ "parameter": "cursor" }));
    }
    assert_eq!(ids(&api.get(&format!("{DLQ}?cursor={valid}")).await.json(200)).len(), 1);
}

async fn dead_letters_are_listed_by_kind_and_cancelled_ones_are_counted_apart(api: TestApi) {
    let gone = api.dead_lettered_event(&event()).await;
    let cancelled = api.pending_event(&event()).await;
    api.post_empty(&format!("{EVENTS}/{cancelled}/cancel")).await.json(200);
    let overview = api.get(OVERVIEW).await.json(200);
    assert_eq!((&overview["failed_count"], &overview["cancelled_count"]), (&json!(2), &json!(1)));
    for (filter, expected) in [
        ("not_cancelled", vec![&gone]),
        ("cancelled", vec![&cancelled]),
        ("gone", vec![&gone]),
        ("exhausted", vec![]),
    ] {
        let page = api.get(&format!("{DLQ}?failure_kind={filter}")).await.json(200);
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), expected, "{filter}");
    }
    assert_eq!(ids(&api.get(DLQ).await.json(200)).len(), 2, "without a filter, all are listed");
    let (message, details) =
        api.get(&format!("{DLQ}?failure_kind=tired")).await.expect_error(400, "invalid_request");
    assert!(message.contains("exhausted, cancelled") && message.contains("not_cancelled"), "{message}");
    assert_eq!(details, json!({ "parameter": "failure_kind" }));
}

async fn dead_letters_are_found_by_the_conditions_of_a_bulk_operation(api: TestApi) {
    let failed = dead_letter_many(&api, 3).await;
    api.post_empty(&format!("{EVENTS}/{}/cancel", failed[0])).await.json(200);
    for (filter, count) in [
        (json!({}), 2),
        (json!({"failure_kind": "not_cancelled"}), 2),
        (json!({"failure_kind": "cancelled"}), 1),
        (json!({"error_class": "http_410"}), 2),
        (json!({"event_type": "other"}), 0),
        (json!({"destination": event()["destination_url"]}), 2),
        (json!({"until": "2000-01-01T00:00:00Z"}), 0),
    ] {
        let request = json!({"action": "requeue", "filter": filter, "dry_run": true});
        let counted = api.post("/v1/webhook-outbox/bulk", request.to_string()).await.json(200);
        assert_eq!(counted["matched_count"], count, "{filter}");
        let mut query = String::from("limit=200");
        for (name, value) in filter.as_object().unwrap() {
            query += &format!("&{name}={}", value.as_str().unwrap());
        }
        if filter["failure_kind"].is_null() {
            query += "&failure_kind=not_cancelled";
        }
        let page = api.get(&format!("{DLQ}?{query}")).await.json(200);
        assert_eq!(ids(&page).len(), count, "{query}");
    }
}
