//! Between a `traceparent` and what OpenTelemetry calls a context.

use opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
use posthaste_domain::TraceParent;

/// Of the flags, only the one that is known to us is passed on.
pub(super) fn parse(traceparent: &str) -> Option<SpanContext> {
    let parent = TraceParent::parse(traceparent)?;
    let flags = TraceFlags::default().with_sampled(parent.is_sampled());
    Some(SpanContext::new(parent.trace_id().into(), parent.span_id().into(), flags, true, TraceState::NONE))
}

pub(super) fn traceparent(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_as_it_was() {
        let context = parse(KNOWN).unwrap();
        assert!(context.is_sampled() && context.is_remote() && context.is_valid());
        assert_eq!(traceparent(&context), KNOWN);
        let unsampled = KNOWN.replace("-01", "-00");
        assert!(!parse(&unsampled).unwrap().is_sampled());
        assert_eq!(traceparent(&parse(&unsampled).unwrap()), unsampled);
        assert_eq!(parse(&KNOWN.to_uppercase()), None);
    }

    #[test]
    fn flags_that_are_not_known_are_not_passed_on() {
        assert_eq!(traceparent(&parse(&KNOWN.replace("-01", "-ff")).unwrap()), KNOWN);
    }

    proptest! {
        #[test]
        fn every_context_survives(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let flags = TraceFlags::default().with_sampled(sampled);
            let context = SpanContext::new(trace.into(), span.into(), flags, true, TraceState::NONE);
            prop_assert_eq!(parse(&traceparent(&context)), Some(context));
        }
    }
}
