//! The trace that a request belongs to, as W3C Trace Context writes it: `00-<trace id>-<span id>-<flags>`.

use std::fmt;

/// Length of what every version begins with.
const KNOWN_LEN: usize = 55;
/// The one flag whose meaning every version keeps.
const SAMPLED: u8 = 0x01;

/// A `traceparent`. There is none with an id of nothing but zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl TraceParent {
    /// Strict where the standard is: what is not exactly a `traceparent` is none. A version to come is read as far as
    /// it is known.
    pub fn parse(text: &str) -> Option<Self> {
        let (known, more) = text.split_at_checked(KNOWN_LEN)?;
        let mut parts = known.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
        let (ends, flags) = match version {
            0x00 => (more.is_empty(), flags),
            0xff => (false, flags),
            // It may have more to say, but not without a dash; its other flags may mean other things.
            _ => (more.is_empty() || more.starts_with('-'), flags & SAMPLED),
        };
        let valid = ends && parts.next().is_none() && trace_id != 0 && span_id != 0;
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

/// In the version that is known here, as the standard asks of whoever passes on a later one.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
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
    fn what_is_known_is_written_as_it_was_read() {
        let parent = TraceParent::parse(KNOWN).unwrap();
        assert_eq!(parent.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(parent.span_id(), 0x00f0_67aa_0ba9_02b7);
        assert!(parent.is_sampled());
        for flags in ["-00", "-01", "-02", "-03", "-ff"] {
            let text = KNOWN.replace("-01", flags);
            assert_eq!(TraceParent::parse(&text).unwrap().to_string(), text);
        }
        assert!(!TraceParent::parse(&KNOWN.replace("-01", "-02")).unwrap().is_sampled());
    }

    #[test]
    fn versions_to_come_are_read_as_far_as_they_are_known() {
        let version = |version: &str| KNOWN.replacen("00-", version, 1);
        for later in
            [version("01-"), version("cc-") + "-what-comes", version("fe-").replace("-01", "-ff") + "-"]
        {
            assert_eq!(TraceParent::parse(&later).unwrap().to_string(), KNOWN, "{later}");
        }
    }

    #[test]
    fn what_is_not_exactly_a_traceparent_is_none() {
        let none = [
            String::new(),
            "not a traceparent".to_owned(),
            KNOWN.to_uppercase(),
            KNOWN.replacen("00-", "ff-", 1),
            KNOWN.replacen("00-", "ff-", 1) + "-more",
            format!("{KNOWN}-more"),
            format!("{KNOWN}0"),
            KNOWN.replacen("00-", "01-", 1) + "0",
            format!(" {KNOWN}"),
            KNOWN.replace("4bf9", "+bf9"),
            KNOWN.replace("4bf92f35", "4bf-2f35"),
            KNOWN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            KNOWN.replace("00f067aa0ba902b7", &"0".repeat(16)),
            KNOWN.replace("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f35"),
            "é".repeat(KNOWN_LEN),
        ];
        for text in none {
            assert_eq!(TraceParent::parse(&text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_without_a_panic(text in "\\PC{0,80}") {
            let _ = TraceParent::parse(&text);
        }

        #[test]
        fn every_traceparent_survives(trace_id in 1_u128.., span_id in 1_u64.., flags: u8) {
            let parent = TraceParent { trace_id, span_id, flags };
            prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
        }
    }
}
