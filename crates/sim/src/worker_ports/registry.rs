//! The registry as a process sees it: with the faults of every other store call.

use async_trait::async_trait;
use posthaste_domain::{
    BulkId, DestinationId, EndpointChange, EndpointRef, EventId, MessageRef, NewApplication, NewEndpoint,
    OrgId,
};
use posthaste_store::{
    Advance, AnswerSlot, AppScope, Application, BulkOperation, Created, DestinationKey, DestinationProfile,
    Endpoint, IfTaken, NewBulkOperation, NewOperation, NewSecrets, Operation, Publication, PublishRequest,
    RotateKey, StoreError,
};

use super::{Call, FaultyStore};
use crate::fault::Fault;
use crate::registry_layer::{ApplicationsLayer, BulkLayer, EndpointsLayer, MessagesLayer, OperationsLayer};

/// Probability, in per mille, that a worker crashes after a step that recovered events.
const CRASH_AFTER_ADVANCE_PER_MILLE: u64 = 50;

#[async_trait]
impl ApplicationsLayer for FaultyStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewApplication,
        if_taken: IfTaken,
        answer: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError> {
        let created = async { self.inner.applications().create(org, new, if_taken, answer).await };
        self.call(Call::Write, created).await
    }
}

#[async_trait]
impl EndpointsLayer for FaultyStore {
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        let created = async { self.inner.endpoints().create(scope, new, secrets, answer).await };
        self.call(Call::Write, created).await
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError> {
        let updated = async { self.inner.endpoints().update(scope, endpoint, change, actor).await };
        self.call(Call::Write, updated).await
    }

    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let deleted = async { self.inner.endpoints().delete(scope, endpoint, actor).await };
        self.call(Call::Write, deleted).await
    }

    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        let rotated = async { self.inner.endpoints().rotate_key(destination, request, answer).await };
        self.call(Call::Write, rotated).await
    }

    async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
        let profiles = async { self.inner.endpoints().profiles(destinations).await };
        self.call(Call::Read, profiles).await
    }
}

#[async_trait]
impl MessagesLayer for FaultyStore {
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        self.call(Call::Write, async { self.inner.messages().publish(request).await }).await
    }

    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        let resent = async { self.inner.messages().resend(scope, message, endpoint, actor, answer).await };
        self.call(Call::Write, resent).await
    }
}

#[async_trait]
impl OperationsLayer for FaultyStore {
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        let started = async { self.inner.operations().start(scope, new, answer).await };
        self.call(Call::Write, started).await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance =
            self.call(Call::Advance, async { self.inner.operations().advance(rows_max).await }).await?;
        if advance.done > 0 && self.world.fault_occurs(CRASH_AFTER_ADVANCE_PER_MILLE) {
            self.crash(Fault::CrashAfterCommit).await;
        }
        Ok(advance)
    }
}

#[async_trait]
impl BulkLayer for FaultyStore {
    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        self.call(Call::Write, async { self.inner.bulk().start(new).await }).await
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        self.call(Call::Write, async { self.inner.bulk().stop(id, actor).await }).await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance = self.call(Call::Advance, async { self.inner.bulk().advance(rows_max).await }).await?;
        if advance.done > 0 && self.world.fault_occurs(CRASH_AFTER_ADVANCE_PER_MILLE) {
            self.crash(Fault::CrashAfterCommit).await;
        }
        Ok(advance)
    }
}
