//! Keys and custom headers of destinations.

use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::signature::DESTINATION_KEYS_MAX;
use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::{
    DestinationAction, DestinationKey, DestinationProfile, NewKey, Reseal, RotateKey, StoreError,
};

use super::endpoint::record_audit;
use crate::state::{Destination, State};

/// Returns the first key of an endpoint.
pub(super) fn first(key: &NewKey, now: Timestamp) -> DestinationKey {
    let (kind, sealed) = (key.kind, key.sealed.clone());
    DestinationKey { kind, sealed, created_at: now, created_by: None, retires_at: None }
}

pub(super) fn find_mut(state: &mut State, id: DestinationId) -> Result<&mut Destination, StoreError> {
    state.destinations.get_mut(&id).ok_or(StoreError::DestinationNotFound { id: id.0 })
}

fn is_valid(key: &DestinationKey, now: Timestamp) -> bool {
    key.retires_at.is_none_or(|at| at > now)
}

fn valid_of(destination: &Destination, now: Timestamp) -> Vec<DestinationKey> {
    destination.keys.iter().filter(|key| is_valid(key, now)).cloned().collect()
}

/// Returns the valid keys of a destination, newest first.
pub(super) fn valid(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
) -> Result<Vec<DestinationKey>, StoreError> {
    find_mut(state, id).map(|destination| valid_of(destination, now))
}

pub(super) fn rotate(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    request: &RotateKey<'_>,
) -> Result<Vec<DestinationKey>, StoreError> {
    let destination = find_mut(state, id)?;
    if destination.keys.iter().any(|key| key.sealed.id == request.key.sealed.id) {
        return Ok(valid_of(destination, now));
    }
    destination.keys.retain(|key| is_valid(key, now));
    if destination.keys.len() >= DESTINATION_KEYS_MAX {
        let next_retires_at = destination.keys.iter().filter_map(|key| key.retires_at).min();
        return Err(StoreError::TooManyKeys { next_retires_at });
    }
    for key in &mut destination.keys {
        key.retires_at.get_or_insert(now.after(request.grace.duration()));
    }
    let newest = DestinationKey { created_by: Some(request.actor.to_owned()), ..first(&request.key, now) };
    destination.keys.insert(0, newest);
    destination.change_profile(now);
    let valid = valid_of(destination, now);
    record_audit(state, now, id, DestinationAction::RotateKey, request.actor, None);
    Ok(valid)
}

pub(super) fn set_headers(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    expected: Option<SealedId>,
    headers: Option<&SealedValue>,
) -> Result<(), StoreError> {
    let destination = find_mut(state, id)?;
    if destination.headers.as_ref().map(|headers| headers.id) != expected {
        return Err(StoreError::Busy { reason: "another request has changed the headers" });
    }
    destination.headers = headers.cloned();
    destination.change_profile(now);
    Ok(())
}

pub(super) fn profiles(state: &State, now: Timestamp, ids: &[DestinationId]) -> Vec<DestinationProfile> {
    let found = ids.iter().filter_map(|id| Some((*id, state.destinations.get(id)?)));
    let with_profile = found.filter(|(_, destination)| destination.profile_version > 0);
    with_profile
        .map(|(id, destination)| DestinationProfile {
            destination: id,
            app: destination.endpoint.as_ref().map(|endpoint| endpoint.app),
            version: destination.profile_version,
            keys: valid_of(destination, now),
            headers: destination.headers.clone(),
        })
        .collect()
}

pub(super) fn sealed_values(state: &State, after: Option<SealedId>, limit: usize) -> Vec<SealedValue> {
    let of = |destination: &Destination| -> Vec<SealedValue> {
        let keys = destination.keys.iter().map(|key| key.sealed.clone());
        keys.chain(destination.headers.clone()).collect()
    };
    let all = state.destinations.values().flat_map(of);
    let mut values: Vec<SealedValue> =
        all.filter(|value| after.is_none_or(|after| value.id > after)).collect();
    values.sort_by_key(|value| value.id);
    values.truncate(limit);
    values
}

pub(super) fn reseal(state: &mut State, values: &[Reseal]) -> usize {
    let mut replaced = 0;
    for destination in state.destinations.values_mut() {
        let keys = destination.keys.iter_mut().map(|key| &mut key.sealed);
        for stored in keys.chain(&mut destination.headers) {
            if let Some(Reseal { new, .. }) = values.iter().find(|value| value.old == *stored) {
                stored.bytes.clone_from(&new.bytes);
                replaced += 1;
            }
        }
    }
    replaced
}

/// Removes the keys that have retired.
pub(crate) fn remove_retired(state: &mut State, now: Timestamp) {
    for destination in state.destinations.values_mut() {
        destination.keys.retain(|key| is_valid(key, now));
    }
}
