//! HTTP/2: a connection that requests share, up to what it carries at once.

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

use crate::deadline::now;
use crate::failure::Failure;
use crate::link::frames::Frames;
use crate::link::{HEAD_BYTES_MAX, Unanswered};
use crate::meter::{GRANT_BYTES, Meter};
use crate::request::Body;
use crate::stream::Stream;

/// What a receiver may send of one response before we have read it, and of all responses on one connection.
const STREAM_WINDOW_BYTES: u32 = 32 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// A head, a window, and as much again for what was read of it: more would be at the cost of others.
const _: () = assert!(HEAD_BYTES_MAX + 2 * STREAM_WINDOW_BYTES as usize <= GRANT_BYTES);
/// Requests that one connection carries at once, where its receiver allows as many. More go over another one: a request
/// that waits inside the connection would be sent although its attempt has long been given up.
const REQUESTS_MAX: usize = 32;

/// A connection, however many requests it carries. Closed when nobody has it any more.
#[derive(Clone)]
pub(crate) struct Http2(Arc<Shared>);

struct Shared {
    requests: SendRequest<Body>,
    /// Also knows how many requests are carried.
    meter: Arc<Meter>,
    /// What the receiver allows; it may change its mind.
    allowed: Arc<AtomicUsize>,
    opened_at: Instant,
    _tasks: Tasks,
}

/// One request's place on a connection.
pub(crate) struct Http2Place {
    link: Http2,
    /// Held by every piece of the payload that has not been written yet.
    unwritten: Arc<()>,
    ended: bool,
}

impl Http2 {
    pub(crate) async fn open(stream: Stream, meter: Arc<Meter>) -> Result<Self, Failure> {
        let tasks = Tasks(Spawner::new());
        let (requests, mut connection) = Builder::new(tasks.0.clone())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).expect("a head is small"))
            .handshake(TokioIo::new(Frames::of(stream, Arc::clone(&meter))))
            .await
            .map_err(|error| Failure::of(&error, &meter))?;
        let allowed = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let told = Arc::clone(&allowed);
        // Its errors reach the requests that they interrupt.
        tasks.0.execute(poll_fn(move |cx| {
            let done = Pin::new(&mut connection).poll(cx).map(drop);
            told.store(connection.current_max_send_streams(), Ordering::Relaxed);
            done
        }));
        Ok(Self(Arc::new(Shared { requests, meter, allowed, opened_at: now(), _tasks: tasks })))
    }

    /// A place for one more request, unless the connection is closed, carries all that it can, or carried one that was
    /// given up.
    pub(crate) fn place(&self) -> Option<Http2Place> {
        let Shared { requests, meter, .. } = &*self.0;
        (!requests.is_closed() && meter.grant(self.room())).then(|| self.granted_place())
    }

    pub(crate) fn has_place(&self) -> bool {
        let Shared { requests, meter, .. } = &*self.0;
        !requests.is_closed() && meter.has_room(self.room())
    }

    /// The place of the request that the connection was opened for. What its receiver allows is not known yet.
    pub(crate) fn first_place(&self) -> Http2Place {
        self.0.meter.grant_alone();
        self.granted_place()
    }

    /// Whether it may have a place, now or later.
    pub(crate) fn is_open(&self) -> bool {
        let Shared { requests, meter, .. } = &*self.0;
        !requests.is_closed() && meter.has_room(usize::MAX)
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.0.meter.is_unused()
    }

    fn room(&self) -> usize {
        self.0.allowed.load(Ordering::Relaxed).min(REQUESTS_MAX)
    }

    fn granted_place(&self) -> Http2Place {
        Http2Place { link: self.clone(), unwritten: Arc::new(()), ended: false }
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn opened_at(&self) -> Instant {
        self.0.opened_at
    }
}

impl Http2Place {
    pub(crate) fn link(&self) -> &Http2 {
        &self.link
    }

    pub(super) async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, Unanswered> {
        let Shared { requests, meter, .. } = &*self.link.0;
        let unwritten = Arc::clone(&self.unwritten);
        let request =
            request.map(|payload| Body::new(Bytes::from_owner(Unwritten { payload, _hold: unwritten })));
        requests.clone().try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unanswered::NeverStarted(Box::new(request.map(drop))),
            None => Unanswered::Failed(Failure::of(error.error(), meter)),
        })
    }

    /// Its answer has ended: nothing more comes for it, and another request may have its place.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }

    /// Whether all of the request has been written. A receiver may answer without reading, and what it does not read
    /// would be kept for as long as the connection is.
    pub(crate) fn is_written(&self) -> bool {
        Arc::strong_count(&self.unwritten) == 1
    }
}

impl Drop for Http2Place {
    fn drop(&mut self) {
        let meter = &self.link.0.meter;
        if self.ended { meter.revoke() } else { meter.give_up() }
    }
}

/// A payload on its way out; let go of when its last byte has been written.
struct Unwritten {
    payload: Bytes,
    _hold: Arc<()>,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

pub(super) async fn next_piece(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await.transpose()? {
        // Trailers are not looked at.
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
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
