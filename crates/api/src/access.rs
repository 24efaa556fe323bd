//! Who may do what. With keys, by the role of the key; without, whoever is on this machine.
//!
//! A handler takes [`Allowed`] as an argument and so says in its signature what its caller must be allowed to do.

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

use crate::api::Service;
use crate::error::ApiError;

pub use keys::{InvalidKeys, KeyRing, Role};

/// How callers are told apart.
#[derive(Debug)]
pub enum Access {
    /// By their API keys.
    Keys(KeyRing),
    /// Not at all: only this machine can reach the address, and browsers are kept from being led here by other pages.
    Loopback { listen: SocketAddr },
}

/// The name of whoever acts while there are no keys.
const LOCAL: &str = "local";

/// What a handler asks of its caller.
pub(crate) trait Right: Send + Sync + 'static {
    const ROLES: &'static [Role];
}

/// To hand in events.
pub(crate) enum Enqueuing {}
/// To look at one event by its id: also at what one has handed in, though not at who acted on it.
pub(crate) enum ReadingOne {}
/// To look at everything.
pub(crate) enum Reading {}
/// To requeue and to cancel.
pub(crate) enum Operating {}

impl Right for Enqueuing {
    const ROLES: &'static [Role] = &[Role::Producer];
}
impl Right for ReadingOne {
    const ROLES: &'static [Role] = &[Role::Viewer, Role::Operator, Role::Producer];
}
impl Right for Reading {
    const ROLES: &'static [Role] = &[Role::Viewer, Role::Operator];
}
impl Right for Operating {
    const ROLES: &'static [Role] = &[Role::Operator];
}

/// A caller that has the right. There is no other way to make one.
pub(crate) struct Allowed<R> {
    pub(crate) name: String,
    /// None while there are no keys, and anyone may do everything.
    role: Option<Role>,
    right: PhantomData<R>,
}

impl<R> Allowed<R> {
    /// Whether it may be told who did what by hand: to a producer, operators are strangers.
    pub(crate) fn sees_operators(&self) -> bool {
        self.role != Some(Role::Producer)
    }
}

impl<R: Right> FromRequestParts<Arc<Service>> for Allowed<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        let allowed = |name: &str, role| Self { name: name.to_owned(), role, right: PhantomData };
        let Access::Keys(keys) = &service.access else { return Ok(allowed(LOCAL, None)) };
        let presented = bearer(&parts.headers).ok_or(ApiError::KeyMissing)?;
        let (name, role) = keys.holder(presented).ok_or(ApiError::KeyUnknown)?;
        if !R::ROLES.contains(&role) {
            return Err(ApiError::RoleForbidden { name: name.to_owned(), role, needed: R::ROLES });
        }
        Ok(allowed(name, Some(role)))
    }
}

/// The key of an `Authorization: Bearer KEY`; none when there is no such header, or more than one.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return None };
    let (scheme, key) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

/// Refuses what did not come from this machine, while that is all that protects it.
pub(crate) async fn guard(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    if let Access::Loopback { listen } = &service.access
        && let Err(reason) = loopback::judge(*listen, request.method(), request.uri(), request.headers())
    {
        return ApiError::NotLocal(reason).into_response();
    }
    next.run(request).await
}
