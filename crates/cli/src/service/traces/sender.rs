//! Sends through the real sender, inside a span.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use posthaste_domain::{Classification, ErrorClass, Lease, Outcome};
use posthaste_engine::Sender;

use super::context;
use super::exporter::Tally;

pub(super) struct TracedSender {
    sender: Arc<dyn Sender>,
    tracer: SdkTracer,
    tally: Arc<Tally>,
}

impl TracedSender {
    pub(super) fn new(sender: Arc<dyn Sender>, tracer: SdkTracer, tally: Arc<Tally>) -> Self {
        Self { sender, tracer, tally }
    }
}

#[async_trait]
impl Sender for TracedSender {
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome {
        let Some(attempt) = Attempt::of(lease, &self.tracer) else {
            return self.sender.send(lease, timeout).await;
        };
        self.tally.began();
        let traced = Lease { traceparent: Some(attempt.traceparent()), ..lease.clone() };
        let outcome = self.sender.send(&traced, timeout).await;
        attempt.ended(&outcome);
        outcome
    }
}

/// The span of one attempt. Dropped before there is an outcome, it says that the attempt was cut off.
struct Attempt(Span);

impl Attempt {
    /// None where the producer's trace is not sampled: nobody would find the span that the receiver's had for a
    /// parent, so the producer's own goes on as it came. None, too, when traces have ended.
    fn of(lease: &Lease, tracer: &SdkTracer) -> Option<Self> {
        let parent = lease.traceparent.as_deref().and_then(context::parse);
        if parent.as_ref().is_some_and(|parent| !parent.is_sampled()) {
            return None;
        }
        let within =
            parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        let span = SpanBuilder::from_name(format!("deliver {}", lease.event_type))
            .with_kind(SpanKind::Client)
            .with_attributes(about(lease));
        let span = tracer.build_with_context(span, &within);
        span.is_recording().then_some(Self(span))
    }

    fn traceparent(&self) -> String {
        context::traceparent(self.0.span_context())
    }

    fn ended(mut self, outcome: &Outcome) {
        let Self(span) = &mut self;
        if let Some(status) = outcome.http_status() {
            span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        let verdict = outcome.classify();
        span.set_attribute(KeyValue::new("posthaste.verdict", word(verdict)));
        if verdict != Classification::Delivered {
            let (error, told) = failure(outcome);
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(told));
        }
        span.end();
    }
}

impl Drop for Attempt {
    /// A span that has ended does not change any more.
    fn drop(&mut self) {
        self.0.set_attribute(KeyValue::new("error.type", "cut_off"));
        self.0.set_status(Status::error("cut off before there was a result"));
    }
}

/// What is known before it is sent. Query strings and payloads may be secret, and so may what receivers answer.
fn about(lease: &Lease) -> Vec<KeyValue> {
    let mut about = vec![
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
        about.push(KeyValue::new("server.address", host.trim_matches(['[', ']']).to_owned()));
        about.push(KeyValue::new("server.port", i64::from(port)));
    }
    about
}

/// In a word for programs, and in words for people.
fn failure(outcome: &Outcome) -> (String, String) {
    match (outcome.http_status(), outcome.error_class().map(ErrorClass::as_str)) {
        (Some(status), _) => (status.to_string(), format!("HTTP {status}")),
        (None, class) => {
            let class = class.unwrap_or_default();
            (class.to_owned(), class.to_owned())
        }
    }
}

fn word(verdict: Classification) -> &'static str {
    match verdict {
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

    #[derive(Debug, Clone, Default)]
    struct Exported(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Exported {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    /// Ends as it is told, or never, and remembers under which `traceparent` it was asked to.
    struct Receiver {
        outcome: Option<Outcome>,
        sent: Mutex<Option<String>>,
    }

    #[async_trait]
    impl Sender for Receiver {
        async fn send(&self, lease: &Lease, _: Duration) -> Outcome {
            self.sent.lock().unwrap().clone_from(&lease.traceparent);
            match &self.outcome {
                Some(outcome) => outcome.clone(),
                None => std::future::pending().await,
            }
        }
    }

    struct Stage {
        provider: SdkTracerProvider,
        exported: Exported,
        receiver: Arc<Receiver>,
        sender: TracedSender,
    }

    impl Stage {
        fn ending(outcome: Option<Outcome>) -> Self {
            let exported = Exported::default();
            let provider = SdkTracerProvider::builder().with_simple_exporter(exported.clone()).build();
            let receiver = Arc::new(Receiver { outcome, sent: Mutex::default() });
            let tracer = provider.tracer("test");
            let sender = TracedSender::new(Arc::clone(&receiver) as _, tracer, Arc::default());
            Self { provider, exported, receiver, sender }
        }

        async fn send(&self, traceparent: Option<&str>) -> Option<String> {
            let sending = lease(traceparent);
            let _ = self.sender.send(&sending, Duration::MAX).await;
            self.sent()
        }

        fn sent(&self) -> Option<String> {
            self.receiver.sent.lock().unwrap().clone()
        }

        fn span(&self) -> SpanData {
            let spans = self.exported.0.lock().unwrap();
            assert_eq!(spans.len(), 1, "{spans:?}");
            spans[0].clone()
        }
    }

    fn lease(traceparent: Option<&str>) -> Lease {
        Lease {
            token: LeaseToken::random([7; 16]),
            key: EventKey(1),
            event_id: EventId::new("msg_17").unwrap(),
            message_id: MessageId::v7(Timestamp::default(), [9; 10]),
            destination_id: DestinationId(1),
            destination_url: DestinationUrl::from_stored("https://[::1]/hook?token=hunter2".to_owned()),
            event_type: "invoice.paid".to_owned(),
            content_type: "application/json".to_owned(),
            payload: Bytes::from_static(br#"{"card": "4242"}"#),
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
    async fn an_attempt_is_a_span_of_the_producers_trace_and_the_receivers_parent() {
        let stage = Stage::ending(Some(Outcome::response(204, None, b"")));
        let sent = stage.send(Some(PRODUCER)).await.unwrap();
        let span = stage.span();
        let producer = context::parse(PRODUCER).unwrap();
        assert_eq!(sent, context::traceparent(&span.span_context));
        assert_eq!(span.span_context.trace_id(), producer.trace_id());
        assert_eq!((span.parent_span_id, span.parent_span_is_remote), (producer.span_id(), true));
        assert_eq!((span.name.as_ref(), &span.span_kind), ("deliver invoice.paid", &SpanKind::Client));
        assert_eq!(span.status, Status::Unset);
    }

    #[tokio::test]
    async fn a_span_says_what_was_sent_where_and_nothing_secret() {
        let stage = Stage::ending(Some(Outcome::response(410, None, b"whsec_of_the_receiver")));
        stage.send(None).await;
        let span = stage.span();
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
    async fn what_is_not_delivered_is_an_error_by_its_class() {
        let refused = Outcome::no_response(ErrorClass::Connect, "connection refused by shop.example");
        let ends = [(refused, "connect", "connect"), (Outcome::response(503, None, b""), "503", "HTTP 503")];
        for (outcome, class, told) in ends {
            let stage = Stage::ending(Some(outcome));
            stage.send(None).await;
            let span = stage.span();
            assert_eq!(span.status, Status::error(told));
            assert_eq!(attribute(&span, "error.type").as_deref(), Some(class));
            assert_eq!(attribute(&span, "posthaste.verdict").as_deref(), Some("retry"));
        }
    }

    #[tokio::test]
    async fn an_attempt_that_is_cut_off_is_an_error_without_a_verdict() {
        let stage = Stage::ending(None);
        let sending = lease(None);
        let mut attempt = stage.sender.send(&sending, Duration::MAX);
        assert!(futures_util::poll!(&mut attempt).is_pending());
        drop(attempt);
        let span = stage.span();
        assert_eq!(span.status, Status::error("cut off before there was a result"));
        assert_eq!(attribute(&span, "error.type").as_deref(), Some("cut_off"));
        assert_eq!(attribute(&span, "posthaste.verdict"), None);
        assert!(stage.sent().is_some());
    }

    #[tokio::test]
    async fn without_a_context_that_can_be_continued_a_trace_begins() {
        for traceparent in [None, Some("not a traceparent"), Some("00-0-0-01")] {
            let stage = Stage::ending(Some(Outcome::response(200, None, b"")));
            let sent = stage.send(traceparent).await.unwrap();
            assert!(context::parse(&sent).unwrap().is_sampled());
            assert_eq!(stage.span().parent_span_id, opentelemetry::trace::SpanId::INVALID);
        }
    }

    #[tokio::test]
    async fn what_is_not_sampled_goes_on_as_it_came() {
        let unsampled = PRODUCER.replace("-01", "-00");
        let stage = Stage::ending(Some(Outcome::response(200, None, b"")));
        assert_eq!(stage.send(Some(&unsampled)).await, Some(unsampled));
        assert!(stage.exported.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn when_traces_have_ended_everything_goes_on_as_it_came() {
        let stage = Stage::ending(Some(Outcome::response(200, None, b"")));
        stage.provider.shutdown().unwrap();
        for traceparent in [Some(PRODUCER), None] {
            assert_eq!(stage.send(traceparent).await.as_deref(), traceparent);
        }
        assert!(stage.exported.0.lock().unwrap().is_empty());
    }
}
