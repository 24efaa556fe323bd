//! The HTTP API: events in, operators' views and actions, the stream of notices, metrics and the OpenAPI document.
//!
//! ```text
//!  every request: counted ─► headers ─► panics caught ─► guarded ─► its handler
//!
//!  POST  events ─► enqueue ─► Enqueuer ─► store
//!  GET   overview, dlq, events, events/{id} ─► store ─► views (there is no payload in them)
//!  POST  dlq/{id}/requeue, events/{id}/cancel ─► store, with the caller's name for the audit
//!  GET   stream ─► Publisher, and the store for what was missed
//!  GET   metrics, healthz, readyz, openapi.json, docs
//! ```
//!
//! A handler says in its signature what its caller must be allowed to do ([`Role`]); what comes in is judged once, at
//! the edge, and what goes out is a view of a store's answer. Every refusal has the same envelope. Nothing here decides
//! anything about deliveries.
#![forbid(unsafe_code)]

mod access;
mod api;
mod error;

mod actions;
mod dead_letters;
mod enqueue;
mod event;
mod events;
mod explain;
mod health;
mod metrics;
mod overview;
mod stream;

mod body;
mod document;
mod fresh;
mod headers;
mod moment;
mod object;
mod page;
mod query;
mod reference;

pub use access::{Access, InvalidKeys, KeyRing, Role};
pub use api::{Api, Intake, no_such_route};
pub use document::{openapi, openapi_json};
pub use health::{Check, Readiness};
pub use metrics::Metrics;
pub use stream::Streams;
