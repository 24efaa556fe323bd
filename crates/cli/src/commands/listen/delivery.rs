//! One delivery: what arrived, what its signature says, what it was answered.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use posthaste_domain::Timestamp;
use posthaste_domain::signature::{SignedHeaders, SigningKeys, TOLERANCE_DEFAULT};

#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) at: Timestamp,
    pub(super) path: String,
    pub(super) event_id: Option<String>,
    pub(super) event_type: Option<String>,
    pub(super) attempt: Option<u32>,
    pub(super) content_type: Option<String>,
    pub(super) check: Check,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Check {
    Verified,
    /// And why.
    NotVerified(String),
    /// There is no secret to check it with.
    Unchecked,
}

impl Check {
    pub(super) fn of(keys: Option<&SigningKeys>, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Self {
        let Some(keys) = keys else { return Self::Unchecked };
        match signed(headers).and_then(|signed| {
            keys.verify(signed, body, now, TOLERANCE_DEFAULT).map_err(|error| error.to_string())
        }) {
            Ok(()) => Self::Verified,
            Err(why) => Self::NotVerified(why),
        }
    }
}

fn signed(headers: &HeaderMap) -> Result<SignedHeaders<'_>, String> {
    let needed = |name: &str| text(headers, name).ok_or_else(|| format!("the header {name} is missing"));
    Ok(SignedHeaders {
        id: needed("webhook-id")?,
        timestamp: needed("webhook-timestamp")?,
        signature: needed("webhook-signature")?,
    })
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
