//! The HTTP API of the registry under `/api/v1`: applications, endpoints, event types, messages and attempts.
//!
//! It speaks the wire format of the Svix SDKs, which differs from that of `/v1`: names are in camelCase, unknown fields and
//! parameters are ignored, a path may end with a slash, and errors are `{"code","detail"}`.
//!
//! ```text
//!  request ─► authenticate (API key or token) ─► resolve the application of the path ─► parse ─► store ─► view
//!                                                                                          │
//!                             a repeated POST gets the answer that the store kept ◄────────┘
//! ```
//!
//! A handler's first argument names the permission that its caller needs: [`OrgCaller`](auth::OrgCaller) for operations of an
//! organisation, [`AppCaller`](auth::AppCaller) for those of one application. Another tenant's application does not exist for a
//! caller.

mod answer;
mod applications;
mod attempts;
mod auth;
mod body;
mod document;
mod endpoints;
mod error;
mod event_types;
mod headers;
mod health;
mod list;
mod messages;
mod operations;
mod params;
mod permission;
mod portal;
mod query;
mod resend;
mod router;
mod sdk_version;
mod secrets;
mod settings;
mod status;
mod token;
mod views;

pub(crate) use document::openapi_json as registry_openapi_json;
pub(crate) use error::RegistryError;
pub use permission::{Permission, PermissionSet};
pub(crate) use router::{is_registry_path, router};
pub use settings::{RandomBytes, RegistrySettings};
pub(crate) use settings::{RegistryState, store_now};
pub use token::{InvalidTokenSecret, TokenClaims, TokenSecret};
