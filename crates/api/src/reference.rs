//! The API reference at `/docs`, rendered by Scalar. All files come from this process; the page's content security policy
//! forbids loading anything else.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::api::ApiState;

/// The content security policy of the page. It allows files of this origin, and inline styles, which Scalar needs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = r#"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="icon" href="data:," />
    <title>Posthaste API</title>
  </head>
  <body>
    <div id="app"></div>
    <noscript>This page needs JavaScript. It shows the OpenAPI document <a href="/openapi.json">/openapi.json</a>.</noscript>
    <script src="/docs/scalar.js"></script>
    <script src="/docs/start.js"></script>
  </body>
</html>
"#;

/// The start script. It is a file of its own because the policy forbids inline scripts.
const START: &str = r##"Scalar.createApiReference("#app", {
  url: "/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  proxyUrl: "",
  agent: { disabled: true },
  mcp: { disabled: true },
});
"##;

static SCALAR: LazyLock<Bytes> =
    LazyLock::new(|| scalar_api_reference::get_asset("scalar.js").map(Bytes::from).unwrap_or_default());

/// Returns the routes of the page and its scripts.
pub(crate) fn routes() -> Router<Arc<ApiState>> {
    Router::new()
        .route("/docs", get(async || (policy(), with_type("text/html; charset=utf-8", PAGE))))
        .route("/docs/start.js", get(async || with_type("text/javascript; charset=utf-8", START)))
        .route("/docs/scalar.js", get(scalar))
}

fn policy() -> [(http::HeaderName, HeaderValue); 1] {
    [(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))]
}

fn with_type(content_type: &'static str, body: impl IntoResponse) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(content_type))], body).into_response()
}

/// Serves Scalar's script. Its five megabytes change only with a release, so browsers may cache them for an hour.
async fn scalar() -> Response {
    let cached = [(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600"))];
    (cached, with_type("text/javascript; charset=utf-8", SCALAR.clone())).into_response()
}
