//! The HTTP server: accepts connections and serves them within limits.
//!
//! It limits the number of connections, the time for a request's head, the time in which a client reads nothing of a
//! response, and the time for open requests at shutdown. See `docs/decisions/0014-own-accept-loop.md` for
//! why this is not `axum::serve`.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutWriter;

use crate::service::open_files::OpenFilesLimit;
use crate::service::shutdown::ShutdownSignal;

/// Maximum number of open connections, unless the process may open too few files. Further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 2_048;
/// How long a client may take to send the head of a request, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a write may wait for the client to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of a connection's read buffer, which also limits the head of a request.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Delay after an error of the listener itself, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves connections until shutdown. Open requests then have `grace` to finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    mut shutdown: ShutdownSignal,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(connections_max()));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.wait() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let connection = serve_connection(stream, &router, &shutdown, &graceful);
        tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    drop(listener);
    finish_requests(grace, graceful.shutdown()).await;
}

/// Returns how many connections of clients may be open.
pub(crate) fn connections_max() -> usize {
    OpenFilesLimit::current().for_clients(CONNECTIONS_MAX)
}

/// Serves one connection until its client closes it, or until shutdown.
///
/// At shutdown, requests that have arrived get their responses. A connection on which no complete head has arrived is
/// closed at once; hyper alone would wait for the rest of the head.
fn serve_connection<S>(
    stream: S,
    router: &Router,
    shutdown: &ShutdownSignal,
    graceful: &GracefulShutdown,
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
    let connection = graceful.watch(connection);
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
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
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
        tokio::spawn(serve_connection(server, router, &shutdown, &graceful));
        (client, trigger, graceful)
    }

    /// Reads until the server closes the connection.
    async fn read_response(client: &mut DuplexStream) -> String {
        let mut response = String::new();
        expect("a response, then the end", client.read_to_string(&mut response)).await.unwrap();
        response
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
