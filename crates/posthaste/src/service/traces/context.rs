//! Trace contexts as W3C writes them: `00-<trace id>-<span id>-<flags>`.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Length of what every version begins with.
const KNOWN_LEN: usize = 55;

/// Strict where the standard is: what is not exactly a `traceparent` is none.
pub(super) fn parse(traceparent: &str) -> Option<SpanContext> {
    let (known, more) = traceparent.split_at_checked(KNOWN_LEN)?;
    let mut parts = known.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = TraceId::from(hex(parts.next()?, 32)?);
    let span_id = SpanId::from(u64::try_from(hex(parts.next()?, 16)?).ok()?);
    let flags = TraceFlags::new(u8::try_from(hex(parts.next()?, 2)?).ok()?);
    // Versions to come may have more to say, but not without a dash.
    let ends = match version {
        0x00 => more.is_empty(),
        0xff => false,
        _ => more.is_empty() || more.starts_with('-'),
    };
    // Of the flags, only this one is known to us, and what is unknown is not passed on.
    let flags = flags & TraceFlags::SAMPLED;
    let context = SpanContext::new(trace_id, span_id, flags, true, TraceState::NONE);
    (ends && parts.next().is_none() && context.is_valid()).then_some(context)
}

pub(super) fn traceparent(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags())
}

fn hex(part: &str, len: usize) -> Option<u128> {
    let written = part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    written.then(|| u128::from_str_radix(part, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_as_it_was() {
        let context = parse(KNOWN).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(traceparent(&context), KNOWN);
        let unsampled = KNOWN.replace("-01", "-00");
        assert!(!parse(&unsampled).unwrap().is_sampled());
        assert_eq!(traceparent(&parse(&unsampled).unwrap()), unsampled);
    }

    #[test]
    fn flags_that_are_not_known_are_not_passed_on() {
        assert_eq!(traceparent(&parse(&KNOWN.replace("-01", "-ff")).unwrap()), KNOWN);
    }

    #[test]
    fn versions_to_come_are_read_as_far_as_they_are_known() {
        for later in [KNOWN.replacen("00-", "01-", 1), KNOWN.replacen("00-", "cc-", 1) + "-what-comes"] {
            assert_eq!(traceparent(&parse(&later).unwrap()), KNOWN, "{later}");
        }
    }

    #[test]
    fn what_is_not_exactly_a_context_is_none() {
        let none = [
            String::new(),
            "not a traceparent".to_owned(),
            KNOWN.to_uppercase(),
            KNOWN.replacen("00-", "ff-", 1),
            format!("{KNOWN}-more"),
            format!("{KNOWN}0"),
            KNOWN.replacen("00-", "01-", 1) + "0",
            format!(" {KNOWN}"),
            KNOWN.replace("4bf9", "+bf9"),
            KNOWN.replace("4bf92f35", "4bf-2f35"),
            KNOWN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            KNOWN.replace("00f067aa0ba902b7", &"0".repeat(16)),
            "é".repeat(KNOWN_LEN),
        ];
        for traceparent in none {
            assert_eq!(parse(&traceparent), None, "{traceparent:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_stored_is_read_without_a_panic(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn every_context_survives(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let flags = TraceFlags::default().with_sampled(sampled);
            let context = SpanContext::new(trace.into(), span.into(), flags, true, TraceState::NONE);
            prop_assert_eq!(parse(&traceparent(&context)), Some(context));
        }
    }
}
