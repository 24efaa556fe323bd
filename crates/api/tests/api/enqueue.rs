//! Events in.

use serde_json::{Value, json};

use crate::stage::{
    EVENTS, MAX_ATTEMPTS, OPERATOR, OVERVIEW, PRODUCER, Stage, VIEWER, bearer, claim_all, event, header,
};

crate::on_every_store! {
    an_event_is_accepted_and_pending,
    every_field_is_kept,
    a_thousand_events_are_answered_in_their_order,
    one_bad_event_refuses_the_whole_array,
    a_taken_event_id_is_a_conflict_of_its_own,
    a_traceparent_goes_with_the_event,
}

async fn an_event_is_accepted_and_pending(stage: Stage) {
    let answer = stage.enqueue(&event()).await.json(202);
    let mut fields: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["created_at", "delivery_status", "event_id"]);
    assert_eq!(answer["delivery_status"], "pending");
    let event_id = answer["event_id"].as_str().unwrap();
    assert!(event_id.len() == 36 && event_id.starts_with("msg_"), "{event_id}");
    let shown = stage.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    assert_eq!(shown["created_at"], answer["created_at"]);
    assert_eq!(shown["max_attempts"], MAX_ATTEMPTS);
    for absent in ["payment_request_id", "webhook_id", "session_id", "last_error"] {
        assert_eq!(shown[absent], Value::Null, "{absent}");
    }
}

async fn every_field_is_kept(stage: Stage) {
    let given = json!({
        "destination_url": "HTTPS://Receiver.Example:443/a/../hook?x=1", "event_type": "invoice paid",
        "payload": [1, null], "event_id": "order-17/created", "payment_request_id": "pr 17", "webhook_id": "wh-1",
        "session_id": "s-1", "max_attempts": 1000
    });
    let answer = stage.enqueue(&given).await.json(202);
    assert_eq!(answer["event_id"], "order-17/created");
    let shown = stage.get(&format!("{EVENTS}/order-17%2Fcreated")).await.json(200);
    for field in ["event_id", "event_type", "payment_request_id", "webhook_id", "session_id", "max_attempts"]
    {
        assert_eq!(shown[field], given[field], "{field}");
    }
    assert_eq!(shown["destination_url"], "https://receiver.example/hook?x=1", "in its normal form");
    let lease = claim_all(&stage.store).await.remove(0);
    assert_eq!(&lease.payload[..], b"[1,null]");
    assert_eq!(lease.content_type, "application/json");
}

async fn a_thousand_events_are_answered_in_their_order(stage: Stage) {
    let named = |number: usize| {
        let mut event = event();
        event["event_id"] = json!(format!("n-{number}"));
        event
    };
    let many: Vec<Value> = (0..1_000).map(named).collect();
    let answer = stage.post(EVENTS, json!(many).to_string()).await.json(202);
    let ids: Vec<&str> = answer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 1_000);
    assert!(ids.iter().enumerate().all(|(number, id)| *id == format!("n-{number}")));
    assert_eq!(answer.as_object().unwrap().len(), 1);
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 1_000);
}

async fn one_bad_event_refuses_the_whole_array(stage: Stage) {
    let mut bad = event();
    bad["max_attempts"] = json!(0);
    let (message, details) =
        stage.post(EVENTS, json!([event(), event(), bad]).to_string()).await.refused(400, "invalid_request");
    assert_eq!(message, "event 2: max_attempts must be 1 to 1000, got 0");
    assert_eq!(details, json!({ "index": 2, "field": "max_attempts" }));
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

async fn a_taken_event_id_is_a_conflict_of_its_own(stage: Stage) {
    let mut named = event();
    named["event_id"] = json!("order-17");
    stage.enqueue(&named).await.json(202);
    let (message, details) = stage.enqueue(&named).await.refused(409, "event_id_taken");
    assert!(message.contains("order-17"), "{message}");
    assert_eq!(details, json!({ "field": "event_id" }));
    let (_, details) =
        stage.post(EVENTS, json!([event(), named]).to_string()).await.refused(409, "event_id_taken");
    assert_eq!(details, json!({ "index": 1, "field": "event_id" }));
    let mut twice = event();
    twice["event_id"] = json!("order-18");
    let (_, details) =
        stage.post(EVENTS, json!([twice, event(), twice]).to_string()).await.refused(409, "event_id_taken");
    assert_eq!(details, json!({ "index": 2, "field": "event_id" }), "the second of the two");
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 1);
}

async fn a_traceparent_goes_with_the_event(stage: Stage) {
    let known = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    // A version to come is passed on in the version that is known here.
    let later = format!("{}-{}", known.replacen("00-", "cc-", 1), "x".repeat(500));
    let cases = [
        (known, Some(known)),
        (
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
            Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03"),
        ),
        ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some(known)),
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes", Some(known)),
        (later.as_str(), Some(known)),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None),
        ("00-4bf92f35-00f067aa0ba902b7-01", None),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None),
        ("not a traceparent", None),
        ("", None),
    ];
    for (sent, carried) in cases {
        stage.post_with(EVENTS, &[header("traceparent", sent)], event().to_string()).await.json(202);
        let lease = claim_all(&stage.store).await.remove(0);
        assert_eq!(lease.traceparent.as_deref(), carried, "{sent}");
    }
    let twice = [header("traceparent", known), header("traceparent", known)];
    stage.post_with(EVENTS, &twice, event().to_string()).await.json(202);
    assert_eq!(claim_all(&stage.store).await.remove(0).traceparent, None, "two are none");
    let many = json!([event(), event()]).to_string();
    stage.post_with(EVENTS, &[header("traceparent", known)], many).await.json(202);
    let leases = claim_all(&stage.store).await;
    assert!(leases.len() == 2 && leases.iter().all(|lease| lease.traceparent.as_deref() == Some(known)));
}

#[tokio::test]
async fn an_array_of_one_is_answered_as_an_array() {
    let stage = Stage::on_memory().await;
    let answer = stage.post(EVENTS, json!([event()]).to_string()).await.json(202);
    assert_eq!(answer["events"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_producer_reads_what_it_has_handed_in_and_not_who_acted_on_it() {
    let stage = Stage::on_memory().await.with_keys();
    let answer = stage.post_with(EVENTS, &[bearer(PRODUCER)], event().to_string()).await.json(202);
    let path = format!("{EVENTS}/{}", answer["event_id"].as_str().unwrap());
    assert_eq!(stage.get_as(PRODUCER, &path).await.json(200)["delivery_status"], "pending");
    let requeue = path.replace("events", "dlq") + "/requeue";
    let acts = [(path.clone() + "/cancel", "Cancelled"), (requeue, "Requeued")];
    for (number, (act, told)) in (1..).zip(acts) {
        stage.post_with(&act, &[bearer(OPERATOR)], "").await.json(200);
        let seen = stage.get_as(VIEWER, &path).await.json(200);
        assert_eq!(seen["audit"].as_array().unwrap().len(), number);
        assert!(seen["explanation"].as_str().unwrap().starts_with(&format!("{told} by ops at ")), "{seen}");
        let seen = stage.get_as(PRODUCER, &path).await;
        assert!(!seen.text().contains("ops"), "{}", seen.text());
        let seen = seen.json(200);
        assert!(seen["explanation"].is_string() && seen["history"].is_array(), "{seen}");
        assert!(seen.get("audit").is_none(), "{seen}");
    }
}
