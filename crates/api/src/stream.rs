//! The notice topic `gateway:webhooks` as Server-Sent Events: live notices from the publisher, missed ones from the store.
//!
//! Each subscriber has a task, and a short queue between the task and the connection. A slow subscriber falls back to the
//! store's log, which loses nothing. A subscriber that does not read at all is disconnected. If the log ends before the
//! last notice of a subscriber, the stream says so and continues from the end of the log.

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
use posthaste_domain::{DisableReason, FailureKind, NOTICE_TOPIC};
use posthaste_engine::{Clock, Publisher, Subscription, SubscriptionGap, within};
use posthaste_store::{NoticeCursor, PublishedNotice, Store, StoreError};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::query::QueryParameters;
use crate::timestamp::Rfc3339;

/// Maximum number of open streams. Each costs a connection, a task and a subscription to the publisher.
const STREAMS_MAX: usize = 256;
/// The error message when the maximum number of streams is open.
pub(crate) const STREAMS_FULL: &str =
    "this process already serves its maximum number of streams; try again later";
pub(crate) const SHUTTING_DOWN: &str = "this process is shutting down; reconnect in a moment";
pub(crate) const INVALID_LAST_EVENT_ID: &str =
    "Last-Event-ID is not an id of this stream; omit it to receive new notices only";
/// Interval of comments on a stream without notices. They show both sides that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a client may read nothing before it is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client should wait before it reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Length of the queue between a subscriber's task and its connection.
const QUEUE_LEN: usize = 64;
/// Number of notices read from the store at a time.
const CATCH_UP_PAGE: usize = 200;

/// All open streams of a process. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Streams {
    permits: Arc<Semaphore>,
    ended: watch::Sender<bool>,
}

impl Default for Streams {
    fn default() -> Self {
        Self::new()
    }
}

impl Streams {
    pub fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(STREAMS_MAX)), ended: watch::Sender::new(false) }
    }

    /// Ends all streams and rejects new ones. Call it first at shutdown: an open stream keeps its connection busy forever.
    /// Clients reconnect to another process and resume from their last event id.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Acquires the permit of a new stream.
    fn acquire(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        if *self.ended.borrow() {
            return Err(ApiError::Busy(SHUTTING_DOWN));
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.map_err(|_| ApiError::Busy(STREAMS_FULL))
    }

    /// Resolves when all streams are to end.
    async fn wait_for_end(&self) {
        // `wait_for` fails only after the sender was dropped, and `self` holds the sender.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// A notice: an event was delivered or dead-lettered, or its result disabled an endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = Notice)]
pub(crate) struct NoticeBody<'a> {
    #[schema(example = "gateway:webhooks")]
    topic: &'static str,
    /// `WebhookDeliveredEvent`, `WebhookDLQEvent` or `WebhookEndpointDisabledEvent`. Also the name of the Server-Sent Event.
    #[schema(example = "WebhookDLQEvent")]
    r#type: &'static str,
    /// The event's id.
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    webhook_delivery_id: &'a str,
    /// The type of the event; null if the event was discarded before the notice was read.
    #[schema(example = "order.created")]
    event_type: Option<&'a str>,
    /// Where the event is sent: the present URL of an endpoint, or the URL to which the event was enqueued; null as for `event_type`.
    #[schema(example = "https://shop.example/hooks")]
    destination_url: Option<&'a str>,
    webhook_id: Option<&'a str>,
    session_id: Option<&'a str>,
    payment_request_id: Option<&'a str>,
    #[schema(example = 6)]
    attempts: u32,
    /// Why the event was dead-lettered: `exhausted`, `cancelled`, `abandoned`, `gone` or `expired`. `null` in a notice of another
    /// type.
    #[schema(example = "exhausted")]
    failure_kind: Option<&'static str>,
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// The disabled endpoint. Only in a `WebhookEndpointDisabledEvent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "ep_0000000000000007", nullable = false)]
    endpoint_id: Option<String>,
    /// The application of the disabled endpoint. Only in a `WebhookEndpointDisabledEvent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "app_0000000000000002", nullable = false)]
    app_id: Option<String>,
    /// Why the endpoint was disabled: `gone` if its receiver responded with 410, `failing` if it failed for too long. Only in a
    /// `WebhookEndpointDisabledEvent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "gone", nullable = false)]
    reason: Option<&'static str>,
}

/// A message that the log of notices ends before the last notice that the client received.
#[derive(Serialize)]
struct LogResetBody {
    topic: &'static str,
    /// Also the name of the Server-Sent Event.
    r#type: &'static str,
    message: &'static str,
}

const LOG_RESET: LogResetBody = LogResetBody {
    topic: NOTICE_TOPIC,
    r#type: "NoticeLogResetEvent",
    message: "the log of notices ends before your last notice: the database was restored, or a failover lost commits; \
              notices may be missing, so read the state of your events again",
};

/// Stream notices
///
/// Streams the topic `gateway:webhooks` as Server-Sent Events: one notice for each event that is delivered or dead-lettered,
/// and one for each endpoint that a result disables. Each notice has an `id`. A client that reconnects with this id in
/// `Last-Event-ID` gets all later notices, once and in order; with `0:0` it gets all notices that retention has not yet removed. If the log of notices ends before that id, because
/// the database was restored or a failover lost commits, the stream sends a `NoticeLogResetEvent` and continues with new
/// notices. A stream without notices sends a comment every 15 seconds.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/stream", tag = "Outbox", operation_id = "followNotices",
    params(("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last notice that the client received", example = "12:34")),
    responses(
        (status = 200, description = "An endless stream; the `data` of each Server-Sent Event is a notice", body = NoticeBody<'_>, content_type = "text/event-stream",
            example = "id: 12:34\nevent: WebhookDLQEvent\ndata: {\"topic\":\"gateway:webhooks\",\"type\":\"WebhookDLQEvent\",\"webhook_delivery_id\":\"order-17-created\",\"event_type\":\"order.created\",\"destination_url\":\"https://shop.example/hooks\",\"webhook_id\":null,\"session_id\":null,\"payment_request_id\":\"pr_17\",\"attempts\":6,\"failure_kind\":\"exhausted\",\"at\":\"2026-01-31T12:00:00.000000Z\"}\n\n"),
    ),
)]
pub(crate) async fn stream(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    QueryParameters::require_none(&uri)?;
    let after = last_event_id(&headers)?;
    let permit = state.streams.acquire()?;
    let live = state.publisher.subscribe().await?;
    let (queue, mut events) = mpsc::channel(QUEUE_LEN);
    let streams = state.streams.clone();
    let subscriber = StreamTask {
        position: after.unwrap_or(live.cursor()),
        live,
        store: Arc::clone(&state.store),
        publisher: state.publisher.clone(),
        clock: Arc::clone(&state.clock),
        queue,
    };
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = streams.wait_for_end() => {}
            Err(reason) = subscriber.run() => tracing::debug!(%reason, "a notice stream ended"),
        }
        drop(permit);
    });
    let events = stream::poll_fn(move |context| match events.poll_recv(context) {
        Poll::Ready(event) => Poll::Ready(event.map(Ok::<_, std::convert::Infallible>)),
        Poll::Pending => Poll::Pending,
    });
    // Proxies must not buffer the stream.
    let unbuffered = [
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((unbuffered, Sse::new(events)).into_response())
}

/// Why the server ended a stream. The client reconnects and resumes.
#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    #[error("the client disconnected")]
    Disconnected,
    #[error("the client read nothing for {STALL_TIMEOUT:?}")]
    Stalled,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The task that sends notices to one client.
struct StreamTask {
    /// The last notice that was queued for the client, or that the client already has.
    position: NoticeCursor,
    live: Subscription,
    store: Arc<dyn Store>,
    publisher: Publisher,
    clock: Arc<dyn Clock>,
    queue: mpsc::Sender<Event>,
}

impl StreamTask {
    async fn run(mut self) -> Result<(), StreamEnd> {
        let (requested, end) = (self.position, self.live.cursor());
        self.position = requested.min(end);
        // The first event carries an id, so that a client that disconnects before the first notice can resume too.
        self.send(Event::default().retry(RECONNECT_DELAY).id(format_id(self.position)).comment(NOTICE_TOPIC))
            .await?;
        if requested > end {
            self.rewind_to(end).await?;
        }
        loop {
            self.catch_up().await?;
            self.follow().await?;
            self.live = self.publisher.subscribe().await?;
        }
    }

    /// Sends the missed notices from the store, up to the position at which live notices begin.
    async fn catch_up(&mut self) -> Result<(), StreamEnd> {
        while self.position < self.live.cursor() {
            let page = self.store.notices(Some(self.position), CATCH_UP_PAGE).await?;
            if page.ends_before(self.position) {
                self.rewind_to(page.cursor).await?;
            }
            if page.notices.is_empty() {
                break;
            }
            for published in page.notices {
                if published.cursor > self.live.cursor() {
                    return Ok(());
                }
                self.send_notice(&published).await?;
            }
        }
        Ok(())
    }

    /// Sends live notices until the subscription lags.
    async fn follow(&mut self) -> Result<(), StreamEnd> {
        loop {
            let next = tokio::select! {
                biased;
                () = self.queue.closed() => return Err(StreamEnd::Disconnected),
                next = within(&*self.clock, HEARTBEAT, self.live.next()) => next,
            };
            match next {
                Some(Ok(published)) => self.send_notice(&published).await?,
                Some(Err(SubscriptionGap::Lagged { .. })) => return Ok(()),
                Some(Err(SubscriptionGap::LogRewound { end })) => self.rewind_to(end).await?,
                None => self.send(Event::default().comment("")).await?,
            }
        }
    }

    async fn send_notice(&mut self, published: &PublishedNotice) -> Result<(), StreamEnd> {
        self.send(to_sse_event(published)).await?;
        self.position = published.cursor;
        Ok(())
    }

    /// Continues from an earlier end of the log, and tells the client.
    async fn rewind_to(&mut self, end: NoticeCursor) -> Result<(), StreamEnd> {
        self.position = end;
        let data = serde_json::to_string(&LOG_RESET).expect("a struct of strings always serializes");
        self.send(Event::default().event(LOG_RESET.r#type).id(format_id(end)).data(data)).await
    }

    /// Queues an event for the client. Fails if the client has disconnected or stalled.
    async fn send(&self, event: Event) -> Result<(), StreamEnd> {
        let queued = pin!(self.queue.send(event));
        match within(&*self.clock, STALL_TIMEOUT, queued).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(StreamEnd::Disconnected),
            None => Err(StreamEnd::Stalled),
        }
    }
}

fn to_sse_event(published: &PublishedNotice) -> Event {
    let PublishedNotice { cursor, notice, subject } = published;
    let subject = subject.as_ref();
    let body = NoticeBody {
        topic: NOTICE_TOPIC,
        r#type: notice.kind.as_str(),
        webhook_delivery_id: notice.event_id.as_str(),
        event_type: subject.map(|subject| subject.event_type.as_str()),
        destination_url: subject.map(|subject| subject.destination_url.as_str()),
        webhook_id: notice.webhook_id.as_deref(),
        session_id: notice.session_id.as_deref(),
        payment_request_id: notice.payment_request_id.as_deref(),
        attempts: notice.attempts,
        failure_kind: notice.kind.failure_kind().map(FailureKind::as_str),
        at: notice.at.into(),
        endpoint_id: notice.endpoint.map(|endpoint| endpoint.id.to_string()),
        app_id: notice.endpoint.map(|endpoint| endpoint.app.to_string()),
        reason: notice.kind.disable_reason().map(DisableReason::as_str),
    };
    let data = serde_json::to_string(&body).expect("a struct of strings and numbers always serializes");
    Event::default().event(notice.kind.as_str()).id(format_id(*cursor)).data(data)
}

/// Formats a notice's cursor as the id of its Server-Sent Event.
fn format_id(cursor: NoticeCursor) -> String {
    format!("{}:{}", cursor.major, cursor.minor)
}

/// Parses the `Last-Event-ID` header.
fn last_event_id(headers: &HeaderMap) -> Result<Option<NoticeCursor>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let cursor = value.to_str().ok().and_then(|text| {
        let number = |text: &str| text.parse().ok().filter(|number| *number >= 0);
        let (major, minor) = text.split_once(':')?;
        Some(NoticeCursor { major: number(major)?, minor: number(minor)? })
    });
    cursor
        .map(Some)
        .ok_or_else(|| ApiError::invalid_at(INVALID_LAST_EVENT_ID, json!({ "header": "last-event-id" })))
}
