//! The request of one attempt: frozen bytes, signed, under names that receivers rely on.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{ErrorClass, Lease, Timestamp};

use crate::failure::Failure;

/// A request's body on a connection: one buffer, shared with the lease. What was signed is what is sent.
pub(crate) type Body = Full<Bytes>;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const EVENT_TYPE: HeaderName = HeaderName::from_static("posthaste-event-type");
const ATTEMPT: HeaderName = HeaderName::from_static("posthaste-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Those above and below, and the host.
const HEADERS: usize = 11;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("posthaste/", env!("CARGO_PKG_VERSION")));

/// Signed afresh for every attempt; only the timestamp, the signature and the attempt's number change.
///
/// Whom it goes to is the connection's business. There is no `accept-encoding`, so that no receiver has a reason to
/// answer with something to unpack.
pub(crate) fn request(lease: &Lease, keys: &SigningKeys, now: Timestamp) -> Result<Request<Bytes>, Failure> {
    let mut request = Request::new(lease.payload.clone());
    *request.method_mut() = Method::POST;
    let id = text(&WEBHOOK_ID, lease.event_id.as_str())?;
    let mut signature = text(&WEBHOOK_SIGNATURE, &keys.sign(&lease.event_id, now, &lease.payload))?;
    // Never in a compression table, and never in a library's own debug output.
    signature.set_sensitive(true);

    let headers = request.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(USER_AGENT, AGENT);
    // Also where there is nothing: some receivers insist.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(lease.payload.len()));
    headers.insert(CONTENT_TYPE, text(&CONTENT_TYPE, &lease.content_type)?);
    headers.insert(IDEMPOTENCY_KEY, id.clone());
    headers.insert(WEBHOOK_ID, id);
    headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(now.as_secs()));
    headers.insert(WEBHOOK_SIGNATURE, signature);
    headers.insert(EVENT_TYPE, text(&EVENT_TYPE, &lease.event_type)?);
    headers.insert(ATTEMPT, HeaderValue::from(lease.attempt()));
    if let Some(traceparent) = &lease.traceparent {
        headers.insert(TRACEPARENT, text(&TRACEPARENT, traceparent)?);
    }
    Ok(request)
}

/// Labels were judged when the event was accepted; a store that was written to by other hands may hold anything.
fn text(name: &HeaderName, value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(value).map_err(|_| {
        Failure::new(ErrorClass::Unsendable, format!("the header {name} cannot hold the stored value"))
    })
}
