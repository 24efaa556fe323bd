//! The outcome of one HTTP attempt, as data. A failure of the receiver is an [`Outcome`], never an `Err`.

use std::time::Duration;

use crate::last_error::HTTP;
use crate::{Excerpt, RETRY_AFTER_MAX};

/// The outcome of one attempt. Only the status line counts: a 2xx with a broken body is still a 2xx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver sent a final status, 200 to 599. Only [`Outcome::response`] builds this variant, and it checks
    /// the range.
    #[non_exhaustive]
    Response { status: u16, retry_after: Option<Duration>, excerpt: Excerpt },
    /// The receiver sent no valid status line. Only [`Outcome::no_response`] builds this variant.
    #[non_exhaustive]
    NoResponse { class: ErrorClass, detail: Excerpt },
}

/// Why an attempt got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The deadline of the attempt passed, in any phase of the request.
    Timeout,
    /// The host name could not be resolved.
    Dns,
    /// The address guard refused the address that the host name resolves to.
    BlockedAddress,
    /// The TCP connection could not be opened.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The receiver's TLS certificate is not trusted.
    Certificate,
    /// The connection closed before a status line arrived.
    Reset,
    /// The receiver sent bytes that are not a valid HTTP response.
    BrokenResponse,
    /// The stored event cannot be turned into an HTTP request. Not the fault of the receiver.
    Unsendable,
    /// The sender panicked. Not the fault of the receiver.
    Panic,
}

named_variants!(ErrorClass {
    Timeout => "timeout",
    Dns => "dns",
    BlockedAddress => "blocked_address",
    Connect => "connect",
    Tls => "tls",
    Certificate => "certificate",
    Reset => "reset",
    BrokenResponse => "broken_response",
    Unsendable => "unsendable",
    Panic => "panic",
});

/// The counter of an outcome: its class of HTTP status, or `NetworkError` without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutcomeBucket {
    Http2xx,
    Http3xx,
    Http4xx,
    Http5xx,
    NetworkError,
}

named_variants!(OutcomeBucket {
    Http2xx => "http_2xx",
    Http3xx => "http_3xx",
    Http4xx => "http_4xx",
    Http5xx => "http_5xx",
    NetworkError => "network_error",
});

/// What an outcome means for its event, before the retry policy is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classification {
    Delivered,
    /// Status 410: the receiver no longer accepts these events. The retry policy decides whether that is final.
    Gone,
    /// Any other failure. The retry policy decides whether attempts remain.
    Retry,
}

/// What an outcome shows about the health of its receiver. The circuit breaker counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverHealth {
    /// The receiver responded, if only to refuse the event.
    Healthy,
    /// The receiver is down, overloaded, or requests a lower rate.
    Unhealthy,
    /// The attempt failed on our side and shows nothing about the receiver.
    Unknown,
}

impl Outcome {
    /// Builds the outcome of a response. A status outside 200..=599 is not final and becomes a broken response.
    pub fn response(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        if (200..=599).contains(&status) {
            Self::Response { status, retry_after, excerpt: Excerpt::from_bytes(body) }
        } else {
            Self::no_response(
                ErrorClass::BrokenResponse,
                &format!("status {status} is not a final HTTP status"),
            )
        }
    }

    /// Builds the outcome of an attempt without a response.
    pub fn no_response(class: ErrorClass, detail: &str) -> Self {
        Self::NoResponse { class, detail: Excerpt::from_text(detail) }
    }

    /// The counter in which this outcome is counted.
    pub fn bucket(&self) -> OutcomeBucket {
        match self {
            Self::Response { status: ..=299, .. } => OutcomeBucket::Http2xx,
            Self::Response { status: ..=399, .. } => OutcomeBucket::Http3xx,
            Self::Response { status: ..=499, .. } => OutcomeBucket::Http4xx,
            Self::Response { .. } => OutcomeBucket::Http5xx,
            Self::NoResponse { .. } => OutcomeBucket::NetworkError,
        }
    }

    /// Classifies the outcome: 2xx is delivered, 410 is gone, everything else may be retried.
    pub fn classify(&self) -> Classification {
        match self {
            Self::Response { status: 410, .. } => Classification::Gone,
            _ if self.bucket() == OutcomeBucket::Http2xx => Classification::Delivered,
            _ => Classification::Retry,
        }
    }

    /// Returns what the outcome shows about the receiver.
    pub fn health(&self) -> ReceiverHealth {
        match self {
            Self::Response { status: 408 | 429, .. } => ReceiverHealth::Unhealthy,
            Self::Response { status: 500.., .. } => ReceiverHealth::Unhealthy,
            Self::Response { .. } => ReceiverHealth::Healthy,
            Self::NoResponse { class: ErrorClass::Panic | ErrorClass::Unsendable, .. } => {
                ReceiverHealth::Unknown
            }
            Self::NoResponse { .. } => ReceiverHealth::Unhealthy,
        }
    }

    /// The pause that the destination requests. `Retry-After` counts on 429 and 503 only. The retry policy decides
    /// whether the pause is honoured.
    pub fn requested_pause(&self) -> Option<Duration> {
        match self {
            Self::Response { status: 429 | 503, retry_after, .. } => {
                retry_after.filter(|wait| !wait.is_zero()).map(|wait| wait.min(RETRY_AFTER_MAX))
            }
            _ => None,
        }
    }

    /// The HTTP status, if a response arrived.
    pub fn http_status(&self) -> Option<u16> {
        match self {
            Self::Response { status, .. } => Some(*status),
            Self::NoResponse { .. } => None,
        }
    }

    /// Why no response arrived, or `None` if one did.
    pub fn error_class(&self) -> Option<ErrorClass> {
        match self {
            Self::Response { .. } => None,
            Self::NoResponse { class, .. } => Some(*class),
        }
    }

    /// An excerpt of the response body, or the error detail without a response.
    pub fn excerpt(&self) -> &Excerpt {
        match self {
            Self::Response { excerpt, .. } => excerpt,
            Self::NoResponse { detail, .. } => detail,
        }
    }

    /// The text that operators see as the last error of the event, or `None` for a 2xx.
    pub fn last_error(&self) -> Option<String> {
        let error = match self {
            _ if self.classify() == Classification::Delivered => return None,
            Self::Response { status, .. } => format!("{HTTP}{status}"),
            Self::NoResponse { class, .. } => class.as_str().to_owned(),
        };
        let excerpt = self.excerpt();
        Some(if excerpt.is_empty() { error } else { format!("{error}: {excerpt}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status(status: u16) -> Outcome {
        Outcome::response(status, None, b"")
    }

    #[test]
    fn every_status_is_counted_in_its_bucket() {
        let buckets = [
            (200, OutcomeBucket::Http2xx),
            (299, OutcomeBucket::Http2xx),
            (301, OutcomeBucket::Http3xx),
            (404, OutcomeBucket::Http4xx),
            (410, OutcomeBucket::Http4xx),
            (503, OutcomeBucket::Http5xx),
            (599, OutcomeBucket::Http5xx),
        ];
        for (code, bucket) in buckets {
            assert_eq!(status(code).bucket(), bucket, "{code}");
        }
        assert_eq!(Outcome::no_response(ErrorClass::Dns, "").bucket(), OutcomeBucket::NetworkError);
    }

    #[test]
    fn only_2xx_delivers_and_only_410_is_gone() {
        for code in 200..=599 {
            let expected = match code {
                200..=299 => Classification::Delivered,
                410 => Classification::Gone,
                _ => Classification::Retry,
            };
            assert_eq!(status(code).classify(), expected, "{code}");
        }
    }

    #[test]
    fn status_that_is_not_final_is_a_broken_response() {
        for code in [0, 99, 100, 101, 199, 600, 999] {
            assert_eq!(status(code).error_class(), Some(ErrorClass::BrokenResponse), "{code}");
        }
    }

    #[test]
    fn last_error_carries_the_code_and_a_safe_excerpt() {
        let outcome = Outcome::response(503, None, b"<h1>try\nlater</h1>");
        assert_eq!(outcome.last_error().unwrap(), "HTTP 503: <h1>try later</h1>");
        assert_eq!(status(404).last_error().unwrap(), "HTTP 404");
        let outcome = Outcome::no_response(ErrorClass::Timeout, "no answer within 30s");
        assert_eq!(outcome.last_error().unwrap(), "timeout: no answer within 30s");
        assert_eq!(Outcome::response(204, None, b"ok").last_error(), None);
    }

    #[test]
    fn retry_after_pauses_on_429_and_503_only() {
        let wait = Some(Duration::from_secs(90));
        assert_eq!(Outcome::response(429, wait, b"").requested_pause(), wait);
        assert_eq!(Outcome::response(503, wait, b"").requested_pause(), wait);
        for code in [200, 301, 404, 500, 502] {
            assert_eq!(Outcome::response(code, wait, b"").requested_pause(), None, "{code}");
        }
        assert_eq!(Outcome::response(429, Some(Duration::ZERO), b"").requested_pause(), None);
        assert_eq!(Outcome::response(429, Some(Duration::MAX), b"").requested_pause(), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn refusal_is_healthy_but_rate_limiting_is_unhealthy() {
        assert_eq!(status(404).health(), ReceiverHealth::Healthy);
        assert_eq!(status(429).health(), ReceiverHealth::Unhealthy);
        assert_eq!(status(500).health(), ReceiverHealth::Unhealthy);
        assert_eq!(Outcome::no_response(ErrorClass::Connect, "").health(), ReceiverHealth::Unhealthy);
        for ours in [ErrorClass::Panic, ErrorClass::Unsendable] {
            assert_eq!(Outcome::no_response(ours, "").health(), ReceiverHealth::Unknown);
        }
    }

    proptest! {
        #[test]
        fn outcome_has_an_error_text_exactly_when_it_is_not_delivered(
            code in 0_u16..1_000, body in proptest::collection::vec(any::<u8>(), 0..64)
        ) {
            let outcome = Outcome::response(code, None, &body);
            prop_assert_eq!(outcome.last_error().is_none(), outcome.classify() == Classification::Delivered);
        }
    }
}
