//! The OpenAPI document, generated from the handlers and from the errors they return.

mod delivery;
mod errors;

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use posthaste_store::PageLimit;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, RefOr, Required,
    Schema, SecurityRequirement, ServerBuilder,
};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::api::documented_routes;
use crate::error::{ErrorBody, ErrorCode, ErrorEnvelope};

const DESCRIPTION: &str = "\
Posthaste delivers webhooks. A producer enqueues events. Posthaste sends each event, signed, to its destination. It retries \
failed attempts with delays that protect the receiver, and moves events that cannot be delivered to the dead-letter queue. \
Operators inspect, requeue and cancel events, and pause and resume destinations.

Responses are JSON. Timestamps are RFC 3339 in UTC with microseconds. Every error has the envelope \
`{\"error\":{\"code\",\"message\",\"details\"?}}`: let programs act on `code`, and show `message` to people. Unknown fields and \
parameters are rejected.

**Keys.** If API keys are configured, send `Authorization: Bearer KEY`. A `producer` enqueues events and reads single events \
without the names of operators. A `viewer` reads everything. An `operator` also requeues, cancels, discards and replays events, one \
or in bulk, reads payloads, and pauses, resumes and probes destinations. A key with the role `app:ID` is for one application, under \
`/api/v1`. Without keys, the server accepts requests from its own machine only.";

const TAGS: [(&str, &str); 6] = [
    ("Events", "Enqueue events, and read their state."),
    ("Dead letters", "Events that could not be delivered. List them and send them again."),
    (
        "Destinations",
        "Where events are sent. See which destinations hold events back, and pause and resume them.",
    ),
    ("Operations", "Background operations on the events of endpoints. See their progress, and stop them."),
    ("Outbox", "Counts of all events, and a live stream of notices."),
    ("Service", "Metrics, health probes, and this document."),
];

/// Schemas of request bodies. Their optional fields may be omitted.
const REQUEST_SCHEMAS: [&str; 6] =
    ["NewEvent", "Cancel", "Discard", "Pause", "NewBulkOperation", "NewBulkFilter"];
/// The schema of errors. Its `details` may be omitted.
const ERROR_DETAIL: &str = "ErrorDetail";

/// The name of the security scheme.
const API_KEY: &str = "apiKey";

/// Returns the OpenAPI document.
pub fn openapi() -> OpenApi {
    let mut document = documented_routes().into_openapi();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        errors::add_error_responses(operation);
        patch_operation(operation);
    }
    for (name, schema) in document.components.iter_mut().flat_map(|components| &mut components.schemas) {
        if !REQUEST_SCHEMAS.contains(&name.as_str()) && name != ERROR_DETAIL {
            require_all_fields(name, schema);
        }
    }
    document.webhooks = Some(delivery::webhooks());
    document
}

/// Returns the document as it is served: indented JSON.
pub fn openapi_json() -> String {
    openapi().to_pretty_json().expect("an OpenAPI document always serializes")
}

/// Returns the document without routes: title, tags, security scheme and error schemas.
pub(crate) fn base_document() -> OpenApi {
    let errors = ComponentsBuilder::new()
        .schema(ErrorEnvelope::name(), ErrorEnvelope::schema())
        .schema(ErrorBody::name(), ErrorBody::schema())
        .schema(ErrorCode::name(), ErrorCode::schema());
    let base = BaseDocument {
        title: "Posthaste",
        description: DESCRIPTION,
        tags: &TAGS,
        security_scheme: API_KEY,
        caller: "An API key of the instance. Not needed if no keys are configured.",
    };
    base.build(errors)
}

/// What the documents of both APIs have beside their routes and schemas.
pub(crate) struct BaseDocument {
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// Names with descriptions.
    pub(crate) tags: &'static [(&'static str, &'static str)],
    pub(crate) security_scheme: &'static str,
    /// What a caller sends as its bearer token.
    pub(crate) caller: &'static str,
}

impl BaseDocument {
    pub(crate) fn build(&self, components: ComponentsBuilder) -> OpenApi {
        let license =
            LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build();
        let info = InfoBuilder::new()
            .title(self.title)
            .description(Some(self.description))
            .version(env!("CARGO_PKG_VERSION"))
            .license(Some(license))
            .build();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(self.caller)).build();
        let components =
            components.security_scheme(self.security_scheme, SecurityScheme::Http(bearer)).build();
        let tags = self.tags.iter();
        let tags = tags.map(|(name, text)| TagBuilder::new().name(*name).description(Some(*text)).build());
        OpenApiBuilder::new()
            .info(info)
            .servers(Some([ServerBuilder::new().url("/").build()]))
            .tags(Some(tags.collect::<Vec<_>>()))
            .components(Some(components))
            .security(Some([SecurityRequirement::new(self.security_scheme, [] as [&str; 0])]))
            .build()
    }
}

/// Adds what the `utoipa` macros cannot express: the optional bodies of actions, and the default of `limit`.
fn patch_operation(operation: &mut Operation) {
    if matches!(
        operation.operation_id.as_deref(),
        Some("cancelEvent" | "discardDeadLetter" | "pauseDestination")
    ) && let Some(RefOr::T(body)) = &mut operation.request_body
    {
        body.required = Some(Required::False);
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.name == "limit"
            && let Some(RefOr::T(Schema::Object(limit))) = &mut parameter.schema
        {
            limit.default = Some(PageLimit::default().get().into());
        }
    }
}

/// Response fields that may be omitted, each after its schema: `warnings` if there are none, `audit` and `excerpt` for
/// producers, and the fields of a notice that only a notice about a disabled endpoint has.
const OPTIONAL_RESPONSE_FIELDS: [(&str, &str); 6] = [
    ("Overview", "warnings"),
    ("EventDetail", "audit"),
    ("Attempt", "excerpt"),
    ("Notice", "endpoint_id"),
    ("Notice", "app_id"),
    ("Notice", "reason"),
];

/// Marks all fields of a response as required, except the optional ones. Absent values of required fields are null.
fn require_all_fields(name: &str, schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            object.required = object
                .properties
                .keys()
                .filter(|field| !OPTIONAL_RESPONSE_FIELDS.contains(&(name, field.as_str())))
                .cloned()
                .collect();
        }
        RefOr::T(Schema::AllOf(parts)) => {
            parts.items.iter_mut().for_each(|part| require_all_fields(name, part));
        }
        _ => {}
    }
}

/// Returns the operations of one path. The API uses GET and POST only.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post].into_iter().flatten()
}

/// The document, serialized once.
static JSON: LazyLock<String> = LazyLock::new(openapi_json);

/// Get the OpenAPI document
#[utoipa::path(
    get, path = "/openapi.json", tag = "Service", operation_id = "getOpenApi", security(()),
    responses((status = 200, description = "This document", body = Object)),
)]
pub(crate) async fn serve() -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], JSON.as_str()).into_response()
}
