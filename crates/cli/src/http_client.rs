//! The HTTP client of the command line and of traces: HTTP/1.1, plain or over TLS.
//!
//! It connects directly, never through a proxy. It verifies servers against the system's certificate authorities. It
//! follows no redirect, because a redirect could carry an API key to another server. It never sends a request again of
//! which a byte may have been written.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Limited};
use posthaste_sender::{RootSource, load_root_certificates};
use reqwest::{Body, Request, redirect, retry};
use rustls::{ClientConfig, RootCertStore};
use url::Url;

/// How long an idle connection is kept open for reuse.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// An HTTP client that limits the time and the size of each response, and reuses connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    limits: Limits,
}

/// The limits of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Time for the whole request, from the name lookup to the last byte of the response.
    pub(crate) timeout: Duration,
    /// Largest response body that is read.
    pub(crate) response_bytes_max: usize,
}

/// Why a request got no complete response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("no secure connection: {0}")]
    Tls(String),
    #[error("no response within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the connection failed before the response was complete: {0}")]
    Interrupted(String),
}

impl HttpClient {
    /// Creates a client for requests to this server. Loads the certificate authorities only for an `https` URL.
    pub(crate) fn new(server: &Url, limits: Limits) -> Self {
        let roots = match server.scheme() {
            "https" => load_root_certificates(RootSource::System).expect("only a PEM file can be invalid"),
            _ => RootCertStore::empty(),
        };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls_config(roots))
            .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
            .timeout(limits.timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .build()
            .expect("reqwest accepts a configuration of the rustls version that it uses");
        Self { client, limits }
    }

    /// Sends a request and reads the whole response. A response with an error status is not an error here.
    pub(crate) async fn send(&self, request: Request) -> Result<Response<Bytes>, HttpError> {
        let response = self.client.execute(request).await.map_err(|error| self.classify(&error))?;
        let (head, body) = Response::<Body>::from(response).into_parts();
        let body = Limited::new(body, self.limits.response_bytes_max).collect().await;
        let body = body.map_err(|error| self.classify(&*error))?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    /// Converts an error of reqwest, or of reading the body, to an [`HttpError`].
    fn classify(&self, error: &(dyn Error + 'static)) -> HttpError {
        let cause = describe_root_cause(error);
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) if error.is_timeout() => HttpError::Timeout(self.limits.timeout),
            Some(error) if error.is_connect() && chain(error).any(is_tls_failure) => HttpError::Tls(cause),
            Some(error) if error.is_connect() => HttpError::Connect(cause),
            _ => HttpError::Interrupted(cause),
        }
    }
}

/// Creates a TLS configuration that trusts these certificate authorities and sends no client certificate.
fn tls_config(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Yields an error and its causes, outermost first.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // `io::Error::source` skips the error that it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

/// Returns whether TLS itself failed, or the server closed the connection during the handshake.
fn is_tls_failure(error: &(dyn Error + 'static)) -> bool {
    let is_eof = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    error.is::<rustls::Error>() || error.downcast_ref().is_some_and(is_eof)
}

/// Describes the innermost cause. The outer errors only say that a request failed.
fn describe_root_cause(error: &(dyn Error + 'static)) -> String {
    let root = chain(error).last().unwrap_or(error);
    // The first byte of the response is no TLS record: most likely the status line of an HTTP response.
    let no_tls = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
    if root.downcast_ref::<rustls::Error>() == Some(&no_tls) {
        return "this port speaks plain HTTP".to_owned();
    }
    match root.downcast_ref::<io::Error>() {
        // The text of the kind has no error number of the operating system.
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        _ => root.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Sends a request to a server that responds with these bytes and then waits for the client to hang up.
    async fn send(response: &'static str, limits: Limits) -> Result<Response<Bytes>, HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1_024];
            while stream.read(&mut buffer).await.unwrap() > 0 {
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        });
        HttpClient::new(&url, limits).send(Request::new(Method::GET, url)).await
    }

    #[tokio::test]
    async fn https_to_a_port_without_tls_says_that_it_speaks_plain_http() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("https://{}", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let error = HttpClient::new(&url, LIMITS).send(Request::new(Method::GET, url)).await.unwrap_err();
        assert!(
            matches!(&error, HttpError::Tls(reason) if reason == "this port speaks plain HTTP"),
            "{error:?}"
        );
    }

    const LIMITS: Limits = Limits { timeout: Duration::from_secs(60), response_bytes_max: 4 };

    #[tokio::test]
    async fn redirect_is_returned_and_not_followed() {
        let response = "HTTP/1.1 307 X\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(send(response, LIMITS).await.unwrap().status(), StatusCode::TEMPORARY_REDIRECT);
    }

    #[tokio::test]
    async fn response_may_be_as_long_as_its_limit() {
        let response = "HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\nbody";
        assert_eq!(send(response, LIMITS).await.unwrap().into_body(), "body");
        let too_long = "HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\nbody!";
        assert!(matches!(send(too_long, LIMITS).await, Err(HttpError::Interrupted(_))));
    }

    #[tokio::test]
    async fn incomplete_response_times_out() {
        let limits = Limits { timeout: Duration::from_millis(50), ..LIMITS };
        for incomplete in ["", "HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\n"] {
            let error = send(incomplete, limits).await.unwrap_err();
            assert!(matches!(error, HttpError::Timeout(_)), "{incomplete}: {error}");
        }
    }
}
