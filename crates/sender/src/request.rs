//! Builds the HTTP request of one attempt: the stored payload, the signature, the documented headers and the custom headers of
//! the destination.

use std::fmt::{Display, Write as _};
use std::ops::Range;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{CustomHeaders, ErrorClass, Lease, Timestamp};
use posthaste_engine::Profile;

use crate::failure::Failure;
use crate::options::CompatHeaders;

/// Request body as hyper takes it: one buffer, shared with the lease, so that the signed bytes are the bytes sent.
pub(crate) type Body = Full<Bytes>;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The names under which the id, the timestamp and the signature are sent a second time.
const COMPAT_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("svix-id"),
    HeaderName::from_static("svix-timestamp"),
    HeaderName::from_static("svix-signature"),
];
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const EVENT_TYPE: HeaderName = HeaderName::from_static("posthaste-event-type");
const ATTEMPT: HeaderName = HeaderName::from_static("posthaste-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("posthaste/", env!("CARGO_PKG_VERSION")));
/// Upper bound of the headers of a request without compatibility and custom headers, `host` included.
const HEADER_COUNT: usize = 11;
/// Capacity of the text of a request's header values. The text of most requests fits.
const TEXT_CAPACITY: usize = 256;

/// What a request depends on beside its lease.
pub(crate) struct RequestContext<'a> {
    /// The keys that sign, unless the destination has its own.
    pub(crate) instance_keys: &'a SigningKeys,
    /// The keys and headers of the destination.
    pub(crate) profile: Option<&'a Profile>,
    pub(crate) compat_headers: CompatHeaders,
    pub(crate) now: Timestamp,
}

/// Builds and signs the request of this attempt. Between attempts of an event only the timestamp, the signature and the
/// attempt number differ.
///
/// `webhook-id` is the id of the message, which the signature covers; `idempotency-key` is that of the event.
/// [`Target`](crate::target::Target) adds the URI and the host later, in the form of the connection's HTTP version. The
/// request has no `accept-encoding`, so that receivers do not compress their responses.
pub(crate) fn build_request(lease: &Lease, context: &RequestContext<'_>) -> Result<Request<Bytes>, Failure> {
    let RequestContext { instance_keys, profile, compat_headers, now } = *context;
    let payload = lease.payload.expect_loaded();
    let mut text = HeaderText::default();
    let id = text.add(&lease.wire_id);
    let event_id = if lease.event_id == lease.wire_id { id.clone() } else { text.add(&lease.event_id) };
    let timestamp = text.add(now.as_secs());
    let signature = match profile.and_then(Profile::keys) {
        Some(keys) => text.add(keys.signature(&lease.wire_id, now, payload)),
        None => text.add(instance_keys.signature(&lease.wire_id, now, payload)),
    };
    let event_type = text.add(&lease.event_type);
    let attempt = text.add(lease.attempt());
    let length = text.add(payload.len());
    let content_type = (lease.content_type != JSON).then(|| text.add(&lease.content_type));
    let traceparent = lease.traceparent.as_ref().map(|traceparent| text.add(traceparent));

    let text = Bytes::from(text.0);
    let value = |name: &HeaderName, range| header_value(name, text.slice(range));
    let id = value(&WEBHOOK_ID, id)?;
    let timestamp = value(&WEBHOOK_TIMESTAMP, timestamp)?;
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
    headers.insert(IDEMPOTENCY_KEY, value(&IDEMPOTENCY_KEY, event_id)?);
    if compat_headers == CompatHeaders::Svix {
        headers.extend(COMPAT_NAMES.into_iter().zip([id.clone(), timestamp.clone(), signature.clone()]));
    }
    headers.insert(WEBHOOK_ID, id);
    headers.insert(WEBHOOK_TIMESTAMP, timestamp);
    headers.insert(WEBHOOK_SIGNATURE, signature);
    headers.insert(EVENT_TYPE, value(&EVENT_TYPE, event_type)?);
    headers.insert(ATTEMPT, value(&ATTEMPT, attempt)?);
    if let Some(traceparent) = traceparent {
        headers.insert(TRACEPARENT, value(&TRACEPARENT, traceparent)?);
    }
    if let Some(profile) = profile {
        add_custom_headers(headers, profile.headers())?;
    }
    Ok(request)
}

/// Adds the custom headers of a destination. Their names are none of those that the request sets itself.
fn add_custom_headers(headers: &mut HeaderMap, custom: &CustomHeaders) -> Result<(), Failure> {
    for (name, value) in custom.iter() {
        let is_sensitive = CustomHeaders::is_sensitive(name);
        let name = HeaderName::try_from(name).map_err(|_| {
            Failure::new(ErrorClass::Unsendable, "a custom header has an invalid name".to_owned())
        })?;
        let mut value = header_value(&name, Bytes::copy_from_slice(value.as_bytes()))?;
        value.set_sensitive(is_sensitive);
        headers.append(name, value);
    }
    Ok(())
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
