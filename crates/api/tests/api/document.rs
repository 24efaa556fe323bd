//! The OpenAPI document is complete, consistent, and equal to the committed one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use axum::body::Body;
use http::Method;
use posthaste_domain::{DeliveryStatus, FailureKind};
use posthaste_store::ManualAction;
use serde_json::{Value, json};

use crate::test_api::{TestApi, build_request, documented_operations, header};

fn document() -> Value {
    serde_json::from_str(&posthaste_api::openapi_json()).unwrap()
}

/// Every change of the API shows in review as a change of the committed `openapi.json`.
#[test]
fn openapi_json_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let generated = posthaste_api::openapi_json() + "\n";
    if std::env::var_os("POSTHASTE_UPDATE_OPENAPI").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let first_difference =
        generated.lines().zip(committed.lines()).position(|(generated, committed)| generated != committed);
    assert!(
        generated == committed,
        "the OpenAPI document has changed from line {}; if this is intended, run \
         `POSTHASTE_UPDATE_OPENAPI=1 cargo test -p posthaste-api openapi_json_is_up_to_date` and commit crates/api/openapi.json",
        first_difference.map_or(1, |line| line + 1)
    );
}

#[tokio::test]
async fn s2_fr006_ac1_the_document_has_overview_dlq_requeue_and_cancel() {
    let served = TestApi::on_memory().await.get("/openapi.json").await.json(200);
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
fn optional_fields_of_request_bodies_may_be_omitted() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let bodies = ["Cancel", "Discard", "Pause", "NewEvent", "NewBulkOperation"];
    let referenced: BTreeSet<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|path| {
            path["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str()
        })
        .map(|reference| reference.rsplit('/').next().unwrap())
        .collect();
    // A request enqueues one `NewEvent` or several.
    assert_eq!(referenced, bodies.map(|name| if name == "NewEvent" { "NewEvents" } else { name }).into());
    for name in bodies {
        for (field, schema) in schemas[name]["properties"].as_object().unwrap() {
            let or_null = |kinds: &Value, null: Value| kinds.as_array().is_some_and(|it| it.contains(&null));
            let is_optional = or_null(&schema["type"], "null".into())
                || or_null(&schema["oneOf"], json!({ "type": "null" }));
            let required = schemas[name]["required"].as_array();
            let is_required =
                required.is_some_and(|required| required.iter().any(|required| required == field.as_str()));
            assert_ne!(is_optional, is_required, "{name}.{field}");
        }
    }
}

#[test]
fn every_route_of_the_contract_is_documented() {
    let ids: BTreeSet<&str> = documented_operations().iter().map(|operation| operation.id.as_str()).collect();
    let expected = [
        "enqueueEvents",
        "listEvents",
        "getEvent",
        "getEventContent",
        "replayEvent",
        "cancelEvent",
        "getOverview",
        "getHistory",
        "listWorkers",
        "listDeadLetters",
        "requeueDeadLetter",
        "discardDeadLetter",
        "startBulkOperation",
        "listBulkOperations",
        "getBulkOperation",
        "stopBulkOperation",
        "listDestinations",
        "getDestination",
        "pauseDestination",
        "resumeDestination",
        "probeDestination",
        "getTrouble",
        "listOperations",
        "stopOperation",
        "followNotices",
        "getCaller",
        "getDiagnosis",
        "getMetrics",
        "getHealth",
        "getReadiness",
        "getOpenApi",
    ];
    assert_eq!(ids, expected.into());
}

#[test]
fn every_error_is_documented_with_its_code_and_an_example() {
    for operation in documented_operations() {
        for (status, response) in operation.responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let context = format!("{} {status}", operation.id);
            assert!(!response["description"].as_str().unwrap().is_empty(), "{context}");
            if operation.id == "getReadiness" && status == "503" {
                continue;
            }
            let content = &response["content"]["application/json"];
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Error", "{context}");
            let codes = operation.codes(status);
            assert!(!codes.is_empty(), "{context}");
            for code in codes {
                assert!(
                    response["description"].as_str().unwrap().contains(&format!("`{code}`")),
                    "{context}"
                );
            }
        }
    }
}

#[test]
fn every_reference_has_a_target() {
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
fn documented_enums_contain_only_names_of_the_domain() {
    let document = document();
    let names = |name: &str| -> Vec<String> {
        let schema = &document["components"]["schemas"][name]["enum"];
        schema.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    assert!(names("DeliveryStatus").iter().all(|name| DeliveryStatus::from_name(name).is_some()));
    assert!(names("FailureKind").iter().all(|name| FailureKind::from_name(name).is_some()));
    assert!(names("ManualAction").iter().all(|name| ManualAction::from_name(name).is_some()));
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
fn api_keys_are_documented_as_a_bearer_scheme() {
    let document = document();
    assert_eq!(document["components"]["securitySchemes"]["apiKey"]["scheme"], "bearer");
    assert_eq!(document["security"], serde_json::json!([{ "apiKey": [] }]));
}

#[test]
fn every_documented_error_code_is_in_the_schema() {
    let document = document();
    assert_eq!(
        document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["$ref"],
        "#/components/schemas/ErrorCode"
    );
    let codes = document["components"]["schemas"]["ErrorCode"]["enum"].as_array().unwrap();
    for operation in documented_operations() {
        for status in operation.responses.keys().filter(|status| status.as_str() >= "400") {
            for code in operation.codes(status) {
                assert!(codes.iter().any(|known| *known == code), "{} {status} {code}", operation.id);
            }
        }
    }
}

#[test]
fn each_operation_documents_its_own_errors() {
    let documented = |id: &str, status: &str| {
        let operation = documented_operations().iter().find(|operation| operation.id == id).unwrap();
        operation.responses[status].to_string()
    };
    for reason in ["maximum number of streams", "shutting down", "the store is unavailable"] {
        assert!(documented("followNotices", "503").contains(reason), "{reason}");
    }
    assert!(documented("enqueueEvents", "503").contains("too many large requests at once"));
    assert!(documented("enqueueEvents", "413").contains("payload is 300000 bytes"));
    assert!(documented("enqueueEvents", "413").contains("larger than 16777216 bytes"));
    for action in ["requeueDeadLetter", "discardDeadLetter", "cancelEvent"] {
        let (large, invalid) = (documented(action, "413"), documented(action, "400"));
        assert!(large.contains("larger than 16384 bytes") && !large.contains("payload is"), "{large}");
        assert!(invalid.contains("unknown field") && !invalid.contains("max_attempts"), "{invalid}");
    }
}

#[tokio::test]
async fn both_formats_of_the_metrics_are_documented() {
    let api = TestApi::on_memory().await;
    let documented = &document()["paths"]["/metrics"]["get"]["responses"]["200"]["content"];
    for accepted in ["text/plain", "application/openmetrics-text"] {
        let headers = [header("accept", accepted)];
        let response = api.send(build_request(Method::GET, "/metrics", &headers, Body::empty())).await;
        let sent = response.header("content-type").unwrap().split(';').next().unwrap();
        assert_eq!(sent, accepted);
        assert!(documented[sent]["schema"].is_object(), "{sent}");
    }
}
