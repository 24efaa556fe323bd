//! The W3C Trace Context header `traceparent`: `00-<trace id>-<span id>-<flags>`.

use std::fmt;

/// Length of the version, trace id, span id and flags, with which a `traceparent` of every version begins.
const PREFIX_LEN: usize = 55;
/// The only flag whose meaning is the same in every version.
const SAMPLED: u8 = 0x01;

/// A valid `traceparent`. Neither its trace id nor its span id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl TraceParent {
    /// Parses a `traceparent`, or returns `None` if the text deviates from the standard.
    ///
    /// If the version is newer than this parser, it reads the four known fields and ignores the rest, as the standard
    /// requires.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_at_checked(PREFIX_LEN)?;
        let mut parts = prefix.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
        let (is_rest_valid, flags) = match version {
            0x00 => (rest.is_empty(), flags),
            0xff => (false, flags),
            // A future version may append fields after a dash, and may give the other flags another meaning.
            _ => (rest.is_empty() || rest.starts_with('-'), flags & SAMPLED),
        };
        let valid = is_rest_valid && parts.next().is_none() && trace_id != 0 && span_id != 0;
        valid.then_some(Self { trace_id, span_id, flags })
    }

    pub fn trace_id(self) -> u128 {
        self.trace_id
    }

    pub fn span_id(self) -> u64 {
        self.span_id
    }

    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// Writes version 00 even if a later version was parsed: the standard requires this when a header is forwarded.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// Parses exactly `len` lowercase hex digits.
fn hex(part: &str, len: usize) -> Option<u128> {
    let is_hex = part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(part, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn version_00_is_written_as_it_was_parsed() {
        let parent = TraceParent::parse(VALID).unwrap();
        assert_eq!(parent.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(parent.span_id(), 0x00f0_67aa_0ba9_02b7);
        assert!(parent.is_sampled());
        for flags in ["-00", "-01", "-02", "-03", "-ff"] {
            let text = VALID.replace("-01", flags);
            assert_eq!(TraceParent::parse(&text).unwrap().to_string(), text);
        }
        assert!(!TraceParent::parse(&VALID.replace("-01", "-02")).unwrap().is_sampled());
    }

    #[test]
    fn known_fields_of_a_future_version_are_parsed() {
        let version = |version: &str| VALID.replacen("00-", version, 1);
        for later in
            [version("01-"), version("cc-") + "-more-fields", version("fe-").replace("-01", "-ff") + "-"]
        {
            assert_eq!(TraceParent::parse(&later).unwrap().to_string(), VALID, "{later}");
        }
    }

    #[test]
    fn malformed_traceparent_is_none() {
        let malformed = [
            String::new(),
            "not a traceparent".to_owned(),
            VALID.to_uppercase(),
            VALID.replacen("00-", "ff-", 1),
            VALID.replacen("00-", "ff-", 1) + "-more",
            format!("{VALID}-more"),
            format!("{VALID}0"),
            VALID.replacen("00-", "01-", 1) + "0",
            format!(" {VALID}"),
            VALID.replace("4bf9", "+bf9"),
            VALID.replace("4bf92f35", "4bf-2f35"),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f35"),
            "é".repeat(PREFIX_LEN),
        ];
        for text in malformed {
            assert_eq!(TraceParent::parse(&text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,80}") {
            let _ = TraceParent::parse(&text);
        }

        #[test]
        fn every_traceparent_survives_a_round_trip(trace_id in 1_u128.., span_id in 1_u64.., flags: u8) {
            let parent = TraceParent { trace_id, span_id, flags };
            prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
        }
    }
}
