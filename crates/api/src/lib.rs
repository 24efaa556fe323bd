//! The HTTP API: enqueue, operator views and actions, the notice stream, metrics and the OpenAPI document.
//!
//! ```text
//!  every request: count ─► add headers ─► catch panics ─► require loopback (without keys) ─► handler
//!
//!  POST  events ─► enqueue ─► store
//!  GET   overview, history, workers, dlq, events, events/{id}, destinations ─► store ─► views without payloads
//!  POST  dlq/{id}/requeue, dlq/{id}/discard, events/{id}/cancel, destinations/{id}/pause, …/resume
//!          ─► store, which records the caller's name in the audit log
//!  GET   whoami ─► name, role and permissions of the caller
//!  GET   doctor ─► the server's own checks
//!  GET   stream ─► Publisher for live notices, store for missed ones
//!  GET   metrics, healthz, readyz, openapi.json, docs
//!  /api/v1 ─► registry: applications, endpoints, event types, messages
//! ```
//!
//! A handler's signature names the permission that its caller needs ([`Role`]). Requests are parsed and validated once, at
//! the edge. Responses are views of what a store returned. Every error has the same JSON envelope. This crate makes no
//! decisions about deliveries.
#![forbid(unsafe_code)]

mod access;
mod api;
mod error;

mod actions;
mod activity;
mod caller;
mod content;
mod dead_letters;
mod destination;
mod destinations;
mod diagnosis;
mod enqueue;
mod event;
mod events;
mod explain;
mod health;
mod metrics;
mod operations;
mod overview;
mod producer_view;
mod stream;

mod registry;

mod body;
mod body_budget;
mod bulk;
mod cached;
mod document;
mod filter;
mod headers;
mod idempotency;
mod json;
mod page;
mod query;
mod reference;
mod refusal;
mod timestamp;
mod trouble;

pub use access::{Access, InvalidKeys, KeyRing, Role};
pub use api::{Api, DestinationCheck, EnqueueSettings, route_not_found};
pub use diagnosis::{Finding, SelfChecks, Verdict};
pub use document::{openapi, openapi_json};
pub use health::{Check, Readiness};
pub use metrics::Metrics;
pub use refusal::{alive, not_ready, unavailable};
pub use registry::{
    InvalidTokenSecret, Permission, PermissionSet, RandomBytes, RegistrySettings, TokenClaims, TokenSecret,
};
pub use stream::Streams;

/// Returns the OpenAPI document of the registry as it is served: indented JSON.
pub fn registry_openapi_json() -> String {
    registry::registry_openapi_json()
}
