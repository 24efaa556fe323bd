//! Authorization: with API keys by the role of the key, without keys by a loopback check.
//!
//! A handler takes [`Authorized`] as an argument. Its signature therefore names the permission that the caller needs.

mod keys;
mod loopback;

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderMap, header};

use crate::api::ApiState;
use crate::error::ApiError;
use crate::registry::{RegistryError, is_registry_path};

pub(crate) use keys::KnownKey;
pub use keys::{InvalidKeys, KeyRing, Role};

/// How callers are authorized.
#[derive(Debug, Clone)]
pub enum Access {
    /// Each caller sends an API key; its role decides.
    Keys(KeyRing),
    /// Callers need no key. The server accepts requests to a loopback address only, and rejects those that a browser sends
    /// on behalf of another site.
    Loopback { listen: SocketAddr },
}

/// The caller's name in the audit log when no API keys are configured.
pub(crate) const LOCAL_CALLER: &str = "local";

/// A permission that a handler requires, with the roles that have it.
pub(crate) trait Permission: Send + Sync + 'static {
    const ROLES: &'static [Role];
}

/// Permission to learn one's own name and role. Every caller with a known key has it.
pub(crate) enum Identify {}
/// Permission to enqueue events.
pub(crate) enum Enqueue {}
/// Permission to read one event by its id. Producers also have it, for the events that their key stored.
pub(crate) enum ReadOneEvent {}
/// Permission to read all events, destinations, counts and notices.
pub(crate) enum ReadAll {}
/// Permission to requeue and cancel events, and to pause and resume destinations.
pub(crate) enum Operate {}

impl Permission for Identify {
    const ROLES: &'static [Role] = Role::ALL;
}
impl Permission for Enqueue {
    const ROLES: &'static [Role] = &[Role::Producer, Role::Operator];
}
impl Permission for ReadOneEvent {
    const ROLES: &'static [Role] = &[Role::Viewer, Role::Operator, Role::Producer];
}
impl Permission for ReadAll {
    const ROLES: &'static [Role] = &[Role::Viewer, Role::Operator];
}
impl Permission for Operate {
    const ROLES: &'static [Role] = &[Role::Operator];
}

/// A caller that has permission `P`. Only the extractor constructs one.
pub(crate) struct Authorized<P> {
    /// The name of the caller's key, or `local` without keys.
    pub(crate) name: String,
    /// The role of the caller's key. `None` without keys, when every caller may do everything.
    role: Option<Role>,
    permission: PhantomData<P>,
}

impl<P> Authorized<P> {
    /// Returns the name of the caller's key. `None` without keys.
    pub(crate) fn key_name(&self) -> Option<&str> {
        self.role.map(|_| self.name.as_str())
    }

    /// Returns the name of the caller's key if it has the role of a producer, who sees only what its key stored.
    pub(crate) fn producer_name(&self) -> Option<&str> {
        self.key_name().filter(|_| self.role == Some(Role::Producer))
    }

    /// Returns whether the caller also has permission `Q`.
    pub(crate) fn may<Q: Permission>(&self) -> bool {
        self.role.is_none_or(|role| Q::ROLES.contains(&role))
    }

    /// Returns the name of the caller's role. None without keys.
    pub(crate) fn role_name(&self) -> Option<&'static str> {
        self.role.map(Role::as_str)
    }
}

impl<P: Permission> FromRequestParts<Arc<ApiState>> for Authorized<P> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, ApiError> {
        let authorized = |name: &str, role| Self { name: name.to_owned(), role, permission: PhantomData };
        let Access::Keys(keys) = &state.access else { return Ok(authorized(LOCAL_CALLER, None)) };
        let key = bearer_key(&parts.headers).ok_or(ApiError::MissingKey)?;
        let KnownKey { name, role, .. } = keys.authenticate(key).ok_or(ApiError::UnknownKey)?;
        if !P::ROLES.contains(&role) {
            return Err(ApiError::RoleForbidden { name: name.to_owned(), role, allowed: P::ROLES });
        }
        Ok(authorized(name, Some(role)))
    }
}

/// Returns the key of `Authorization: Bearer KEY`, or `None` if the header is missing, repeated or of another scheme.
pub(crate) fn bearer_key(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, key) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

/// Middleware: without API keys, rejects every request that does not come from this machine.
pub(crate) async fn require_loopback(
    State(state): State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Response {
    if let Access::Loopback { listen } = &state.access
        && let Err(reason) =
            loopback::check_request(*listen, request.method(), request.uri(), request.headers())
    {
        return match is_registry_path(request.uri().path()) {
            true => RegistryError::Forbidden(reason).into_response(),
            false => ApiError::NotLocal(reason).into_response(),
        };
    }
    next.run(request).await
}
