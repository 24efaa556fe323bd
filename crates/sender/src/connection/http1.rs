//! HTTP/1.1: one request at a time, driven by the task that sends it.
//!
//! A connection has no task of its own. The attempt that sends a request also polls the connection. No task polls an
//! idle connection, so bytes that its receiver sends meanwhile stay in the kernel until the check before the next use.
//! Dropping a connection closes its socket at once, even in the middle of a request.

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

use crate::connection::{HEAD_BYTES_MAX, HEADERS_MAX, SendError};
use crate::deadline::now;
use crate::failure::Failure;
use crate::receive_budget::ReceiveBudget;
use crate::request::Body;
use crate::stream::Stream;

/// An open HTTP/1.1 connection.
pub(crate) struct Http1Connection {
    requests: SendRequest<Body>,
    driver: ConnectionDriver,
    budget: Arc<ReceiveBudget>,
    pub(crate) opened_at: Instant,
}

/// Polls hyper's connection future on behalf of the current attempt. `None` once the connection is closed; hyper then
/// returns any request that it has not written.
struct ConnectionDriver(Option<Connection<TokioIo<Stream>, Body>>);

impl Http1Connection {
    pub(crate) async fn open(stream: Stream, budget: Arc<ReceiveBudget>) -> Result<Self, Failure> {
        let (requests, connection) = Builder::new()
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(2 * HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::from_hyper(&error, &budget))?;
        Ok(Self { requests, driver: ConnectionDriver(Some(connection)), budget, opened_at: now() })
    }

    pub(super) async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, SendError> {
        self.budget.start_sole_request();
        let response = self.requests.try_send_request(request.map(Body::new));
        self.driver.drive(response).await.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request.map(drop))),
            None => SendError::Failed(Failure::from_hyper(error.error(), &self.budget)),
        })
    }

    pub(super) async fn next_chunk(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        while !body.is_end_stream() {
            let Some(frame) = self.driver.drive(body.frame()).await.transpose()? else { break };
            // Trailers are ignored.
            if let Ok(chunk) = frame.into_data() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Returns whether an idle connection is usable: its receiver has neither closed it nor sent unrequested bytes.
    pub(crate) async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.driver.poll(cx).is_pending())).await
    }

    /// Returns whether the connection can carry another request now. It cannot while a response is unread, or while the
    /// rest of a request that was answered early is still to be written.
    pub(crate) fn is_idle(&mut self) -> bool {
        matches!(self.driver.drive(self.requests.ready()).now_or_never(), Some(Ok(())))
    }
}

impl ConnectionDriver {
    /// Awaits a future while polling the connection that the future depends on.
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

    /// Polls the connection; ready once it is closed. Its errors are dropped here because hyper also reports them to
    /// the request that they interrupt.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(connection) = &mut self.0 else { return Poll::Ready(()) };
        let closed = Pin::new(connection).poll(cx).map(drop);
        if closed.is_ready() {
            self.0 = None;
        }
        closed
    }
}
