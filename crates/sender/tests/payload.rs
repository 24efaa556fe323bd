//! The payload is one buffer, from the store to the socket: an attempt makes no copy of it.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "delivery/receiver.rs"]
#[expect(dead_code, reason = "only a part of the well-behaved receiver is needed to count bytes")]
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

/// The whole process is measured, so one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What an attempt and its receiver may have allocated at any moment: heads, headers, buffers, and over TLS the pieces
/// that are being encrypted. It is the same for all payloads.
const BESIDE_IT_MAX: usize = 512 * 1024;
const PAYLOADS_BYTES: [usize; 2] = [4 * 1024 * 1024, 32 * 1024 * 1024];

/// Lets this serve each connection; says on which port.
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

/// Reads one request into one small buffer of its own, and answers when the payload is there.
async fn serve_http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = vec![0; 64 * 1024];
    let mut head = Vec::new();
    let body_began = loop {
        let read = stream.read(&mut buffer).await.unwrap();
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = std::str::from_utf8(&head[..body_began]).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut left = length.parse::<usize>().unwrap() - (head.len() - body_began);
    while left > 0 {
        left -= stream.read(&mut buffer).await.unwrap();
    }
    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer).await.unwrap();
    stream.flush().await.unwrap();
}

async fn serve_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let answer = service_fn(async |mut request: Request<Incoming>| {
        while request.body_mut().frame().await.transpose().unwrap().is_some() {}
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let mut server = http2::Builder::new(TokioExecutor::new());
    server.initial_stream_window_size(64 * 1024).initial_connection_window_size(64 * 1024);
    server.serve_connection(TokioIo::new(stream), answer).await.unwrap();
}

/// The most bytes that an attempt with a payload of this size takes beside it.
async fn most_bytes_beside(sender: &HttpSender, url: &str, payload_bytes: usize) -> usize {
    let mut lease = lease(url);
    lease.payload = Bytes::from(vec![b'x'; payload_bytes]);
    let mut most = 0;
    // The first attempt also makes what is made once.
    for attempts in 0..3 {
        lease.attempts = attempts;
        ALLOCATED.reset_peak_usage();
        let before = ALLOCATED.current_usage();
        assert_eq!(send(sender, &lease).await.http_status(), Some(200));
        most = most.max(ALLOCATED.peak_usage() - before);
    }
    most
}

async fn assert_no_copy(sender: &HttpSender, url: &str) {
    for payload_bytes in PAYLOADS_BYTES {
        let beside_it = most_bytes_beside(sender, url, payload_bytes).await;
        assert!(beside_it < BESIDE_IT_MAX, "{beside_it} bytes beside a payload of {payload_bytes}");
    }
}

#[tokio::test]
async fn an_attempt_allocates_no_copy_of_the_payload() {
    let _alone = ALONE.lock().await;
    let port = listen(serve_http1).await;
    assert_no_copy(&sender(&[SECRET], |_| ()), &format!("http://127.0.0.1:{port}/hook")).await;
}

#[tokio::test]
async fn an_attempt_over_tls_allocates_no_copy_of_the_payload() {
    let _alone = ALONE.lock().await;
    let certificate = Certificate::over("http/1.1");
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
    let _alone = ALONE.lock().await;
    let certificate = Certificate::over("h2");
    let acceptor = certificate.acceptor();
    let port = listen(move |stream| {
        let accepting = acceptor.accept(stream);
        async { serve_http2(accepting.await.unwrap()).await }
    })
    .await;
    let sender = sender(&[SECRET], |options| options.ca_file = Some(certificate.file()));
    assert_no_copy(&sender, &format!("https://127.0.0.1:{port}/hook")).await;
}
