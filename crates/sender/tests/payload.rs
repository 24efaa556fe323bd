//! An attempt makes no copy of the payload, which is one buffer from the store to the socket.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "delivery/receiver.rs"]
#[expect(dead_code, reason = "these tests need only a part of the receiver")]
mod receiver;

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use peak_alloc::PeakAlloc;
use posthaste_sender::HttpSender;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use certificate::Certificate;
use receiver::{SECRET, lease, send, sender};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Serializes the tests, because each measures the whole process.
static SERIAL: Mutex<()> = Mutex::const_new(());

/// Upper bound of memory that an attempt and its receiver use in addition to the payload: heads, headers, buffers, and TLS
/// records. It is the same for all payload sizes.
const OVERHEAD_MAX: usize = 512 * 1024;
const PAYLOAD_SIZES: [usize; 2] = [4 * 1024 * 1024, 32 * 1024 * 1024];

/// Serves each connection with a function, one at a time. Returns the port.
async fn listen<F: Future<Output = ()> + Send>(
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            serve(listener.accept().await.unwrap().0).await;
        }
    });
    port
}

/// Reads one request through a small buffer, and responds when the whole payload has arrived.
async fn serve_http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = vec![0; 64 * 1024];
    let mut head = Vec::new();
    let body_start = loop {
        let read = stream.read(&mut buffer).await.unwrap();
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = std::str::from_utf8(&head[..body_start]).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut left = length.parse::<usize>().unwrap() - (head.len() - body_start);
    while left > 0 {
        left -= stream.read(&mut buffer).await.unwrap();
    }
    let response = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(response).await.unwrap();
    stream.flush().await.unwrap();
}

async fn serve_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let service = service_fn(async |mut request: Request<Incoming>| {
        while request.body_mut().frame().await.transpose().unwrap().is_some() {}
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let mut server = http2::Builder::new(TokioExecutor::new());
    server.initial_stream_window_size(64 * 1024).initial_connection_window_size(64 * 1024);
    server.serve_connection(TokioIo::new(stream), service).await.unwrap();
}

/// Returns the peak memory of attempts with a payload of this size, without the payload.
async fn peak_overhead(sender: &HttpSender, url: &str, payload_bytes: usize) -> usize {
    let mut lease = lease(url);
    lease.payload = Bytes::from(vec![b'x'; payload_bytes]).into();
    let mut peak = 0;
    // Several attempts, because the first one also allocates what is allocated only once.
    for attempts in 0..3 {
        lease.attempts = attempts;
        ALLOCATED.reset_peak_usage();
        let before = ALLOCATED.current_usage();
        assert_eq!(send(sender, &lease).await.http_status(), Some(200));
        peak = peak.max(ALLOCATED.peak_usage() - before);
    }
    peak
}

async fn assert_no_copy(sender: &HttpSender, url: &str) {
    for payload_bytes in PAYLOAD_SIZES {
        let overhead = peak_overhead(sender, url, payload_bytes).await;
        assert!(overhead < OVERHEAD_MAX, "{overhead} bytes in addition to a payload of {payload_bytes}");
    }
}

#[tokio::test]
async fn an_attempt_allocates_no_copy_of_the_payload() {
    let _serial = SERIAL.lock().await;
    let port = listen(serve_http1).await;
    assert_no_copy(&sender(&[SECRET], |_| ()), &format!("http://127.0.0.1:{port}/hook")).await;
}

#[tokio::test]
async fn an_attempt_over_tls_allocates_no_copy_of_the_payload() {
    let _serial = SERIAL.lock().await;
    let certificate = Certificate::with_alpn("http/1.1");
    let acceptor = certificate.acceptor();
    let port = listen(move |stream| {
        let accepting = acceptor.accept(stream);
        async { serve_http1(accepting.await.unwrap()).await }
    })
    .await;
    let sender = sender(&[SECRET], |options| options.ca_file = Some(certificate.file()));
    assert_no_copy(&sender, &format!("https://127.0.0.1:{port}/hook")).await;
}

#[tokio::test]
async fn an_attempt_over_http2_allocates_no_copy_of_the_payload() {
    let _serial = SERIAL.lock().await;
    let certificate = Certificate::with_alpn("h2");
    let acceptor = certificate.acceptor();
    let port = listen(move |stream| {
        let accepting = acceptor.accept(stream);
        async { serve_http2(accepting.await.unwrap()).await }
    })
    .await;
    let sender = sender(&[SECRET], |options| options.ca_file = Some(certificate.file()));
    assert_no_copy(&sender, &format!("https://127.0.0.1:{port}/hook")).await;
}
