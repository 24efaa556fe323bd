//! HTTP/2: a connection that several requests share, up to a bounded number at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
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

use crate::connection::frame_meter::FrameMeter;
use crate::connection::{HEAD_BYTES_MAX, SendError};
use crate::deadline::now;
use crate::failure::Failure;
use crate::receive_budget::{REQUEST_BYTES, ReceiveBudget};
use crate::request::Body;
use crate::stream::Stream;

/// Flow-control window of one response: bytes that a receiver may send before they are read.
const STREAM_WINDOW_BYTES: u32 = 32 * 1024;
/// Flow-control window of all responses on one connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// A response's share of the receive budget covers its head, a full window, and a second window for the bytes that were
/// read meanwhile. Larger windows would spend the share of other requests on the connection.
const _: () = assert!(HEAD_BYTES_MAX + 2 * STREAM_WINDOW_BYTES as usize <= REQUEST_BYTES);
/// Upper bound of concurrent requests on one connection; a receiver may allow fewer. Further requests use another
/// connection. They must not queue inside hyper, which would send them even after their attempts have timed out.
const REQUESTS_MAX: usize = 32;

/// An HTTP/2 connection, shared by its requests. It closes when its last clone is dropped.
#[derive(Clone)]
pub(crate) struct Http2Connection(Arc<SharedConnection>);

struct SharedConnection {
    requests: SendRequest<Body>,
    /// Limits what the receiver sends, and counts the requests in flight.
    budget: Arc<ReceiveBudget>,
    /// The receiver's current limit of concurrent streams. The receiver may change it at any time.
    streams_max: Arc<AtomicUsize>,
    opened_at: Instant,
    _tasks: ConnectionTasks,
}

/// One request's slot on an HTTP/2 connection. The receive budget counts the request as in flight until it completes.
pub(crate) struct StreamSlot {
    connection: Http2Connection,
    /// Token that every buffer of the payload holds until it has been written.
    unwritten: Arc<()>,
    completed: bool,
}

impl Http2Connection {
    pub(crate) async fn open(stream: Stream, budget: Arc<ReceiveBudget>) -> Result<Self, Failure> {
        let tasks = ConnectionTasks(TaskSpawner::new());
        let (requests, mut connection) = Builder::new(tasks.0.clone())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(
                u32::try_from(HEAD_BYTES_MAX).expect("the limit of a head fits into 32 bits"),
            )
            .handshake(TokioIo::new(FrameMeter::new(stream, Arc::clone(&budget))))
            .await
            .map_err(|error| Failure::from_hyper(&error, &budget))?;
        let streams_max = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let current_streams_max = Arc::clone(&streams_max);
        // The connection's errors are dropped here because hyper also reports them to the requests they interrupt.
        tasks.0.execute(poll_fn(move |cx| {
            let done = Pin::new(&mut connection).poll(cx).map(drop);
            current_streams_max.store(connection.current_max_send_streams(), Ordering::Relaxed);
            done
        }));
        let shared = SharedConnection { requests, budget, streams_max, opened_at: now(), _tasks: tasks };
        Ok(Self(Arc::new(shared)))
    }

    /// Reserves a slot for one more request. Returns `None` if the connection is closed, is full, or has carried a
    /// request that was cancelled.
    pub(crate) fn reserve_slot(&self) -> Option<StreamSlot> {
        let SharedConnection { requests, budget, .. } = &*self.0;
        (!requests.is_closed() && budget.try_start_request(self.requests_max())).then(|| self.new_slot())
    }

    /// Returns whether [`reserve_slot`](Self::reserve_slot) would succeed.
    pub(crate) fn has_free_slot(&self) -> bool {
        let SharedConnection { requests, budget, .. } = &*self.0;
        !requests.is_closed() && budget.has_capacity(self.requests_max())
    }

    /// Reserves the slot of the request that the connection was opened for. The receiver's limit of concurrent streams
    /// is not known yet and does not apply.
    pub(crate) fn reserve_first_slot(&self) -> StreamSlot {
        self.0.budget.start_sole_request();
        self.new_slot()
    }

    /// Returns whether the connection may have a free slot, now or later.
    pub(crate) fn is_open(&self) -> bool {
        let SharedConnection { requests, budget, .. } = &*self.0;
        !requests.is_closed() && budget.has_capacity(usize::MAX)
    }

    /// Returns whether no request is in flight on the connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.budget.is_idle()
    }

    fn requests_max(&self) -> usize {
        self.0.streams_max.load(Ordering::Relaxed).min(REQUESTS_MAX)
    }

    fn new_slot(&self) -> StreamSlot {
        StreamSlot { connection: self.clone(), unwritten: Arc::new(()), completed: false }
    }

    /// Returns whether both values are clones of one connection.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn opened_at(&self) -> Instant {
        self.0.opened_at
    }
}

impl StreamSlot {
    pub(crate) fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    pub(super) async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, SendError> {
        let SharedConnection { requests, budget, .. } = &*self.connection.0;
        let unwritten = Arc::clone(&self.unwritten);
        let request = request
            .map(|payload| Body::new(Bytes::from_owner(UnwrittenPayload { payload, _token: unwritten })));
        requests.clone().try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request.map(drop))),
            None => SendError::Failed(Failure::from_hyper(error.error(), budget)),
        })
    }

    /// Frees the slot for another request. The response must have ended; dropping the slot without this call cancels
    /// the request.
    pub(crate) fn complete(mut self) {
        self.completed = true;
    }

    /// Returns whether the whole request has been written. A receiver may respond without reading the request; the
    /// unread rest then stays in memory until the connection closes.
    pub(crate) fn is_request_written(&self) -> bool {
        Arc::strong_count(&self.unwritten) == 1
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let budget = &self.connection.0.budget;
        if self.completed { budget.end_request() } else { budget.cancel_request() }
    }
}

/// A payload whose token hyper drops, together with the buffer, after the last byte has been written.
struct UnwrittenPayload {
    payload: Bytes,
    _token: Arc<()>,
}

impl AsRef<[u8]> for UnwrittenPayload {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

/// Reads the next chunk of a response body. Returns `None` at the end of the body.
pub(super) async fn next_chunk(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await.transpose()? {
        // Trailers are ignored.
        if let Ok(chunk) = frame.into_data() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Aborts the tasks of a connection when dropped. Otherwise a receiver that stops reading could keep them alive with
/// unsent bytes.
struct ConnectionTasks(TaskSpawner);

impl Drop for ConnectionTasks {
    fn drop(&mut self) {
        // Aborts the tasks after the lock is released.
        let running = self.0.running().take();
        drop(running);
    }
}

/// Spawns the tasks that hyper needs for one connection. Spawns none after the connection has ended.
#[derive(Clone)]
struct TaskSpawner(Arc<Mutex<Option<JoinSet<()>>>>);

impl TaskSpawner {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(JoinSet::new()))))
    }

    fn running(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TaskSpawner {
    fn execute(&self, task: F) {
        if let Some(running) = self.running().as_mut() {
            while running.try_join_next().is_some() {}
            running.spawn(task);
        }
    }
}
