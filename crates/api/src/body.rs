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

use crate::body_budget::{BodyBudget, CountedBytes};
use crate::error::ApiError;

/// The size beyond which a body is large. A large body needs one of few permits, so that large bodies do not use up the
/// memory of the others.
const LARGE_BODY_BYTES: usize = 1 << 20;
/// Maximum number of large bodies in memory at once.
const LARGE_BODIES_MAX: usize = 16;
/// How long a large body waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a large body may pause. It holds a permit that other requests wait for.
const LARGE_BODY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a body with counted bytes may pause. Other requests may lack these bytes.
const COUNTED_BODY_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The error message when no permit became available in time, or when the bodies in memory have too many bytes.
pub(crate) const TOO_MANY_LARGE: &str = "too many large requests at once; send this one again in a moment";
/// How much of an oversized body is read and discarded. A client that is still writing would otherwise see a broken
/// connection instead of the error response.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// Reads request bodies. Their memory is bounded by [`BodyBudget`], and by a few KiB for each connection.
pub(crate) struct BodyReader {
    budget: Arc<BodyBudget>,
    large_bodies: Arc<Semaphore>,
}

impl Default for BodyReader {
    fn default() -> Self {
        Self { budget: Arc::default(), large_bodies: Arc::new(Semaphore::new(LARGE_BODIES_MAX)) }
    }
}

/// A complete request body, with the memory that it holds.
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    pub(crate) _memory: BodyMemory,
}

/// What a body holds for as long as its bytes are in memory: its counted bytes and, if it is large, its permit.
pub(crate) struct BodyMemory {
    counted: CountedBytes,
    permit: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Returns how long the body may pause, if it holds memory that other requests may lack.
    fn pause_max(&self) -> Option<Duration> {
        match self.permit {
            Some(_) => Some(LARGE_BODY_PAUSE_MAX),
            None => self.counted.is_counted().then_some(COUNTED_BODY_PAUSE_MAX),
        }
    }
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
        let mut memory = self.empty_memory();
        let mut received_bytes = 0_usize;
        loop {
            let next = chunks.next();
            let next = match memory.pause_max() {
                None => next.await,
                Some(pause) => within(clock, pause, next).await.ok_or(ApiError::BodyTooSlow)?,
            };
            let Some(chunk) = next else { break };
            let chunk = chunk.map_err(|_| ApiError::invalid("the body broke off before its end"))?;
            received_bytes = received_bytes.saturating_add(chunk.len());
            if received_bytes <= bytes_max {
                if received_bytes > LARGE_BODY_BYTES && memory.permit.is_none() {
                    memory.permit = Some(self.acquire_permit(clock).await?);
                }
                if !memory.counted.grow_to(received_bytes) {
                    return Err(ApiError::Busy(TOO_MANY_LARGE));
                }
                collected.extend_from_slice(&chunk);
                continue;
            }
            (collected, memory) = (BytesMut::new(), self.empty_memory());
            if received_bytes > DISCARDED_BYTES_MAX.max(bytes_max) {
                break;
            }
        }
        if received_bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        Ok(RequestBody { bytes: collected.freeze(), _memory: memory })
    }

    fn empty_memory(&self) -> BodyMemory {
        BodyMemory { counted: CountedBytes::new(&self.budget), permit: None }
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

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use futures_util::stream;
    use posthaste_engine::TokioClock;

    use super::*;

    /// A body of this size that does not end.
    fn unfinished(bytes: usize) -> Body {
        let chunk = Bytes::from(vec![b' '; 32 << 10]);
        let chunks =
            stream::iter((0..bytes / chunk.len()).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
        Body::from_stream(chunks.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_bodies_stay_within_the_budget_and_small_ones_succeed() {
        let (reader, clock) = (BodyReader::default(), TokioClock::start());
        let held = join_all((0..300).map(|_| reader.read(&clock, unfinished(1 << 20), 16 << 20)));
        let others = async {
            clock.sleep(Duration::from_secs(1)).await;
            let bytes = reader.budget.bytes();
            assert!(bytes <= 49 << 20, "{bytes} bytes are in memory");
            assert!(bytes > 40 << 20, "{bytes} bytes are in memory: the budget is used");
            for _ in 0..100 {
                let small = reader.read(&clock, Body::from(vec![b' '; 10_000]), 16 << 20).await;
                assert_eq!(small.map(|body| body.bytes.len()).ok(), Some(10_000));
            }
            let large = reader.read(&clock, Body::from(vec![b' '; 1 << 20]), 16 << 20).await;
            assert!(matches!(large, Err(ApiError::Busy(_))), "there is no memory for a large one");
        };
        let (held, ()) = tokio::join!(held, others);
        assert!(held.iter().all(Result::is_err), "no body was complete");
        assert_eq!(clock.monotonic().as_secs(), 10, "a body that stalls is given up");
        assert_eq!(reader.budget.bytes(), 0);
        let large = reader.read(&clock, Body::from(vec![b' '; 1 << 20]), 16 << 20).await;
        assert!(large.is_ok(), "there is memory again");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_arrive_together_complete_one_after_the_other_if_their_senders_repeat_them() {
        let (reader, clock) = (BodyReader::default(), TokioClock::start());
        let mut left = 40;
        for _ in 0..40 {
            let chunk = Bytes::from(vec![b' '; 64 << 10]);
            let body = || {
                let chunks = stream::repeat(chunk.clone()).take(128).then(async |chunk| {
                    tokio::task::yield_now().await;
                    Ok::<_, std::io::Error>(chunk)
                });
                Body::from_stream(chunks)
            };
            let sent = join_all((0..left).map(|_| reader.read(&clock, body(), 16 << 20))).await;
            let completed = sent.iter().filter(|sent| sent.is_ok()).count();
            assert!(completed > 0, "the oldest body always completes");
            left -= completed;
            if left == 0 {
                return;
            }
        }
        panic!("{left} bodies did not complete");
    }
}
