//! What was exported, read as a collector reads it.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

use crate::server::{Asked, Server};

type Attributes = BTreeMap<String, String>;

#[derive(Debug)]
pub(crate) struct Exported {
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

impl Exported {
    #[track_caller]
    pub(crate) fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).unwrap_or_else(|| panic!("there is no {key} in {self:?}"))
    }
}

/// Of a header `traceparent`.
pub(crate) struct Parts<'a> {
    pub(crate) trace_id: &'a str,
    pub(crate) parent_id: &'a str,
    pub(crate) flags: &'a str,
}

pub(crate) fn parts(traceparent: &str) -> Parts<'_> {
    let parts: Vec<_> = traceparent.split('-').collect();
    let ["00", trace_id, parent_id, flags] = parts[..] else { panic!("{traceparent} is no traceparent") };
    Parts { trace_id, parent_id, flags }
}

/// Everything that this collector has got.
pub(crate) fn exported(collector: &Server) -> Vec<Exported> {
    collector.asked_so_far().iter().flat_map(read).collect()
}

/// The spans of one request.
pub(crate) fn read(export: &Asked) -> Vec<Exported> {
    let request = ExportTraceServiceRequest::decode(&*export.body).unwrap();
    let mut spans = Vec::new();
    for of_resource in request.resource_spans {
        let resource = attributes(&of_resource.resource.unwrap().attributes);
        for span in of_resource.scope_spans.iter().flat_map(|of_scope| &of_scope.spans) {
            spans.push(span_of(span, resource.clone()));
        }
    }
    spans
}

fn span_of(span: &Span, resource: Attributes) -> Exported {
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0);
    Exported {
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
