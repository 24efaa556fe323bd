//! HTTP/1.1: one request at a time, driven by the task that sends it.
//!
//! There is no task per connection. While a request is under way its own task polls the connection; an idle one is
//! polled by nobody, so whatever its receiver sends meanwhile stays in the kernel until it is looked at before its
//! next use. Dropped, it is closed at once, whatever it was doing.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use crate::deadline::now;
use crate::failure::Failure;
use crate::link::{HEAD_BYTES_MAX, HEADERS_MAX, Unanswered};
use crate::meter::Meter;
use crate::request::Body;
use crate::stream::Stream;

pub(crate) struct Http1 {
    requests: SendRequest<Body>,
    wire: Wire,
    meter: Arc<Meter>,
    pub(crate) opened_at: Instant,
}

/// The connection's own work; none once it is closed. What hyper still holds of a request is then handed back.
struct Wire(Option<Connection<TokioIo<Stream>, Body>>);

impl Http1 {
    pub(crate) async fn open(stream: Stream, meter: Arc<Meter>) -> Result<Self, Failure> {
        let (requests, connection) = Builder::new()
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(2 * HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::of(&error, &meter))?;
        Ok(Self { requests, wire: Wire(Some(connection)), meter, opened_at: now() })
    }

    pub(super) async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, Unanswered> {
        self.meter.grant_alone();
        let answer = self.requests.try_send_request(request.map(Body::new));
        self.wire.drive(answer).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::NeverStarted(Box::new(request.map(drop))),
            None => Unanswered::Failed(Failure::of(error.error(), &self.meter)),
        })
    }

    pub(super) async fn next_piece(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        while !body.is_end_stream() {
            let Some(frame) = self.wire.drive(body.frame()).await.transpose()? else { break };
            // Trailers are not looked at.
            if let Ok(piece) = frame.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Whether the receiver has neither closed it nor sent anything that nobody asked for.
    pub(crate) async fn is_fresh(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.wire.poll(cx).is_pending())).await
    }

    /// Whether the connection can carry another request right now; a response that was left unread cannot be passed
    /// over, and one that came before all of its request was written leaves the rest of it to write.
    pub(crate) fn is_idle(&mut self) -> bool {
        matches!(self.wire.drive(self.requests.ready()).now_or_never(), Some(Ok(())))
    }
}

impl Wire {
    /// What the future gives, while the connection does the work that the future waits for.
    async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            let _ = self.poll(cx);
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Errors of the connection reach the request that they interrupt.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(connection) = &mut self.0 else { return Poll::Ready(()) };
        let closed = Pin::new(connection).poll(cx).map(drop);
        if closed.is_ready() {
            self.0 = None;
        }
        closed
    }
}
