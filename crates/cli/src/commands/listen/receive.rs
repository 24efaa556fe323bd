//! From a connection to deliveries: requests are read whole, checked, shown, and answered.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use posthaste_domain::signature::SigningKeys;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::answering::Answering;
use super::delivery::{Check, Delivery, text};
use crate::client::{pause, within};
use crate::terminal::time;

/// The largest payload that a server can be configured to accept.
const BODY_BYTES_MAX: usize = 16 * 1_024 * 1_024;
const HEAD_BYTES_MAX: usize = 64 * 1_024;
/// For the head of a request, and again for its body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

type Answer = Response<Full<Bytes>>;

pub(super) struct Receiver {
    keys: Option<SigningKeys>,
    answering: Mutex<Answering>,
    deliveries: mpsc::Sender<Delivery>,
}

impl Receiver {
    pub(super) fn new(
        keys: Option<SigningKeys>,
        answering: Answering,
        deliveries: mpsc::Sender<Delivery>,
    ) -> Self {
        Self { keys, answering: Mutex::new(answering), deliveries }
    }

    /// Until the sender hangs up, or breaks the protocol: then its next delivery comes on another connection.
    pub(super) async fn serve(&self, stream: TcpStream) {
        let service = service_fn(|request| async { Ok::<_, Infallible>(self.receive(request).await) });
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn receive(&self, request: Request<Incoming>) -> Answer {
        if request.method() != Method::POST {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "deliveries are POST requests");
            answer.headers_mut().insert(ALLOW, http::HeaderValue::from_static("POST"));
            return answer;
        }
        let (head, body) = request.into_parts();
        let too_large = || plain(StatusCode::PAYLOAD_TOO_LARGE, "more than 16 MiB");
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            return too_large();
        }
        let body = match within(READ_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Some(Ok(body)) => body.to_bytes(),
            Some(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Some(Err(_)) => return plain(StatusCode::BAD_REQUEST, "the body ended early"),
            None => return plain(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        };
        let at = time::now();
        let header = |name: &str| text(&head.headers, name).map(str::to_owned);
        let check = Check::of(self.keys.as_ref(), &head.headers, &body, at);
        let event_id = header("webhook-id");
        let (status, delay) = {
            let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
            (answering.choose(event_id.as_deref(), &check), answering.delay)
        };
        let words = match &check {
            Check::NotVerified(why) if status == StatusCode::UNAUTHORIZED => why.clone(),
            _ if status.is_success() => "received".to_owned(),
            _ => format!("answered {} as asked", status.as_u16()),
        };
        let delivery = Delivery {
            at,
            path: head.uri.path().to_owned(),
            event_id,
            event_type: header("posthaste-event-type"),
            attempt: header("posthaste-attempt").and_then(|number| number.parse().ok()),
            content_type: header(CONTENT_TYPE.as_str()),
            check,
            status,
            body,
        };
        // Nobody shows it any more: the command is about to end, and the answer still holds.
        let _ = self.deliveries.send(delivery).await;
        if !delay.is_zero() {
            pause(delay).await;
        }
        plain(status, &words)
    }
}

fn plain(status: StatusCode, words: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{words}\n"))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
