//! Parses exported spans, as a collector does.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

use crate::server::{ReceivedRequest, Server};

type Attributes = BTreeMap<String, String>;

/// A span that a collector received.
#[derive(Debug)]
pub(crate) struct ExportedSpan {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    /// Empty for the first span of a trace.
    pub(crate) parent_id: String,
    pub(crate) name: String,
    pub(crate) is_client: bool,
    pub(crate) failed: bool,
    pub(crate) resource: Attributes,
    attributes: Attributes,
}

impl ExportedSpan {
    /// Returns the value of an attribute, or fails the test.
    #[track_caller]
    pub(crate) fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).unwrap_or_else(|| panic!("{key} is missing in {self:?}"))
    }
}

/// The fields of a `traceparent` header.
pub(crate) struct TraceParent<'a> {
    pub(crate) trace_id: &'a str,
    pub(crate) parent_id: &'a str,
    pub(crate) flags: &'a str,
}

/// Splits a `traceparent` header, or fails the test.
pub(crate) fn parse_traceparent(traceparent: &str) -> TraceParent<'_> {
    let fields: Vec<_> = traceparent.split('-').collect();
    let ["00", trace_id, parent_id, flags] = fields[..] else { panic!("{traceparent} is not a traceparent") };
    TraceParent { trace_id, parent_id, flags }
}

/// Returns the spans of all requests that this collector has received.
pub(crate) fn exported_spans(collector: &Server) -> Vec<ExportedSpan> {
    collector.received_requests().iter().flat_map(parse_spans).collect()
}

/// Parses the spans of one request.
pub(crate) fn parse_spans(request: &ReceivedRequest) -> Vec<ExportedSpan> {
    let request = ExportTraceServiceRequest::decode(&*request.body).unwrap();
    let mut spans = Vec::new();
    for resource_spans in request.resource_spans {
        let resource = attributes(&resource_spans.resource.unwrap().attributes);
        for span in resource_spans.scope_spans.iter().flat_map(|scope_spans| &scope_spans.spans) {
            spans.push(convert(span, resource.clone()));
        }
    }
    spans
}

fn convert(span: &Span, resource: Attributes) -> ExportedSpan {
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0);
    ExportedSpan {
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_id: hex(&span.parent_span_id),
        name: span.name.clone(),
        is_client: span.kind() == SpanKind::Client,
        failed: span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error),
        resource,
        attributes: attributes(&span.attributes),
    }
}

/// Collects attributes that are texts or integers.
fn attributes(pairs: &[KeyValue]) -> Attributes {
    let text = |pair: &KeyValue| match pair.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some((pair.key.clone(), text.clone())),
        Value::IntValue(number) => Some((pair.key.clone(), number.to_string())),
        _ => None,
    };
    pairs.iter().filter_map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
