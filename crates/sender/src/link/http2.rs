//! HTTP/2: one connection, shared by all requests to its receiver.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::deadline::now;
use crate::failure::Failure;
use crate::link::{HEAD_BYTES_MAX, Unanswered};
use crate::meter::Meter;
use crate::request::Body;
use crate::stream::Stream;

/// What a receiver may send of one response before we have read it, and of all responses on one connection.
const STREAM_WINDOW_BYTES: u32 = 32 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// One request's hold on the connection. The last one to let go closes it.
#[derive(Clone)]
pub(crate) struct Http2 {
    requests: SendRequest<Body>,
    meter: Arc<Meter>,
    tasks: Arc<Tasks>,
    pub(crate) opened_at: Instant,
}

impl Http2 {
    pub(crate) async fn open(stream: Stream, meter: Arc<Meter>) -> Result<Self, Failure> {
        let tasks = Arc::new(Tasks(Spawner::new()));
        let (requests, connection) = Builder::new(tasks.0.clone())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).expect("a head is small"))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::of(&error, &meter))?;
        // Its errors reach the requests that they interrupt.
        tasks.0.execute(async move { drop(connection.await) });
        Ok(Self { requests, meter, tasks, opened_at: now() })
    }

    pub(super) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Unanswered> {
        self.meter.grant();
        self.requests.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::NeverStarted(Box::new(request)),
            None => Unanswered::Failed(Failure::of(error.error(), &self.meter)),
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.requests.is_closed() && !self.meter.is_exhausted()
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tasks, &other.tasks)
    }

    /// Whether only the caller holds it.
    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.tasks) == 1
    }
}

pub(super) async fn next_piece(body: &mut Incoming) -> Option<Bytes> {
    loop {
        // Trailers are not looked at.
        if let Ok(piece) = body.frame().await?.ok()?.into_data() {
            return Some(piece);
        }
    }
}

/// Ends the connection's tasks at once: a receiver that stops reading cannot keep them alive with what is unsent.
struct Tasks(Spawner);

impl Drop for Tasks {
    fn drop(&mut self) {
        let running = self.0.running().take();
        drop(running);
    }
}

/// The tasks that hyper starts for one connection; none once it has ended.
#[derive(Clone)]
struct Spawner(Arc<Mutex<Option<JoinSet<()>>>>);

impl Spawner {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(JoinSet::new()))))
    }

    fn running(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, task: F) {
        if let Some(running) = self.running().as_mut() {
            while running.try_join_next().is_some() {}
            running.spawn(task);
        }
    }
}
