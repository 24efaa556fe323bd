//! Listens and serves, within bounds: connections at once, time for a request's head, and time to finish when it
//! is time to stop.

mod impatient;

use std::future::pending;
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
use tokio::sync::Semaphore;

use crate::service::stop::Stop;

use impatient::Impatient;

/// Connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 2_048;
/// How long a client may take for the head of a request, and how long a connection may idle.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a client may leave what it was sent unread.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// What a connection may make us hold before its request is understood.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// After an error of the listener itself, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is time to stop, then lets what is under way finish within `grace`.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: Stop, grace: Duration) {
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.stopped() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let attended = attend(stream, &router, &stop, &graceful);
        tokio::spawn(async move {
            attended.await;
            drop(permit);
        });
    }
    drop(listener);
    finish_within(grace, graceful.shutdown()).await;
}

/// Serves one connection until its client leaves or it is time to stop. Then it finishes what it was asked, and one that
/// has not brought a whole head yet was asked nothing: hyper would wait for the rest of it.
fn attend<S>(
    stream: S,
    router: &Router,
    stop: &Stop,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(AtomicBool::new(false));
    let service = TowerToHyperService::new(router.clone());
    let service = service_fn({
        let asked = Arc::clone(&asked);
        move |request| {
            asked.store(true, Ordering::Relaxed);
            service.call(request)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Impatient::new(stream, READ_WITHIN)), service);
    let connection = graceful.watch(connection);
    let mut stop = stop.clone();
    let stopped_unasked = async move {
        stop.stopped().await;
        if asked.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    async move {
        tokio::select! {
            biased;
            // First, so that a head that is here is read before it is missed. A client that breaks off is its own
            // business.
            _ = connection => {}
            () = stopped_unasked => {}
        }
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.expect("it is never closed");
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            pause().await;
            None
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "paces real sockets")]
async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

#[expect(clippy::disallowed_methods, reason = "bounds how long real clients are waited for")]
async fn finish_within(grace: Duration, finished: impl Future<Output = ()>) {
    if tokio::time::timeout(grace, finished).await.is_err() {
        tracing::warn!(?grace, "some requests had not finished and were cut off");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use posthaste_engine::{Clock as _, TokioClock};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::Notify;

    use super::*;
    use crate::service::stop::{Stopper, stop};

    const ASKED: &[u8] = b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n";

    /// A connection, of which little is under way at a time: what was written has been read, but for four bytes.
    fn connected(router: &Router) -> (DuplexStream, Stopper, GracefulShutdown) {
        connected_by(router, 4)
    }

    fn connected_by(router: &Router, under_way_max: usize) -> (DuplexStream, Stopper, GracefulShutdown) {
        let (stopper, stop) = stop();
        let (ours, theirs) = duplex(under_way_max);
        let graceful = GracefulShutdown::new();
        tokio::spawn(attend(ours, router, &stop, &graceful));
        (theirs, stopper, graceful)
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_holds_up_nobody_who_stops() {
        for begun in [&b""[..], b"GET /hea", &ASKED[..ASKED.len() - 1]] {
            let (mut client, stopper, graceful) = connected(&Router::new());
            client.write_all(begun).await.unwrap();
            let clock = TokioClock::start();
            stopper.stop();
            graceful.shutdown().await;
            assert_eq!(clock.monotonic(), Duration::ZERO, "{}", String::from_utf8_lossy(begun));
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it is closed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_has_arrived_and_was_not_read_yet_is_answered_before_it_stops() {
        let router = Router::new().route("/slow", get(async || "done"));
        let (mut client, stopper, graceful) = connected_by(&router, ASKED.len());
        // It all fits, so nobody else runs meanwhile.
        client.write_all(ASKED).await.unwrap();
        stopper.stop();
        let shutdown = tokio::spawn(graceful.shutdown());
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("done"), "{answer}");
        shutdown.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_under_way_is_answered_before_it_stops() {
        let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let slow = {
            let (asked, go_on) = (Arc::clone(&asked), Arc::clone(&go_on));
            async move || {
                asked.notify_one();
                go_on.notified().await;
                "done"
            }
        };
        let router = Router::new().route("/slow", get(slow));
        let (mut client, stopper, graceful) = connected(&router);
        client.write_all(ASKED).await.unwrap();
        asked.notified().await;
        stopper.stop();
        let shutdown = tokio::spawn(graceful.shutdown());
        tokio::task::yield_now().await;
        go_on.notify_one();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("done"), "{answer}");
        shutdown.await.unwrap();
    }
}
