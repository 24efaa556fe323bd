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
    /// Prefixed with the name of the caller's key, so that no caller gets the response of another. A name has no colon.
    pub(crate) stored: String,
}

impl IdempotencyKey {
    /// Parses the header. `None` if the request has no idempotency key. `key_name` is the name of the caller's API key.
    pub(crate) fn parse(headers: &HeaderMap, key_name: Option<&str>) -> Result<Option<Self>, ApiError> {
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
        let stored = format!("{}:{key}", key_name.unwrap_or_default());
        Ok(Some(Self { sent: key.to_owned(), stored }))
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
