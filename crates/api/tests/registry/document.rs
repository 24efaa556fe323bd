//! The OpenAPI document of the registry is complete, consistent, and equal to the committed one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fixture::TestRegistry;

fn document() -> Value {
    serde_json::from_str(&posthaste_api::registry_openapi_json()).unwrap()
}

/// Every change of the API shows in review as a change of the committed `openapi-registry.json`.
#[test]
fn openapi_registry_json_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi-registry.json");
    let generated = posthaste_api::registry_openapi_json() + "\n";
    if std::env::var_os("POSTHASTE_UPDATE_OPENAPI").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let first_difference =
        generated.lines().zip(committed.lines()).position(|(generated, committed)| generated != committed);
    assert!(
        generated == committed,
        "the OpenAPI document has changed from line {}; if this is intended, run \
         `POSTHASTE_UPDATE_OPENAPI=1 cargo test -p posthaste-api openapi_registry_json_is_up_to_date` and commit \
         crates/api/openapi-registry.json",
        first_difference.map_or(1, |line| line + 1)
    );
}

#[tokio::test]
async fn the_document_is_served_to_everyone() {
    let served = TestRegistry::new().with_bearer("").get("/openapi.json").await.json(200);
    assert_eq!(served, document());
    assert_eq!(served["openapi"], "3.1.0");
}

#[test]
fn every_route_of_the_contract_is_documented() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let routes: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let app = "/api/v1/app/{app_id}";
    let endpoint = format!("{app}/endpoint/{{endpoint_id}}");
    let message = format!("{app}/msg/{{msg_id}}");
    let expected: BTreeSet<String> = [
        ("/api/v1/app".to_owned(), "GET POST"),
        (app.to_owned(), "GET PUT PATCH DELETE"),
        (format!("{app}/endpoint"), "GET POST"),
        (endpoint.clone(), "GET PUT PATCH DELETE"),
        (format!("{endpoint}/secret"), "GET"),
        (format!("{endpoint}/secret/rotate"), "POST"),
        (format!("{endpoint}/headers"), "GET PUT PATCH"),
        (format!("{endpoint}/recover"), "POST"),
        (format!("{endpoint}/replay-missing"), "POST"),
        (format!("{endpoint}/send-example"), "POST"),
        (format!("{endpoint}/stats"), "GET"),
        (format!("{endpoint}/msg"), "GET"),
        (format!("{app}/msg"), "GET POST"),
        (message.clone(), "GET"),
        (format!("{message}/content"), "DELETE"),
        (format!("{message}/endpoint"), "GET"),
        (format!("{message}/attempt/{{attempt_id}}"), "GET"),
        (format!("{message}/endpoint/{{endpoint_id}}/resend"), "POST"),
        (format!("{app}/attempt/msg/{{msg_id}}"), "GET"),
        (format!("{app}/attempt/endpoint/{{endpoint_id}}"), "GET"),
        ("/api/v1/background-task/{task_id}".to_owned(), "GET"),
        ("/api/v1/event-type".to_owned(), "GET POST"),
        ("/api/v1/event-type/{event_type_name}".to_owned(), "GET PUT PATCH DELETE"),
        ("/api/v1/auth/app-portal-access/{app_id}".to_owned(), "POST"),
        ("/api/v1/health".to_owned(), "GET"),
        ("/api/v1/health/ping".to_owned(), "GET"),
        ("/api/v1/openapi.json".to_owned(), "GET"),
    ]
    .iter()
    .flat_map(|(path, methods)| methods.split(' ').map(move |method| format!("{method} {path}")))
    .collect();
    assert_eq!(routes, expected);
}

#[test]
fn every_operation_has_a_summary_an_id_of_its_own_and_its_errors() {
    let document = document();
    let mut ids = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is used twice");
            assert!(operation["summary"].is_string(), "{id}");
            let responses = operation["responses"].as_object().unwrap();
            let is_public = operation.get("security").is_some();
            for status in ["400", "401", "404", "422", "500", "503"] {
                assert!(is_public || responses.contains_key(status), "{id} {status}");
            }
            assert!(responses.contains_key("403"), "{id}");
            if operation.get("requestBody").is_some() {
                assert!(responses.contains_key("413") && responses.contains_key("409"), "{id}");
            }
        }
    }
}

#[test]
fn every_reference_has_a_target_and_every_schema_a_use() {
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
    for reference in &found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(found.contains(&format!("#/components/schemas/{name}")), "{name} is not used");
    }
}

#[test]
fn a_response_has_every_field_and_a_request_may_omit_optional_ones() {
    let document = document();
    let required = |name: &str| -> Vec<String> {
        let schema = &document["components"]["schemas"][name];
        let names = schema["required"].as_array().into_iter().flatten();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(required("ApplicationIn"), ["name"]);
    assert_eq!(required("EndpointIn"), ["url"]);
    assert_eq!(required("MessageIn"), ["eventType", "payload"]);
    assert_eq!(required("EventTypeIn"), ["name", "description"]);
    assert_eq!(required("PeriodIn"), ["since"]);
    assert!(required("EndpointPatch").is_empty() && required("EndpointSecretRotateIn").is_empty());
    for name in ["statusText", "responseDurationMs", "responseStatusCode", "triggerType"] {
        assert!(required("AttemptOut").contains(&name.to_owned()), "{name}");
    }
    assert!(!required("AttemptOut").contains(&"msg".to_owned()));
    for name in ["version", "filterTypes", "rateLimit", "eventTypes", "throttleRate"] {
        assert!(required("EndpointOut").contains(&name.to_owned()), "{name}");
    }
}
