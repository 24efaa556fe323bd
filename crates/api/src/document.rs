//! The OpenAPI document, from the handlers that it describes and the errors that they answer with.

mod delivery;
mod failures;

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

use crate::api::documented;
use crate::error::{Code, Envelope, Told};

const DESCRIPTION: &str = "\
Posthaste delivers webhooks. A producer enqueues events; Posthaste sends each of them, signed, to its destination, retries it \
on a contract that protects the receiver, and dead-letters what cannot be delivered. Operators look, requeue and cancel here.

Answers are JSON. Moments are RFC 3339 in UTC with microseconds. Every error has the envelope \
`{\"error\":{\"code\",\"message\",\"details\"?}}`; act upon `code`, show `message`. Unknown fields and parameters are refused.

**Keys.** Where API keys are set, send `Authorization: Bearer KEY`. A `producer` enqueues and reads single events without who \
acted on them, a `viewer` reads everything, an `operator` also requeues and cancels. Without keys only this machine is answered.";

const TAGS: [(&str, &str); 4] = [
    ("Events", "Hand in events, and see what became of them."),
    ("Dead letters", "What could not be delivered, and how to send it again."),
    ("Outbox", "Everything at a glance, and as it happens."),
    ("Service", "Metrics, health, and this document."),
];

/// Schemas of requests, whose optional fields may be left out.
const READ_FROM_CLIENTS: [&str; 2] = ["NewEvent", "Cancel"];
/// Has `details` only where there are any.
const ERROR_DETAIL: &str = "ErrorDetail";

/// The name of the security scheme.
const API_KEY: &str = "apiKey";

/// The document.
pub fn openapi() -> OpenApi {
    let mut document = documented().into_openapi();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        failures::describe(operation);
        see_to_details(operation);
    }
    for (name, schema) in document.components.iter_mut().flat_map(|components| &mut components.schemas) {
        if !READ_FROM_CLIENTS.contains(&name.as_str()) && name != ERROR_DETAIL {
            leaves_nothing_out(schema);
        }
    }
    document.webhooks = Some(delivery::webhooks());
    document
}

/// The document as it is served: JSON, laid out for people.
pub fn openapi_json() -> String {
    openapi().to_pretty_json().expect("a document is always JSON")
}

/// What stands around the routes.
pub(crate) fn frame() -> OpenApi {
    let license =
        LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build();
    let info = InfoBuilder::new()
        .title("Posthaste")
        .description(Some(DESCRIPTION))
        .version(env!("CARGO_PKG_VERSION"))
        .license(Some(license))
        .build();
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A key of the instance. Not needed where none are set."))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme(API_KEY, SecurityScheme::Http(key))
        .schema(Envelope::name(), Envelope::schema())
        .schema(Told::name(), Told::schema())
        .schema(Code::name(), Code::schema())
        .build();
    let tags = TAGS.map(|(name, what)| TagBuilder::new().name(name).description(Some(what)).build());
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([ServerBuilder::new().url("/").build()]))
        .tags(Some(tags))
        .components(Some(components))
        .security(Some([SecurityRequirement::new(API_KEY, [] as [&str; 0])]))
        .build()
}

/// What the macro has no words for.
fn see_to_details(operation: &mut Operation) {
    if operation.operation_id.as_deref() == Some("cancelEvent")
        && let Some(RefOr::T(body)) = &mut operation.request_body
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

/// Only there when there is something to say, and to whoever may be told.
const LEFT_OUT: [&str; 2] = ["warnings", "audit"];

/// Answers have all of their fields: what there is not is null.
fn leaves_nothing_out(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            object.required =
                object.properties.keys().filter(|name| !LEFT_OUT.contains(&name.as_str())).cloned().collect();
        }
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter_mut().for_each(leaves_nothing_out),
        _ => {}
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post].into_iter().flatten()
}

static SERVED: LazyLock<String> = LazyLock::new(openapi_json);

/// The OpenAPI document
#[utoipa::path(
    get, path = "/openapi.json", tag = "Service", operation_id = "getOpenApi", security(()),
    responses((status = 200, description = "This document", body = Object)),
)]
pub(crate) async fn serve() -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], SERVED.as_str()).into_response()
}
