//! Why there is no response, on its way to becoming an outcome.

use std::error::Error;
use std::io;

use posthaste_domain::{ErrorClass, Outcome};

use crate::meter::{BREACH, Meter};

/// A remote failure: the class that is recorded, and what an operator reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: ErrorClass,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(class: ErrorClass, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into() }
    }

    /// Why an open connection gave no response head.
    pub(crate) fn of(error: &hyper::Error, meter: &Meter) -> Self {
        if meter.is_exhausted() {
            return Self::new(ErrorClass::BrokenResponse, BREACH);
        }
        if error.is_parse() {
            return Self::new(ErrorClass::BrokenResponse, error.to_string());
        }
        if let Some(error) = cause::<h2::Error>(error) {
            return Self::of_http2(error);
        }
        if let Some(error) = cause::<io::Error>(error)
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            return match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(error) => Self::new(ErrorClass::Tls, error.to_string()),
                None => Self::new(ErrorClass::Reset, error.to_string()),
            };
        }
        Self::new(ErrorClass::Reset, "the connection was closed before there was a response")
    }

    /// Its own hanging up is the receiver's right; what makes us hang up is not HTTP/2.
    fn of_http2(error: &h2::Error) -> Self {
        // Through h2, an alert of TLS is but invalid data.
        let alert = error.get_io().is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
        let class = match error {
            _ if alert => ErrorClass::Tls,
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

/// The first cause of this type.
fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
