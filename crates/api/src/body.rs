//! Reading request bodies, bounded in size, in time and in total memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, header};
use posthaste_engine::{Clock, within};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// The size beyond which a body is large. A large body needs one of few permits, which bounds the memory of all bodies
/// together.
const LARGE_BODY_BYTES: usize = 1 << 20;
/// Maximum number of large bodies in memory at once.
const LARGE_BODIES_MAX: usize = 16;
/// How long a large body waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a large body may pause. It holds a permit that other requests wait for.
const LARGE_BODY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// The error message when no permit became available in time.
pub(crate) const TOO_MANY_LARGE: &str = "too many large requests at once; send this one again in a moment";
/// How much of an oversized body is read and discarded. A client that is still writing would otherwise see a broken
/// connection instead of the error response.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// Reads request bodies. Memory is bounded by one small body per connection and a fixed number of large bodies.
pub(crate) struct BodyReader {
    large_bodies: Arc<Semaphore>,
}

impl Default for BodyReader {
    fn default() -> Self {
        Self { large_bodies: Arc::new(Semaphore::new(LARGE_BODIES_MAX)) }
    }
}

/// A complete request body. A large one holds its permit for as long as its bytes are in memory.
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

impl BodyReader {
    /// Reads a whole body of at most `bytes_max` bytes.
    pub(crate) async fn read(
        &self,
        clock: &dyn Clock,
        body: Body,
        bytes_max: usize,
    ) -> Result<RequestBody, ApiError> {
        let collected = self.collect(clock, body, bytes_max);
        within(clock, BODY_TIMEOUT, collected).await.ok_or(ApiError::BodyTooSlow)?
    }

    async fn collect(
        &self,
        clock: &dyn Clock,
        body: Body,
        bytes_max: usize,
    ) -> Result<RequestBody, ApiError> {
        let mut chunks = body.into_data_stream();
        let mut collected = BytesMut::new();
        let mut permit = None;
        let mut received_bytes = 0_usize;
        loop {
            let next = chunks.next();
            let next = match &permit {
                None => next.await,
                Some(_) => within(clock, LARGE_BODY_PAUSE_MAX, next).await.ok_or(ApiError::BodyTooSlow)?,
            };
            let Some(chunk) = next else { break };
            let chunk = chunk.map_err(|_| ApiError::invalid("the body broke off before its end"))?;
            received_bytes = received_bytes.saturating_add(chunk.len());
            if received_bytes > LARGE_BODY_BYTES && received_bytes <= bytes_max && permit.is_none() {
                permit = Some(self.acquire_permit(clock).await?);
            }
            if received_bytes <= bytes_max {
                collected.extend_from_slice(&chunk);
                continue;
            }
            (collected, permit) = (BytesMut::new(), None);
            if received_bytes > DISCARDED_BYTES_MAX.max(bytes_max) {
                break;
            }
        }
        if received_bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        Ok(RequestBody { bytes: collected.freeze(), _permit: permit })
    }

    async fn acquire_permit(&self, clock: &dyn Clock) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = Arc::clone(&self.large_bodies).acquire_owned();
        let permit = within(clock, PERMIT_TIMEOUT, permit).await.and_then(Result::ok);
        permit.ok_or(ApiError::Busy(TOO_MANY_LARGE))
    }
}

/// The error for a body of more than `bytes_max` bytes.
pub(crate) fn too_large(bytes_max: usize) -> ApiError {
    let message = format!("the body is larger than {bytes_max} bytes, the maximum for this request");
    ApiError::TooLarge { message, details: Some(json!({ "bytes_max": bytes_max })) }
}

/// Requires `content-type: application/json` and no compression. An HTML form on a foreign page cannot send this type.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let media_type = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().and_then(|value| value.split(';').next()).map(str::trim),
        _ => None,
    };
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "the body must not be compressed; send it without a content-encoding";
        return Err(ApiError::invalid_at(message, json!({ "header": "content-encoding" })));
    }
    if media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let message = "the body must be JSON; send the header `content-type: application/json`";
    Err(ApiError::invalid_at(message, json!({ "header": "content-type" })))
}
