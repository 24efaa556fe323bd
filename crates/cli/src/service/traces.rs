//! Traces, where a collector is configured: a span per attempt, in the trace of whoever enqueued the event.
//!
//! ```text
//!  lease ─► sender ─► queue ─► exporter ─► client ─► collector
//!           span      bounded  complains   OTLP over HTTP
//! ```
//!
//! Deliveries come first: a span that finds the queue full is dropped, exports run on a thread and a runtime of their
//! own, and a collector that fails costs its spans and a warning a minute. Without a collector there is nothing of
//! this: the sender is not wrapped, and a producer's `traceparent` is delivered as the event has it.
//!
//! No span carries a payload, a header, what a receiver answered, or more of a destination than host and port. What a
//! collector wants beside the spans, such as a token, is read from `OTEL_EXPORTER_OTLP_HEADERS`.

mod client;
mod context;
mod exporter;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider};
use posthaste_domain::WorkerId;
use posthaste_engine::TokioClock;
use tokio::sync::oneshot;
use url::Url;

use posthaste::Posthaste;

use client::CollectorClient;
use exporter::{CarefulExporter, Tally};
use sender::TracedSender;

/// Where collectors take traces, unless the endpoint names a path.
const TRACES_PATH: &str = "/v1/traces";
/// Spans that wait to be exported; further ones are dropped.
const QUEUE_SPANS_MAX: usize = 8_192;
const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits for others to share its request.
const BATCH_WITHIN: Duration = Duration::from_secs(2);
/// How long a collector may take to accept a batch, repetitions included.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);
/// How long a process that ends waits for its last spans to be accepted.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// The traces of this process. Dropped without a flush, it does not wait for spans that are not exported yet.
pub(crate) struct Traces(Option<Exporting>);

struct Exporting {
    provider: SdkTracerProvider,
    tally: Arc<Tally>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error("traces need a thread of their own, and none could be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("traces cannot be exported to otlp_endpoint: {0}")]
    Exporter(#[from] ExporterBuildError),
}

impl Traces {
    /// Exports from now on, if there is where to. The collector need not be there yet.
    pub(crate) fn start(endpoint: Option<&Url>, worker_id: &WorkerId) -> Result<Self, TracesError> {
        endpoint.map(|endpoint| Exporting::start(endpoint, worker_id)).transpose().map(Self)
    }

    /// Follows every attempt of this instance from now on.
    #[must_use]
    pub(crate) fn follow(&self, posthaste: Posthaste) -> Posthaste {
        let Some(Exporting { provider, tally }) = &self.0 else { return posthaste };
        let scope =
            InstrumentationScope::builder("posthaste").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        posthaste.wrap_sender(|sender| Arc::new(TracedSender::new(sender, tracer, Arc::clone(tally))))
    }

    /// Exports what is still queued, for a little while. Nothing is followed afterwards.
    pub(crate) async fn flush(mut self) {
        let Some(Exporting { provider, tally }) = self.0.take() else { return };
        // On a thread of nobody's: a runtime waits for its own at its end, even after a second signal.
        let (told, flushed) = oneshot::channel();
        std::thread::spawn(move || told.send(provider.shutdown_with_timeout(FLUSH_WITHIN)));
        let flushed = flushed.await.is_ok_and(|flushed| flushed.is_ok());
        let (exported, lost) = tally.so_far();
        tracing::info!(flushed, exported, lost, "no more traces");
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(Exporting { provider, .. }) = self.0.take() {
            // Or whoever drops it last would wait for the collector.
            let _ = provider.shutdown_with_timeout(Duration::ZERO);
        }
    }
}

impl Exporting {
    fn start(endpoint: &Url, worker_id: &WorkerId) -> Result<Self, TracesError> {
        let endpoint = with_path(endpoint);
        let client = CollectorClient::start(EXPORT_WITHIN)?;
        let trouble = client.trouble();
        let otlp = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint.as_str())
            .with_timeout(EXPORT_WITHIN)
            .build()?;
        let tally = Arc::new(Tally::default());
        let clock = Arc::new(TokioClock::start());
        let exporter = CarefulExporter::new(otlp, endpoint.clone(), trouble, Arc::clone(&tally), clock);
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS_MAX)
            .with_max_export_batch_size(BATCH_SPANS_MAX)
            .with_scheduled_delay(BATCH_WITHIN)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_resource(resource(worker_id))
            .with_span_processor(BatchSpanProcessor::new(exporter, batches))
            .build();
        tracing::info!(%endpoint, "exporting traces");
        Ok(Self { provider, tally })
    }
}

fn with_path(endpoint: &Url) -> Url {
    let mut endpoint = endpoint.clone();
    if endpoint.path() == "/" {
        endpoint.set_path(TRACES_PATH);
    }
    endpoint
}

fn resource(worker_id: &WorkerId) -> Resource {
    Resource::builder()
        .with_attributes([
            KeyValue::new("service.name", "posthaste"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", worker_id.to_string()),
        ])
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_collectors_is_meant_unless_there_is_another() {
        let path = |text: &str| with_path(&Url::parse(text).unwrap()).to_string();
        assert_eq!(path("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(path("http://127.0.0.1:4318/"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(path("https://collector.example/otlp"), "https://collector.example/otlp");
    }
}
