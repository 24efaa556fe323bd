//! Access to the portal: a token for one application, and a link to the page that uses it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, header};
use posthaste_domain::ApplicationRef;
use posthaste_store::{Application, IfTaken, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Post, json_answer, seal};
use super::auth::{AppCaller, Manage, OrgCaller};
use super::body::{BODY_BYTES_MAX, Incoming, parse_optional};
use super::error::RegistryError;
use super::params::{AppPathParams, IdempotencyParams};
use super::permission::{Permission, PermissionSet};
use super::settings::store_now;
use super::token::TokenClaims;
use super::views::ApplicationIn;
use crate::api::ApiState;

/// The path of the page. The token is in the fragment, which browsers send to no server.
const PAGE: &str = "/portal#token=";
/// Shortest and longest life of a token, in seconds.
const EXPIRY_SECONDS: std::ops::RangeInclusive<u64> = 60..=28 * 86_400;

/// What the token may do.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppPortalAccessIn)]
pub(super) struct PortalIn {
    /// An application to create if none has the uid of the path.
    application: Option<ApplicationIn>,
    /// Whether the token may only read, without secrets.
    read_only: Option<bool>,
    /// What the token may do; everything in its application but publishing, if omitted.
    capabilities: Option<Vec<Capability>>,
    /// For how many seconds the token is valid; 28 days if omitted.
    #[schema(minimum = 60, maximum = 2419200)]
    expiry: Option<u64>,
}

/// A kind of operation of the portal's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
pub(super) enum Capability {
    ViewBase,
    ViewEndpointSecret,
    ManageEndpointSecret,
    ManageTransformations,
    CreateAttempts,
    ManageEndpoint,
}

/// A token, and the link to the page that uses it.
#[derive(Serialize, ToSchema)]
#[schema(as = AppPortalAccess)]
pub(super) struct PortalOut<'a> {
    #[schema(value_type = String)]
    url: &'a str,
    #[schema(value_type = String)]
    token: &'a str,
}

impl Capability {
    /// The permissions that the capability includes.
    const fn permissions(self) -> &'static [Permission] {
        use Permission::{Manage, Read, ReadMessages, ReadSecrets, Resend, RotateSecrets};
        match self {
            Self::ViewBase => &[Read, ReadMessages],
            Self::ViewEndpointSecret => &[ReadSecrets],
            Self::ManageEndpointSecret => &[ReadSecrets, RotateSecrets],
            Self::ManageTransformations => &[],
            Self::CreateAttempts => &[Resend],
            Self::ManageEndpoint => &[Manage, ReadSecrets, RotateSecrets],
        }
    }
}

/// Make a token for an application
///
/// Makes a token with which the application's own user manages its endpoints, and a link to the page that uses it.
#[utoipa::path(
    post, path = "/api/v1/auth/app-portal-access/{app_id}", tag = "Access", operation_id = "createPortalAccess",
    params(AppPathParams, IdempotencyParams), request_body = PortalIn,
    responses((status = 200, description = "The token", body = PortalOut<'_>)),
)]
pub(super) async fn access(
    State(state): State<Arc<ApiState>>,
    _: OrgCaller<Manage>,
    app: AppCaller<Manage>,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let origin = match &state.registry.settings.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => origin_of_request(&incoming.headers),
    };
    let post = Post::read(&state, &app.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let secret = state.registry.settings.token_secret.as_ref().ok_or(RegistryError::NoTokenSecret)?;
        let body: PortalIn = parse_optional(&post.bytes)?;
        let lifetime = body.lifetime(state.registry.settings.portal_token_lifetime)?;
        let permissions = body.permissions();
        let application = find_or_create(&state, &app, body.application).await?;
        let now = store_now(&state).await?;
        let token = secret.sign(&TokenClaims {
            org: application.org,
            app: Some(application.id),
            permissions: Some(permissions),
            issued_at: now,
            expires_at: now.after(lifetime),
        });
        let url = format!("{origin}{PAGE}{}", *token);
        let answer = json_answer(StatusCode::OK, &PortalOut { url: &url, token: &token });
        let sealed = seal(&state, &answer);
        if let Some(slot) = post.slot(&state, move |(): &()| sealed.clone()) {
            state.store.answers().keep(&slot).await?;
        }
        tracing::info!(app = %application.id, actor = app.caller.name, "token made for an application");
        Ok(answer)
    };
    post.finish_sealed(&state, result.await).await
}

impl PortalIn {
    fn lifetime(&self, default: Duration) -> Result<Duration, RegistryError> {
        match self.expiry {
            None => Ok(default),
            Some(seconds) if EXPIRY_SECONDS.contains(&seconds) => Ok(Duration::from_secs(seconds)),
            Some(seconds) => {
                let (min, max) = (EXPIRY_SECONDS.start(), EXPIRY_SECONDS.end());
                let message = format!("expiry must be {min} to {max} seconds, got {seconds}");
                Err(RegistryError::in_body("expiry", message))
            }
        }
    }

    fn permissions(&self) -> PermissionSet {
        match &self.capabilities {
            _ if self.read_only == Some(true) => PermissionSet::read_only(),
            None => PermissionSet::of_application(),
            Some(capabilities) => {
                capabilities.iter().flat_map(|capability| capability.permissions()).copied().collect()
            }
        }
    }
}

/// Finds the application of the path, or creates the one that the body brings along.
async fn find_or_create(
    state: &ApiState,
    app: &AppCaller<Manage>,
    body: Option<ApplicationIn>,
) -> Result<Application, RegistryError> {
    let applications = state.store.applications();
    match (applications.get(app.scope()).await, body, &app.app) {
        (Err(StoreError::ApplicationNotFound { .. }), Some(body), ApplicationRef::Uid(uid)) => {
            if body.uid.as_deref() != Some(uid.as_str()) {
                let message = "the uid of the application must be that of the path";
                return Err(RegistryError::in_fields(&["body", "application", "uid"], message));
            }
            let new = body.accept()?;
            Ok(applications.create(&app.caller.org, &new, IfTaken::ReturnExisting, None).await?.value)
        }
        (found, _, _) => Ok(found?),
    }
}

/// Returns the origin under which the caller reached this server.
fn origin_of_request(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).and_then(|host| host.parse::<Authority>().ok());
    let is_https = text(header::HeaderName::from_static("x-forwarded-proto")) == Some("https");
    let scheme = if is_https { "https" } else { "http" };
    host.map_or_else(String::new, |host| format!("{scheme}://{host}"))
}
