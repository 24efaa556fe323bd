//! Bodies of requests: bounded in size, in time and in number, JSON and nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderMap, header};
use posthaste_engine::{Clock, within};
use serde::de::DeserializeOwned;
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
/// How much of a body that is too large is read all the same: a client that is still writing would otherwise see its
/// connection break instead of the answer.
const DISCARDED_MAX: usize = 64 << 20;
/// Longest piece of a parser's message that is told; it may quote the request.
const QUOTED_CHARS_MAX: usize = 400;

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
        while let Some(chunk) = chunks.next().await {
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
        place.ok_or(ApiError::Busy("too many large requests at once; send this one again in a moment"))
    }
}

fn sized(collected: BytesMut, arrived: usize, bytes_max: usize) -> Result<Bytes, ApiError> {
    if arrived > bytes_max {
        let message = format!("the body is larger than {bytes_max} bytes; send fewer events in one request");
        return Err(ApiError::TooLarge { message, details: Some(json!({ "bytes_max": bytes_max })) });
    }
    Ok(collected.freeze())
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

/// A body that may be left out; then it is what an empty object would be.
pub(crate) fn optional_json<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, ApiError> {
    if body.trim_ascii().is_empty() {
        return serde_json::from_slice(b"{}").map_err(|error| unreadable(&error, None, None));
    }
    must_be_json(headers)?;
    serde_json::from_slice(body).map_err(|error| unreadable(&error, None, None))
}

/// What the parser did not like, and where: in which element, at which field, on which line.
pub(crate) fn unreadable(error: &serde_json::Error, index: Option<usize>, field: Option<&str>) -> ApiError {
    let (line, column) = (error.line(), error.column());
    let full = error.to_string();
    let place = format!(" at line {line} column {column}");
    let mut what: String = full.strip_suffix(&place).unwrap_or(&full).to_owned();
    if let Some((end, _)) = what.char_indices().nth(QUOTED_CHARS_MAX) {
        what.truncate(end);
        what.push('…');
    }
    let mut details = serde_json::Map::new();
    let mut message = String::from("the body is not what is expected: ");
    if let Some(index) = index {
        details.insert("index".to_owned(), json!(index));
        message += &format!("event {index}: ");
    }
    if let Some(field) = field {
        details.insert("field".to_owned(), json!(field));
        message += &format!("{field}: ");
    }
    message += &what;
    if line > 0 {
        details.insert("line".to_owned(), json!(line));
        details.insert("column".to_owned(), json!(column));
        message += &place;
    }
    ApiError::invalid_at(message, details.into())
}
