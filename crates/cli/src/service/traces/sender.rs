//! A sender that gives each attempt a span.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use posthaste_domain::{Classification, ErrorClass, Lease, Outcome, Timestamp};
use posthaste_engine::{LocalShortage, Sender};

use super::context;
use super::exporter::SpanCounts;

/// A sender that wraps another one. Each attempt gets a span, and the receiver gets that span as its parent.
pub(super) struct TracedSender {
    sender: Arc<dyn Sender>,
    tracer: SdkTracer,
    counts: Arc<SpanCounts>,
}

impl TracedSender {
    pub(super) fn new(sender: Arc<dyn Sender>, tracer: SdkTracer, counts: Arc<SpanCounts>) -> Self {
        Self { sender, tracer, counts }
    }
}

#[async_trait]
impl Sender for TracedSender {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        let Some(span) = AttemptSpan::start(lease, &self.tracer) else {
            return self.sender.send(lease, now, timeout).await;
        };
        self.counts.record_start();
        let traced = Lease { traceparent: Some(span.traceparent()), ..lease.clone() };
        let sent = self.sender.send(&traced, now, timeout).await;
        match &sent {
            Ok(outcome) => span.finish(outcome),
            Err(shortage) => span.finish_unsent(*shortage),
        }
        sent
    }
}

/// The span of one attempt. If it is dropped without an outcome, the span is exported as an error.
struct AttemptSpan(Span);

impl AttemptSpan {
    /// Starts a span. Returns None if the producer's trace is not sampled: the collector would not have this span as a
    /// parent of the receiver's, so the receiver gets the producer's `traceparent` unchanged. Also returns None after
    /// the export of traces has stopped.
    fn start(lease: &Lease, tracer: &SdkTracer) -> Option<Self> {
        let parent = lease.traceparent.as_deref().and_then(context::parse_traceparent);
        if parent.as_ref().is_some_and(|parent| !parent.is_sampled()) {
            return None;
        }
        let context =
            parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        let span = SpanBuilder::from_name(format!("deliver {}", lease.event_type))
            .with_kind(SpanKind::Client)
            .with_attributes(attributes(lease));
        let span = tracer.build_with_context(span, &context);
        span.is_recording().then_some(Self(span))
    }

    /// Returns the `traceparent` header that makes this span the parent of the receiver's span.
    fn traceparent(&self) -> String {
        context::format_traceparent(self.0.span_context())
    }

    /// Ends the span with the outcome of its attempt.
    fn finish(mut self, outcome: &Outcome) {
        let Self(span) = &mut self;
        if let Some(status) = outcome.http_status() {
            span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        let classification = outcome.classify();
        span.set_attribute(KeyValue::new("posthaste.verdict", verdict(classification)));
        if classification != Classification::Delivered {
            let (error_type, description) = describe_failure(outcome);
            span.set_attribute(KeyValue::new("error.type", error_type));
            span.set_status(Status::error(description));
        }
        span.end();
    }

    /// Ends the span of a request that was not sent, because this host lacked a resource.
    fn finish_unsent(mut self, shortage: LocalShortage) {
        let Self(span) = &mut self;
        span.set_attribute(KeyValue::new("error.type", shortage.as_str()));
        span.set_status(Status::error("not sent, for lack of a local resource"));
        span.end();
    }
}

impl Drop for AttemptSpan {
    /// Marks the span as cancelled. This has no effect on a span that has ended.
    fn drop(&mut self) {
        self.0.set_attribute(KeyValue::new("error.type", "cut_off"));
        self.0.set_status(Status::error("cancelled before there was a result"));
    }
}

/// Returns the attributes of a span that are known before its attempt. They contain no payload, no query string and no
/// response of a receiver, because these may be secret.
fn attributes(lease: &Lease) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("posthaste.event_id", lease.event_id.to_string()),
        KeyValue::new("posthaste.event_type", lease.event_type.clone()),
        KeyValue::new("posthaste.attempt", i64::from(lease.attempt())),
        KeyValue::new("http.request.method", "POST"),
        KeyValue::new("http.request.body.size", i64::try_from(lease.payload.len()).unwrap_or(i64::MAX)),
    ];
    let url = lease.destination_url.to_url().ok();
    if let Some(url) = &url
        && let Some((host, port)) = url.host_str().zip(url.port_or_known_default())
    {
        attributes.push(KeyValue::new("server.address", host.trim_matches(['[', ']']).to_owned()));
        attributes.push(KeyValue::new("server.port", i64::from(port)));
    }
    attributes
}

/// Describes a failed attempt: returns the error type for programs, and a text for people.
fn describe_failure(outcome: &Outcome) -> (String, String) {
    match (outcome.http_status(), outcome.error_class().map(ErrorClass::as_str)) {
        (Some(status), _) => (status.to_string(), format!("HTTP {status}")),
        (None, class) => {
            let class = class.unwrap_or_default();
            (class.to_owned(), class.to_owned())
        }
    }
}

/// Returns the value of the span attribute `posthaste.verdict`.
fn verdict(classification: Classification) -> &'static str {
    match classification {
        Classification::Delivered => "delivered",
        Classification::Gone => "gone",
        Classification::Retry => "retry",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
    use posthaste_domain::{
        DestinationId, DestinationUrl, EventId, EventKey, LeaseToken, MessageId, Timestamp, Trigger,
    };
    use std::sync::Mutex;

    const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// Keeps exported spans.
    #[derive(Debug, Clone, Default)]
    struct MemoryExporter(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for MemoryExporter {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    /// Returns a fixed outcome, or never returns, and records the `traceparent` of the lease.
    struct FakeSender {
        outcome: Option<Outcome>,
        traceparent: Mutex<Option<String>>,
    }

    #[async_trait]
    impl Sender for FakeSender {
        async fn send(&self, lease: &Lease, _: Timestamp, _: Duration) -> Result<Outcome, LocalShortage> {
            self.traceparent.lock().unwrap().clone_from(&lease.traceparent);
            match &self.outcome {
                Some(outcome) => Ok(outcome.clone()),
                None => std::future::pending().await,
            }
        }
    }

    struct Fixture {
        provider: SdkTracerProvider,
        exporter: MemoryExporter,
        inner: Arc<FakeSender>,
        sender: TracedSender,
    }

    impl Fixture {
        /// A traced sender whose attempts have this outcome, or never end.
        fn new(outcome: Option<Outcome>) -> Self {
            let exporter = MemoryExporter::default();
            let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
            let inner = Arc::new(FakeSender { outcome, traceparent: Mutex::default() });
            let tracer = provider.tracer("test");
            let sender = TracedSender::new(Arc::clone(&inner) as _, tracer, Arc::default());
            Self { provider, exporter, inner, sender }
        }

        /// Sends an event with this `traceparent`; returns the one that the receiver gets.
        async fn send(&self, traceparent: Option<&str>) -> Option<String> {
            let lease = lease(traceparent);
            let _ = self.sender.send(&lease, Timestamp::default(), Duration::MAX).await;
            self.sent_traceparent()
        }

        fn sent_traceparent(&self) -> Option<String> {
            self.inner.traceparent.lock().unwrap().clone()
        }

        /// The only span that was exported.
        fn span(&self) -> SpanData {
            let spans = self.exporter.0.lock().unwrap();
            assert_eq!(spans.len(), 1, "{spans:?}");
            spans[0].clone()
        }
    }

    fn lease(traceparent: Option<&str>) -> Lease {
        Lease {
            token: LeaseToken::random([7; 16]),
            key: EventKey(1),
            event_id: EventId::new("msg_17").unwrap(),
            wire_id: EventId::new("msg_17").unwrap(),
            message_id: MessageId::v7(Timestamp::default(), [9; 10]),
            destination_id: DestinationId(1),
            destination_url: DestinationUrl::from_stored("https://[::1]/hook?token=hunter2".to_owned()),
            profile_version: 0,
            event_type: "invoice.paid".to_owned(),
            content_type: "application/json".to_owned(),
            payload: Bytes::from_static(br#"{"card": "4242"}"#).into(),
            traceparent: traceparent.map(str::to_owned),
            attempts: 2,
            max_attempts: 6,
            trigger: Trigger::Scheduled,
            overdue: Duration::ZERO,
        }
    }

    fn attribute(span: &SpanData, key: &str) -> Option<String> {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.to_string())
    }

    #[tokio::test]
    async fn attempt_span_is_a_child_of_the_producers_and_the_parent_of_the_receivers() {
        let fixture = Fixture::new(Some(Outcome::response(204, None, b"")));
        let sent = fixture.send(Some(PRODUCER)).await.unwrap();
        let span = fixture.span();
        let producer = context::parse_traceparent(PRODUCER).unwrap();
        assert_eq!(sent, context::format_traceparent(&span.span_context));
        assert_eq!(span.span_context.trace_id(), producer.trace_id());
        assert_eq!((span.parent_span_id, span.parent_span_is_remote), (producer.span_id(), true));
        assert_eq!((span.name.as_ref(), &span.span_kind), ("deliver invoice.paid", &SpanKind::Client));
        assert_eq!(span.status, Status::Unset);
    }

    #[tokio::test]
    async fn span_has_its_attributes_and_no_secret() {
        let fixture = Fixture::new(Some(Outcome::response(410, None, b"whsec_of_the_receiver")));
        fixture.send(None).await;
        let span = fixture.span();
        let expected = [
            ("posthaste.event_id", "msg_17"),
            ("posthaste.event_type", "invoice.paid"),
            ("posthaste.attempt", "3"),
            ("posthaste.verdict", "gone"),
            ("http.request.method", "POST"),
            ("http.request.body.size", "16"),
            ("http.response.status_code", "410"),
            ("server.address", "::1"),
            ("server.port", "443"),
            ("error.type", "410"),
        ];
        for (key, value) in expected {
            assert_eq!(attribute(&span, key).as_deref(), Some(value), "{key}");
        }
        assert_eq!(span.attributes.len(), expected.len());
        let everything = format!("{span:?}");
        for secret in ["hunter2", "4242", "whsec"] {
            assert!(!everything.contains(secret), "{everything}");
        }
    }

    #[tokio::test]
    async fn failed_attempt_is_an_error_span_with_its_class() {
        let refused = Outcome::no_response(ErrorClass::Connect, "connection refused by shop.example");
        let cases = [(refused, "connect", "connect"), (Outcome::response(503, None, b""), "503", "HTTP 503")];
        for (outcome, class, description) in cases {
            let fixture = Fixture::new(Some(outcome));
            fixture.send(None).await;
            let span = fixture.span();
            assert_eq!(span.status, Status::error(description));
            assert_eq!(attribute(&span, "error.type").as_deref(), Some(class));
            assert_eq!(attribute(&span, "posthaste.verdict").as_deref(), Some("retry"));
        }
    }

    #[tokio::test]
    async fn cancelled_attempt_is_an_error_span_without_a_verdict() {
        let fixture = Fixture::new(None);
        let lease = lease(None);
        let mut attempt = fixture.sender.send(&lease, Timestamp::default(), Duration::MAX);
        assert!(futures_util::poll!(&mut attempt).is_pending());
        drop(attempt);
        let span = fixture.span();
        assert_eq!(span.status, Status::error("cancelled before there was a result"));
        assert_eq!(attribute(&span, "error.type").as_deref(), Some("cut_off"));
        assert_eq!(attribute(&span, "posthaste.verdict"), None);
        assert!(fixture.sent_traceparent().is_some());
    }

    #[tokio::test]
    async fn missing_or_invalid_traceparent_starts_a_new_trace() {
        for traceparent in [None, Some("not a traceparent"), Some("00-0-0-01")] {
            let fixture = Fixture::new(Some(Outcome::response(200, None, b"")));
            let sent = fixture.send(traceparent).await.unwrap();
            assert!(context::parse_traceparent(&sent).unwrap().is_sampled());
            assert_eq!(fixture.span().parent_span_id, opentelemetry::trace::SpanId::INVALID);
        }
    }

    #[tokio::test]
    async fn unsampled_traceparent_is_delivered_unchanged() {
        let unsampled = PRODUCER.replace("-01", "-00");
        let fixture = Fixture::new(Some(Outcome::response(200, None, b"")));
        assert_eq!(fixture.send(Some(&unsampled)).await, Some(unsampled));
        assert!(fixture.exporter.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn traceparent_is_delivered_unchanged_after_the_export_has_stopped() {
        let fixture = Fixture::new(Some(Outcome::response(200, None, b"")));
        fixture.provider.shutdown().unwrap();
        for traceparent in [Some(PRODUCER), None] {
            assert_eq!(fixture.send(traceparent).await.as_deref(), traceparent);
        }
        assert!(fixture.exporter.0.lock().unwrap().is_empty());
    }
}
