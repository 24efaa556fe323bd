//! Endpoints as a store keeps them, with their keys and headers.

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    ApplicationId, DeliveryOrder, Description, DestinationId, DestinationUrl, DisableReason, EndpointChange,
    EndpointId, EndpointRef, Metadata, NewEndpoint, Subscription, Throttle, Timestamp, Uid,
};

use super::{
    AnswerSlot, AppScope, Created, DestinationKey, DestinationProfile, List, ListRequest, NewSecrets, Reseal,
    RotateKey,
};
use crate::StoreError;

/// Pending events that the deletion of an endpoint cancels at once. [`Store::maintain`](crate::Store::maintain) cancels the
/// others.
pub const DELETE_CANCELS_MAX: usize = 1_000;

/// A stored endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub id: EndpointId,
    pub app: ApplicationId,
    pub uid: Option<Uid>,
    pub url: DestinationUrl,
    pub description: Description,
    pub subscription: Subscription,
    pub throttle: Option<Throttle>,
    pub order: DeliveryOrder,
    pub metadata: Metadata,
    /// `None` while the endpoint is enabled.
    pub disabled: Option<DisabledEndpoint>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Endpoint {
    /// The destination under whose number the endpoint is stored.
    pub const fn destination(&self) -> DestinationId {
        self.id.0
    }
}

/// Since when and why an endpoint gets no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisabledEndpoint {
    pub at: Timestamp,
    pub reason: DisableReason,
}

/// The number of an endpoint's events by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndpointStats {
    pub delivered: u64,
    /// Pending events without an attempt.
    pub pending: u64,
    /// Pending events with attempts.
    pub retrying: u64,
    pub failed: u64,
}

/// Access to the endpoints of a store, and to the keys of all destinations. A deleted endpoint does not exist for any call,
/// and its uid is free.
///
/// A change of URL, keys or headers raises the version of the destination's profile and applies to pending events. Workers
/// learn of it with their next claim.
#[async_trait]
pub trait Endpoints: Send + Sync {
    /// Creates an endpoint. Fails with [`StoreError::UnknownEventTypes`] if it subscribes to types that are not registered.
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError>;

    /// Replaces every field of an endpoint, but neither keys nor headers. Creates one, with these secrets, if `endpoint` is a
    /// uid that no endpoint has; the uid of `new` then precedes that of `endpoint`.
    async fn put(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        actor: &str,
    ) -> Result<Created<Endpoint>, StoreError>;

    async fn get(&self, scope: AppScope<'_>, endpoint: &EndpointRef) -> Result<Endpoint, StoreError>;

    /// Changes some fields of an endpoint. Disabling holds its pending events; enabling ends its failing period and a pause that
    /// its receiver requested, and wakes the workers. Both are recorded in the audit log of its destination.
    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError>;

    /// Deletes an endpoint and cancels its pending events: up to [`DELETE_CANCELS_MAX`] at once, the others by maintenance.
    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError>;

    /// Lists the endpoints of an application by id, descending.
    async fn list(
        &self,
        scope: AppScope<'_>,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<Endpoint>, StoreError>;

    /// Returns an endpoint of any application, for operators.
    async fn find(&self, id: EndpointId) -> Result<Endpoint, StoreError>;

    /// Counts the events of an endpoint that were created within a period.
    async fn stats(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError>;

    /// Returns the destination of a URL, which is created if it is new. Its secrets are those of all events to the URL.
    async fn url_destination(&self, url: &DestinationUrl) -> Result<DestinationId, StoreError>;

    /// Returns the valid keys of a destination, newest first. Empty if the instance's keys sign its requests.
    async fn keys(&self, destination: DestinationId) -> Result<Vec<DestinationKey>, StoreError>;

    /// Adds a key, which is valid at once. The newest key before it retires when the grace period ends; keys that retire already
    /// keep their time. Returns the valid keys, newest first. A repetition with the same sealed id changes nothing.
    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError>;

    /// Returns the custom headers of a destination.
    async fn headers(&self, destination: DestinationId) -> Result<Option<SealedValue>, StoreError>;

    /// Replaces the custom headers of a destination, if they are still those with the id `expected`. Fails with
    /// [`StoreError::Busy`] if another call replaced them.
    async fn set_headers(
        &self,
        destination: DestinationId,
        expected: Option<SealedId>,
        headers: Option<&SealedValue>,
    ) -> Result<(), StoreError>;

    /// Returns the profiles of destinations, for a worker that sends to them. Leaves out destinations without one.
    async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError>;

    /// Lists sealed values by id, for an operator who seals them again under another master key.
    async fn sealed_values(
        &self,
        after: Option<SealedId>,
        limit: usize,
    ) -> Result<Vec<SealedValue>, StoreError>;

    /// Replaces the bytes of sealed values that have not changed meanwhile. Returns how many it replaced.
    async fn reseal(&self, values: &[Reseal]) -> Result<usize, StoreError>;
}
