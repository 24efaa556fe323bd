//! Callers of the registry: who they are, what they may do, and which application they name.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::HeaderMap;
use http::request::Parts;
use posthaste_domain::{ApplicationId, ApplicationRef, OrgId};
use posthaste_store::AppScope;
use sha2::{Digest as _, Sha256};

use super::error::RegistryError;
use super::permission::{Permission, PermissionSet};
use super::settings::store_now;
use super::token::{TokenClaims, is_token};
use crate::access::{Access, LOCAL_CALLER, bearer_key};
use crate::api::ApiState;

/// An authenticated caller.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) org: OrgId,
    /// The application to which the caller is bound. `None` if it has the whole organisation.
    app: Option<ApplicationId>,
    /// The caller's name in audit logs.
    pub(super) name: String,
    /// The name of the caller's API key. `None` without one.
    pub(super) key_name: Option<String>,
    permissions: PermissionSet,
    /// A digest that differs from that of every other caller.
    pub(super) identity: [u8; 32],
}

/// Defines the permissions that a handler's signature can name.
macro_rules! needed_permissions {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        pub(super) enum $name {}

        impl NeededPermission for $name {
            const PERMISSION: Permission = Permission::$name;
        }
    )+};
}

/// The permission that a handler needs.
pub(super) trait NeededPermission: Send + Sync + 'static {
    const PERMISSION: Permission;
}

needed_permissions! {
    /// [`Permission::Read`]
    Read,
    /// [`Permission::ReadMessages`]
    ReadMessages,
    /// [`Permission::ReadSecrets`]
    ReadSecrets,
    /// [`Permission::RotateSecrets`]
    RotateSecrets,
    /// [`Permission::Manage`]
    Manage,
    /// [`Permission::Resend`]
    Resend,
    /// [`Permission::Publish`]
    Publish,
}

/// A caller with permission `P` in a whole organisation.
pub(super) struct OrgCaller<P> {
    pub(super) caller: Caller,
    permission: PhantomData<P>,
}

/// A caller with permission `P`, in an organisation or in one application.
pub(super) struct AnyCaller<P> {
    pub(super) caller: Caller,
    permission: PhantomData<P>,
}

/// A caller with permission `P` in the application that the path names.
pub(super) struct AppCaller<P> {
    pub(super) caller: Caller,
    pub(super) app: ApplicationRef,
    permission: PhantomData<P>,
}

impl Caller {
    /// Returns the application to which the caller is bound.
    pub(super) fn bound_app(&self) -> Option<ApplicationId> {
        self.app
    }

    fn require(&self, permission: Permission) -> Result<(), RegistryError> {
        match self.permissions.contains(permission) {
            true => Ok(()),
            false => Err(RegistryError::Forbidden(format!(
                "{:?} lacks the permission {:?}; use another key or token",
                self.name,
                permission.as_str()
            ))),
        }
    }
}

impl<P> AppCaller<P> {
    pub(super) fn scope(&self) -> AppScope<'_> {
        AppScope { org: &self.caller.org, app: &self.app }
    }
}

/// Authenticates the bearer of a request: by its API key, by its token, or without keys as the local user.
async fn authenticate(state: &ApiState, headers: &HeaderMap) -> Result<Caller, RegistryError> {
    let bearer = bearer_key(headers);
    if let (Access::Keys(keys), Some(bearer)) = (&state.access, bearer)
        && let Some(known) = keys.authenticate(bearer)
    {
        return Ok(Caller {
            org: OrgId::default_org(),
            app: known.app,
            name: known.name.to_owned(),
            key_name: Some(known.name.to_owned()),
            permissions: PermissionSet::of_role(known.role),
            identity: Sha256::digest(bearer).into(),
        });
    }
    let token = bearer.filter(|bearer| is_token(bearer));
    if let (Some(secret), Some(token)) = (&state.registry.settings.token_secret, token) {
        let claims = secret
            .verify(token, store_now(state).await?)
            .map_err(|error| RegistryError::Unauthenticated(error.to_string()))?;
        return Ok(caller_of_token(claims, token));
    }
    match (&state.access, bearer) {
        (Access::Loopback { .. }, _) => Ok(Caller {
            org: OrgId::default_org(),
            app: None,
            name: LOCAL_CALLER.to_owned(),
            key_name: None,
            permissions: PermissionSet::all(),
            identity: Sha256::digest(LOCAL_CALLER).into(),
        }),
        (Access::Keys(_), None) => Err(RegistryError::Unauthenticated(
            "this request needs an API key or a token; send it as `Authorization: Bearer KEY`".to_owned(),
        )),
        (Access::Keys(_), Some(_)) => {
            Err(RegistryError::Unauthenticated("this API key or token is unknown".to_owned()))
        }
    }
}

fn caller_of_token(claims: TokenClaims, token: &[u8]) -> Caller {
    let default = match claims.app {
        Some(_) => PermissionSet::of_application(),
        None => PermissionSet::all(),
    };
    let name = claims.app.map_or_else(|| claims.org.to_string(), |app| app.to_string());
    Caller {
        org: claims.org,
        app: claims.app,
        name,
        key_name: None,
        permissions: claims.permissions.unwrap_or(default),
        identity: Sha256::digest(token).into(),
    }
}

impl<P: NeededPermission> FromRequestParts<Arc<ApiState>> for AnyCaller<P> {
    type Rejection = RegistryError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, RegistryError> {
        let caller = authenticate(state, &parts.headers).await?;
        caller.require(P::PERMISSION)?;
        Ok(Self { caller, permission: PhantomData })
    }
}

impl<P: NeededPermission> FromRequestParts<Arc<ApiState>> for OrgCaller<P> {
    type Rejection = RegistryError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, RegistryError> {
        let caller = authenticate(state, &parts.headers).await?;
        if caller.app.is_some() {
            return Err(RegistryError::Forbidden(format!(
                "{:?} is bound to one application; this operation needs a key or token of its organisation",
                caller.name
            )));
        }
        caller.require(P::PERMISSION)?;
        Ok(Self { caller, permission: PhantomData })
    }
}

impl<P: NeededPermission> FromRequestParts<Arc<ApiState>> for AppCaller<P> {
    type Rejection = RegistryError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, RegistryError> {
        let caller = authenticate(state, &parts.headers).await?;
        let text = path_parameter(parts, state, "app_id").await;
        let app = ApplicationRef::parse(&text).ok_or_else(|| RegistryError::no_such("application", &text));
        let app = require_own_app(state, &caller, app?).await?;
        // Permissions come last, so that a caller learns nothing about an application that is not its own.
        caller.require(P::PERMISSION)?;
        Ok(Self { caller, app, permission: PhantomData })
    }
}

/// Refuses an application to which the caller is not bound, as if it did not exist.
async fn require_own_app(
    state: &ApiState,
    caller: &Caller,
    app: ApplicationRef,
) -> Result<ApplicationRef, RegistryError> {
    let Some(own) = caller.app else { return Ok(app) };
    let id = match &app {
        ApplicationRef::Id(id) => *id,
        ApplicationRef::Uid(_) => {
            state.store.applications().get(AppScope { org: &caller.org, app: &app }).await?.id
        }
    };
    match id == own {
        true => Ok(ApplicationRef::Id(own)),
        false => Err(RegistryError::no_such("application", &app.to_string())),
    }
}

/// Returns a parameter of the path. Empty if it is not UTF-8, so that no resource has it.
async fn path_parameter(parts: &mut Parts, state: &Arc<ApiState>, name: &str) -> String {
    let parameters = RawPathParams::from_request_parts(parts, state).await;
    let found = parameters.ok().and_then(|parameters| {
        parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    });
    found.unwrap_or_default()
}

/// Defines the extractor of a reference in the path. A text that can be no reference is reported as an unknown resource.
macro_rules! path_reference {
    ($(#[$doc:meta])* $extractor:ident($type:ty), $parameter:literal, $resource:literal, $parse:expr) => {
        $(#[$doc])*
        pub(super) struct $extractor(pub(super) $type);

        impl FromRequestParts<Arc<ApiState>> for $extractor {
            type Rejection = RegistryError;

            async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, RegistryError> {
                let text = path_parameter(parts, state, $parameter).await;
                let parsed: Option<$type> = $parse(&text);
                parsed.map(Self).ok_or_else(|| RegistryError::no_such($resource, &text))
            }
        }
    };
}

path_reference! {
    /// The endpoint that the path names.
    EndpointPath(posthaste_domain::EndpointRef), "endpoint_id", "endpoint", posthaste_domain::EndpointRef::parse
}
path_reference! {
    /// The message that the path names.
    MessagePath(posthaste_domain::MessageRef), "msg_id", "message", posthaste_domain::MessageRef::parse
}
path_reference! {
    /// The attempt that the path names.
    AttemptPath(posthaste_domain::AttemptId), "attempt_id", "attempt", posthaste_domain::AttemptId::parse
}
path_reference! {
    /// The operation that the path names.
    OperationPath(posthaste_domain::OperationId), "task_id", "background task", posthaste_domain::OperationId::parse
}
path_reference! {
    /// The event type that the path names.
    EventTypePath(posthaste_domain::EventTypeName), "event_type_name", "event type",
    |text: &str| posthaste_domain::EventTypeName::new(text).ok()
}
