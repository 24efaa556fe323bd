//! The `Idempotency-Key` header: a client that missed a response repeats its request under the same key.

use http::HeaderMap;
use posthaste_store::StoreError;
use serde_json::json;

use crate::error::ApiError;

/// Maximum length of an idempotency key.
const KEY_LEN_MAX: usize = 255;

/// The key of a request, as the client sent it and as stores know it.
pub(crate) struct IdempotencyKey {
    sent: String,
    /// Prefixed with the caller's name, so that two clients that number their requests do not collide.
    pub(crate) stored: String,
}

impl IdempotencyKey {
    /// Parses the header. None if the request has no key.
    pub(crate) fn parse(headers: &HeaderMap, caller: &str) -> Result<Option<Self>, ApiError> {
        let mut values = headers.get_all("idempotency-key").iter();
        let key = match (values.next(), values.next()) {
            (None, _) => return Ok(None),
            // `to_str` allows tabs, which are not printable.
            (Some(value), None) => value.to_str().ok().filter(|key| !key.contains('\t')),
            (Some(_), Some(_)) => None,
        };
        let key = key.filter(|key| (1..=KEY_LEN_MAX).contains(&key.len())).ok_or_else(|| {
            let message = format!(
                "Idempotency-Key must be sent once, with 1 to {KEY_LEN_MAX} printable ASCII characters"
            );
            ApiError::invalid_at(message, json!({ "header": "idempotency-key" }))
        })?;
        Ok(Some(Self { sent: key.to_owned(), stored: format!("{caller}:{key}") }))
    }
}

/// Converts an error of the store. A conflict names the key as the client sent it.
pub(crate) fn store_error(error: StoreError, key: Option<IdempotencyKey>) -> ApiError {
    match (error, key) {
        (StoreError::IdempotencyConflict { .. }, Some(key)) => {
            StoreError::IdempotencyConflict { key: key.sent }.into()
        }
        (error, _) => error.into(),
    }
}
