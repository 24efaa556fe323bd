//! A received delivery and the check of its signature.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use posthaste_domain::Timestamp;
use posthaste_domain::signature::{SignedHeaders, SigningKeys, TOLERANCE_DEFAULT};

/// A POST request as it was received, with the status of the response.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) at: Timestamp,
    pub(super) path: String,
    pub(super) event_id: Option<String>,
    pub(super) event_type: Option<String>,
    pub(super) attempt: Option<u32>,
    pub(super) content_type: Option<String>,
    pub(super) check: SignatureCheck,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// The result of checking a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignatureCheck {
    Verified,
    /// Missing, malformed or wrong; with the reason.
    NotVerified(String),
    /// Not checked, because the command has no secret.
    Unchecked,
}

impl SignatureCheck {
    /// Verifies the signature of a request.
    pub(super) fn run(keys: Option<&SigningKeys>, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Self {
        let Some(keys) = keys else { return Self::Unchecked };
        match signed_headers(headers).and_then(|signed| {
            keys.verify(signed, body, now, TOLERANCE_DEFAULT).map_err(|error| error.to_string())
        }) {
            Ok(()) => Self::Verified,
            Err(reason) => Self::NotVerified(reason),
        }
    }
}

fn signed_headers(headers: &HeaderMap) -> Result<SignedHeaders<'_>, String> {
    let required =
        |name: &str| header_text(headers, name).ok_or_else(|| format!("the header {name} is missing"));
    Ok(SignedHeaders {
        id: required("webhook-id")?,
        timestamp: required("webhook-timestamp")?,
        signature: required("webhook-signature")?,
    })
}

/// Returns the value of a header, or None if the header is missing or is not visible ASCII.
pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
