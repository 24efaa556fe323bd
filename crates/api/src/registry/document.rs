//! The OpenAPI document of the registry, generated from its handlers.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, OpenApi, PathItem, Ref, RefOr, ResponseBuilder, Schema,
};
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;

use super::error::{ErrorBody, Problem, ValidationErrorBody};
use super::router::table;
use crate::document::BaseDocument;

const DESCRIPTION: &str = "\
The registry of Posthaste: applications with their endpoints, event types and messages. A message is published to an \
application and sent, signed with each endpoint's own secret, to every endpoint that subscribes to it. The Svix SDKs work with \
this API.

Resources are named by their id or by a uid of your own. Lists are paged with `iterator` and `prevIterator`. Unknown fields and \
parameters are ignored. Errors are `{\"code\",\"detail\"}`; a refused value is a 422 with `{\"detail\":[{\"loc\",\"msg\",\"type\"}]}`.

**Access.** Send `Authorization: Bearer` with an API key of the instance, or with a token: a JSON Web Token under the instance's \
secret, signed with HS256, whose `sub` is an organisation, or an application with its organisation in `org`.";

const TAGS: [(&str, &str); 7] = [
    ("Applications", "The tenants of a producer, each with its own endpoints and messages."),
    ("Endpoints", "Registered URLs, each with its own secret, headers and subscription."),
    ("Messages", "What producers publish, and which endpoints get it."),
    ("Attempts", "The requests that were made, and sending again."),
    ("Event types", "The registered kinds of messages."),
    ("Access", "Tokens for the users of applications."),
    ("Service", "Health, and this document."),
];

/// The name of the security scheme.
const BEARER: &str = "bearer";
/// Schemas of request bodies. Their optional fields may be omitted.
const REQUEST_SCHEMAS: [&str; 14] = [
    "ApplicationIn",
    "ApplicationPatch",
    "AppPortalAccessIn",
    "EndpointHeadersIn",
    "EndpointHeadersPatch",
    "EndpointIn",
    "EndpointPatch",
    "EndpointSecretRotateIn",
    "EventTypeIn",
    "EventTypePatch",
    "EventTypePut",
    "ExampleIn",
    "MessageIn",
    "PeriodIn",
];
/// The only field that a response may omit: the message of an attempt.
const OPTIONAL_FIELD: &str = "msg";

/// Returns the document of the registry.
pub(crate) fn openapi() -> OpenApi {
    let mut router = OpenApiRouter::with_openapi(base_document());
    for routes in table() {
        router = router.routes(routes);
    }
    let mut document = router.into_openapi();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        add_error_responses(operation);
    }
    for (name, schema) in document.components.iter_mut().flat_map(|components| &mut components.schemas) {
        if let Some(item) = name.strip_prefix("ListOf_") {
            refer_to_items(schema, item);
        }
        if !REQUEST_SCHEMAS.contains(&name.as_str()) {
            require_all_fields(schema);
        }
    }
    document
}

/// Returns the document as it is served: indented JSON.
pub(crate) fn openapi_json() -> String {
    openapi().to_pretty_json().expect("an OpenAPI document always serializes")
}

fn base_document() -> OpenApi {
    let errors = ComponentsBuilder::new()
        .schema(ErrorBody::name(), ErrorBody::schema())
        .schema(ValidationErrorBody::name(), ValidationErrorBody::schema())
        .schema(Problem::name(), Problem::schema());
    let base = BaseDocument {
        title: "Posthaste registry",
        description: DESCRIPTION,
        tags: &TAGS,
        security_scheme: BEARER,
        caller: "An API key of the instance, or a token. Not needed if no keys are configured.",
    };
    base.build(errors)
}

/// Errors of every operation that needs a caller.
const CALLER_ERRORS: [(&str, &str); 7] = [
    (
        "400",
        "`generic_error`: a parameter has the wrong type; or a code that names the state that forbids the operation: `endpoint_disabled`, `missing_payload`, `limit_reached`, `no_token_secret`",
    ),
    ("401", "`authentication_failed`: there is no key or token, or it is not valid"),
    ("403", "`permission_denied`: the key or token may not do this"),
    ("404", "`not_found`: there is no such resource, or it belongs to another tenant"),
    ("422", "A value of the request breaks a rule"),
    ("500", "`server_error`: the server failed; the cause is in its log"),
    ("503", "`unavailable`: the store is unavailable; repeat the request in a moment"),
];
/// Errors of operations with a body.
const BODY_ERRORS: [(&str, &str); 4] = [
    ("408", "`request_timeout`: the body did not arrive in time"),
    ("409", "`conflict`: the uid is taken; or `event_type_exists`"),
    ("413", "`payload_too_large`: the body or the payload is too large"),
    ("415", "`unsupported_media_type`: the body is not declared as JSON"),
];
/// Errors of operations without a caller.
const PUBLIC_ERRORS: [(&str, &str); 1] = [(
    "403",
    "`permission_denied`: no API keys are configured, and the request does not come from the server's own machine",
)];

/// Adds the error responses that all operations of a kind share.
fn add_error_responses(operation: &mut Operation) {
    let is_public = operation.security.is_some();
    let has_body =
        operation.request_body.is_some() || operation.operation_id.as_deref() == Some("resendMessage");
    let caller: &[_] = if is_public { &PUBLIC_ERRORS } else { &CALLER_ERRORS };
    let body: &[_] = if has_body { &BODY_ERRORS } else { &[] };
    for (status, description) in caller.iter().chain(body) {
        let schema = if *status == "422" { ValidationErrorBody::name() } else { ErrorBody::name() };
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
        let response = ResponseBuilder::new().description(*description).content("application/json", content);
        operation.responses.responses.insert((*status).to_owned(), response.build().into());
    }
}

/// Replaces the items of a list, which the macros repeat in each list, by a reference to their schema.
fn refer_to_items(list: &mut RefOr<Schema>, item: &str) {
    if let RefOr::T(Schema::Object(list)) = list {
        let items = ArrayBuilder::new().items(Ref::from_schema_name(item));
        list.properties.insert("data".to_owned(), Schema::Array(items.build()).into());
    }
}

/// Marks the fields of a response as required. A response contains every field; absent values are null.
fn require_all_fields(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            object.required =
                object.properties.keys().filter(|name| *name != OPTIONAL_FIELD).cloned().collect();
        }
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter_mut().for_each(require_all_fields),
        _ => {}
    }
}

/// Returns the operations of one path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// The document, serialized once.
static JSON: LazyLock<String> = LazyLock::new(openapi_json);

/// Get this document
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "Service", operation_id = "getRegistryOpenApi", security(()),
    responses((status = 200, description = "This document", body = Object)),
)]
pub(super) async fn serve() -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], JSON.as_str()).into_response()
}
