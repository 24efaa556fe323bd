//! The registry and the activity of the shared store, with a check after every call that may change an event, an endpoint, a key
//! or the history.

use async_trait::async_trait;
use posthaste_domain::{
    BulkId, DestinationId, EndpointChange, EndpointRef, EventId, MessageRef, NewApplication, NewEndpoint,
    OrgId,
};
use posthaste_store::{
    ActivityReport, Advance, AnswerSlot, AppScope, Application, BulkOperation, Created, DestinationKey,
    Endpoint, IfTaken, NewBulkOperation, NewOperation, NewSecrets, Operation, Publication, PublishRequest,
    RotateKey, StoreError,
};

use super::checked_store::CheckedStore;
use super::step::Step;
use crate::registry_layer::{
    ActivityLayer, ApplicationsLayer, BulkLayer, EndpointsLayer, MessagesLayer, OperationsLayer,
};

/// Returns the destination of an endpoint. The clients of the simulation name endpoints by their ids.
fn destination_of(endpoint: &EndpointRef) -> DestinationId {
    match endpoint {
        EndpointRef::Id(id) => id.0,
        EndpointRef::Uid(uid) => unreachable!("no client names the endpoint {uid}"),
    }
}

#[async_trait]
impl ApplicationsLayer for CheckedStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewApplication,
        if_taken: IfTaken,
        answer: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError> {
        let created = self.inner.applications().create(org, new, if_taken, answer).await;
        if let Ok(Created { value, is_new: true }) = &created {
            self.checker.record_application(value);
        }
        self.checker.check(&Step::Register);
        created
    }
}

#[async_trait]
impl EndpointsLayer for CheckedStore {
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        let created = self.inner.endpoints().create(scope, new, secrets, answer).await;
        if let Ok(endpoint) = &created {
            self.checker.record_endpoint(endpoint, new, &secrets.key);
        }
        self.checker.check(&Step::Register);
        created
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError> {
        let updated = self.inner.endpoints().update(scope, endpoint, change, actor).await;
        if updated.is_ok() {
            self.checker.record_endpoint_change(destination_of(endpoint), change);
        }
        self.checker.check(&Step::UpdateEndpoint { id: destination_of(endpoint) });
        updated
    }

    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let (id, deleted) =
            (destination_of(endpoint), self.inner.endpoints().delete(scope, endpoint, actor).await);
        if deleted.is_err() {
            self.checker.check(&Step::Register);
            return deleted;
        }
        self.checker.record_deletion(id);
        self.checker.check(&Step::DeleteEndpoint { id });
        deleted
    }

    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        let rotated = self.inner.endpoints().rotate_key(destination, request, answer).await;
        if let Ok(keys) = &rotated {
            self.checker.record_rotation(destination, request, keys);
        }
        self.checker.check(&Step::Register);
        rotated
    }
}

#[async_trait]
impl MessagesLayer for CheckedStore {
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        let published = self.inner.messages().publish(request).await;
        self.checker.check(&match &published {
            Ok(published) => Step::Publish { request, published },
            Err(_) => Step::Register,
        });
        published
    }

    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        let resent = self.inner.messages().resend(scope, message, endpoint, actor, answer).await;
        self.checker.check(&match &resent {
            Ok(event_id) => Step::Resend { event_id },
            Err(_) => Step::Register,
        });
        resent
    }
}

#[async_trait]
impl OperationsLayer for CheckedStore {
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        let started = self.inner.operations().start(scope, new, answer).await;
        if started.is_ok() {
            self.checker.record_operation(destination_of(new.endpoint), new.kind);
        }
        self.checker.check(&Step::Register);
        started
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance = self.inner.operations().advance(rows_max).await?;
        self.checker.check(&Step::Advance { advance: &advance });
        Ok(advance)
    }
}

#[async_trait]
impl BulkLayer for CheckedStore {
    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        let started = self.inner.bulk().start(new).await?;
        self.checker.record_bulk(&started);
        self.checker.check(&Step::Register);
        Ok(started)
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        let stopped = self.inner.bulk().stop(id, actor).await?;
        self.checker.record_bulk_stop(id);
        self.checker.check(&Step::Register);
        Ok(stopped)
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance = self.inner.bulk().advance(rows_max).await?;
        self.checker.check(&Step::AdvanceBulk { advance: &advance });
        Ok(advance)
    }
}

#[async_trait]
impl ActivityLayer for CheckedStore {
    async fn report(&self, report: &ActivityReport) -> Result<(), StoreError> {
        self.inner.activity().report(report).await?;
        self.checker.check_applied_report(&self.process, report);
        Ok(())
    }
}
