//! The routes of the registry. One table serves the router and the OpenAPI document.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{Method, Uri};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use super::error::RegistryError;
use super::{
    applications, attempts, document, endpoints, event_types, headers, health, messages, operations, portal,
    resend, secrets,
};
use crate::api::ApiState;

/// The path under which all routes of the registry are.
const BASE: &str = "/api/v1";

/// Returns the routes, one entry per path.
pub(super) fn table() -> Vec<UtoipaMethodRouter<Arc<ApiState>>> {
    vec![
        routes!(applications::list, applications::create),
        routes!(applications::get, applications::put, applications::patch, applications::delete),
        routes!(endpoints::list, endpoints::create),
        routes!(endpoints::get, endpoints::put, endpoints::patch, endpoints::delete),
        routes!(endpoints::stats),
        routes!(secrets::get),
        routes!(secrets::rotate),
        routes!(headers::get, headers::put, headers::patch),
        routes!(messages::list, messages::publish),
        routes!(messages::get),
        routes!(messages::expunge),
        routes!(messages::endpoints),
        routes!(messages::of_endpoint),
        routes!(attempts::of_message),
        routes!(attempts::of_endpoint),
        routes!(attempts::get),
        routes!(resend::resend),
        routes!(resend::send_example),
        routes!(operations::recover),
        routes!(operations::replay_missing),
        routes!(operations::get),
        routes!(event_types::list, event_types::create),
        routes!(event_types::get, event_types::put, event_types::patch, event_types::delete),
        routes!(portal::access),
        routes!(health::health),
        routes!(health::ping),
        routes!(document::serve),
    ]
}

/// Returns the router. Every path may end with a slash, as older SDKs write it.
pub(crate) fn router() -> Router<Arc<ApiState>> {
    let mut router = Router::new();
    for (_, paths, methods) in table() {
        for path in paths.paths.keys() {
            router = router.route(path, methods.clone()).route(&format!("{path}/"), methods.clone());
        }
    }
    router
        .method_not_allowed_fallback(method_not_allowed)
        .route(BASE, axum::routing::any(not_supported))
        .route(&format!("{BASE}/"), axum::routing::any(not_supported))
        .route(&format!("{BASE}/{{*path}}"), axum::routing::any(not_supported))
        .layer(CatchPanicLayer::custom(panic_response))
}

/// Returns whether errors of a path have the registry's form.
pub(crate) fn is_registry_path(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The response of a route that this server does not have. A 501 would make SDKs repeat the request.
async fn not_supported(uri: Uri) -> RegistryError {
    RegistryError::NotSupported { path: uri.path().chars().take(200).collect() }
}

/// Operations of the SDKs whose paths look like that of a message.
const UNSUPPORTED_POSTS: [&str; 2] = ["/msg/bulk-expunge", "/msg/expunge-all-contents"];

async fn method_not_allowed(request: Request) -> RegistryError {
    let path = request.uri().path().trim_end_matches('/');
    if request.method() == Method::POST && UNSUPPORTED_POSTS.iter().any(|end| path.ends_with(end)) {
        return not_supported(request.uri().clone()).await;
    }
    RegistryError::MethodNotAllowed { method: request.method().as_str().chars().take(32).collect() }
}

/// The response after a handler panicked. The process's panic hook has logged the panic itself.
fn panic_response(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a request handler panicked; this is a bug");
    RegistryError::Internal.into_response()
}
