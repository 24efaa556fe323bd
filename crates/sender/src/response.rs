//! Reads a response as far as it matters. The status line decides the outcome; an excerpt of the body is kept for the
//! operator.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use posthaste_domain::{Outcome, Timestamp, parse_retry_after};

use crate::exchange::OpenResponse;

/// Upper bound of body bytes that are read. A body within it is read to its end, so that its connection can be reused.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Upper bound of body bytes that are kept; the excerpt is taken from them.
const KEPT_BYTES_MAX: usize = 2 * 1024;

/// The parts of a response that become the outcome. A failure while the body is read does not change the outcome.
pub(crate) struct ResponseSummary {
    status: StatusCode,
    retry_after: Option<Duration>,
    body_start: Vec<u8>,
}

impl ResponseSummary {
    pub(crate) fn new(response: &Response<Incoming>, now: Timestamp) -> Self {
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Self {
            status: response.status(),
            retry_after: header.and_then(|value| parse_retry_after(value, now)),
            body_start: Vec::new(),
        }
    }

    /// Reads the body up to its bound. Returns whether the body ended; it may also be longer, or break off.
    ///
    /// When this future is dropped, the bytes that were read so far remain part of the excerpt.
    pub(crate) async fn read_body(&mut self, open: &mut OpenResponse<'_>) -> bool {
        let body = open.response.body_mut();
        let mut read = 0;
        while read <= BODY_BYTES_MAX
            && let Ok(chunk) = open.connection.next_chunk(body).await
        {
            let Some(chunk) = chunk else { return true };
            let capacity = KEPT_BYTES_MAX - self.body_start.len();
            self.body_start.extend_from_slice(&chunk[..chunk.len().min(capacity)]);
            read += chunk.len();
        }
        // The chunk that exceeded the bound may have been the last one.
        body.is_end_stream()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::response(self.status.as_u16(), self.retry_after, &self.body_start)
    }
}
