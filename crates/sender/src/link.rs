//! An open connection that can carry requests, in either version of HTTP.

mod frames;
mod http1;
mod http2;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use posthaste_domain::ErrorClass;

use crate::failure::Failure;
use crate::target::Target;

pub(crate) use http1::Http1;
pub(crate) use http2::{Http2, Http2Place};

/// Response headers, in number and in bytes.
const HEADERS_MAX: usize = 100;
const HEAD_BYTES_MAX: usize = 32 * 1024;

pub(crate) enum Link {
    /// Carries one request at a time, and belongs to whoever sends it.
    Http1(Box<Http1>),
    /// Carries many at once; this is the place of one.
    Http2(Http2Place),
}

/// Why a request has no response head.
pub(crate) enum Unanswered {
    /// The connection was closed before a byte of the request was written: another connection may carry it, and the
    /// receiver will still see it once. This is its head.
    NeverStarted(Box<Request<()>>),
    /// It may have been seen.
    Failed(Failure),
}

impl Link {
    pub(crate) async fn send(
        &mut self,
        target: &Target,
        mut request: Request<Bytes>,
    ) -> Result<Response<Incoming>, Unanswered> {
        match self {
            Self::Http1(link) => {
                target.address_http1(&mut request);
                link.send(request).await
            }
            Self::Http2(link) => {
                target.address_http2(&mut request);
                link.send(request).await
            }
        }
    }

    /// The next piece of a response's body; none at its end.
    pub(crate) async fn next_piece(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        match self {
            Self::Http1(link) => link.next_piece(body).await,
            Self::Http2(_) => http2::next_piece(body).await,
        }
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NeverStarted(_) => Self::new(
                ErrorClass::Reset,
                "the connection could not be used: closed, or answered before anything was asked",
            ),
            Unanswered::Failed(failure) => failure,
        }
    }
}
