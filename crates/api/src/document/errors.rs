//! The documented error responses of each operation. The examples are real [`ApiError`]s, so they match what the API sends.

use std::collections::BTreeMap;

use posthaste_domain::{DeliveryStatus, EventId, Timestamp};
use posthaste_store::{AuditView, ManualAction, StoreError};
use serde_json::{Value, json};
use utoipa::ToSchema as _;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, Header, Ref, ResponseBuilder};

use crate::access::Role;
use crate::error::{ApiError, ErrorEnvelope};
use crate::{actions, body, enqueue, stream};

/// An error with the condition under which it occurs.
type ErrorExample = (&'static str, ApiError);

/// Adds a response to the operation for each status of its errors, with an example for each error.
pub(super) fn add_error_responses(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let is_public = operation.security.is_some();
    let mut by_status: BTreeMap<u16, Vec<ErrorExample>> = BTreeMap::new();
    for example in operation_errors(&id).into_iter().chain(common_errors(&id, is_public)) {
        by_status.entry(example.1.status().as_u16()).or_default().push(example);
    }
    for (status, errors) in by_status {
        let descriptions: Vec<String> =
            errors.iter().map(|(when, error)| format!("`{}`: {when}", error.code().as_str())).collect();
        let examples = (1..).zip(&errors).map(|(number, (when, error))| {
            let value = serde_json::to_value(error.envelope()).ok();
            let name = format!("{}-{number}", error.code().as_str());
            (name, ExampleBuilder::new().summary(*when).value(value).build())
        });
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name(ErrorEnvelope::name())))
            .examples_from_iter(examples)
            .build();
        let mut response =
            ResponseBuilder::new().description(descriptions.join("; ")).content("application/json", content);
        if let Some((name, value)) = errors.iter().find_map(|(_, error)| error.header()) {
            let example: Option<Value> = value.to_str().ok().map(Into::into);
            let schema = ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).examples(example);
            response = response.header(name.as_str(), Header::new(schema));
        }
        operation.responses.responses.insert(status.to_string(), response.build().into());
    }
}

fn example_event_id() -> EventId {
    EventId::from_stored("order-17-created".to_owned())
}

fn invalid_enqueue_body() -> ErrorExample {
    let message = "the body is invalid: max_attempts: must be a whole number from 1 to 1000, got 1.5 at line 1 column 61";
    let details = json!({ "field": "max_attempts", "line": 1, "column": 61 });
    ("the body or a parameter is invalid", ApiError::invalid_at(message, details))
}

/// The example for an action's body. `known_fields` is the parser's phrase for the fields that exist.
fn invalid_action_body(known_fields: &str) -> ErrorExample {
    let message = format!("the body is invalid: unknown field `cause`, {known_fields} at line 1 column 8");
    let details = json!({ "field": "cause", "line": 1, "column": 8 });
    ("the body or a parameter is invalid", ApiError::invalid_at(message, details))
}

fn invalid_parameter() -> ErrorExample {
    let message = "limit must be a number from 1 to 200, got \"201\"";
    ("a parameter is unknown or invalid", ApiError::invalid_at(message, json!({ "parameter": "limit" })))
}

fn invalid_range() -> ErrorExample {
    let message = "range must be 15m, 1h, 6h, 24h, 7d or 30d, got \"2h\"";
    ("a parameter is unknown or invalid", ApiError::invalid_at(message, json!({ "parameter": "range" })))
}

fn unknown_parameter() -> ErrorExample {
    let message = "unknown parameter \"limit\"; allowed parameters: none";
    ("a parameter is unknown", ApiError::invalid_at(message, json!({ "parameter": "limit" })))
}

fn not_found() -> ErrorExample {
    ("there is no event with this id", StoreError::EventNotFound { event_id: example_event_id() }.into())
}

fn discarded() -> ErrorExample {
    let discard = AuditView {
        action: ManualAction::Discard,
        actor: "ops".to_owned(),
        at: Timestamp::from_secs(1_769_860_800),
        reason: Some("paid by other means".to_owned()),
    };
    let error = StoreError::EventDiscarded { event_id: example_event_id(), discard };
    ("an operator discarded the event", error.into())
}

fn destination_not_found() -> ErrorExample {
    ("there is no destination with this id", StoreError::DestinationNotFound { id: 17 }.into())
}

fn operation_not_found() -> ApiError {
    StoreError::OperationNotFound { operation: "qtask_0000000000000001".to_owned() }.into()
}

fn bulk_operation_not_found() -> ErrorExample {
    let missing = StoreError::OperationNotFound { operation: "bulk_0000000000000001".to_owned() };
    ("there is no operation with this id", missing.into())
}

fn action_key_conflict() -> ErrorExample {
    let conflict = StoreError::IdempotencyConflict { key: "repair-17".to_owned() };
    ("the key was used for another action or event", conflict.into())
}

fn payload_too_large() -> ErrorExample {
    let message = "event 3: payload is 300000 bytes; at most 262144 are accepted".to_owned();
    let details = Some(json!({ "index": 3, "field": "payload" }));
    ("a payload is too large", ApiError::TooLarge { message, details })
}

fn body_too_large(bytes_max: usize) -> ErrorExample {
    ("the body is too large", body::too_large(bytes_max))
}

fn body_too_slow() -> ErrorExample {
    ("the body did not arrive within a minute", ApiError::BodyTooSlow)
}

/// Returns the errors that are particular to one operation.
fn operation_errors(operation_id: &str) -> Vec<ErrorExample> {
    match operation_id {
        "enqueueEvents" => vec![
            invalid_enqueue_body(),
            (
                "the body did not arrive within a minute, or a large body paused for 5 seconds",
                ApiError::BodyTooSlow,
            ),
            (
                "the key was used with another body",
                StoreError::IdempotencyConflict { key: "order-17".to_owned() }.into(),
            ),
            (
                "another event has this event_id",
                ApiError::EventIdTaken { event_id: example_event_id(), index: Some(3) },
            ),
            payload_too_large(),
            body_too_large(enqueue::BODY_BYTES_MAX),
            ("too many large requests at once", ApiError::Busy(body::TOO_MANY_LARGE)),
        ],
        "listDeadLetters" | "listEvents" | "listDestinations" | "listOperations" | "listBulkOperations" => {
            vec![invalid_parameter()]
        }
        "startBulkOperation" => vec![
            invalid_action_body("expected one of `action`, `filter`, `rate_per_second`, `reason`, `dry_run`"),
            body_too_slow(),
            (
                "the key was used for another request",
                StoreError::IdempotencyConflict { key: "repair-17".to_owned() }.into(),
            ),
            body_too_large(actions::BODY_BYTES_MAX),
        ],
        "getBulkOperation" => vec![unknown_parameter(), bulk_operation_not_found()],
        "stopBulkOperation" => vec![
            invalid_action_body("there are no fields"),
            body_too_slow(),
            bulk_operation_not_found(),
            body_too_large(actions::BODY_BYTES_MAX),
        ],
        "getDestination" => vec![unknown_parameter(), destination_not_found()],
        "pauseDestination" => vec![
            invalid_action_body("expected `seconds` or `reason`"),
            body_too_slow(),
            destination_not_found(),
            body_too_large(actions::BODY_BYTES_MAX),
        ],
        "resumeDestination" | "probeDestination" => vec![
            invalid_action_body("there are no fields"),
            body_too_slow(),
            destination_not_found(),
            body_too_large(actions::BODY_BYTES_MAX),
        ],
        "stopOperation" => vec![
            invalid_action_body("there are no fields"),
            body_too_slow(),
            ("there is no operation with this id", operation_not_found()),
            body_too_large(actions::BODY_BYTES_MAX),
        ],
        "getHistory" => vec![invalid_range()],
        "getOverview" | "listWorkers" | "getCaller" | "getDiagnosis" => vec![unknown_parameter()],
        "getEvent" => vec![unknown_parameter(), not_found(), discarded()],
        "followNotices" => {
            let invalid =
                ApiError::invalid_at(stream::INVALID_LAST_EVENT_ID, json!({ "header": "last-event-id" }));
            vec![
                ("Last-Event-ID is not an id of this stream", invalid),
                ("the maximum number of streams is open", ApiError::Busy(stream::STREAMS_FULL)),
                ("the process is shutting down", ApiError::Busy(stream::SHUTTING_DOWN)),
            ]
        }
        "requeueDeadLetter" => {
            let conflict = StoreError::NotRequeueable {
                event_id: example_event_id(),
                status: DeliveryStatus::Delivered,
            };
            vec![
                invalid_action_body("there are no fields"),
                body_too_slow(),
                not_found(),
                ("the event is not failed", conflict.into()),
                action_key_conflict(),
                body_too_large(actions::BODY_BYTES_MAX),
            ]
        }
        "getEventContent" => {
            let removed = StoreError::ContentRemoved { event_id: example_event_id() };
            vec![
                unknown_parameter(),
                not_found(),
                discarded(),
                ("the payload was removed, by a caller or by retention", removed.into()),
            ]
        }
        "replayEvent" => {
            let event_id = example_event_id();
            let conflict =
                StoreError::NotReplayable { event_id: event_id.clone(), status: DeliveryStatus::Failed };
            let endpoint = || "ep_0000000000000011".to_owned();
            vec![
                invalid_action_body("there are no fields"),
                body_too_slow(),
                not_found(),
                discarded(),
                (
                    "the endpoint of the event was deleted",
                    StoreError::EndpointNotFound { endpoint: endpoint() }.into(),
                ),
                ("the event is not delivered", conflict.into()),
                (
                    "the endpoint of the event is disabled",
                    StoreError::EndpointDisabled { endpoint: endpoint() }.into(),
                ),
                action_key_conflict(),
                (
                    "the payload was removed, by a caller or by retention",
                    StoreError::ContentRemoved { event_id }.into(),
                ),
                body_too_large(actions::BODY_BYTES_MAX),
            ]
        }
        "discardDeadLetter" => {
            let conflict =
                StoreError::NotDiscardable { event_id: example_event_id(), status: DeliveryStatus::Pending };
            vec![
                invalid_action_body("expected `reason`"),
                body_too_slow(),
                not_found(),
                discarded(),
                ("the event is not failed", conflict.into()),
                action_key_conflict(),
                body_too_large(actions::BODY_BYTES_MAX),
            ]
        }
        "cancelEvent" => {
            let conflict = StoreError::NotCancellable {
                event_id: example_event_id(),
                status: DeliveryStatus::Delivered,
            };
            vec![
                invalid_action_body("expected `reason`"),
                body_too_slow(),
                not_found(),
                ("the event is delivered", conflict.into()),
                action_key_conflict(),
                body_too_large(actions::BODY_BYTES_MAX),
            ]
        }
        _ => vec![],
    }
}

/// Returns the errors that many operations share.
fn common_errors(operation_id: &str, is_public: bool) -> Vec<ErrorExample> {
    let not_local = "without API keys the server accepts only requests to a loopback address, and \"hooks.example\" is not \
                     one; use http://127.0.0.1:8600, or set API keys";
    let mut errors = vec![(
        "no API keys are configured, and the request does not come from the server's own machine",
        ApiError::NotLocal(not_local.to_owned()),
    )];
    if !is_public {
        let forbidden = ApiError::RoleForbidden {
            name: "dashboard".to_owned(),
            role: Role::Viewer,
            allowed: &[Role::Operator],
        };
        errors.push(("the request has no API key", ApiError::MissingKey));
        errors.push(("the API key is unknown", ApiError::UnknownKey));
        if operation_id != "getCaller" {
            errors.push(("the key's role may not do this", forbidden));
        }
    }
    // A store that does not respond is a finding of the diagnosis.
    let uses_store = !is_public && !matches!(operation_id, "getCaller" | "getDiagnosis");
    if uses_store || operation_id == "getReadiness" {
        errors.push(("the server failed; the cause is in its log", ApiError::Panicked));
    }
    if uses_store && operation_id != "getMetrics" {
        let unavailable = StoreError::Unavailable { reason: String::new() };
        errors.push(("the store is unavailable; repeat the request in a moment", unavailable.into()));
    }
    errors
}
