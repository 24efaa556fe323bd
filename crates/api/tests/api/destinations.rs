//! Destinations over HTTP: lists, one destination, pause and resume.

use posthaste_domain::{DestinationId, WorkerId};
use posthaste_store::{
    ActivityCounts, ActivityReport, CircuitReport, OpenCircuitReport, ReceiverActivity, Store as _,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use crate::test_api::{
    DLQ, EVENTS, OPERATOR, OVERVIEW, PRODUCER, TestApi, VIEWER, bearer, build_request, event, event_to,
    header, memory_at,
};

const DESTINATIONS: &str = "/v1/webhook-outbox/destinations";

crate::on_every_store! {
    a_new_destination_is_ok_and_has_every_field_of_the_contract,
    window_failures_and_latency_are_those_that_workers_reported,
    destinations_are_listed_in_pages_and_by_state,
    destinations_are_found_by_their_ids,
    destinations_in_trouble_are_counted_and_the_longest_backlog_comes_first,
    a_paused_destination_holds_events_until_it_is_resumed,
    a_requeue_of_a_held_event_says_so,
    an_unknown_or_invalid_destination_is_not_found,
}

/// Enqueues an event and returns its id and that of its destination.
async fn add_destination(api: &TestApi, url: &str) -> (String, String) {
    let event_id = api.pending_event(&event_to(url)).await;
    let listed = api.get(&format!("{DESTINATIONS}?limit=200")).await.json(200);
    let destinations = listed["destinations"].as_array().unwrap();
    let found = destinations.iter().find(|destination| destination["url"] == url).unwrap();
    (event_id, found["destination_id"].as_str().unwrap().to_owned())
}

fn path(id: &str) -> String {
    format!("{DESTINATIONS}/{id}")
}

fn fields(response: &Value) -> Vec<&str> {
    response.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn a_new_destination_is_ok_and_has_every_field_of_the_contract(api: TestApi) {
    let (_, id) = add_destination(&api, "https://here.example:8443/hook?token=t").await;
    let mut shown = api.get(&path(&id)).await.json(200);
    assert_eq!(shown["audit"], json!([]));
    shown.as_object_mut().unwrap().remove("audit");
    let listed = api.get(DESTINATIONS).await.json(200);
    assert_eq!(fields(&shown), fields(&listed["destinations"][0]));
    assert!(shown["oldest_pending_age_seconds"].as_u64().is_some_and(|age| age < 60), "{shown}");
    shown.as_object_mut().unwrap().remove("oldest_pending_age_seconds");
    let expected = json!({
        "destination_id": id,
        "url": "https://here.example:8443/hook?token=t",
        "host": "here.example:8443",
        "endpoint_id": null,
        "app_id": null,
        "disabled": null,
        "state": "ok",
        "since": null,
        "reason": null,
        "next_probe_at": null,
        "paused_until": null,
        "failing_since": null,
        "in_flight": 0,
        "window": null,
        "failure_ratio": null,
        "latency_ms": null,
        "pending_count": 1,
        "pending_count_capped": false,
        "last_error": null,
    });
    assert_eq!(shown, expected);
}

async fn window_failures_and_latency_are_those_that_workers_reported(api: TestApi) {
    let (_, id) = add_destination(&api, "https://a.example/").await;
    let (_, unused) = add_destination(&api, "https://b.example/").await;
    for process in ["one", "other"] {
        let receiver = |id: &str, requests, failures, millis| ReceiverActivity {
            destination: DestinationId(id.parse().unwrap()),
            window: 5,
            requests,
            failures,
            latency: Duration::from_millis(millis),
        };
        let report = ActivityReport {
            process: WorkerId::new(process).unwrap(),
            worker: WorkerId::new("w").unwrap(),
            version: "0.1.0".to_owned(),
            running_for: Duration::ZERO,
            in_flight: 0,
            sequence: 1,
            is_last: false,
            counts: ActivityCounts::default(),
            receivers: vec![receiver(&id, 40, 10, 250), receiver(&unused, 0, 0, 0)],
        };
        api.store.activity().report(&report).await.unwrap();
    }
    let shown = api.get(&path(&id)).await.json(200);
    let listed = api.get(DESTINATIONS).await.json(200);
    for destination in [&shown, &listed["destinations"][0]] {
        let known = ["window", "failure_ratio", "latency_ms"].map(|field| &destination[field]);
        assert_eq!(known, [&json!(10), &json!(0.25), &json!(250.0)]);
    }
    let unused = &listed["destinations"][1];
    assert_eq!(
        (&unused["window"], &unused["failure_ratio"], &unused["latency_ms"]),
        (&json!(10), &Value::Null, &Value::Null)
    );
}

async fn destinations_are_listed_in_pages_and_by_state(api: TestApi) {
    for name in ["a", "b", "c"] {
        add_destination(&api, &format!("https://{name}.example/")).await;
    }
    let (_, paused) = add_destination(&api, "https://d.example/").await;
    api.post_empty(&format!("{}/pause", path(&paused))).await.json(200);
    let mut listed = Vec::new();
    let mut next = format!("{DESTINATIONS}?limit=3");
    loop {
        let page = api.get(&next).await.json(200);
        listed.extend(page["destinations"].as_array().unwrap().clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("{DESTINATIONS}?limit=3&cursor={cursor}");
    }
    assert_eq!(listed.len(), 4);
    let of_state = async |state: &str| {
        let page = api.get(&format!("{DESTINATIONS}?state={state}")).await.json(200);
        assert_eq!(page["next_cursor"], Value::Null);
        page["destinations"].as_array().unwrap().len()
    };
    for (state, count) in [("ok", 3), ("failing", 0), ("circuit_open", 0), ("paused", 1), ("disabled", 0)] {
        assert_eq!(of_state(state).await, count, "{state}");
    }
    for invalid in ["state=sleeping", "limit=0", "limit=201", "cursor=x", "cursor=", "status=ok"] {
        api.get(&format!("{DESTINATIONS}?{invalid}")).await.expect_error(400, "invalid_request");
    }
}

async fn destinations_are_found_by_their_ids(api: TestApi) {
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(add_destination(&api, &format!("https://{name}.example/")).await.1);
    }
    let wanted = [&*ids[2], "999999", &*ids[0]];
    let page = api.get(&format!("{DESTINATIONS}?ids={}", wanted.join(","))).await.json(200);
    let found: Vec<_> = page["destinations"].as_array().unwrap().iter().map(|found| &found["url"]).collect();
    assert_eq!(found, ["https://c.example/", "https://a.example/"]);
    assert_eq!(page["next_cursor"], Value::Null);
    let many = vec!["1"; 201].join(",");
    for invalid in ["ids=", "ids=1,,2", "ids=x", &format!("ids={many}"), "ids=1&limit=3", "ids=1&state=ok"] {
        api.get(&format!("{DESTINATIONS}?{invalid}")).await.expect_error(400, "invalid_request");
    }
}

async fn destinations_in_trouble_are_counted_and_the_longest_backlog_comes_first(api: TestApi) {
    add_destination(&api, "https://fine.example/").await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let url = format!("https://paused-{number}.example/");
        ids.push(add_destination(&api, &url).await.1);
        for _ in 0..number {
            api.pending_event(&event_to(&url)).await;
        }
    }
    for id in &ids {
        api.post_empty(&format!("{}/pause", path(id))).await.json(200);
    }
    let trouble = api.get("/v1/webhook-outbox/trouble").await.json(200);
    let expected = [("circuit_open", 0), ("failing", 0), ("disabled", 0), ("paused", 3)];
    let expected = expected.map(|(state, count)| json!({"state": state, "count": count, "is_capped": false}));
    assert_eq!(trouble["counts"], json!(expected));
    let backlogs: Vec<_> = trouble["worst"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["pending_count"].as_u64().unwrap())
        .collect();
    assert_eq!(backlogs, [3, 2, 1]);
}

async fn a_paused_destination_holds_events_until_it_is_resumed(api: TestApi) {
    let (event_id, id) = add_destination(&api, "https://here.example/").await;
    let paused = api
        .post(&format!("{}/pause", path(&id)), json!({"seconds": 3600, "reason": "new disks"}).to_string())
        .await
        .json(200);
    assert_eq!(
        (&paused["state"], &paused["reason"]),
        (&json!("paused"), &json!("paused by local: new disks"))
    );
    assert!(paused["since"].is_string() && paused["paused_until"].is_string(), "{paused}");
    let overview = api.get(OVERVIEW).await.json(200);
    assert_eq!((&overview["held_count"], &overview["held_count_capped"]), (&json!(1), &json!(false)));
    assert!(overview["oldest_held_age_seconds"].is_u64());
    let explained = api.get(&format!("{EVENTS}/{event_id}")).await.json(200)["explanation"].clone();
    let explained = explained.as_str().unwrap();
    assert!(explained.contains(" Held because local paused the destination at "), "{explained}");
    assert!(explained.contains(" (new disks), until "), "{explained}");
    let resumed = api.post_empty(&format!("{}/resume", path(&id))).await.json(200);
    assert_eq!((&resumed["state"], &resumed["paused_until"]), (&json!("ok"), &Value::Null));
    assert_eq!(api.get(OVERVIEW).await.json(200)["held_count"], 0);
    let audit = api.get(&path(&id)).await.json(200)["audit"].clone();
    let actions: Vec<_> = audit.as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["pause", "resume"]);
    assert_eq!((&audit[0]["actor"], &audit[0]["reason"]), (&json!("local"), &json!("new disks")));
    assert!(audit[0]["paused_until"].is_string() && audit[1]["paused_until"].is_null(), "{audit}");
}

async fn a_requeue_of_a_held_event_says_so(api: TestApi) {
    let (event_id, id) = add_destination(&api, "https://here.example/").await;
    api.post_empty(&format!("{EVENTS}/{event_id}/cancel")).await.json(200);
    api.post_empty(&format!("{}/pause", path(&id))).await.json(200);
    let held = api.post_empty(&format!("{DLQ}/{event_id}/requeue")).await.json(200)["held"].clone();
    assert_eq!((&held["destination_id"], &held["state"]), (&json!(id), &json!("paused")));
    assert_eq!((&held["paused_until"], &held["next_probe_at"]), (&Value::Null, &Value::Null));
    assert_eq!(held["reason"], "paused by local");
    assert!(held["since"].is_string(), "{held}");
}

async fn an_unknown_or_invalid_destination_is_not_found(api: TestApi) {
    for id in ["404", "0", "-1", "+1", "x", "1.0", "99999999999999999999", "%FF"] {
        api.get(&path(id)).await.expect_error(404, "destination_not_found");
        api.post_empty(&format!("{}/pause", path(id))).await.expect_error(404, "destination_not_found");
        api.post_empty(&format!("{}/resume", path(id))).await.expect_error(404, "destination_not_found");
        api.post_empty(&format!("{}/probe", path(id))).await.expect_error(404, "destination_not_found");
    }
}

#[tokio::test]
async fn an_invalid_pause_is_refused_with_the_rule_it_breaks() {
    let api = TestApi::on_memory().await;
    let (_, id) = add_destination(&api, "https://here.example/").await;
    for (body, field) in [
        (json!({"seconds": 0}), "seconds"),
        (json!({"seconds": 31_622_401}), "seconds"),
        (json!({"seconds": "60"}), "seconds"),
        (json!({"reason": "x".repeat(501)}), "reason"),
        (json!({"until": "tomorrow"}), "until"),
    ] {
        let response = api.post(&format!("{}/pause", path(&id)), body.to_string()).await;
        let (message, details) = response.expect_error(400, "invalid_request");
        assert_eq!(details["field"], field, "{message}");
    }
    api.post(&format!("{}/resume", path(&id)), "{\"now\":true}").await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn an_open_circuit_is_shown_and_a_resume_closes_it() {
    let (store, _) = memory_at(1_700_000_000);
    let api = TestApi::on_store(Arc::new(store.clone()), Arc::new(()));
    let (_, id) = add_destination(&api, "https://here.example/").await;
    let destination = store.with_state(|state| *state.destinations.keys().next().unwrap());
    let open = OpenCircuitReport {
        open_for: Duration::from_secs(20),
        next_probe_in: Duration::from_secs(10),
        last_error: Some("HTTP 500".to_owned()),
        expires_in: Duration::from_secs(60),
    };
    let report = CircuitReport { worker: WorkerId::new("worker-a").unwrap(), destination, open: Some(open) };
    store.report_circuits(&[report]).await.unwrap();
    let listed = api.get(&format!("{DESTINATIONS}?state=circuit_open")).await.json(200);
    let shown = &listed["destinations"][0];
    assert_eq!((&shown["state"], &shown["last_error"]), (&json!("circuit_open"), &json!("HTTP 500")));
    assert_eq!(shown["since"], "2023-11-14T22:13:00.000000Z");
    assert_eq!(shown["next_probe_at"], "2023-11-14T22:13:30.000000Z");
    assert_eq!(api.get(OVERVIEW).await.json(200)["held_count"], 1);
    let probe = async || api.post_empty(&format!("{}/probe", path(&id))).await.json(200);
    let probed = json!({"destination_id": id, "state": "circuit_open", "probed": true, "reason": null});
    assert_eq!(probe().await, probed);
    assert_eq!(api.get(&path(&id)).await.json(200)["audit"][0]["action"], "probe");
    api.post(&format!("{}/pause", path(&id)), json!({"seconds": 60}).to_string()).await.json(200);
    let paused = probe().await;
    assert_eq!(
        (&paused["probed"], &paused["reason"]),
        (&json!(false), &json!("paused until 2023-11-14T22:14:20.000000Z"))
    );
    assert_eq!(api.post_empty(&format!("{}/resume", path(&id))).await.json(200)["state"], "ok");
    assert_eq!(probe().await["reason"], "no circuit is open");
}

#[tokio::test]
async fn a_pause_is_recorded_with_the_name_of_the_key_which_producers_do_not_see() {
    let api = TestApi::on_memory().await;
    let (_, id) = add_destination(&api, event()["destination_url"].as_str().unwrap()).await;
    let api = api.with_keys();
    let stored = api.post_with(EVENTS, &[bearer(PRODUCER)], event().to_string()).await.json(202);
    let event_id = stored["event_id"].as_str().unwrap();
    let body = json!({"reason": "secret plan"}).to_string();
    let headers = [bearer(OPERATOR), header("content-type", "application/json")];
    let pause = build_request(http::Method::POST, &format!("{}/pause", path(&id)), &headers, body.into());
    assert_eq!(api.send(pause).await.json(200)["reason"], "paused by ops: secret plan");
    let explanation = async |key| {
        let request = build_request(
            http::Method::GET,
            &format!("{EVENTS}/{event_id}"),
            &[bearer(key)],
            String::new().into(),
        );
        api.send(request).await.json(200)["explanation"].as_str().unwrap().to_owned()
    };
    assert!(explanation(VIEWER).await.contains("ops paused the destination"));
    let shown = explanation(PRODUCER).await;
    assert!(shown.contains("an operator paused the destination") && !shown.contains("secret"), "{shown}");
}
