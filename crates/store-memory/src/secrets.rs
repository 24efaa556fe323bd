//! The instance's signing secrets.

use posthaste_domain::Timestamp;
use posthaste_domain::signature::Secret;
use posthaste_store::{RotateRequest, StoreError, StoredSecret, VALID_SECRETS_MAX};

use crate::state::State;

pub(crate) fn add_first(state: &mut State, now: Timestamp, first: &Secret) {
    if state.secrets.is_empty() {
        let secret = first.clone();
        state.secrets.push(StoredSecret { secret, created_at: now, created_by: None, retires_at: None });
    }
}

/// Returns the valid secrets, newest first.
pub(crate) fn valid(state: &State, now: Timestamp) -> Vec<StoredSecret> {
    state.secrets.iter().filter(|secret| is_valid(secret, now)).cloned().collect()
}

pub(crate) fn rotate(
    state: &mut State,
    now: Timestamp,
    request: RotateRequest<'_>,
) -> Result<Vec<StoredSecret>, StoreError> {
    if state.secrets.iter().any(|stored| stored.secret == *request.secret) {
        return Ok(valid(state, now));
    }
    remove_retired(state, now);
    if state.secrets.len() >= VALID_SECRETS_MAX {
        let next_retires_at = state.secrets.iter().filter_map(|secret| secret.retires_at).min();
        return Err(StoreError::TooManySecrets { next_retires_at });
    }
    for secret in &mut state.secrets {
        secret.retires_at.get_or_insert(now.after(request.grace.duration()));
    }
    let newest = StoredSecret {
        secret: request.secret.clone(),
        created_at: now,
        created_by: Some(request.actor.to_owned()),
        retires_at: None,
    };
    state.secrets.insert(0, newest);
    Ok(valid(state, now))
}

pub(crate) fn remove_retired(state: &mut State, now: Timestamp) {
    state.secrets.retain(|secret| is_valid(secret, now));
}

fn is_valid(secret: &StoredSecret, now: Timestamp) -> bool {
    secret.retires_at.is_none_or(|at| at > now)
}
