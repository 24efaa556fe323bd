//! Listens and serves, within bounds: connections at once, time for a request's head, and time to finish when it
//! is time to stop.

mod impatient;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
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
pub async fn serve(listener: TcpListener, router: Router, mut stop: Stop, grace: Duration) {
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.stopped() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(Impatient::new(stream, READ_WITHIN)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is its own business.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    finish_within(grace, graceful.shutdown()).await;
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
