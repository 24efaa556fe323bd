//! The dead-letter queue as operators page through it.

use serde_json::{Value, json};

use crate::stage::{DLQ, EVENTS, Event, Stage, claim_all, event, settle, status};

crate::on_every_store! {
    s2_fr003_ac1_the_dlq_over_http_lists_the_latest_change_first,
    s2_fr003_ac2_the_dlq_over_http_takes_a_limit_of_1_to_200_and_50_by_itself,
    s2_fr003_ac3_the_dlq_over_http_has_what_an_operator_needs,
    s2_nfr003_operators_are_never_shown_a_payload,
    a_page_goes_on_where_the_one_before_ended_whatever_happens_between,
}

async fn dead_letter_many(stage: &Stage, count: usize) -> Vec<Event> {
    let answer = stage.post(EVENTS, json!(vec![event(); count]).to_string()).await.json(202);
    for lease in claim_all(&stage.store).await {
        settle(&stage.store, &lease, status(410)).await;
    }
    ids(&answer)
}

fn ids(page: &Value) -> Vec<Event> {
    page["events"].as_array().unwrap().iter().map(|event| text(&event["event_id"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn s2_fr003_ac1_the_dlq_over_http_lists_the_latest_change_first(stage: Stage) {
    let made = dead_letter_many(&stage, 5).await;
    stage.pending(&event()).await;
    let page = stage.get(DLQ).await.json(200);
    let listed = page["events"].as_array().unwrap();
    assert_eq!(listed.len(), made.len(), "failed events, and no others");
    // Whatever was changed at one moment comes by its number, and numbers were given in the order of the request.
    let order: Vec<(String, usize)> = listed
        .iter()
        .map(|event| {
            let number = made.iter().position(|id| event["event_id"] == **id).unwrap();
            (text(&event["updated_at"]), number)
        })
        .collect();
    assert!(order.is_sorted_by(|earlier, later| earlier > later), "{order:?}");
}

async fn s2_fr003_ac2_the_dlq_over_http_takes_a_limit_of_1_to_200_and_50_by_itself(stage: Stage) {
    dead_letter_many(&stage, 201).await;
    for (query, expected) in
        [("", 50), ("?limit=1", 1), ("?limit=50", 50), ("?limit=200", 200), ("?limit=007", 7)]
    {
        let page = stage.get(&format!("{DLQ}{query}")).await.json(200);
        assert_eq!(ids(&page).len(), expected, "{query}");
        assert!(page["next_cursor"].is_string(), "{query}: there are more");
    }
    for limit in
        ["0", "201", "-1", "1.5", "", "abc", "%2B5", "+5", "1e2", "99999999999999999999", "%20", "5%00"]
    {
        let (message, details) =
            stage.get(&format!("{DLQ}?limit={limit}")).await.refused(400, "invalid_request");
        assert!(message.contains("limit must be a number from 1 to 200"), "{limit}: {message}");
        assert_eq!(details, json!({ "parameter": "limit" }), "{limit}");
    }
}

async fn s2_fr003_ac3_the_dlq_over_http_has_what_an_operator_needs(stage: Stage) {
    let mut full = event();
    for reference in ["payment_request_id", "webhook_id", "session_id"] {
        full[reference] = json!(format!("{reference}-17"));
    }
    full["max_attempts"] = json!(3);
    let event_id = stage.dead_lettered(&full).await;
    let page = stage.get(DLQ).await.json(200);
    let letter = &page["events"][0];
    let mut fields: Vec<&str> = letter.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut expected = [
        "event_id",
        "event_type",
        "payment_request_id",
        "webhook_id",
        "session_id",
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
    for moment in ["updated_at", "created_at"] {
        let shown = letter[moment].as_str().unwrap();
        assert!(shown.len() == 27 && shown.ends_with('Z'), "{moment}: {shown}");
    }
    assert_eq!(page["next_cursor"], Value::Null);
}

async fn s2_nfr003_operators_are_never_shown_a_payload(stage: Stage) {
    let mut secret = event();
    secret["payload"] = json!({ "card": "4111-secret" });
    let event_id = stage.dead_lettered(&secret).await;
    let answers = [
        stage.get(DLQ).await,
        stage.get(EVENTS).await,
        stage.get(&format!("{EVENTS}/{event_id}")).await,
        stage.act(&format!("{DLQ}/{event_id}/requeue")).await,
        stage.act(&format!("{EVENTS}/{event_id}/cancel")).await,
    ];
    for answer in answers {
        assert_eq!(answer.status.as_u16(), 200);
        assert!(!answer.text().contains("4111"), "{}", answer.text());
        assert!(!answer.text().contains("\"payload\""), "{}", answer.text());
    }
}

async fn a_page_goes_on_where_the_one_before_ended_whatever_happens_between(stage: Stage) {
    dead_letter_many(&stage, 7).await;
    let whole = ids(&stage.get(DLQ).await.json(200));
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = stage.get(&format!("{DLQ}?limit=3{cursor}")).await.json(200);
        paged.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert!(next.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{next}");
        cursor = format!("&cursor={next}");
        // A newer letter comes before the first page, and so on none of the others.
        if paged.len() == 3 {
            stage.dead_lettered(&event()).await;
        }
    }
    assert_eq!(paged, whole);
    assert_eq!(ids(&stage.get(DLQ).await.json(200)).len(), 8);
}

#[tokio::test]
async fn a_page_that_is_exactly_full_is_the_last() {
    let stage = Stage::on_memory().await;
    dead_letter_many(&stage, 3).await;
    assert_eq!(stage.get(&format!("{DLQ}?limit=3")).await.json(200)["next_cursor"], Value::Null);
}

#[tokio::test]
async fn an_empty_queue_is_an_empty_page() {
    let stage = Stage::on_memory().await;
    assert_eq!(stage.get(DLQ).await.json(200), json!({ "events": [], "next_cursor": null }));
}

#[tokio::test]
async fn a_cursor_that_was_made_up_is_refused() {
    let stage = Stage::on_memory().await;
    dead_letter_many(&stage, 2).await;
    let own = text(&stage.get(&format!("{DLQ}?limit=1")).await.json(200)["next_cursor"]);
    let of_events = text(&stage.get(&format!("{EVENTS}?limit=1")).await.json(200)["next_cursor"]);
    let padded = format!("{own}%3D");
    let bad = [
        "",
        "abc",
        "!!!",
        "null",
        "AAAA",
        &own[1..],
        &padded,
        of_events.as_str(),
        "ZP__________AAAAAAAAAAAB",
        "%FF",
    ];
    for cursor in bad {
        let (message, details) =
            stage.get(&format!("{DLQ}?cursor={cursor}")).await.refused(400, "invalid_request");
        assert!(message.contains("not a cursor of this listing"), "{cursor}: {message}");
        assert_eq!(details, json!({ "parameter": "cursor" }));
    }
    assert_eq!(ids(&stage.get(&format!("{DLQ}?cursor={own}")).await.json(200)).len(), 1);
}
