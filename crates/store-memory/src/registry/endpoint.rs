//! Endpoints: registered destinations.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationId, DestinationUrl, DisableReason, EndpointChange, EndpointId,
    EndpointRef, EventId, EventTypeName, NewEndpoint, Timestamp, Uid,
};
use posthaste_store::{
    ActionRequest, AnswerSlot, AppScope, Created, DELETE_CANCELS_MAX, DestinationAction, DestinationAudit,
    DestinationKey, DestinationProfile, DisabledEndpoint, Endpoint, EndpointStats, Endpoints, List,
    ListRequest, NewSecrets, OperationState, Reseal, RotateKey, StoreError,
};

use super::answer::change;
use super::{EndpointRow, keys};
use crate::MemoryStore;
use crate::enqueue::find_or_add_destination;
use crate::operate;
use crate::state::{Destination, State};

/// Why pending events of a deleted endpoint are cancelled, in the audit log.
const DELETED: &str = "the endpoint was deleted";

fn create(
    state: &mut State,
    now: Timestamp,
    app: ApplicationId,
    new: &NewEndpoint,
    secrets: &NewSecrets,
) -> Result<Endpoint, StoreError> {
    check_uid(state, app, None, new.uid.as_ref())?;
    check_event_types(state, app, new.subscription.event_types.as_ref())?;
    let disabled = new.is_disabled.then_some(DisabledEndpoint { at: now, reason: DisableReason::Manual });
    let mut destination = Destination::new(new.url.clone(), now);
    destination.endpoint = Some(EndpointRow {
        app,
        uid: new.uid.clone(),
        description: new.description.clone(),
        subscription: new.subscription.clone(),
        throttle: new.throttle,
        spent_until: None,
        order: new.order,
        metadata: new.metadata.clone(),
        disabled,
        updated_at: now,
        deleted_at: None,
    });
    destination.keys = vec![keys::first(&secrets.key, now)];
    destination.headers = secrets.headers.clone();
    destination.change_profile(now);
    let id = state.add_destination(destination);
    Ok(state.endpoint_view(id))
}

fn put(
    state: &mut State,
    now: Timestamp,
    app: ApplicationId,
    endpoint: &EndpointRef,
    new: &NewEndpoint,
    secrets: &NewSecrets,
    actor: &str,
) -> Result<Created<Endpoint>, StoreError> {
    match state.find_endpoint(app, endpoint) {
        Ok(id) => {
            let value = update(state, now, id, &EndpointChange::from(new.clone()), actor)?;
            Ok(Created { value, is_new: false })
        }
        Err(not_found) => {
            let Some(uid) = endpoint.uid() else { return Err(not_found) };
            let new = NewEndpoint { uid: new.uid.clone().or(Some(uid.clone())), ..new.clone() };
            Ok(Created { value: create(state, now, app, &new, secrets)?, is_new: true })
        }
    }
}

fn update(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    change: &EndpointChange,
    actor: &str,
) -> Result<Endpoint, StoreError> {
    let app = state.endpoint_view(id).app;
    check_uid(state, app, Some(id), change.uid.as_ref().and_then(Option::as_ref))?;
    check_event_types(state, app, change.event_types.as_ref().and_then(Option::as_ref))?;
    if let Some(url) = &change.url {
        set_url(state, now, id, url);
    }
    let row = endpoint_mut(state, id);
    let EndpointChange { uid, description, event_types, channels, throttle, order, metadata, .. } =
        change.clone();
    row.uid = uid.unwrap_or_else(|| row.uid.clone());
    row.description = description.unwrap_or_else(|| row.description.clone());
    row.subscription.event_types = event_types.unwrap_or_else(|| row.subscription.event_types.clone());
    row.subscription.channels = channels.unwrap_or_else(|| row.subscription.channels.clone());
    row.throttle = throttle.unwrap_or(row.throttle);
    row.order = order.unwrap_or(row.order);
    row.metadata = metadata.unwrap_or_else(|| row.metadata.clone());
    row.updated_at = now;
    match change.is_disabled {
        Some(true) => drop(disable(state, now, id, DisableReason::Manual, actor)),
        Some(false) => enable(state, now, id, actor),
        None => {}
    }
    Ok(state.endpoint_view(id))
}

fn set_url(state: &mut State, now: Timestamp, id: DestinationId, url: &DestinationUrl) {
    let destination = state.destinations.get_mut(&id).expect("the caller found the endpoint");
    if destination.url == *url {
        return;
    }
    destination.url = url.clone();
    destination.change_profile(now);
    for row in state.rows.values_mut().filter(|row| row.destination_id == id) {
        row.destination_url = url.clone();
    }
}

/// Disables an endpoint that is enabled. Returns whether it was.
pub(crate) fn disable(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    reason: DisableReason,
    actor: &str,
) -> bool {
    let row = endpoint_mut(state, id);
    if row.disabled.is_some() {
        return false;
    }
    row.disabled = Some(DisabledEndpoint { at: now, reason });
    row.updated_at = now;
    record_audit(state, now, id, DestinationAction::Disable, actor, Some(reason.as_str()));
    true
}

/// Enables an endpoint that is disabled, and gives its receiver a new start.
fn enable(state: &mut State, now: Timestamp, id: DestinationId, actor: &str) {
    if endpoint_mut(state, id).disabled.take().is_none() {
        return;
    }
    endpoint_mut(state, id).updated_at = now;
    let destination = state.destinations.get_mut(&id).expect("the caller found the endpoint");
    destination.failing_since = None;
    destination.receiver_pause = None;
    destination.circuits.clear();
    destination.resumed_at = Some(now);
    record_audit(state, now, id, DestinationAction::Enable, actor, None);
}

/// Deletes an endpoint and cancels the first of its pending events.
pub(super) fn delete(state: &mut State, now: Timestamp, id: DestinationId, actor: &str) {
    let row = endpoint_mut(state, id);
    row.deleted_at = Some(now);
    row.disabled = row.disabled.or(Some(DisabledEndpoint { at: now, reason: DisableReason::Manual }));
    for operation in state.registry.operations.values_mut().map(|row| &mut row.operation) {
        if operation.endpoint.0 == id && operation.state == OperationState::Running {
            (operation.state, operation.updated_at) = (OperationState::Stopped, now);
        }
    }
    record_audit(state, now, id, DestinationAction::Delete, actor, None);
    cancel_pending(state, now, &BTreeSet::from([id]), actor, DELETE_CANCELS_MAX);
}

/// Cancels up to `rows_max` pending events of deleted endpoints. Returns whether there may be more.
pub(crate) fn cancel_of_deleted(state: &mut State, now: Timestamp, rows_max: usize) -> bool {
    let is_deleted = |destination: &Destination| {
        destination.endpoint.as_ref().is_some_and(|endpoint| endpoint.deleted_at.is_some())
    };
    let deleted = state.destinations.iter().filter(|(_, destination)| is_deleted(destination));
    let deleted: BTreeSet<DestinationId> = deleted.map(|(id, _)| *id).collect();
    cancel_pending(state, now, &deleted, posthaste_store::SYSTEM_ACTOR, rows_max) == rows_max
}

/// Cancels up to `rows_max` pending events of destinations, in the order of their keys. Returns how many.
fn cancel_pending(
    state: &mut State,
    now: Timestamp,
    destinations: &BTreeSet<DestinationId>,
    actor: &str,
    rows_max: usize,
) -> usize {
    let pending = state.rows.values().filter(|row| row.status == DeliveryStatus::Pending);
    let of_destinations = pending.filter(|row| destinations.contains(&row.destination_id));
    let events: Vec<EventId> = of_destinations.map(|row| row.event_id.clone()).take(rows_max).collect();
    for event in &events {
        operate::cancel(state, now, event, ActionRequest::from(actor), Some(DELETED))
            .expect("a pending event can be cancelled");
    }
    events.len()
}

fn endpoint_mut(state: &mut State, id: DestinationId) -> &mut EndpointRow {
    let destination = state.destinations.get_mut(&id).expect("the caller found the endpoint");
    destination.endpoint.as_mut().expect("the destination is an endpoint")
}

pub(super) fn record_audit(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    action: DestinationAction,
    actor: &str,
    reason: Option<&str>,
) {
    let (actor, reason) = (actor.to_owned(), reason.map(str::to_owned));
    state.destination_audit.push((id, DestinationAudit { action, actor, at: now, until: None, reason }));
}

/// Refuses a uid that another endpoint of the application has.
fn check_uid(
    state: &State,
    app: ApplicationId,
    own: Option<DestinationId>,
    uid: Option<&Uid>,
) -> Result<(), StoreError> {
    let Some(uid) = uid else { return Ok(()) };
    match state.find_endpoint(app, &EndpointRef::Uid(uid.clone())) {
        Ok(id) if own != Some(id) => Err(StoreError::UidTaken { uid: uid.to_string() }),
        _ => Ok(()),
    }
}

/// Refuses event types that the organisation of the application has not registered. Archived types are accepted.
fn check_event_types(
    state: &State,
    app: ApplicationId,
    names: Option<&BTreeSet<EventTypeName>>,
) -> Result<(), StoreError> {
    let org = &state.registry.applications[&app].application.org;
    let is_known =
        |name: &EventTypeName| state.registry.event_types.contains_key(&(org.clone(), name.clone()));
    let unknown = names.into_iter().flatten().filter(|name| !is_known(name));
    let names: Vec<String> = unknown.map(ToString::to_string).collect();
    if names.is_empty() { Ok(()) } else { Err(StoreError::UnknownEventTypes { names }) }
}

fn stats(
    state: &State,
    id: DestinationId,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> EndpointStats {
    let mut stats = EndpointStats::default();
    let is_in_period =
        |at: Timestamp| since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until);
    let events = state.rows.values().filter(|row| row.destination_id == id && is_in_period(row.created_at));
    for row in events {
        let count = match row.status {
            DeliveryStatus::Delivered => &mut stats.delivered,
            DeliveryStatus::Failed => &mut stats.failed,
            DeliveryStatus::Pending if row.attempts > 0 => &mut stats.retrying,
            DeliveryStatus::Pending => &mut stats.pending,
        };
        *count += 1;
    }
    stats
}

#[async_trait]
impl Endpoints for MemoryStore {
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        self.transact(|state, now| {
            change(state, now, answer, |state| {
                let app = state.find_app(scope)?;
                create(state, now, app, new, secrets)
            })
        })
    }

    async fn put(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        actor: &str,
    ) -> Result<Created<Endpoint>, StoreError> {
        let put = self.transact(|state, now| {
            let app = state.find_app(scope)?;
            put(state, now, app, endpoint, new, secrets, actor)
        });
        self.waker.wake();
        put
    }

    async fn get(&self, scope: AppScope<'_>, endpoint: &EndpointRef) -> Result<Endpoint, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            state.find_endpoint(app, endpoint).map(|id| state.endpoint_view(id))
        })
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError> {
        let updated = self.transact(|state, now| {
            let app = state.find_app(scope)?;
            let id = state.find_endpoint(app, endpoint)?;
            update(state, now, id, change, actor)
        });
        self.waker.wake();
        updated
    }

    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        self.transact(|state, now| {
            let app = state.find_app(scope)?;
            let id = state.find_endpoint(app, endpoint)?;
            delete(state, now, id, actor);
            Ok(())
        })
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<Endpoint>, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            let of_app = state.live_endpoints().rev().filter(|(_, row)| row.app == app);
            let endpoints: Vec<Endpoint> = of_app.map(|(id, _)| state.endpoint_view(id)).collect();
            Ok(request.cut(endpoints, |endpoint, id| Reverse(endpoint.id).cmp(&Reverse(*id))))
        })
    }

    async fn find(&self, id: EndpointId) -> Result<Endpoint, StoreError> {
        self.transact(|state, _| {
            let found = state.live_endpoints().any(|(found, _)| found == id.0);
            let not_found = || StoreError::EndpointNotFound { endpoint: id.to_string() };
            found.then(|| state.endpoint_view(id.0)).ok_or_else(not_found)
        })
    }

    async fn stats(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            state.find_endpoint(app, endpoint).map(|id| stats(state, id, since, until))
        })
    }

    async fn url_destination(&self, url: &DestinationUrl) -> Result<DestinationId, StoreError> {
        Ok(self.transact(|state, now| find_or_add_destination(state, now, url)))
    }

    async fn keys(&self, destination: DestinationId) -> Result<Vec<DestinationKey>, StoreError> {
        self.transact(|state, now| keys::valid(state, now, destination))
    }

    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        self.transact(|state, now| {
            change(state, now, answer, |state| keys::rotate(state, now, destination, request))
        })
    }

    async fn headers(&self, destination: DestinationId) -> Result<Option<SealedValue>, StoreError> {
        self.transact(|state, _| Ok(keys::find_mut(state, destination)?.headers.clone()))
    }

    async fn set_headers(
        &self,
        destination: DestinationId,
        expected: Option<SealedId>,
        headers: Option<&SealedValue>,
    ) -> Result<(), StoreError> {
        self.transact(|state, now| keys::set_headers(state, now, destination, expected, headers))
    }

    async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
        Ok(self.transact(|state, now| keys::profiles(state, now, destinations)))
    }

    async fn sealed_values(
        &self,
        after: Option<SealedId>,
        limit: usize,
    ) -> Result<Vec<SealedValue>, StoreError> {
        Ok(self.transact(|state, _| keys::sealed_values(state, after, limit)))
    }

    async fn reseal(&self, values: &[Reseal]) -> Result<usize, StoreError> {
        Ok(self.transact(|state, _| keys::reseal(state, values)))
    }
}
