//! The topic `gateway:webhooks` as Server-Sent Events: live from the publisher, and from the store what was missed.
//!
//! Each follower has a task that reads for it, and a short queue between the task and its connection. A client that reads
//! slowly falls back to the store's log, where nothing is lost; one that does not read at all is let go.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use posthaste_domain::TOPIC;
use posthaste_engine::{Clock, Publisher, Subscription, within};
use posthaste_store::{NoticeCursor, PublishedNotice, Store, StoreError};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use utoipa::ToSchema;

use crate::access::{Allowed, Reading};
use crate::api::Service;
use crate::error::ApiError;
use crate::moment::Moment;
use crate::query::Parameters;

/// Streams at once; each costs a connection, a task and a place in the publisher's queue.
const STREAMS_MAX: usize = 256;
pub(crate) const STREAMS_FULL: &str = "there are as many streams as this process serves; try again later";
pub(crate) const SHUTTING_DOWN: &str = "this process is shutting down; connect again in a moment";
/// A quiet stream says something this often, so that neither side takes it for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A client that takes nothing for this long is let go.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// How long a client waits before it connects again.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);
/// Events between a follower's task and its connection.
const QUEUE: usize = 64;
/// Notices read by one call.
const PAGE: usize = 200;

/// The streams of a service. Cheap to clone; all clones are the same streams.
#[derive(Debug, Clone)]
pub struct Streams {
    places: Arc<Semaphore>,
    over: watch::Sender<bool>,
}

impl Default for Streams {
    fn default() -> Self {
        Self::new()
    }
}

impl Streams {
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(STREAMS_MAX)), over: watch::Sender::new(false) }
    }

    /// Ends them all, and lets no new ones begin. A service that shuts down calls this first: an open stream would keep
    /// its connection busy for ever. Clients resume elsewhere from where they were.
    pub fn end(&self) {
        self.over.send_replace(true);
    }

    fn enter(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        if *self.over.borrow() {
            return Err(ApiError::Busy(SHUTTING_DOWN));
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| ApiError::Busy(STREAMS_FULL))
    }

    async fn ended(&self) {
        // An error means that nobody is left who could end them, and this is one who could.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// One notice, as followers of the topic get it.
#[derive(Serialize, ToSchema)]
#[schema(as = Notice)]
pub(crate) struct NoticeBody<'a> {
    #[schema(example = "gateway:webhooks")]
    topic: &'static str,
    /// `WebhookDeliveredEvent` or `WebhookDLQEvent`; also the name of the Server-Sent Event.
    #[schema(example = "WebhookDLQEvent")]
    r#type: &'static str,
    /// The event's id.
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    webhook_delivery_id: &'a str,
    webhook_id: Option<&'a str>,
    session_id: Option<&'a str>,
    payment_request_id: Option<&'a str>,
    #[schema(example = 6)]
    attempts: u32,
    #[schema(value_type = String, format = DateTime)]
    at: Moment,
}

/// Follow the topic
///
/// Server-Sent Events of the topic `gateway:webhooks`, one for each event that is delivered or dead-lettered. Each
/// carries an `id`; a client that comes back with it in `Last-Event-ID` gets everything since, once and in order; with
/// `0:0`, everything that retention still keeps. A comment comes every 15 seconds when there is nothing else.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/stream", tag = "Outbox", operation_id = "followNotices",
    params(("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was seen", example = "12:34")),
    responses(
        (status = 200, description = "A stream without end; `data` of each event is a notice", body = NoticeBody<'_>, content_type = "text/event-stream",
            example = "id: 12:34\nevent: WebhookDLQEvent\ndata: {\"topic\":\"gateway:webhooks\",\"type\":\"WebhookDLQEvent\",\"webhook_delivery_id\":\"order-17-created\",\"webhook_id\":null,\"session_id\":null,\"payment_request_id\":\"pr_17\",\"attempts\":6,\"at\":\"2026-01-31T12:00:00.000000Z\"}\n\n"),
    ),
)]
pub(crate) async fn stream(
    State(service): State<Arc<Service>>,
    _: Allowed<Reading>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::of(&uri, &[])?;
    let after = resume_after(&headers)?;
    let place = service.streams.enter()?;
    let live = service.publisher.subscribe().await?;
    let (queue, mut events) = mpsc::channel(QUEUE);
    let streams = service.streams.clone();
    let follower = Follower {
        at: after.unwrap_or(live.cursor()),
        live,
        store: Arc::clone(&service.store),
        publisher: service.publisher.clone(),
        clock: Arc::clone(&service.clock),
        queue,
    };
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = streams.ended() => {}
            Err(end) = follower.run() => tracing::debug!(%end, "a stream ended"),
        }
        drop(place);
    });
    let events = stream::poll_fn(move |context| match events.poll_recv(context) {
        Poll::Ready(event) => Poll::Ready(event.map(Ok::<_, std::convert::Infallible>)),
        Poll::Pending => Poll::Pending,
    });
    // Proxies that collect answers must not collect this one.
    let unbuffered = [
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((unbuffered, Sse::new(events)).into_response())
}

/// Why a stream came to its end by itself. The client comes back, and resumes.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client went away")]
    Gone,
    #[error("the client took nothing for {STALLED_AFTER:?}")]
    Stalled,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One client's place in the log.
struct Follower {
    /// Everything up to here was queued, or is not wanted.
    at: NoticeCursor,
    live: Subscription,
    store: Arc<dyn Store>,
    publisher: Publisher,
    clock: Arc<dyn Clock>,
    queue: mpsc::Sender<Event>,
}

impl Follower {
    async fn run(mut self) -> Result<(), End> {
        // An id beyond the end is from another log, or from one that was set back: what comes now is all there is to tell.
        self.at = self.at.min(self.live.cursor());
        // With an id from the start, a client that loses its connection before the first notice misses none either.
        self.send(Event::default().retry(RECONNECT_AFTER).id(id(self.at)).comment(TOPIC)).await?;
        loop {
            self.catch_up().await?;
            self.follow().await?;
            self.live = self.publisher.subscribe().await?;
        }
    }

    /// Reads from the store what was committed before the live notices begin.
    async fn catch_up(&mut self) -> Result<(), End> {
        while self.at < self.live.cursor() {
            let page = self.store.notices(Some(self.at), PAGE).await?;
            if page.notices.is_empty() {
                break;
            }
            for published in page.notices {
                if published.cursor > self.live.cursor() {
                    return Ok(());
                }
                self.tell(&published).await?;
            }
        }
        Ok(())
    }

    /// Passes live notices on until the client falls behind.
    async fn follow(&mut self) -> Result<(), End> {
        loop {
            let next = tokio::select! {
                biased;
                () = self.queue.closed() => return Err(End::Gone),
                next = within(&*self.clock, HEARTBEAT, self.live.next()) => next,
            };
            match next {
                Some(Ok(published)) => self.tell(&published).await?,
                Some(Err(_fell_behind)) => return Ok(()),
                None => self.send(Event::default().comment("")).await?,
            }
        }
    }

    async fn tell(&mut self, published: &PublishedNotice) -> Result<(), End> {
        self.send(told(published)).await?;
        self.at = published.cursor;
        Ok(())
    }

    async fn send(&self, event: Event) -> Result<(), End> {
        let queued = pin!(self.queue.send(event));
        match within(&*self.clock, STALLED_AFTER, queued).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(End::Gone),
            None => Err(End::Stalled),
        }
    }
}

fn told(published: &PublishedNotice) -> Event {
    let PublishedNotice { cursor, notice } = published;
    let body = NoticeBody {
        topic: TOPIC,
        r#type: notice.kind.as_str(),
        webhook_delivery_id: notice.event_id.as_str(),
        webhook_id: notice.webhook_id.as_deref(),
        session_id: notice.session_id.as_deref(),
        payment_request_id: notice.payment_request_id.as_deref(),
        attempts: notice.attempts,
        at: notice.at.into(),
    };
    let data = serde_json::to_string(&body).expect("texts and numbers are always JSON");
    Event::default().event(notice.kind.as_str()).id(id(*cursor)).data(data)
}

fn id(cursor: NoticeCursor) -> String {
    format!("{}:{}", cursor.major, cursor.minor)
}

fn resume_after(headers: &HeaderMap) -> Result<Option<NoticeCursor>, ApiError> {
    let Some(sent) = headers.get("last-event-id") else { return Ok(None) };
    let cursor = sent.to_str().ok().and_then(|text| {
        let number = |text: &str| text.parse().ok().filter(|number| *number >= 0);
        let (major, minor) = text.split_once(':')?;
        Some(NoticeCursor { major: number(major)?, minor: number(minor)? })
    });
    cursor.map(Some).ok_or_else(|| {
        let message = "Last-Event-ID is not an id of this stream; leave it out to follow from now on";
        ApiError::invalid_at(message, json!({ "header": "last-event-id" }))
    })
}
