//! What happened to one request, as data. A remote failure is never an `Err`.

use std::time::Duration;

use crate::{Excerpt, RETRY_AFTER_MAX};

/// How one attempt ended. The status line decides: a 2xx with a broken body is still a 2xx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A final status line arrived, 200 to 599. Made by [`Outcome::response`] alone, which sees to that.
    #[non_exhaustive]
    Response { status: u16, retry_after: Option<Duration>, excerpt: Excerpt },
    /// No usable status line arrived.
    #[non_exhaustive]
    NoResponse { class: ErrorClass, detail: Excerpt },
}

/// Why there was no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The deadline passed, wherever the request was.
    Timeout,
    Dns,
    /// The guard refused the address that the destination resolves to.
    BlockedAddress,
    Connect,
    Tls,
    /// The receiver's certificate was refused.
    Certificate,
    /// The connection ended before a status line.
    Reset,
    /// What arrived is not an HTTP response.
    BrokenResponse,
    /// What is stored cannot be made into a request; says nothing about the receiver.
    Unsendable,
    /// Our own sender panicked; says nothing about the receiver.
    Panic,
}

words!(ErrorClass {
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

/// The five counters that every outcome falls into exactly one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    Http2xx,
    Http3xx,
    Http4xx,
    Http5xx,
    NetworkError,
}

words!(Bucket {
    Http2xx => "http_2xx",
    Http3xx => "http_3xx",
    Http4xx => "http_4xx",
    Http5xx => "http_5xx",
    NetworkError => "network_error",
});

/// What an outcome means for its event, before any policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Delivered,
    /// 410: the receiver wants no more of this.
    Gone,
    Retry,
}

/// What an outcome says about its receiver, for the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answered, even if only to refuse.
    Healthy,
    /// It is down, drowning, or asks for less.
    Unhealthy,
    /// Our own doing.
    Unknown,
}

impl Outcome {
    /// A status outside 200..=599 is no final HTTP status and so no response.
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

    pub fn no_response(class: ErrorClass, detail: &str) -> Self {
        Self::NoResponse { class, detail: Excerpt::from_text(detail) }
    }

    pub fn bucket(&self) -> Bucket {
        match self {
            Self::Response { status: ..=299, .. } => Bucket::Http2xx,
            Self::Response { status: ..=399, .. } => Bucket::Http3xx,
            Self::Response { status: ..=499, .. } => Bucket::Http4xx,
            Self::Response { .. } => Bucket::Http5xx,
            Self::NoResponse { .. } => Bucket::NetworkError,
        }
    }

    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Response { status: 410, .. } => Verdict::Gone,
            _ if self.bucket() == Bucket::Http2xx => Verdict::Delivered,
            _ => Verdict::Retry,
        }
    }

    pub fn health(&self) -> Health {
        match self {
            Self::Response { status: 408 | 429, .. } => Health::Unhealthy,
            Self::Response { status: 500.., .. } => Health::Unhealthy,
            Self::Response { .. } => Health::Healthy,
            Self::NoResponse { class: ErrorClass::Panic | ErrorClass::Unsendable, .. } => Health::Unknown,
            Self::NoResponse { .. } => Health::Unhealthy,
        }
    }

    /// How long the destination asks to be left alone: `Retry-After` counts on 429 and 503 only.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Response { status: 429 | 503, retry_after, .. } => {
                retry_after.filter(|wait| !wait.is_zero()).map(|wait| wait.min(RETRY_AFTER_MAX))
            }
            _ => None,
        }
    }

    pub fn http_status(&self) -> Option<u16> {
        match self {
            Self::Response { status, .. } => Some(*status),
            Self::NoResponse { .. } => None,
        }
    }

    pub fn error_class(&self) -> Option<ErrorClass> {
        match self {
            Self::Response { .. } => None,
            Self::NoResponse { class, .. } => Some(*class),
        }
    }

    pub fn excerpt(&self) -> &Excerpt {
        match self {
            Self::Response { excerpt, .. } => excerpt,
            Self::NoResponse { detail, .. } => detail,
        }
    }

    /// What an operator reads as the event's last error; none for a 2xx.
    pub fn last_error(&self) -> Option<String> {
        let what = match self {
            _ if self.verdict() == Verdict::Delivered => return None,
            Self::Response { status, .. } => format!("HTTP {status}"),
            Self::NoResponse { class, .. } => class.as_str().to_owned(),
        };
        let excerpt = self.excerpt();
        Some(if excerpt.is_empty() { what } else { format!("{what}: {excerpt}") })
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
    fn every_status_falls_into_its_real_bucket() {
        let buckets = [
            (200, Bucket::Http2xx),
            (299, Bucket::Http2xx),
            (301, Bucket::Http3xx),
            (404, Bucket::Http4xx),
            (410, Bucket::Http4xx),
            (503, Bucket::Http5xx),
            (599, Bucket::Http5xx),
        ];
        for (code, bucket) in buckets {
            assert_eq!(status(code).bucket(), bucket, "{code}");
        }
        assert_eq!(Outcome::no_response(ErrorClass::Dns, "").bucket(), Bucket::NetworkError);
    }

    #[test]
    fn only_2xx_delivers_and_only_410_is_gone() {
        for code in 200..=599 {
            let expected = match code {
                200..=299 => Verdict::Delivered,
                410 => Verdict::Gone,
                _ => Verdict::Retry,
            };
            assert_eq!(status(code).verdict(), expected, "{code}");
        }
    }

    #[test]
    fn a_status_that_is_no_final_status_is_a_broken_response() {
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
        assert_eq!(Outcome::response(429, wait, b"").pause(), wait);
        assert_eq!(Outcome::response(503, wait, b"").pause(), wait);
        for code in [200, 301, 404, 500, 502] {
            assert_eq!(Outcome::response(code, wait, b"").pause(), None, "{code}");
        }
        assert_eq!(Outcome::response(429, Some(Duration::ZERO), b"").pause(), None);
        assert_eq!(Outcome::response(429, Some(Duration::MAX), b"").pause(), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn a_refusal_is_not_ill_health_but_a_plea_for_less_is() {
        assert_eq!(status(404).health(), Health::Healthy);
        assert_eq!(status(429).health(), Health::Unhealthy);
        assert_eq!(status(500).health(), Health::Unhealthy);
        assert_eq!(Outcome::no_response(ErrorClass::Connect, "").health(), Health::Unhealthy);
        for ours in [ErrorClass::Panic, ErrorClass::Unsendable] {
            assert_eq!(Outcome::no_response(ours, "").health(), Health::Unknown);
        }
    }

    proptest! {
        #[test]
        fn an_outcome_has_an_error_text_exactly_when_it_is_not_delivered(
            code in 0_u16..1_000, body in proptest::collection::vec(any::<u8>(), 0..64)
        ) {
            let outcome = Outcome::response(code, None, &body);
            prop_assert_eq!(outcome.last_error().is_none(), outcome.verdict() == Verdict::Delivered);
        }
    }
}
