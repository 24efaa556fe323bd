//! Builds the HTTP request of one attempt: the stored payload, the signature and the documented headers.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{ErrorClass, Lease, Timestamp};

use crate::failure::Failure;

/// Request body as hyper takes it: one buffer, shared with the lease, so that the signed bytes are the bytes sent.
pub(crate) type Body = Full<Bytes>;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const EVENT_TYPE: HeaderName = HeaderName::from_static("posthaste-event-type");
const ATTEMPT: HeaderName = HeaderName::from_static("posthaste-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Upper bound of the headers of a request, `host` included.
const HEADER_COUNT: usize = 11;
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("posthaste/", env!("CARGO_PKG_VERSION")));

/// Builds and signs the request of this attempt. Between attempts of an event only the timestamp, the signature and the
/// attempt number differ.
///
/// [`Target`](crate::target::Target) adds the URI and the host later, in the form of the connection's HTTP version. The
/// request has no `accept-encoding`, so that receivers do not compress their responses.
pub(crate) fn build_request(
    lease: &Lease,
    keys: &SigningKeys,
    now: Timestamp,
) -> Result<Request<Bytes>, Failure> {
    let mut request = Request::new(lease.payload.clone());
    *request.method_mut() = Method::POST;
    let id = header_value(&WEBHOOK_ID, lease.event_id.as_str())?;
    let mut signature = header_value(&WEBHOOK_SIGNATURE, &keys.sign(&lease.event_id, now, &lease.payload))?;
    // Keeps the signature out of HPACK's compression table and out of debug output.
    signature.set_sensitive(true);

    let headers = request.headers_mut();
    headers.reserve(HEADER_COUNT);
    headers.insert(USER_AGENT, USER_AGENT_VALUE);
    // Also for an empty payload: some receivers require the header.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(lease.payload.len()));
    headers.insert(CONTENT_TYPE, header_value(&CONTENT_TYPE, &lease.content_type)?);
    headers.insert(IDEMPOTENCY_KEY, id.clone());
    headers.insert(WEBHOOK_ID, id);
    headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(now.as_secs()));
    headers.insert(WEBHOOK_SIGNATURE, signature);
    headers.insert(EVENT_TYPE, header_value(&EVENT_TYPE, &lease.event_type)?);
    headers.insert(ATTEMPT, HeaderValue::from(lease.attempt()));
    if let Some(traceparent) = &lease.traceparent {
        headers.insert(TRACEPARENT, header_value(&TRACEPARENT, traceparent)?);
    }
    Ok(request)
}

/// Converts a stored value to a header value. Values are validated when an event is accepted, but another program may
/// have written to the store.
fn header_value(name: &HeaderName, value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(value).map_err(|_| {
        Failure::new(ErrorClass::Unsendable, format!("the stored value is not valid in the header {name}"))
    })
}
