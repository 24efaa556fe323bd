//! Conversion between a `traceparent` header and OpenTelemetry's span context.

use opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
use posthaste_domain::TraceParent;

/// Parses a `traceparent` header. Keeps the flag `sampled` and drops the others. None if the header is invalid.
pub(super) fn parse_traceparent(traceparent: &str) -> Option<SpanContext> {
    let parent = TraceParent::parse(traceparent)?;
    let flags = TraceFlags::default().with_sampled(parent.is_sampled());
    Some(SpanContext::new(parent.trace_id().into(), parent.span_id().into(), flags, true, TraceState::NONE))
}

/// Formats a span context as a `traceparent` header.
pub(super) fn format_traceparent(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn traceparent_is_parsed_and_formatted_unchanged() {
        let context = parse_traceparent(SAMPLED).unwrap();
        assert!(context.is_sampled() && context.is_remote() && context.is_valid());
        assert_eq!(format_traceparent(&context), SAMPLED);
        let unsampled = SAMPLED.replace("-01", "-00");
        assert!(!parse_traceparent(&unsampled).unwrap().is_sampled());
        assert_eq!(format_traceparent(&parse_traceparent(&unsampled).unwrap()), unsampled);
        assert_eq!(parse_traceparent(&SAMPLED.to_uppercase()), None);
    }

    #[test]
    fn unknown_flags_are_dropped() {
        let context = parse_traceparent(&SAMPLED.replace("-01", "-ff")).unwrap();
        assert_eq!(format_traceparent(&context), SAMPLED);
    }

    proptest! {
        #[test]
        fn every_context_survives_a_round_trip(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let flags = TraceFlags::default().with_sampled(sampled);
            let context = SpanContext::new(trace.into(), span.into(), flags, true, TraceState::NONE);
            prop_assert_eq!(parse_traceparent(&format_traceparent(&context)), Some(context));
        }
    }
}
