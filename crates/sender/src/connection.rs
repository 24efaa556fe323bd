//! An open connection to a receiver, over HTTP/1.1 or HTTP/2.

mod frame_meter;
mod http1;
mod http2;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use posthaste_domain::ErrorClass;

use crate::failure::Failure;
use crate::target::Target;

pub(crate) use http1::Http1Connection;
pub(crate) use http2::{Http2Connection, StreamSlot};

/// Upper bound of headers in a response.
const HEADERS_MAX: usize = 100;
/// Upper bound of bytes in a response head.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// A connection that can carry the request of one attempt.
pub(crate) enum Connection {
    /// An HTTP/1.1 connection. It carries one request at a time and belongs to the attempt that sends it.
    Http1(Box<Http1Connection>),
    /// One request's slot on an HTTP/2 connection, which carries many requests at once.
    Http2(StreamSlot),
}

/// Why a request got no response head.
pub(crate) enum SendError {
    /// The connection was closed before a byte of the request was written. The caller may send the request on another
    /// connection, and the receiver still sees it only once. Contains the head of the request.
    Unsent(Box<Request<()>>),
    /// The request failed after it may have reached the receiver.
    Failed(Failure),
}

impl Connection {
    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        target: &Target,
        mut request: Request<Bytes>,
    ) -> Result<Response<Incoming>, SendError> {
        match self {
            Self::Http1(connection) => {
                target.set_http1_target(&mut request);
                connection.send(request).await
            }
            Self::Http2(slot) => {
                target.set_http2_target(&mut request);
                slot.send(request).await
            }
        }
    }

    /// Reads the next chunk of a response body. Returns `None` at the end of the body.
    pub(crate) async fn next_chunk(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        match self {
            Self::Http1(connection) => connection.next_chunk(body).await,
            Self::Http2(_) => http2::next_chunk(body).await,
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent(_) => Self::new(
                ErrorClass::Reset,
                "the connection was closed, or received a response, before the request was sent",
            ),
            SendError::Failed(failure) => failure,
        }
    }
}
