//! A complete response, with assertions on its status and body.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;

/// A response whose body was read to its end.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl TestResponse {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Asserts the status and returns the JSON body.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts an error with this status and code, in the error envelope. Returns its message and details.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, code: &str) -> (String, Value) {
        let body = self.json(status);
        assert_eq!(body["error"]["code"], code, "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        let error = body["error"].as_object().unwrap();
        assert!(error.keys().all(|key| ["code", "message", "details"].contains(&key.as_str())), "{body}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty());
        (message.to_owned(), error.get("details").cloned().unwrap_or(Value::Null))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}
