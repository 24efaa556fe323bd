//! The reason why an attempt got no response. It becomes the attempt's outcome.

use std::error::Error;
use std::io;

use posthaste_domain::{ErrorClass, Outcome};

use crate::receive_budget::{BUDGET_EXCEEDED, ReceiveBudget};

/// A failed attempt: its recorded class, and a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: ErrorClass,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(class: ErrorClass, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into() }
    }

    /// Classifies an error of an open connection that delivered no response head.
    pub(crate) fn from_hyper(error: &hyper::Error, budget: &ReceiveBudget) -> Self {
        if budget.is_exhausted() {
            return Self::new(ErrorClass::BrokenResponse, BUDGET_EXCEEDED);
        }
        if error.is_parse() {
            return Self::new(ErrorClass::BrokenResponse, error.to_string());
        }
        if let Some(error) = find_source::<h2::Error>(error) {
            return Self::from_http2(error);
        }
        if let Some(error) = find_source::<io::Error>(error)
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            return match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(error) => Self::new(ErrorClass::Tls, error.to_string()),
                None => Self::new(ErrorClass::Reset, error.to_string()),
            };
        }
        Self::new(ErrorClass::Reset, "the connection was closed before a response arrived")
    }

    /// Classifies an HTTP/2 error. A receiver may close a connection or a stream, which counts as a reset. An error that
    /// our own HTTP/2 library raised means that the receiver violated the protocol.
    fn from_http2(error: &h2::Error) -> Self {
        // h2 reports a TLS alert only as an I/O error of kind `InvalidData`.
        let is_tls_alert = error.get_io().is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
        let class = match error {
            _ if is_tls_alert => ErrorClass::Tls,
            error if error.is_library() => ErrorClass::BrokenResponse,
            _ => ErrorClass::Reset,
        };
        Self::new(class, format!("HTTP/2: {error}"))
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::no_response(failure.class, &failure.detail)
    }
}

/// Returns the first error of this type in the chain of sources.
fn find_source<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
