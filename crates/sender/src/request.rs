//! Builds the HTTP request of one attempt: the stored payload, the signature and the documented headers.

use std::fmt::{Display, Write as _};
use std::ops::Range;

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
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("posthaste/", env!("CARGO_PKG_VERSION")));
/// Upper bound of the headers of a request, `host` included.
const HEADER_COUNT: usize = 11;
/// Capacity of the text of a request's header values. The text of most requests fits.
const TEXT_CAPACITY: usize = 256;

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
    let payload = lease.payload.expect_loaded();
    let mut text = HeaderText::default();
    let id = text.add(&lease.event_id);
    let timestamp = text.add(now.as_secs());
    let signature = text.add(keys.signature(&lease.event_id, now, payload));
    let event_type = text.add(&lease.event_type);
    let attempt = text.add(lease.attempt());
    let length = text.add(payload.len());
    let content_type = (lease.content_type != JSON).then(|| text.add(&lease.content_type));
    let traceparent = lease.traceparent.as_ref().map(|traceparent| text.add(traceparent));

    let text = Bytes::from(text.0);
    let value = |name: &HeaderName, range| header_value(name, text.slice(range));
    let id = value(&WEBHOOK_ID, id)?;
    let mut signature = value(&WEBHOOK_SIGNATURE, signature)?;
    // Keeps the signature out of HPACK's compression table and out of debug output.
    signature.set_sensitive(true);

    let mut request = Request::new(payload.clone());
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.reserve(HEADER_COUNT);
    headers.insert(USER_AGENT, USER_AGENT_VALUE);
    // Also for an empty payload: some receivers require the header.
    headers.insert(CONTENT_LENGTH, value(&CONTENT_LENGTH, length)?);
    headers.insert(CONTENT_TYPE, content_type.map_or(Ok(JSON), |range| value(&CONTENT_TYPE, range))?);
    headers.insert(IDEMPOTENCY_KEY, id.clone());
    headers.insert(WEBHOOK_ID, id);
    headers.insert(WEBHOOK_TIMESTAMP, value(&WEBHOOK_TIMESTAMP, timestamp)?);
    headers.insert(WEBHOOK_SIGNATURE, signature);
    headers.insert(EVENT_TYPE, value(&EVENT_TYPE, event_type)?);
    headers.insert(ATTEMPT, value(&ATTEMPT, attempt)?);
    if let Some(traceparent) = traceparent {
        headers.insert(TRACEPARENT, value(&TRACEPARENT, traceparent)?);
    }
    Ok(request)
}

/// The text of a request's header values, one after the other. The values share this buffer, which saves an allocation for
/// each.
struct HeaderText(String);

impl Default for HeaderText {
    fn default() -> Self {
        Self(String::with_capacity(TEXT_CAPACITY))
    }
}

impl HeaderText {
    /// Adds a value. Returns its place in the buffer.
    fn add(&mut self, value: impl Display) -> Range<usize> {
        let start = self.0.len();
        write!(self.0, "{value}").expect("a string accepts all text");
        start..self.0.len()
    }
}

/// Converts a stored value to a header value. Values are validated when an event is accepted, but another program may
/// have written to the store.
fn header_value(name: &HeaderName, value: Bytes) -> Result<HeaderValue, Failure> {
    HeaderValue::from_maybe_shared(value).map_err(|_| {
        Failure::new(ErrorClass::Unsendable, format!("the stored value is not valid in the header {name}"))
    })
}
