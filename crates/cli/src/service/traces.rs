//! Traces, if a collector is configured: one span per attempt, in the trace of the producer that enqueued the event.
//!
//! ```text
//!  lease ─► sender ─► queue ─► exporter ─► client ─► collector
//!           span      bounded  counts      OTLP over HTTP
//! ```
//!
//! Traces never delay deliveries. A full queue drops further spans. Exports run on their own thread and runtime. A
//! collector that fails costs its spans and one warning per minute. Without a collector, none of this runs: the sender
//! is not wrapped, and a producer's `traceparent` is delivered as the event has it.
//!
//! Spans contain no payload, no header, no response of a receiver, and only host and port of a destination. The
//! exporter reads headers for the collector, such as a token, from `OTEL_EXPORTER_OTLP_HEADERS`.

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
use posthaste::Posthaste;
use posthaste_domain::WorkerId;
use posthaste_engine::TokioClock;
use tokio::sync::oneshot;
use url::Url;

use client::CollectorClient;
use exporter::{MonitoredExporter, SpanCounts};
use sender::TracedSender;

/// Path at which a collector receives traces, if the endpoint has no path of its own.
const DEFAULT_PATH: &str = "/v1/traces";
/// Capacity of the export queue; further spans are dropped.
const QUEUE_SPANS_MAX: usize = 8_192;
/// Maximum number of spans in one export request.
const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits for further spans to share its export request.
const BATCH_DELAY: Duration = Duration::from_secs(2);
/// How long a collector may take to accept a batch, including retries.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process waits at its end for the export of its last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The traces of this process, or none if no collector is configured. Dropping it without a flush discards the spans
/// that are still queued.
pub(crate) struct Traces(Option<TracePipeline>);

/// The tracer and its exporter.
struct TracePipeline {
    provider: SdkTracerProvider,
    counts: Arc<SpanCounts>,
}

/// Why traces could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error("cannot start the thread for traces: {0}")]
    Thread(#[from] std::io::Error),
    #[error("traces cannot be exported to otlp_endpoint: {0}")]
    Exporter(#[from] ExporterBuildError),
}

impl Traces {
    /// Starts the export of traces to a collector, if there is an endpoint. The collector need not run yet.
    pub(crate) fn start(endpoint: Option<&Url>, worker_id: &WorkerId) -> Result<Self, TracesError> {
        endpoint.map(|endpoint| TracePipeline::start(endpoint, worker_id)).transpose().map(Self)
    }

    /// Wraps the sender of `posthaste`, so that each attempt gets a span. Returns `posthaste` unchanged if no collector
    /// is configured.
    #[must_use]
    pub(crate) fn instrument(&self, posthaste: Posthaste) -> Posthaste {
        let Some(TracePipeline { provider, counts }) = &self.0 else { return posthaste };
        let scope =
            InstrumentationScope::builder("posthaste").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        posthaste.wrap_sender(|sender| Arc::new(TracedSender::new(sender, tracer, Arc::clone(counts))))
    }

    /// Exports the spans that are still queued, within [`FLUSH_TIMEOUT`]. Later attempts get no span.
    pub(crate) async fn flush(mut self) {
        let Some(TracePipeline { provider, counts }) = self.0.take() else { return };
        // Not on a thread of the runtime: the runtime waits for its threads at its end, even after a second signal.
        let (sender, flushed) = oneshot::channel();
        std::thread::spawn(move || sender.send(provider.shutdown_with_timeout(FLUSH_TIMEOUT)));
        let flushed = flushed.await.is_ok_and(|result| result.is_ok());
        let (exported, lost) = (counts.exported(), counts.lost());
        tracing::info!(flushed, exported, lost, "trace export stopped");
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(TracePipeline { provider, .. }) = self.0.take() {
            // Without this, dropping the last reference to the provider would wait for the collector.
            let _ = provider.shutdown_with_timeout(Duration::ZERO);
        }
    }
}

impl TracePipeline {
    fn start(endpoint: &Url, worker_id: &WorkerId) -> Result<Self, TracesError> {
        let endpoint = with_default_path(endpoint);
        let client = CollectorClient::start(&endpoint, EXPORT_TIMEOUT)?;
        let last_error = client.last_error();
        let otlp = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint.as_str())
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let counts = Arc::new(SpanCounts::default());
        let clock = Arc::new(TokioClock::start());
        let exporter = MonitoredExporter::new(otlp, endpoint.clone(), last_error, Arc::clone(&counts), clock);
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS_MAX)
            .with_max_export_batch_size(BATCH_SPANS_MAX)
            .with_scheduled_delay(BATCH_DELAY)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_resource(resource(worker_id))
            .with_span_processor(BatchSpanProcessor::new(exporter, batches))
            .build();
        tracing::info!(%endpoint, "exporting traces");
        Ok(Self { provider, counts })
    }
}

/// Adds the default path to an endpoint without a path.
fn with_default_path(endpoint: &Url) -> Url {
    let mut endpoint = endpoint.clone();
    if endpoint.path() == "/" {
        endpoint.set_path(DEFAULT_PATH);
    }
    endpoint
}

/// Returns the attributes that every span of this process has.
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
    fn endpoint_without_a_path_gets_the_default_path() {
        let path = |text: &str| with_default_path(&Url::parse(text).unwrap()).to_string();
        assert_eq!(path("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(path("http://127.0.0.1:4318/"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(path("https://collector.example/otlp"), "https://collector.example/otlp");
    }
}
