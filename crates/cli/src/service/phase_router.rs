//! Answers requests by the phase of the process: before its store is open, while it serves, and while it stops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use tower::ServiceExt as _;

const STARTING: &str =
    "this server is starting, and its store is not open yet; repeat the request in a moment";
const STOPPING: &str = "this server is stopping; repeat the request, so that another server accepts it";

/// A router that refuses requests until the store is open, and again when the process stops. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct PhaseRouter(Arc<State>);

#[derive(Default)]
struct State {
    /// The routes of the running process. Set when its store is open.
    routes: OnceLock<Router>,
    is_stopping: AtomicBool,
}

impl PhaseRouter {
    /// Passes requests to these routes from now on.
    pub(crate) fn open(&self, routes: Router) {
        assert!(self.0.routes.set(routes).is_ok(), "a process opens its routes once");
    }

    /// Refuses requests from now on. Requests in progress continue.
    pub(crate) fn stop(&self) {
        self.0.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Returns the router for the server.
    pub(crate) fn router(&self) -> Router {
        let phases = self.clone();
        Router::new().fallback(move |request| phases.clone().respond(request))
    }

    async fn respond(self, request: Request) -> Response {
        let is_stopping = self.0.is_stopping.load(Ordering::Relaxed);
        match (self.0.routes.get(), request.uri().path()) {
            (_, "/readyz") if is_stopping => posthaste_api::not_ready("process", "is stopping"),
            (Some(routes), "/healthz" | "/metrics") => pass_on(routes, request).await,
            (Some(_), _) if is_stopping => posthaste_api::unavailable(STOPPING),
            (Some(routes), _) => pass_on(routes, request).await,
            (None, "/healthz") => posthaste_api::alive(),
            (None, "/readyz") => posthaste_api::not_ready("store", "is not open yet"),
            (None, _) => posthaste_api::unavailable(STARTING),
        }
    }
}

async fn pass_on(routes: &Router, request: Request) -> Response {
    routes.clone().oneshot(request).await.into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;

    use super::*;

    /// Returns the status of each probe and of a request to the API.
    async fn statuses(phases: &PhaseRouter) -> [u16; 3] {
        let status = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            phases.router().oneshot(request).await.unwrap().status().as_u16()
        };
        [status("/healthz").await, status("/readyz").await, status("/v1/x").await]
    }

    #[tokio::test]
    async fn process_is_alive_in_every_phase_and_serves_only_between_start_and_stop() {
        let phases = PhaseRouter::default();
        assert_eq!(statuses(&phases).await, [200, 503, 503]);
        let ok = || get(async || "ok");
        phases.open(Router::new().route("/healthz", ok()).route("/readyz", ok()).route("/v1/x", ok()));
        assert_eq!(statuses(&phases).await, [200, 200, 200]);
        phases.stop();
        assert_eq!(statuses(&phases).await, [200, 503, 503]);
    }
}
