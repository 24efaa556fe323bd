//! Bodies of requests: bounded in size, in time and in number, JSON and nothing else.

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

/// From here on a body is large, and takes one of few places: what is in memory at once stays bounded.
const LARGE_BYTES: usize = 1 << 20;
const LARGE_AT_ONCE: usize = 16;
/// How long a large body waits for its place.
const PLACE_WITHIN: Duration = Duration::from_secs(10);
/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);
/// How long a large body may pause: others wait for its place.
const GOES_ON_WITHIN: Duration = Duration::from_secs(5);
/// What one is told that waited in vain.
pub(crate) const TOO_MANY_LARGE: &str = "too many large requests at once; send this one again in a moment";
/// How much of a body that is too large is read all the same: a client that is still writing would otherwise see its
/// connection break instead of the answer.
const DISCARDED_MAX: usize = 64 << 20;

/// What is in memory at once: as many small bodies as there are connections, and a few large ones.
pub(crate) struct Bodies {
    large: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self { large: Arc::new(Semaphore::new(LARGE_AT_ONCE)) }
    }
}

/// A body, and the place of a large one, kept for as long as its bytes are.
pub(crate) struct Arrived {
    pub(crate) body: Bytes,
    pub(crate) _place: Option<OwnedSemaphorePermit>,
}

impl Bodies {
    /// The whole body, when it is no larger than `bytes_max`.
    pub(crate) async fn read(
        &self,
        clock: &dyn Clock,
        body: Body,
        bytes_max: usize,
    ) -> Result<Arrived, ApiError> {
        let collecting = self.collect(clock, body, bytes_max);
        within(clock, ARRIVES_WITHIN, collecting).await.ok_or(ApiError::BodyTooSlow)?
    }

    async fn collect(&self, clock: &dyn Clock, body: Body, bytes_max: usize) -> Result<Arrived, ApiError> {
        let mut chunks = body.into_data_stream();
        let mut collected = BytesMut::new();
        let mut place = None;
        let mut arrived = 0_usize;
        loop {
            let next = chunks.next();
            let next = match &place {
                None => next.await,
                Some(_) => within(clock, GOES_ON_WITHIN, next).await.ok_or(ApiError::BodyTooSlow)?,
            };
            let Some(chunk) = next else { break };
            let chunk = chunk.map_err(|_| ApiError::invalid("the body broke off before its end"))?;
            arrived = arrived.saturating_add(chunk.len());
            if arrived > LARGE_BYTES && arrived <= bytes_max && place.is_none() {
                place = Some(self.place(clock).await?);
            }
            if arrived <= bytes_max {
                collected.extend_from_slice(&chunk);
                continue;
            }
            (collected, place) = (BytesMut::new(), None);
            if arrived > DISCARDED_MAX.max(bytes_max) {
                break;
            }
        }
        sized(collected, arrived, bytes_max).map(|body| Arrived { body, _place: place })
    }

    async fn place(&self, clock: &dyn Clock) -> Result<OwnedSemaphorePermit, ApiError> {
        let place = Arc::clone(&self.large).acquire_owned();
        let place = within(clock, PLACE_WITHIN, place).await.and_then(Result::ok);
        place.ok_or(ApiError::Busy(TOO_MANY_LARGE))
    }
}

fn sized(collected: BytesMut, arrived: usize, bytes_max: usize) -> Result<Bytes, ApiError> {
    if arrived > bytes_max { Err(too_large(bytes_max)) } else { Ok(collected.freeze()) }
}

pub(crate) fn too_large(bytes_max: usize) -> ApiError {
    let message =
        format!("the body is larger than {bytes_max} bytes, which is the most that one request may have");
    ApiError::TooLarge { message, details: Some(json!({ "bytes_max": bytes_max })) }
}

/// Only JSON is taken, and only under its name: other types are what a form on a strange page can post.
pub(crate) fn must_be_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut sent = headers.get_all(header::CONTENT_TYPE).iter();
    let essence = match (sent.next(), sent.next()) {
        (Some(value), None) => value.to_str().ok().and_then(|value| value.split(';').next()).map(str::trim),
        _ => None,
    };
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "the body must not be compressed: send it without a content-encoding";
        return Err(ApiError::invalid_at(message, json!({ "header": "content-encoding" })));
    }
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let message = "the body must be JSON: send the header `content-type: application/json`";
    Err(ApiError::invalid_at(message, json!({ "header": "content-type" })))
}
