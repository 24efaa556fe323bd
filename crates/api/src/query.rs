//! The query of a request, read as strictly as a body: every parameter at most once, and all of them known.

use axum::extract::Query;
use http::Uri;
use serde_json::json;

use crate::error::ApiError;

pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn of(uri: &Uri, known: &[&str]) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| ApiError::invalid("the query cannot be read; write it as name=value&name=value"))?;
        for (number, (name, _)) in pairs.iter().enumerate() {
            let shown: String = name.chars().take(64).collect();
            if !known.contains(&name.as_str()) {
                let message = format!("unknown parameter {shown:?}; known here: {}", listed(known));
                return Err(refused(&shown, message));
            }
            if pairs[..number].iter().any(|(earlier, _)| earlier == name) {
                return Err(refused(&shown, format!("parameter {shown:?} is given twice")));
            }
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

fn listed(known: &[&str]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// A refusal of one parameter.
pub(crate) fn refused(name: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid_at(message, json!({ "parameter": name }))
}
