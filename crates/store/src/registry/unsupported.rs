//! A registry that refuses every call, for a store that does not implement it yet.

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationRef, AttemptId, DestinationId, DestinationUrl,
    EndpointChange, EndpointId, EndpointRef, EventId, EventTypeChange, EventTypeName, MessageId, MessageRef,
    NewApplication, NewEndpoint, NewEventType, OperationId, OrgId, Timestamp,
};

use super::*;
use crate::StoreError;

/// The registry of a store that has none. Every call fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unsupported;

fn refuse<T>() -> Result<T, StoreError> {
    Err(StoreError::Rejected { reason: "this store has no registry of endpoints".to_owned() })
}

#[async_trait]
impl Answers for Unsupported {
    async fn find(&self, _: &AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        refuse()
    }

    async fn keep(&self, _: &AnswerSlot<()>) -> Result<(), StoreError> {
        refuse()
    }
}

#[async_trait]
impl Applications for Unsupported {
    async fn create(
        &self,
        _: &OrgId,
        _: &NewApplication,
        _: IfTaken,
        _: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError> {
        refuse()
    }

    async fn put(
        &self,
        _: &OrgId,
        _: &ApplicationRef,
        _: &NewApplication,
    ) -> Result<Created<Application>, StoreError> {
        refuse()
    }

    async fn get(&self, _: AppScope<'_>) -> Result<Application, StoreError> {
        refuse()
    }

    async fn update(&self, _: AppScope<'_>, _: &ApplicationChange) -> Result<Application, StoreError> {
        refuse()
    }

    async fn delete(&self, _: AppScope<'_>, _: &str) -> Result<(), StoreError> {
        refuse()
    }

    async fn list(&self, _: &OrgId, _: &ListRequest<ApplicationId>) -> Result<List<Application>, StoreError> {
        refuse()
    }
}

#[async_trait]
impl Endpoints for Unsupported {
    async fn create(
        &self,
        _: AppScope<'_>,
        _: &NewEndpoint,
        _: &NewSecrets,
        _: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        refuse()
    }

    async fn put(
        &self,
        _: AppScope<'_>,
        _: &EndpointRef,
        _: &NewEndpoint,
        _: &NewSecrets,
        _: &str,
    ) -> Result<Created<Endpoint>, StoreError> {
        refuse()
    }

    async fn get(&self, _: AppScope<'_>, _: &EndpointRef) -> Result<Endpoint, StoreError> {
        refuse()
    }

    async fn update(
        &self,
        _: AppScope<'_>,
        _: &EndpointRef,
        _: &EndpointChange,
        _: &str,
    ) -> Result<Endpoint, StoreError> {
        refuse()
    }

    async fn delete(&self, _: AppScope<'_>, _: &EndpointRef, _: &str) -> Result<(), StoreError> {
        refuse()
    }

    async fn list(&self, _: AppScope<'_>, _: &ListRequest<EndpointId>) -> Result<List<Endpoint>, StoreError> {
        refuse()
    }

    async fn find(&self, _: EndpointId) -> Result<Endpoint, StoreError> {
        refuse()
    }

    async fn stats(
        &self,
        _: AppScope<'_>,
        _: &EndpointRef,
        _: Option<Timestamp>,
        _: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        refuse()
    }

    async fn url_destination(&self, _: &DestinationUrl) -> Result<DestinationId, StoreError> {
        refuse()
    }

    async fn keys(&self, _: DestinationId) -> Result<Vec<DestinationKey>, StoreError> {
        refuse()
    }

    async fn rotate_key(
        &self,
        _: DestinationId,
        _: &RotateKey<'_>,
        _: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        refuse()
    }

    async fn headers(&self, _: DestinationId) -> Result<Option<SealedValue>, StoreError> {
        refuse()
    }

    async fn set_headers(
        &self,
        _: DestinationId,
        _: Option<SealedId>,
        _: Option<&SealedValue>,
    ) -> Result<(), StoreError> {
        refuse()
    }

    async fn profiles(&self, _: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
        refuse()
    }

    async fn sealed_values(&self, _: Option<SealedId>, _: usize) -> Result<Vec<SealedValue>, StoreError> {
        refuse()
    }

    async fn reseal(&self, _: &[Reseal]) -> Result<usize, StoreError> {
        refuse()
    }
}

#[async_trait]
impl EventTypes for Unsupported {
    async fn create(
        &self,
        _: &OrgId,
        _: &NewEventType,
        _: Option<&AnswerSlot<EventType>>,
    ) -> Result<EventType, StoreError> {
        refuse()
    }

    async fn put(&self, _: &OrgId, _: &NewEventType) -> Result<Created<EventType>, StoreError> {
        refuse()
    }

    async fn get(&self, _: &OrgId, _: &EventTypeName) -> Result<EventType, StoreError> {
        refuse()
    }

    async fn update(
        &self,
        _: &OrgId,
        _: &EventTypeName,
        _: &EventTypeChange,
    ) -> Result<EventType, StoreError> {
        refuse()
    }

    async fn expunge(&self, _: &OrgId, _: &EventTypeName) -> Result<(), StoreError> {
        refuse()
    }

    async fn list(
        &self,
        _: &OrgId,
        _: bool,
        _: &ListRequest<EventTypeName>,
    ) -> Result<List<EventType>, StoreError> {
        refuse()
    }
}

#[async_trait]
impl Messages for Unsupported {
    async fn publish(&self, _: &PublishRequest) -> Result<Publication, StoreError> {
        refuse()
    }

    async fn get(&self, _: AppScope<'_>, _: &MessageRef, _: bool) -> Result<MessageView, StoreError> {
        refuse()
    }

    async fn list(
        &self,
        _: AppScope<'_>,
        _: &MessageFilter,
        _: &ListRequest<MessageId>,
        _: bool,
    ) -> Result<List<MessageView>, StoreError> {
        refuse()
    }

    async fn expunge(&self, _: AppScope<'_>, _: &MessageRef, _: &str) -> Result<(), StoreError> {
        refuse()
    }

    async fn destinations(
        &self,
        _: AppScope<'_>,
        _: &MessageRef,
        _: &ListRequest<EndpointId>,
    ) -> Result<List<MessageDestination>, StoreError> {
        refuse()
    }

    async fn of_endpoint(
        &self,
        _: AppScope<'_>,
        _: &EndpointRef,
        _: &MessageFilter,
        _: &ListRequest<MessageId>,
        _: bool,
    ) -> Result<List<EndpointMessage>, StoreError> {
        refuse()
    }

    async fn attempts(
        &self,
        _: AppScope<'_>,
        _: &AttemptFilter,
        _: &ListRequest<AttemptId>,
    ) -> Result<List<AttemptRecord>, StoreError> {
        refuse()
    }

    async fn attempt(
        &self,
        _: AppScope<'_>,
        _: &MessageRef,
        _: AttemptId,
    ) -> Result<AttemptRecord, StoreError> {
        refuse()
    }

    async fn resend(
        &self,
        _: AppScope<'_>,
        _: &MessageRef,
        _: &EndpointRef,
        _: &str,
        _: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        refuse()
    }
}

#[async_trait]
impl Operations for Unsupported {
    async fn start(
        &self,
        _: AppScope<'_>,
        _: &NewOperation<'_>,
        _: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        refuse()
    }

    async fn get(&self, _: AppScope<'_>, _: OperationId) -> Result<Operation, StoreError> {
        refuse()
    }

    async fn list(
        &self,
        _: Option<OperationState>,
        _: &ListRequest<OperationId>,
    ) -> Result<List<Operation>, StoreError> {
        refuse()
    }

    async fn stop(&self, _: OperationId) -> Result<Operation, StoreError> {
        refuse()
    }

    async fn advance(&self, _: usize) -> Result<Advance, StoreError> {
        refuse()
    }
}
