//! The OpenAPI document: complete, consistent, and the same as the one that was reviewed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use axum::body::Body;
use http::Method;
use posthaste_domain::{DeliveryStatus, FailureKind};
use posthaste_store::ManualAction;
use serde_json::Value;

use crate::stage::{Stage, call, header, operations};

fn document() -> Value {
    serde_json::from_str(&posthaste_api::openapi_json()).unwrap()
}

/// A change of the contract is seen in review: `openapi.json` beside the tests is what was agreed.
#[test]
fn the_document_is_the_one_that_was_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let now = posthaste_api::openapi_json() + "\n";
    if std::env::var_os("POSTHASTE_UPDATE_OPENAPI").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let reviewed = fs::read_to_string(&path).unwrap_or_default();
    let differs = now.lines().zip(reviewed.lines()).position(|(now, reviewed)| now != reviewed);
    assert!(
        now == reviewed,
        "the OpenAPI document has changed, from line {}; if it should, run \
         `POSTHASTE_UPDATE_OPENAPI=1 cargo test -p posthaste-api the_document_is_the_one` and commit crates/api/openapi.json",
        differs.map_or(1, |line| line + 1)
    );
}

#[tokio::test]
async fn s2_fr006_ac1_the_document_has_overview_dlq_requeue_and_cancel() {
    let served = Stage::on_memory().await.get("/openapi.json").await.json(200);
    assert_eq!(served, document());
    assert_eq!(served["openapi"], "3.1.0");
    for (method, path) in [
        ("get", "/v1/webhook-outbox/overview"),
        ("get", "/v1/webhook-outbox/dlq"),
        ("post", "/v1/webhook-outbox/dlq/{event_id}/requeue"),
        ("post", "/v1/webhook-outbox/events/{event_id}/cancel"),
    ] {
        let operation = &served["paths"][path][method];
        assert!(operation["summary"].is_string() && operation["description"].is_string(), "{path}");
        assert!(operation["responses"]["200"]["content"]["application/json"]["schema"].is_object(), "{path}");
    }
}

#[test]
fn every_route_of_the_contract_is_documented() {
    let ids: BTreeSet<&str> = operations().iter().map(|operation| operation.id.as_str()).collect();
    let expected = [
        "enqueueEvents",
        "listEvents",
        "getEvent",
        "cancelEvent",
        "getOverview",
        "listDeadLetters",
        "requeueDeadLetter",
        "followNotices",
        "getMetrics",
        "getHealth",
        "getReadiness",
        "getOpenApi",
    ];
    assert_eq!(ids, expected.into());
}

#[test]
fn every_error_is_documented_with_its_code_and_an_example() {
    for operation in operations() {
        for (status, response) in operation.responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let place = format!("{} {status}", operation.id);
            assert!(!response["description"].as_str().unwrap().is_empty(), "{place}");
            if operation.id == "getReadiness" && status == "503" {
                continue;
            }
            let content = &response["content"]["application/json"];
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Error", "{place}");
            let codes = operation.codes(status);
            assert!(!codes.is_empty(), "{place}");
            for code in codes {
                assert!(response["description"].as_str().unwrap().contains(&format!("`{code}`")), "{place}");
            }
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found.insert(reference.clone());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn words_are_those_of_the_domain() {
    let document = document();
    let words = |name: &str| -> Vec<String> {
        let schema = &document["components"]["schemas"][name]["enum"];
        schema.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    assert!(words("DeliveryStatus").iter().all(|word| DeliveryStatus::from_word(word).is_some()));
    assert!(words("FailureKind").iter().all(|word| FailureKind::from_word(word).is_some()));
    assert!(words("ManualAction").iter().all(|word| ManualAction::from_word(word).is_some()));
}

#[test]
fn a_delivery_is_documented_for_receivers() {
    let delivery = &document()["webhooks"]["delivery"]["post"];
    let headers: Vec<&str> = delivery["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|header| header["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        headers,
        [
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
            "idempotency-key",
            "posthaste-event-type",
            "posthaste-attempt",
            "traceparent"
        ]
    );
    assert!(delivery["description"].as_str().unwrap().contains("HMAC-SHA256"));
}

#[test]
fn keys_are_a_bearer_scheme_that_everything_but_health_and_the_document_asks_for() {
    let document = document();
    assert_eq!(document["components"]["securitySchemes"]["apiKey"]["scheme"], "bearer");
    assert_eq!(document["security"], serde_json::json!([{ "apiKey": [] }]));
}

#[test]
fn every_code_is_a_word_of_the_document() {
    let document = document();
    assert_eq!(
        document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["$ref"],
        "#/components/schemas/ErrorCode"
    );
    let words = document["components"]["schemas"]["ErrorCode"]["enum"].as_array().unwrap();
    for operation in operations() {
        for status in operation.responses.keys().filter(|status| status.as_str() >= "400") {
            for code in operation.codes(status) {
                assert!(words.iter().any(|word| *word == code), "{} {status} {code}", operation.id);
            }
        }
    }
}

#[test]
fn the_reasons_of_an_error_are_those_of_its_operation() {
    let told = |id: &str, status: &str| {
        let operation = operations().iter().find(|operation| operation.id == id).unwrap();
        operation.responses[status].to_string()
    };
    for reason in ["as many streams as this process serves", "shutting down", "the store is unavailable"] {
        assert!(told("followNotices", "503").contains(reason), "{reason}");
    }
    assert!(told("enqueueEvents", "503").contains("too many large requests at once"));
    assert!(told("enqueueEvents", "413").contains("payload is 300000 bytes"));
    assert!(told("enqueueEvents", "413").contains("larger than 16777216 bytes"));
    for action in ["requeueDeadLetter", "cancelEvent"] {
        let (large, malformed) = (told(action, "413"), told(action, "400"));
        assert!(large.contains("larger than 16384 bytes") && !large.contains("payload is"), "{large}");
        assert!(malformed.contains("unknown field") && !malformed.contains("max_attempts"), "{malformed}");
    }
}

#[tokio::test]
async fn both_formats_of_the_metrics_are_documented() {
    let stage = Stage::on_memory().await;
    let documented = &document()["paths"]["/metrics"]["get"]["responses"]["200"]["content"];
    for accepted in ["text/plain", "application/openmetrics-text"] {
        let headers = [header("accept", accepted)];
        let answer = stage.send(call(Method::GET, "/metrics", &headers, Body::empty())).await;
        let sent = answer.header("content-type").unwrap().split(';').next().unwrap();
        assert_eq!(sent, accepted);
        assert!(documented[sent]["schema"].is_object(), "{sent}");
    }
}
