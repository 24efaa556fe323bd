//! Sends one request, on a pooled connection or a new one, and waits for the head of its response.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::connect::Connector;
use crate::connection::{Connection, Http2Connection, SendError};
use crate::deadline::{Phase, Progress};
use crate::destinations::Destination;
use crate::failure::Failure;
use crate::pool::{OriginConnections, Pool};
use crate::shortage::AttemptError;

/// The HTTP client of a sender: a connector for new connections and a pool of open ones.
pub(crate) struct Client {
    pub(crate) connector: Connector,
    pub(crate) pool: Arc<Pool>,
}

/// A response whose head has arrived, with the connection that carries its body.
///
/// Dropping it takes the connection out of use, because unread bytes of the body would block the next response.
pub(crate) struct OpenResponse<'a> {
    pub(crate) response: Response<Incoming>,
    pub(crate) connection: Connection,
    /// Set for HTTP/2, whose connections are shared with other requests through the pool.
    retire_on_drop: Option<RetireOnDrop<'a>>,
}

impl Client {
    /// Sends the request once and returns when the response head has arrived.
    ///
    /// A request goes to another connection only if the first one was closed before a byte of it was written.
    pub(crate) async fn send<'a>(
        &'a self,
        destination: &'a Destination,
        mut request: Request<Bytes>,
        progress: &Progress,
    ) -> Result<OpenResponse<'a>, AttemptError> {
        let payload = request.body().clone();
        while let Some(connection) = self.pool.take(&destination.connections).await {
            progress.enter(Phase::Response);
            match self.send_on(connection, destination, request).await {
                Err(SendError::Unsent(head)) => request = head.map(|()| payload.clone()),
                result => return result.map_err(|error| Failure::from(error).into()),
            }
        }
        let connection = self.connector.connect(&destination.target.origin, progress).await?;
        if let Connection::Http2(slot) = &connection {
            self.pool.share(&destination.connections, slot.connection());
        }
        progress.enter(Phase::Response);
        self.send_on(connection, destination, request).await.map_err(|error| Failure::from(error).into())
    }

    /// Makes the connection available to the next request. The response body must have been read to its end.
    ///
    /// Drops the connection instead if a part of the request has not been written yet.
    pub(crate) fn keep_connection(&self, destination: &Destination, response: OpenResponse<'_>) {
        let OpenResponse { response, connection, retire_on_drop } = response;
        drop(response);
        match connection {
            Connection::Http1(connection) => self.pool.put(&destination.connections, connection),
            Connection::Http2(slot) if slot.is_request_written() => {
                slot.complete();
                retire_on_drop.into_iter().for_each(RetireOnDrop::keep);
            }
            Connection::Http2(_) => {}
        }
    }

    async fn send_on<'a>(
        &'a self,
        mut connection: Connection,
        destination: &'a Destination,
        request: Request<Bytes>,
    ) -> Result<OpenResponse<'a>, SendError> {
        let retire_on_drop = match &connection {
            Connection::Http1(_) => None,
            Connection::Http2(slot) => {
                Some(RetireOnDrop::new(&self.pool, &destination.connections, slot.connection()))
            }
        };
        let response = connection.send(&destination.target, request).await?;
        Ok(OpenResponse { response, connection, retire_on_drop })
    }
}

/// Removes a shared HTTP/2 connection from the pool when dropped, unless [`keep`](RetireOnDrop::keep) was called.
///
/// It is dropped whenever a response does not end, including when the deadline passes. A dead connection would
/// otherwise fail every further request until the operating system noticed, and a connection whose response is longer
/// than the sender reads would accumulate stream resets.
struct RetireOnDrop<'a> {
    pool: &'a Pool,
    origin: &'a OriginConnections,
    connection: Option<Http2Connection>,
}

impl<'a> RetireOnDrop<'a> {
    fn new(pool: &'a Pool, origin: &'a OriginConnections, connection: &Http2Connection) -> Self {
        Self { pool, origin, connection: Some(connection.clone()) }
    }

    /// Disarms the guard: the connection stays in the pool.
    fn keep(mut self) {
        self.connection = None;
    }
}

impl Drop for RetireOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            self.pool.retire(self.origin, connection);
        }
    }
}
