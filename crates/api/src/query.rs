//! Query parameters, parsed as strictly as a body: unknown and repeated parameters are errors.

use axum::extract::Query;
use http::Uri;
use serde_json::json;

use crate::error::ApiError;

/// The longest part of a client's text that an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// The parameters of a request's query, each allowed and at most once.
pub(crate) struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    /// Parses the query of `uri`. A parameter that is not in `allowed` is an error.
    pub(crate) fn parse(uri: &Uri, allowed: &[&str]) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            ApiError::invalid("the query cannot be parsed; write it as name=value&name=value")
        })?;
        for (index, (name, _)) in pairs.iter().enumerate() {
            let shown = excerpt(name);
            if !allowed.contains(&name.as_str()) {
                let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
                let message = format!("unknown parameter {shown:?}; allowed parameters: {allowed}");
                return Err(invalid_parameter(&shown, message));
            }
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(invalid_parameter(&shown, format!("parameter {shown:?} appears twice")));
            }
        }
        Ok(Self(pairs))
    }

    /// Rejects any query: for operations without parameters.
    pub(crate) fn require_none(uri: &Uri) -> Result<(), ApiError> {
        Self::parse(uri, &[]).map(|_| ())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the beginning of a client's text, short enough to repeat in an error.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// The error for one invalid parameter.
pub(crate) fn invalid_parameter(name: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid_at(message, json!({ "parameter": name }))
}
