//! What each operation may answer instead. The examples are the errors themselves, so the document cannot say otherwise.

use std::collections::BTreeMap;

use posthaste_domain::{DeliveryStatus, EventId};
use posthaste_store::StoreError;
use serde_json::{Value, json};
use utoipa::ToSchema as _;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, Header, Ref, ResponseBuilder};

use crate::access::Role;
use crate::error::{ApiError, Envelope};
use crate::{actions, body, enqueue, stream};

/// An error with when it comes.
type Failure = (&'static str, ApiError);

pub(super) fn describe(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let public = operation.security.is_some();
    let mut by_status: BTreeMap<u16, Vec<Failure>> = BTreeMap::new();
    for failure in own(&id).into_iter().chain(common(&id, public)) {
        by_status.entry(failure.1.status().as_u16()).or_default().push(failure);
    }
    for (status, failures) in by_status {
        let told: Vec<String> =
            failures.iter().map(|(when, error)| format!("`{}`: {when}", error.code().as_str())).collect();
        let examples = (1..).zip(&failures).map(|(number, (when, error))| {
            let value = serde_json::to_value(error.envelope()).ok();
            let name = format!("{}-{number}", error.code().as_str());
            (name, ExampleBuilder::new().summary(*when).value(value).build())
        });
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name(Envelope::name())))
            .examples_from_iter(examples)
            .build();
        let mut response =
            ResponseBuilder::new().description(told.join("; ")).content("application/json", content);
        if let Some((name, value)) = failures.iter().find_map(|(_, error)| error.header()) {
            let example: Option<Value> = value.to_str().ok().map(Into::into);
            let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).examples(example);
            response = response.header(name.as_str(), Header::new(text));
        }
        operation.responses.responses.insert(status.to_string(), response.build().into());
    }
}

fn example() -> EventId {
    EventId::stored("order-17-created".to_owned())
}

fn malformed() -> Failure {
    let message = "the body is not what is expected: max_attempts: invalid type: string \"3\", expected a whole number from \
                   1 to 1000 at line 1 column 61";
    let details = json!({ "field": "max_attempts", "line": 1, "column": 61 });
    ("the body or a parameter breaks a rule", ApiError::invalid_at(message, details))
}

/// Of an action, which knows these fields.
fn malformed_action(known: &str) -> Failure {
    let message =
        format!("the body is not what is expected: unknown field `cause`, {known} at line 1 column 8");
    let details = json!({ "field": "cause", "line": 1, "column": 8 });
    ("the body or a parameter breaks a rule", ApiError::invalid_at(message, details))
}

fn bad_parameter() -> Failure {
    let message = "limit must be a number from 1 to 200, got \"201\"";
    (
        "a parameter is unknown or breaks a rule",
        ApiError::invalid_at(message, json!({ "parameter": "limit" })),
    )
}

fn unknown_parameter() -> Failure {
    let message = "unknown parameter \"limit\"; known here: none";
    ("a parameter is unknown", ApiError::invalid_at(message, json!({ "parameter": "limit" })))
}

fn not_found() -> Failure {
    ("no event has this id", StoreError::EventNotFound { event_id: example() }.into())
}

fn too_large() -> Failure {
    let message = "event 3: payload is 300000 bytes; at most 262144 are accepted".to_owned();
    let details = Some(json!({ "index": 3, "field": "payload" }));
    ("a payload is too large", ApiError::TooLarge { message, details })
}

fn body_too_large(bytes_max: usize) -> Failure {
    ("the body is too large", body::too_large(bytes_max))
}

/// What one operation alone refuses.
fn own(operation: &str) -> Vec<Failure> {
    match operation {
        "enqueueEvents" => vec![
            malformed(),
            (
                "the body did not arrive within a minute, or a large one paused for 5 seconds",
                ApiError::BodyTooSlow,
            ),
            (
                "the key was used with another body",
                StoreError::IdempotencyConflict { key: "order-17".to_owned() }.into(),
            ),
            (
                "another event has this event_id",
                ApiError::EventIdTaken { event_id: example(), index: Some(3) },
            ),
            too_large(),
            body_too_large(enqueue::BODY_BYTES_MAX),
            ("too many large requests at once", ApiError::Busy(body::TOO_MANY_LARGE)),
            (
                "another transaction holds what this one needs; nothing was stored",
                StoreError::Contended { held: None }.into(),
            ),
        ],
        "listDeadLetters" | "listEvents" => vec![bad_parameter()],
        "getOverview" => vec![unknown_parameter()],
        "getEvent" => vec![unknown_parameter(), not_found()],
        "followNotices" => {
            let message = "Last-Event-ID is not an id of this stream; leave it out to follow from now on";
            let invalid = ApiError::invalid_at(message, json!({ "header": "last-event-id" }));
            vec![
                ("Last-Event-ID is not an id of this stream", invalid),
                ("as many streams are open as are served", ApiError::Busy(stream::STREAMS_FULL)),
                ("the process is shutting down", ApiError::Busy(stream::SHUTTING_DOWN)),
            ]
        }
        "requeueDeadLetter" => {
            let refusal =
                StoreError::NotRequeueable { event_id: example(), status: DeliveryStatus::Delivered };
            vec![
                malformed_action("there are no fields"),
                too_slow(),
                not_found(),
                ("it is not failed", refusal.into()),
                body_too_large(actions::BODY_BYTES_MAX),
            ]
        }
        "cancelEvent" => {
            let refusal =
                StoreError::NotCancellable { event_id: example(), status: DeliveryStatus::Delivered };
            vec![
                malformed_action("expected `reason`"),
                too_slow(),
                not_found(),
                ("it is delivered", refusal.into()),
                body_too_large(actions::BODY_BYTES_MAX),
            ]
        }
        _ => vec![],
    }
}

fn too_slow() -> Failure {
    ("the body did not arrive within a minute", ApiError::BodyTooSlow)
}

/// What many refuse.
fn common(operation: &str, public: bool) -> Vec<Failure> {
    let not_local = "without API keys only requests to a loopback address are answered, and \"hooks.example\" is none; \
                     use http://127.0.0.1:8600, or set API keys";
    let mut common = vec![(
        "there are no keys, and the request is not this machine's",
        ApiError::NotLocal(not_local.to_owned()),
    )];
    if !public {
        let wrong = ApiError::RoleForbidden {
            name: "dashboard".to_owned(),
            role: Role::Viewer,
            needed: &[Role::Operator],
        };
        common.push(("no key was sent", ApiError::KeyMissing));
        common.push(("the key is not known", ApiError::KeyUnknown));
        common.push(("the key's role may not do this", wrong));
    }
    if !public || operation == "getReadiness" {
        common.push(("something broke here", ApiError::Panicked));
    }
    if !public && operation != "getMetrics" {
        let away = StoreError::Unavailable { reason: String::new() };
        common.push(("the store is away; repeat the request in a moment", away.into()));
    }
    common
}
