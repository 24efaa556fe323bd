//! A response, as far as it is read: its status line decides, the rest is for the operator.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use posthaste_domain::{Outcome, Timestamp, retry_after};

use crate::exchange::Exchanged;

/// As much of a body as is read, so that its connection can be used again.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// As much of it as is kept, of which a few words become the excerpt.
const KEPT_BYTES_MAX: usize = 2 * 1024;

/// A response whose head has arrived. What becomes of its body cannot change the outcome.
pub(crate) struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    kept: Vec<u8>,
}

impl Answer {
    pub(crate) fn of(response: &Response<Incoming>, now: Timestamp) -> Self {
        let wish = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Self {
            status: response.status(),
            retry_after: wish.and_then(|value| retry_after(value, now)),
            kept: Vec::new(),
        }
    }

    /// Reads the body up to its bound, and says whether it ended: it may also go on, or break. Dropped half-way, what
    /// was read so far is kept.
    pub(crate) async fn read(&mut self, exchanged: &mut Exchanged<'_>) -> bool {
        let body = exchanged.response.body_mut();
        let mut read = 0;
        while read <= BODY_BYTES_MAX
            && let Ok(piece) = exchanged.link.next_piece(body).await
        {
            let Some(piece) = piece else { return true };
            let room = KEPT_BYTES_MAX - self.kept.len();
            self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
            read += piece.len();
        }
        // The piece that was one too many may have been the last.
        body.is_end_stream()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::response(self.status.as_u16(), self.retry_after, &self.kept)
    }
}
