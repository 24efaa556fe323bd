//! Administrators of tenants: they disable, enable, delete and add endpoints, rotate keys, resend messages, and recover events.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{EndpointChange, MessageRef, Throttle};
use posthaste_store::{
    Endpoint, KeyGrace, ListRequest, NewOperation, OperationKind, PastRange, RotateKey, StoreError,
};

use super::request::slot;
use super::{TenantEndpoint, Tenants};
use crate::client::repeat_until_answered;
use crate::random::SeededRandom;
use crate::time::sleep;

/// Who administers, in audit logs.
const ACTOR: &str = "tenant";
/// Most endpoints of all tenants together.
const ENDPOINTS_MAX: usize = 12;

/// Administers the endpoints at random times during the fault phase. Enables all of them afterwards, so that all events can
/// end. Never returns.
pub(crate) async fn administer(tenants: Arc<Tenants>, seed: u64) {
    let random = SeededRandom::new(seed, 11);
    while !tenants.world.faults_are_over() {
        sleep(random.millis(1_000..40_000)).await;
        if let Some(endpoint) = tenants.random_endpoint() {
            // A refusal is expected, for example of a resend to a disabled endpoint; the checker validates the store.
            let _ = tenants.act(&random, endpoint).await;
        }
    }
    loop {
        // After an error, the next round enables the endpoints. A result that arrives late may disable one again.
        let _ = tenants.enable_all().await;
        sleep(Duration::from_secs(5)).await;
    }
}

impl Tenants {
    /// Does one random thing to an endpoint.
    async fn act(&self, random: &SeededRandom, endpoint: TenantEndpoint) -> Result<(), StoreError> {
        match random.index(40) {
            0..12 => self.rotate(random, &endpoint).await,
            12..16 => self.set_disabled(random, &endpoint, true).await,
            16..24 => self.enable_one(random, endpoint.application).await,
            24..30 => self.resend(random, &endpoint).await,
            30..37 => self.start_operation(random, &endpoint).await,
            37 => self.delete(random, &endpoint).await,
            _ if self.known().endpoints.len() < ENDPOINTS_MAX => {
                self.create_endpoint(endpoint.application).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Rotates the key of an endpoint. A repetition has the same key.
    async fn rotate(&self, random: &SeededRandom, endpoint: &TenantEndpoint) -> Result<(), StoreError> {
        let grace = if random.chance(250) {
            Duration::ZERO
        } else {
            random.millis(10_000..random.pick(&[60_000, 1_800_000]))
        };
        let grace = KeyGrace::new(grace).expect("a short period");
        let request = RotateKey { key: self.new_key(), grace, actor: ACTOR };
        let endpoints = self.store.endpoints();
        repeat_until_answered(random, || endpoints.rotate_key(endpoint.id.0, &request, None)).await?;
        Ok(())
    }

    async fn set_disabled(
        &self,
        random: &SeededRandom,
        endpoint: &TenantEndpoint,
        is_disabled: bool,
    ) -> Result<(), StoreError> {
        let change = EndpointChange { is_disabled: Some(is_disabled), ..EndpointChange::default() };
        let (scope, by_id) = (self.scope(endpoint.application), endpoint.by_id());
        let endpoints = self.store.endpoints();
        repeat_until_answered(random, || endpoints.update(scope, &by_id, &change, ACTOR)).await?;
        Ok(())
    }

    /// Enables a random endpoint of an application that is disabled.
    async fn enable_one(&self, random: &SeededRandom, application: usize) -> Result<(), StoreError> {
        let disabled = self.disabled_endpoints(application).await?;
        if disabled.is_empty() {
            return Ok(());
        }
        let id = disabled[random.index(disabled.len())].id;
        self.set_disabled(random, &TenantEndpoint { application, id }, false).await
    }

    async fn disabled_endpoints(&self, application: usize) -> Result<Vec<Endpoint>, StoreError> {
        let listed = self.store.endpoints().list(self.scope(application), &ListRequest::default()).await?;
        Ok(listed.items.into_iter().filter(|endpoint| endpoint.disabled.is_some()).collect())
    }

    /// Enables every endpoint, and ends the pause of an operator that began before it was disabled.
    async fn enable_all(&self) -> Result<(), StoreError> {
        for application in 0..self.applications.len() {
            for Endpoint { id, .. } in self.disabled_endpoints(application).await? {
                if self.store.destination_status(id.0).await?.operator_pause.is_some() {
                    self.store.resume_destination(id.0, ACTOR).await?;
                }
                self.set_disabled(&self.random, &TenantEndpoint { application, id }, false).await?;
            }
        }
        Ok(())
    }

    /// Deletes an endpoint. If the reply was lost, the repeated call may find no endpoint.
    async fn delete(&self, random: &SeededRandom, endpoint: &TenantEndpoint) -> Result<(), StoreError> {
        self.known().endpoints.retain(|known| known != endpoint);
        let (scope, by_id) = (self.scope(endpoint.application), endpoint.by_id());
        repeat_until_answered(random, || self.store.endpoints().delete(scope, &by_id, ACTOR)).await
    }

    /// Sends a recent message to an endpoint again.
    async fn resend(&self, random: &SeededRandom, endpoint: &TenantEndpoint) -> Result<(), StoreError> {
        let recent: Vec<_> = {
            let known = self.known();
            let of_application =
                known.messages.iter().rev().filter(|(application, _)| *application == endpoint.application);
            of_application.take(8).map(|(_, id)| *id).collect()
        };
        if recent.is_empty() {
            return Ok(());
        }
        let message = MessageRef::Id(random.pick(&recent));
        let (scope, by_id) = (self.scope(endpoint.application), endpoint.by_id());
        let slot = slot(self.next_number(), |_| 0);
        self.serve(slot.key, || self.store.messages().resend(scope, &message, &by_id, ACTOR, Some(&slot)))
            .await;
        Ok(())
    }

    /// Starts an operation that reopens the failed events of an endpoint, or adds the missing ones.
    async fn start_operation(
        &self,
        random: &SeededRandom,
        endpoint: &TenantEndpoint,
    ) -> Result<(), StoreError> {
        let by_id = endpoint.by_id();
        let new = NewOperation {
            kind: random.pick(&[
                OperationKind::Recover,
                OperationKind::Recover,
                OperationKind::ReplayMissing,
            ]),
            endpoint: &by_id,
            range: PastRange::new(random.millis(60_000..1_800_000), Duration::ZERO).expect("a short period"),
            rate: Throttle::new(self.rate(1..20)).expect("a small rate"),
            actor: ACTOR,
        };
        let (scope, slot) = (self.scope(endpoint.application), slot(self.next_number(), |_| 0));
        self.serve(slot.key, || self.store.operations().start(scope, &new, Some(&slot))).await;
        Ok(())
    }
}
