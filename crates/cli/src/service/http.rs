//! The HTTP server: accepts connections and serves them within limits.
//!
//! It limits the number of connections, in all and for each client, the time until the first byte and for a request's
//! head, the time in which a client reads nothing of a response, and the time for open requests at shutdown. See
//! `docs/decisions/0014-own-accept-loop.md` for why this is not `axum::serve`.

mod peers;

use std::future::pending;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutWriter;

use crate::service::open_files::OpenFilesLimit;
use crate::service::shutdown::ShutdownSignal;
use peers::{PeerConnection, Peers};

/// Maximum number of open connections, unless the process may open too few files. Further ones wait in the listener's
/// backlog.
const CONNECTIONS_MAX: usize = 2_048;
/// Part of the connections that one client may hold. Connections through a reverse proxy are all of one client.
const PEER_SHARE: usize = 4;
/// How long a new connection may be silent. Clients connect when they have a request to send.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to send the head of a request, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a write may wait for the client to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of a connection's read buffer, which also limits the head of a request.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Delay after an error of the listener itself, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves connections until shutdown. Open requests then have `grace` to finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, shutdown: ShutdownSignal, grace: Duration) {
    serve_within(connections_max(), listener, router, shutdown, grace).await;
}

async fn serve_within(
    connections_max: usize,
    listener: TcpListener,
    router: Router,
    mut shutdown: ShutdownSignal,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(connections_max));
    let peers = Peers::new(connections_max.div_ceil(PEER_SHARE));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.wait() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        // Closing the connection is the whole answer to a client that holds too many: reading its request takes time.
        let Some(peer) = peers.admit(peer) else { continue };
        let (router, shutdown, watcher) = (router.clone(), shutdown.clone(), graceful.watcher());
        tokio::spawn(async move {
            if sends_first_byte(&stream, shutdown.clone()).await {
                serve_connection(stream, &router, &shutdown, watcher).await;
            }
            drop::<(OwnedSemaphorePermit, PeerConnection)>((permit, peer));
        });
    }
    drop(listener);
    finish_requests(grace, graceful.shutdown()).await;
}

/// Returns how many connections of clients may be open.
pub(crate) fn connections_max() -> usize {
    OpenFilesLimit::current().for_clients(CONNECTIONS_MAX)
}

/// Waits for the first byte of a new connection. Returns false if the client stays silent, closes the connection, or the
/// process shuts down first.
#[expect(clippy::disallowed_methods, reason = "bounds the silence of real clients")]
async fn sends_first_byte(stream: &TcpStream, mut shutdown: ShutdownSignal) -> bool {
    let mut byte = [0; 1];
    let peeked = tokio::time::timeout(FIRST_BYTE_TIMEOUT, stream.peek(&mut byte));
    tokio::select! {
        biased;
        peeked = peeked => matches!(peeked, Ok(Ok(1))),
        () = shutdown.wait() => false,
    }
}

/// Serves one connection until its client closes it, or until shutdown.
///
/// At shutdown, requests that have arrived get their responses. A connection on which no complete head has arrived is
/// closed at once; hyper alone would wait for the rest of the head.
fn serve_connection<S>(
    stream: S,
    router: &Router,
    shutdown: &ShutdownSignal,
    watcher: Watcher,
) -> impl Future<Output = ()> + use<S>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let has_request = Arc::new(AtomicBool::new(false));
    let service = TowerToHyperService::new(router.clone());
    let service = service_fn({
        let has_request = Arc::clone(&has_request);
        move |request| {
            has_request.store(true, Ordering::Relaxed);
            service.call(request)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(with_write_timeout(stream)), service);
    let connection = watcher.watch(connection);
    let mut shutdown = shutdown.clone();
    let shutdown_without_request = async move {
        shutdown.wait().await;
        if has_request.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    async move {
        tokio::select! {
            biased;
            // The connection is polled first, so that it reads a head that has already arrived. Its error is that of
            // the client, which has closed the connection or violated the protocol.
            _ = connection => {}
            () = shutdown_without_request => {}
        }
    }
}

/// Wraps a stream so that a write fails once it has made no progress for [`WRITE_TIMEOUT`].
fn with_write_timeout<S: AsyncRead + AsyncWrite>(stream: S) -> Pin<Box<TimeoutWriter<S>>> {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(WRITE_TIMEOUT));
    Box::pin(stream)
}

/// Accepts a connection once there is a permit for it. Returns None after an error of the listener.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
    match listener.accept().await {
        Ok((stream, peer)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, peer.ip(), permit))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            wait_before_retry().await;
            None
        }
    }
}

/// Waits before the next attempt to accept a connection.
#[expect(clippy::disallowed_methods, reason = "paces real sockets")]
async fn wait_before_retry() {
    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
}

/// Waits for open requests, at most for `grace`.
#[expect(clippy::disallowed_methods, reason = "bounds the wait for real clients")]
async fn finish_requests(grace: Duration, finished: impl Future<Output = ()>) {
    if tokio::time::timeout(grace, finished).await.is_err() {
        tracing::warn!(?grace, "some requests did not finish in time and were cancelled");
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::routing::get;
    use posthaste_engine::{Clock as _, TokioClock};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::Notify;

    use super::*;
    use crate::service::shutdown::{ShutdownTrigger, shutdown_channel};

    const REQUEST: &[u8] = b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n";
    /// Limit of a wait in a test. The clock is paused, so a test that hangs fails at once.
    const TIMEOUT: Duration = Duration::from_secs(600);

    /// Waits for `fact`, or fails the test with `expected`.
    async fn expect<T>(expected: &str, fact: impl Future<Output = T>) -> T {
        posthaste_engine::within(&TokioClock::start(), TIMEOUT, fact)
            .await
            .unwrap_or_else(|| panic!("expected in {TIMEOUT:?}: {expected}"))
    }

    /// Creates a connection with a buffer of four bytes: the server has read everything else that the client has
    /// written.
    fn connect(router: &Router) -> (DuplexStream, ShutdownTrigger, GracefulShutdown) {
        connect_with_buffer(router, 4)
    }

    fn connect_with_buffer(
        router: &Router,
        buffer_bytes: usize,
    ) -> (DuplexStream, ShutdownTrigger, GracefulShutdown) {
        let (trigger, shutdown) = shutdown_channel();
        let (server, client) = duplex(buffer_bytes);
        let graceful = GracefulShutdown::new();
        tokio::spawn(serve_connection(server, router, &shutdown, graceful.watcher()));
        (client, trigger, graceful)
    }

    /// Reads until the server closes the connection.
    async fn read_response(client: &mut DuplexStream) -> String {
        let mut response = String::new();
        expect("a response, then the end", client.read_to_string(&mut response)).await.unwrap();
        response
    }

    /// Opens a connection from one of the addresses of this host.
    async fn connect_from(client: &str, server: std::net::SocketAddr) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
        expect("a connection", socket.connect(server)).await.unwrap()
    }

    #[tokio::test]
    async fn one_client_with_many_silent_connections_does_not_keep_others_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/slow", get(async || "done"));
        let (_trigger, shutdown) = shutdown_channel();
        tokio::spawn(serve_within(8, listener, router, shutdown, Duration::ZERO));
        let _silent = [connect_from("127.0.0.1", address).await, connect_from("127.0.0.1", address).await];
        let mut beyond = connect_from("127.0.0.1", address).await;
        let read = expect("the end of the connection", beyond.read(&mut [0; 1])).await;
        assert!(matches!(read, Ok(0)) || read.is_err(), "{read:?}");
        let mut other = connect_from("127.0.0.2", address).await;
        other.write_all(REQUEST).await.unwrap();
        let mut status = [0; 15];
        expect("a response", other.read_exact(&mut status)).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn silent_connection_is_closed_at_shutdown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trigger, shutdown) = shutdown_channel();
        let server = tokio::spawn(serve_within(8, listener, Router::new(), shutdown, TIMEOUT));
        let _silent = connect_from("127.0.0.1", address).await;
        trigger.fire();
        expect("shutdown", server).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_head_does_not_delay_shutdown() {
        for begun in [&b""[..], b"GET /hea", &REQUEST[..REQUEST.len() - 1]] {
            let (mut client, trigger, graceful) = connect(&Router::new());
            expect("the server reads", client.write_all(begun)).await.unwrap();
            let clock = TokioClock::start();
            trigger.fire();
            expect("shutdown", graceful.shutdown()).await;
            assert_eq!(clock.monotonic(), Duration::ZERO, "{}", String::from_utf8_lossy(begun));
            assert_eq!(read_response(&mut client).await, "", "the connection is closed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_arrived_unread_gets_its_response_at_shutdown() {
        let router = Router::new().route("/slow", get(async || "done"));
        let (mut client, trigger, graceful) = connect_with_buffer(&router, REQUEST.len());
        // The request fits into the buffer, so the server does not run before the shutdown starts.
        client.write_all(REQUEST).await.unwrap();
        trigger.fire();
        let shutdown = tokio::spawn(graceful.shutdown());
        let response = read_response(&mut client).await;
        assert!(response.starts_with("HTTP/1.1 200 OK") && response.ends_with("done"), "{response}");
        expect("shutdown", shutdown).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn request_in_progress_gets_its_response_at_shutdown() {
        let (started, proceed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let slow = {
            let (started, proceed) = (Arc::clone(&started), Arc::clone(&proceed));
            async move || {
                started.notify_one();
                proceed.notified().await;
                "done"
            }
        };
        let router = Router::new().route("/slow", get(slow));
        let (mut client, trigger, graceful) = connect(&router);
        expect("the server reads", client.write_all(REQUEST)).await.unwrap();
        expect("the request starts", started.notified()).await;
        trigger.fire();
        let shutdown = tokio::spawn(graceful.shutdown());
        tokio::task::yield_now().await;
        proceed.notify_one();
        let response = read_response(&mut client).await;
        assert!(response.starts_with("HTTP/1.1 200 OK") && response.ends_with("done"), "{response}");
        expect("shutdown", shutdown).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn write_fails_if_the_client_stops_reading_but_not_if_it_reads_slowly() {
        let (server, mut client) = duplex(16);
        let mut server = with_write_timeout(server);
        let slow_reader = tokio::spawn(async move {
            let mut byte = [0; 1];
            for _ in 0..64 {
                #[expect(clippy::disallowed_methods, reason = "the clock is paused")]
                tokio::time::sleep(WRITE_TIMEOUT * 2 / 3).await;
                client.read_exact(&mut byte).await.unwrap();
            }
            client
        });
        let slow = Duration::from_secs(3_600);
        let written = posthaste_engine::within(&TokioClock::start(), slow, server.write_all(&[0; 80])).await;
        written.expect("the client reads 64 bytes within an hour").unwrap();
        let _client = expect("the reader stops", slow_reader).await.unwrap();
        let error = expect("the write fails", server.write_all(&[0; 80])).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
