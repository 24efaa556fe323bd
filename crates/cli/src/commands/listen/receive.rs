//! Serves a connection: reads each request whole, checks its signature, passes it on to be printed, and responds.

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

use super::delivery::{Delivery, SignatureCheck, header_text};
use super::response_policy::ResponsePolicy;
use crate::terminal::time;
use crate::timers::{sleep, with_timeout};

/// Largest request body that is read: the largest payload that a Posthaste server can be configured to accept.
const BODY_BYTES_MAX: usize = 16 * 1_024 * 1_024;
const HEAD_BYTES_MAX: usize = 64 * 1_024;
/// Time limit for reading the head of a request, and again for its body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Receives deliveries, on any number of connections: checks them, passes them on to be printed, and responds.
pub(super) struct Receiver {
    keys: Option<SigningKeys>,
    policy: Mutex<ResponsePolicy>,
    /// Channel to the task that prints deliveries.
    deliveries: mpsc::Sender<Delivery>,
}

impl Receiver {
    pub(super) fn new(
        keys: Option<SigningKeys>,
        policy: ResponsePolicy,
        deliveries: mpsc::Sender<Delivery>,
    ) -> Self {
        Self { keys, policy: Mutex::new(policy), deliveries }
    }

    /// Serves the requests of one connection until the sender closes it or violates HTTP.
    pub(super) async fn serve(&self, stream: TcpStream) {
        let service = service_fn(|request| async { Ok::<_, Infallible>(self.receive(request).await) });
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn receive(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::POST {
            let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, "deliveries are POST requests");
            response.headers_mut().insert(ALLOW, http::HeaderValue::from_static("POST"));
            return response;
        }
        let (head, body) = request.into_parts();
        let too_large = || text_response(StatusCode::PAYLOAD_TOO_LARGE, "more than 16 MiB");
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            return too_large();
        }
        let body = match with_timeout(READ_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Some(Ok(body)) => body.to_bytes(),
            Some(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Some(Err(_)) => return text_response(StatusCode::BAD_REQUEST, "the body ended early"),
            None => return text_response(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        };
        let at = time::now();
        let header = |name: &str| header_text(&head.headers, name).map(str::to_owned);
        let check = SignatureCheck::run(self.keys.as_ref(), &head.headers, &body, at);
        let event_id = header("webhook-id");
        let (status, delay) = {
            let mut policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
            (policy.choose_status(event_id.as_deref(), &check), policy.delay)
        };
        let message = match &check {
            SignatureCheck::NotVerified(reason) if status == StatusCode::UNAUTHORIZED => reason.clone(),
            _ if status.is_success() => "received".to_owned(),
            _ => format!("responded {} as configured", status.as_u16()),
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
        // Fails only while the command shuts down and prints no more; the sender still gets its response.
        let _ = self.deliveries.send(delivery).await;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        text_response(status, &message)
    }
}

fn text_response(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{message}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
