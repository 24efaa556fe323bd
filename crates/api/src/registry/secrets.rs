//! Routes of the secrets of endpoints. A secret leaves this module only in an answer, or sealed.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use posthaste_domain::CustomHeaders;
use posthaste_domain::signature::{Ed25519Key, EndpointSecret, KeyKind, Secret};
use posthaste_store::{Answer, DestinationKey, KeyGrace, NewKey, NewSecrets, RotateKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Post, json_answer, respond, seal};
use super::auth::{AppCaller, EndpointPath, ReadSecrets, RotateSecrets};
use super::body::{BODY_BYTES_MAX, Incoming, parse_optional};
use super::error::RegistryError;
use super::headers::invalid_headers;
use super::params::{EndpointPathParams, IdempotencyParams};
use super::sdk_version::without_content_for_version_1;
use super::views::{EndpointIn, SecretKind};
use crate::api::ApiState;

/// Bytes of a generated HMAC secret.
const SECRET_BYTES: usize = 32;

/// What a receiver needs to verify requests.
#[derive(Serialize, ToSchema)]
#[schema(as = EndpointSecret)]
pub(super) struct SecretOut<'a> {
    /// The secret, or the public key `whpk_…` of an Ed25519 key.
    #[schema(value_type = String, example = "whpk_MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQ")]
    key: &'a str,
}

/// A rotation.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EndpointSecretRotateIn)]
pub(super) struct RotateIn {
    /// The new secret, in the form of `secret` of an endpoint; generated if omitted.
    key: Option<String>,
    /// The kind of a generated secret; that of the present secret if omitted.
    secret_type: Option<SecretKind>,
    /// For how long the present secret stays valid; a day if omitted.
    #[schema(minimum = 0, maximum = 604800)]
    grace_period_seconds: Option<u64>,
}

/// Get the secret of an endpoint
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret", tag = "Endpoints", operation_id = "getEndpointSecret",
    params(EndpointPathParams),
    responses((status = 200, description = "The newest secret", body = SecretOut<'_>)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadSecrets>,
    EndpointPath(endpoint): EndpointPath,
) -> Result<Response, RegistryError> {
    let endpoint = state.store.endpoints().get(app.scope(), &endpoint).await?;
    let keys = state.store.endpoints().keys(endpoint.destination()).await?;
    let newest = keys.first().ok_or(RegistryError::Internal)?;
    Ok(respond(secret_answer(&open_key(&state, newest)?)))
}

/// Rotate the secret of an endpoint
///
/// Adds a new secret, which signs at once. The present one also signs until its grace period ends.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate", tag = "Endpoints",
    operation_id = "rotateEndpointSecret", params(EndpointPathParams, IdempotencyParams), request_body = RotateIn,
    responses(
        (status = 200, description = "The new secret", body = SecretOut<'_>),
        (status = 204, description = "The secret is rotated: the response to SDKs of version 1, which accept no other"),
    ),
)]
pub(super) async fn rotate(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<RotateSecrets>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let headers = incoming.headers.clone();
    let post = Post::read(&state, &app.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let body: RotateIn = parse_optional(&post.bytes)?;
        let endpoint = state.store.endpoints().get(app.scope(), &endpoint).await?;
        let kind = match body.secret_type {
            Some(kind) => kind.into(),
            None => present_kind(&state.store.endpoints().keys(endpoint.destination()).await?),
        };
        let secret = match &body.key {
            Some(text) => parse_secret("key", text)?,
            None => generate(&state, kind),
        };
        let grace = body
            .grace_period_seconds
            .map_or(Ok(KeyGrace::DEFAULT), |seconds| KeyGrace::new(Duration::from_secs(seconds)));
        let grace = grace.map_err(|error| RegistryError::in_body("gracePeriodSeconds", error))?;
        let answer = secret_answer(&secret);
        let sealed = seal(&state, &answer);
        let slot = post.slot(&state, move |_: &Vec<DestinationKey>| sealed.clone());
        let request = RotateKey { key: seal_key(&state, &secret), grace, actor: &app.caller.name };
        state.store.endpoints().rotate_key(endpoint.destination(), &request, slot.as_ref()).await?;
        tracing::info!(endpoint = %endpoint.id, actor = app.caller.name, "secret of an endpoint rotated");
        Ok(answer)
    };
    let response = post.finish_sealed(&state, result.await).await?;
    Ok(without_content_for_version_1(&headers, response))
}

fn secret_answer(secret: &EndpointSecret) -> Answer {
    json_answer(StatusCode::OK, &SecretOut { key: &secret.receiver_key() })
}

fn present_kind(keys: &[DestinationKey]) -> KeyKind {
    keys.first().map_or(KeyKind::Hmac, |key| key.kind)
}

/// Validates or makes the secrets of a new endpoint, and seals them.
pub(super) fn new_secrets(state: &ApiState, body: &EndpointIn) -> Result<NewSecrets, RegistryError> {
    let secret = match &body.secret {
        Some(text) => parse_secret("secret", text)?,
        None => generate(state, body.secret_type.map_or(KeyKind::Hmac, KeyKind::from)),
    };
    let headers = CustomHeaders::new(body.headers.clone().unwrap_or_default())
        .map_err(|error| invalid_headers(&error))?;
    let headers = (!headers.is_empty()).then(|| state.registry.seal(&headers.encode()));
    Ok(NewSecrets { key: seal_key(state, &secret), headers })
}

/// Parses a secret of a caller. A text without a prefix is the base64 of an HMAC secret. The error shows no part of it.
fn parse_secret(field: &str, text: &str) -> Result<EndpointSecret, RegistryError> {
    let parsed = match text.starts_with("whsec_") || text.starts_with("whsk_") {
        true => EndpointSecret::parse(text),
        false => EndpointSecret::parse(&format!("whsec_{text}")),
    };
    parsed.map_err(|error| RegistryError::in_body(field, error))
}

fn generate(state: &ApiState, kind: KeyKind) -> EndpointSecret {
    match kind {
        KeyKind::Hmac => {
            let bytes: [u8; SECRET_BYTES] = state.registry.random();
            EndpointSecret::Hmac(Secret::from_bytes(bytes.to_vec()).expect("the length is within the limits"))
        }
        KeyKind::Ed25519 => EndpointSecret::Ed25519(Ed25519Key::from_seed(state.registry.random())),
    }
}

fn seal_key(state: &ApiState, secret: &EndpointSecret) -> NewKey {
    NewKey { kind: secret.kind(), sealed: state.registry.seal(secret.reveal().as_bytes()) }
}

fn open_key(state: &ApiState, key: &DestinationKey) -> Result<EndpointSecret, RegistryError> {
    let opened = state.registry.open(&key.sealed)?;
    let text = std::str::from_utf8(&opened).map_err(|_| RegistryError::Internal)?;
    EndpointSecret::parse(text).map_err(|_| RegistryError::Internal)
}

impl From<SecretKind> for KeyKind {
    fn from(kind: SecretKind) -> Self {
        match kind {
            SecretKind::Hmac => Self::Hmac,
            SecretKind::Ed25519 => Self::Ed25519,
        }
    }
}
