//! The request that a receiver gets, as OpenAPI's `webhooks`.

use serde_json::json;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathItem, Paths, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, HttpMethod, Required, ResponseBuilder};

const DESCRIPTION: &str = "\
A `POST` of the exact bytes of the event's payload to its `destination_url`, signed as Standard Webhooks says.

**Verify** before trusting it: `webhook-signature` holds one or more signatures, separated by spaces, each `v1,` and the base64 \
of HMAC-SHA256 over `{webhook-id}.{webhook-timestamp}.{body}` under the secret's decoded bytes (`whsec_` and base64). Compare in \
constant time, and refuse timestamps more than five minutes away from now.

**Deliveries repeat**: what was received but not acknowledged in time is sent again, under the same `webhook-id`. Remember \
the ids that were dealt with.

**Answer** 2xx within the time limit (30 seconds unless configured otherwise) and do the work afterwards. Redirects are not \
followed.";

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
        "One signature for each secret that is valid",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    ("idempotency-key", true, "The event's id once more", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
    ("posthaste-event-type", true, "The event's type", "invoice.paid"),
    ("posthaste-attempt", true, "The number of this attempt, from 1; it starts again after a requeue", "1"),
    (
        "traceparent",
        false,
        "The trace context that the event was enqueued with",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
];

const ANSWERS: [(&str, &str); 5] = [
    ("2XX", "Delivered; it is not sent again. Only the status counts, the body is not needed"),
    ("410", "Gone: the event is dead-lettered at once"),
    (
        "429",
        "Retried, and with `Retry-After` nothing is sent to this destination until then, for an hour at most",
    ),
    (
        "503",
        "Retried, and with `Retry-After` nothing is sent to this destination until then, for an hour at most",
    ),
    (
        "default",
        "Retried on the retry contract, and dead-lettered after the last attempt; so is no answer at all",
    ),
];

pub(super) fn webhooks() -> Paths {
    let text = || ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).build();
    let headers = HEADERS.map(|(name, always, what, example)| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(if always { Required::True } else { Required::False })
            .description(Some(what))
            .schema(Some(text()))
            .example(Some(json!(example)))
            .build()
    });
    let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
    let body = RequestBodyBuilder::new()
        .description(Some("The payload, byte for byte as it was enqueued"))
        .required(Some(Required::True))
        .content(
            "application/json",
            ContentBuilder::new()
                .schema(Some(any))
                .example(Some(json!({ "test": 2_432_232_314_u32 })))
                .build(),
        )
        .build();
    let operation = ANSWERS.iter().fold(OperationBuilder::new(), |operation, (status, what)| {
        operation.response(*status, ResponseBuilder::new().description(*what).build())
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
