//! The OpenAPI description of a delivery: the request that Posthaste sends to a receiver.

use serde_json::json;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathItem, Paths, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, HttpMethod, Required, ResponseBuilder};

const DESCRIPTION: &str = "\
Posthaste sends a `POST` with the exact bytes of the event's payload to its `destination_url`, signed according to Standard \
Webhooks.

**Verify the signature** before you trust a request. `webhook-signature` contains one or more signatures, separated by spaces. \
Each is `v1,` followed by the base64 of HMAC-SHA256 over `{webhook-id}.{webhook-timestamp}.{body}`. The HMAC key is the secret \
without `whsec_`, base64-decoded. Compare in constant time, and reject timestamps more than five minutes away from now.

**Expect duplicates.** A request that was received but not acknowledged in time is sent again with the same `webhook-id`. \
Remember the ids that you have processed.

**Respond** with 2xx within the time limit (30 seconds unless configured otherwise), and do the work afterwards. Redirects are \
not followed.";

/// The headers of a delivery: name, whether it is always sent, description, example.
const HEADERS: [(&str, bool, &str, &str); 7] = [
    ("webhook-id", true, "The event's id, the same on every attempt", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
    (
        "webhook-timestamp",
        true,
        "When this attempt was signed, in seconds since the Unix epoch",
        "1614265330",
    ),
    (
        "webhook-signature",
        true,
        "One signature for each valid secret",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    ("idempotency-key", true, "The event's id, the same as `webhook-id`", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
    ("posthaste-event-type", true, "The event's type", "invoice.paid"),
    ("posthaste-attempt", true, "The number of this attempt, starting at 1; restarts after a requeue", "1"),
    (
        "traceparent",
        false,
        "The trace context that the event was enqueued with",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
];

/// How Posthaste treats each response status.
const RESPONSES: [(&str, &str); 5] = [
    ("2XX", "Delivered; the event is not sent again. Only the status counts, the response body may be empty"),
    ("410", "Gone: the event is dead-lettered immediately; retried if the sender uses an exact schedule"),
    (
        "429",
        "Retried. With `Retry-After`, nothing is sent to this destination until then (by default for an hour at most), \
         unless the sender uses an exact schedule",
    ),
    (
        "503",
        "Retried. With `Retry-After`, nothing is sent to this destination until then (by default for an hour at most), \
         unless the sender uses an exact schedule",
    ),
    (
        "default",
        "Retried according to the retry contract, and dead-lettered after the last attempt. The same applies if no response arrives",
    ),
];

/// Returns the `webhooks` section of the document.
pub(super) fn webhooks() -> Paths {
    let string_schema = || ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).build();
    let headers = HEADERS.map(|(name, is_always_sent, description, example)| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(if is_always_sent { Required::True } else { Required::False })
            .description(Some(description))
            .schema(Some(string_schema()))
            .example(Some(json!(example)))
            .build()
    });
    let any_value = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
    let body = RequestBodyBuilder::new()
        .description(Some("The payload, byte for byte as it was enqueued"))
        .required(Some(Required::True))
        .content(
            "application/json",
            ContentBuilder::new()
                .schema(Some(any_value))
                .example(Some(json!({ "test": 2_432_232_314_u32 })))
                .build(),
        )
        .build();
    let operation = RESPONSES.iter().fold(OperationBuilder::new(), |operation, (status, description)| {
        operation.response(*status, ResponseBuilder::new().description(*description).build())
    });
    let operation = operation
        .operation_id(Some("deliverEvent"))
        .summary(Some("A delivery"))
        .description(Some(DESCRIPTION))
        .tag("Events")
        .parameters(Some(headers))
        .request_body(Some(body))
        .securities(Some([utoipa::openapi::SecurityRequirement::default()]))
        .build();
    PathsBuilder::new().path("delivery", PathItem::new(HttpMethod::Post, operation)).build()
}
