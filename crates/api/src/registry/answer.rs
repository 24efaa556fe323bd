//! Answers to repeated requests: a POST with an `idempotency-key` gets the answer to the first request with this key.
//!
//! The store keeps a successful answer in the transaction of the change, for a day. The key is that of one caller and one URL.
//! Another body under the same key gets the first answer too, and is counted.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_store::{Answer, AnswerKey, AnswerSlot, StoreError};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::auth::Caller;
use super::body::Incoming;
use super::error::RegistryError;
use crate::api::ApiState;
use crate::body::BodyMemory;

/// Maximum length of an idempotency key.
const KEY_LEN_MAX: usize = 255;
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Bytes of the id before a sealed answer.
const SEALED_ID_BYTES: usize = 16;

/// A POST whose body has been read.
pub(super) struct Post {
    pub(super) bytes: Bytes,
    _memory: BodyMemory,
    /// The key under which the answer is kept. `None` without an `idempotency-key`.
    key: Option<AnswerKey>,
    fingerprint: [u8; 32],
}

impl Post {
    pub(super) async fn read(
        state: &ApiState,
        caller: &Caller,
        incoming: Incoming,
        bytes_max: usize,
    ) -> Result<Self, RegistryError> {
        let path = incoming.uri.path().trim_end_matches('/').to_owned();
        let query = incoming.uri.query().unwrap_or_default().to_owned();
        let key = parse_key(&incoming.headers)?
            .map(|key| digest(&[&caller.identity, path.as_bytes(), query.as_bytes(), key.as_bytes()]));
        let body = incoming.read(state, bytes_max).await?;
        let fingerprint = Sha256::digest(&body.bytes).into();
        Ok(Self { bytes: body.bytes, _memory: body._memory, key: key.map(AnswerKey), fingerprint })
    }

    /// Returns where the store keeps the answer that `render` makes.
    pub(super) fn slot<T>(
        &self,
        state: &ApiState,
        render: impl Fn(&T) -> Answer + Send + Sync + 'static,
    ) -> Option<AnswerSlot<T>> {
        Some(AnswerSlot {
            key: self.key?,
            fingerprint: self.fingerprint,
            keep_for: state.enqueue_settings.idempotency_retention,
            render: Arc::new(render),
        })
    }

    /// Sends the answer of this request, or the kept one if this request is a repetition.
    pub(super) async fn finish(
        &self,
        state: &ApiState,
        result: Result<Answer, RegistryError>,
    ) -> Result<Response, RegistryError> {
        match result {
            Ok(answer) => Ok(respond(answer)),
            Err(error) => Ok(respond_again(self.find_kept(state, error).await?)),
        }
    }

    /// Like [`finish`](Self::finish), for an answer that is kept sealed, because it contains a secret.
    pub(super) async fn finish_sealed(
        &self,
        state: &ApiState,
        result: Result<Answer, RegistryError>,
    ) -> Result<Response, RegistryError> {
        match result {
            Ok(answer) => Ok(respond(answer)),
            Err(error) => Ok(respond_again(open(state, &self.find_kept(state, error).await?)?)),
        }
    }

    /// Returns the answer that is kept for this request. Fails with the error of the request itself if there is none.
    pub(super) async fn find_kept(
        &self,
        state: &ApiState,
        error: RegistryError,
    ) -> Result<Answer, RegistryError> {
        let Some(key) = &self.key else { return Err(error) };
        if error.status() == StatusCode::SERVICE_UNAVAILABLE {
            return Err(error);
        }
        match (state.store.answers().find(key).await?, error) {
            (Some(kept), _) => {
                if kept.fingerprint != self.fingerprint {
                    state.metrics.count_idempotency_mismatch();
                }
                Ok(kept.answer)
            }
            // The kept answer expired between the two calls. The client's next repetition is a new request.
            (None, RegistryError::Store(StoreError::AnswerKept)) => {
                Err(RegistryError::Busy("the kept answer has just expired; repeat the request"))
            }
            (None, error) => Err(error),
        }
    }
}

/// Builds an answer with a JSON body.
pub(super) fn json_answer(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).expect("views always serialize");
    Answer { status: status.as_u16(), body: body.into() }
}

/// Seals the body of an answer, so that the store keeps no secret in the clear.
pub(super) fn seal(state: &ApiState, answer: &Answer) -> Answer {
    let SealedValue { id, bytes } = state.registry.seal(&answer.body);
    let body = [&id.as_uuid().as_bytes()[..], &bytes].concat();
    Answer { status: answer.status, body: body.into() }
}

fn open(state: &ApiState, kept: &Answer) -> Result<Answer, RegistryError> {
    let (id, bytes) = kept.body.split_at_checked(SEALED_ID_BYTES).ok_or(RegistryError::Internal)?;
    let id: [u8; SEALED_ID_BYTES] = id.try_into().map_err(|_| RegistryError::Internal)?;
    let sealed = SealedValue { id: SealedId::random(id), bytes: bytes.to_vec() };
    let body = state.registry.open(&sealed)?;
    Ok(Answer { status: kept.status, body: Bytes::copy_from_slice(&body) })
}

/// Sends an answer.
pub(super) fn respond(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if answer.body.is_empty() {
        return status.into_response();
    }
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], answer.body).into_response()
}

/// Sends a kept answer, and says so.
pub(super) fn respond_again(answer: Answer) -> Response {
    let mut response = respond(answer);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Parses the header. `None` if the request has no idempotency key.
fn parse_key(headers: &HeaderMap) -> Result<Option<String>, RegistryError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let key = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        // `to_str` allows tabs, which are not printable.
        (Some(value), None) => value.to_str().ok().filter(|key| !key.contains('\t')),
        (Some(_), Some(_)) => None,
    };
    match key.filter(|key| (1..=KEY_LEN_MAX).contains(&key.len())) {
        Some(key) => Ok(Some(key.to_owned())),
        None => Err(RegistryError::in_fields(
            &["header", "idempotency-key"],
            format!("idempotency-key must be sent once, with 1 to {KEY_LEN_MAX} printable ASCII characters"),
        )),
    }
}

/// Digests parts with their lengths, so that no two lists of parts have the same bytes.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
