//! Decorators of a store's registry and activity: a layer overrides some calls, for example to check or to fail them.
//!
//! They extend [`StoreLayer`] to these calls. A type that implements `StoreLayer` implements [`ApplicationsLayer`] and its
//! siblings too, each with the calls that it changes; [`layer_registry`] turns it into a [`Store`].

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationRef, AttemptId, BulkId, DestinationId, DestinationUrl,
    EndpointChange, EndpointId, EndpointRef, EventId, MessageId, MessageRef, NewApplication, NewEndpoint,
    OperationId, OrgId, Timestamp,
};
use posthaste_store::{
    Activity, ActivityReport, Advance, AnswerSlot, AppScope, Application, Applications, AttemptFilter,
    AttemptRecord, BulkCount, BulkFilter, BulkOperation, BulkOperations, Created, DestinationKey,
    DestinationProfile, Endpoint, EndpointMessage, EndpointStats, Endpoints, History, HistoryRange, IfTaken,
    LayeredStore, List, ListRequest, MessageDestination, MessageFilter, MessageView, Messages,
    NewBulkOperation, NewOperation, NewSecrets, Operation, OperationState, Operations, Publication,
    PublishRequest, ReceiverActivity, Reseal, RotateKey, Store, StoreError, StoreLayer, WorkerStatus,
};

/// Calls of the registry that a [`LayeredRegistry`] forwards to its layer.
pub struct LayeredRegistry<L>(pub L);

/// Defines a layer of one resource of the registry: every call goes to the inner store unless the layer overrides it.
macro_rules! registry_layer {
    (
        $(#[$doc:meta])* $layer:ident of $resource:ident by $accessor:ident;
        $(fn $call:ident($($name:ident: $type:ty),*) -> $value:ty;)*
    ) => {
        $(#[$doc])*
        #[async_trait]
        pub trait $layer: StoreLayer {
            $(
                async fn $call(&self, $($name: $type),*) -> Result<$value, StoreError> {
                    self.inner().$accessor().$call($($name),*).await
                }
            )*
        }

        #[async_trait]
        impl<L: $layer> $resource for LayeredRegistry<L> {
            $(
                async fn $call(&self, $($name: $type),*) -> Result<$value, StoreError> {
                    <L as $layer>::$call(&self.0, $($name),*).await
                }
            )*
        }
    };
}

registry_layer! {
    /// A decorator of a store's applications.
    ApplicationsLayer of Applications by applications;
    fn create(
        org: &OrgId, new: &NewApplication, if_taken: IfTaken, answer: Option<&AnswerSlot<Created<Application>>>
    ) -> Created<Application>;
    fn put(org: &OrgId, app: &ApplicationRef, new: &NewApplication) -> Created<Application>;
    fn get(scope: AppScope<'_>) -> Application;
    fn update(scope: AppScope<'_>, change: &ApplicationChange) -> Application;
    fn delete(scope: AppScope<'_>, actor: &str) -> ();
    fn list(org: &OrgId, request: &ListRequest<ApplicationId>) -> List<Application>;
}

registry_layer! {
    /// A decorator of a store's endpoints.
    EndpointsLayer of Endpoints by endpoints;
    fn create(
        scope: AppScope<'_>, new: &NewEndpoint, secrets: &NewSecrets, answer: Option<&AnswerSlot<Endpoint>>
    ) -> Endpoint;
    fn put(
        scope: AppScope<'_>, endpoint: &EndpointRef, new: &NewEndpoint, secrets: &NewSecrets, actor: &str
    ) -> Created<Endpoint>;
    fn get(scope: AppScope<'_>, endpoint: &EndpointRef) -> Endpoint;
    fn update(scope: AppScope<'_>, endpoint: &EndpointRef, change: &EndpointChange, actor: &str) -> Endpoint;
    fn delete(scope: AppScope<'_>, endpoint: &EndpointRef, actor: &str) -> ();
    fn list(scope: AppScope<'_>, request: &ListRequest<EndpointId>) -> List<Endpoint>;
    fn find(id: EndpointId) -> Endpoint;
    fn stats(
        scope: AppScope<'_>, endpoint: &EndpointRef, since: Option<Timestamp>, until: Option<Timestamp>
    ) -> EndpointStats;
    fn url_destination(url: &DestinationUrl) -> DestinationId;
    fn keys(destination: DestinationId) -> Vec<DestinationKey>;
    fn rotate_key(
        destination: DestinationId, request: &RotateKey<'_>, answer: Option<&AnswerSlot<Vec<DestinationKey>>>
    ) -> Vec<DestinationKey>;
    fn headers(destination: DestinationId) -> Option<SealedValue>;
    fn set_headers(
        destination: DestinationId, expected: Option<SealedId>, headers: Option<&SealedValue>
    ) -> ();
    fn profiles(destinations: &[DestinationId]) -> Vec<DestinationProfile>;
    fn sealed_values(after: Option<SealedId>, limit: usize) -> Vec<SealedValue>;
    fn reseal(values: &[Reseal]) -> usize;
}

registry_layer! {
    /// A decorator of a store's messages.
    MessagesLayer of Messages by messages;
    fn publish(request: &PublishRequest) -> Publication;
    fn get(scope: AppScope<'_>, message: &MessageRef, with_content: bool) -> MessageView;
    fn list(
        scope: AppScope<'_>, filter: &MessageFilter, request: &ListRequest<MessageId>, with_content: bool
    ) -> List<MessageView>;
    fn expunge(scope: AppScope<'_>, message: &MessageRef, actor: &str) -> ();
    fn destinations(
        scope: AppScope<'_>, message: &MessageRef, request: &ListRequest<EndpointId>
    ) -> List<MessageDestination>;
    fn of_endpoint(
        scope: AppScope<'_>, endpoint: &EndpointRef, filter: &MessageFilter, request: &ListRequest<MessageId>,
        with_content: bool
    ) -> List<EndpointMessage>;
    fn attempts(
        scope: AppScope<'_>, filter: &AttemptFilter, request: &ListRequest<AttemptId>
    ) -> List<AttemptRecord>;
    fn attempt(scope: AppScope<'_>, message: &MessageRef, attempt: AttemptId) -> AttemptRecord;
    fn resend(
        scope: AppScope<'_>, message: &MessageRef, endpoint: &EndpointRef, actor: &str,
        answer: Option<&AnswerSlot<EventId>>
    ) -> EventId;
}

registry_layer! {
    /// A decorator of a store's background operations.
    OperationsLayer of Operations by operations;
    fn start(
        scope: AppScope<'_>, new: &NewOperation<'_>, answer: Option<&AnswerSlot<Operation>>
    ) -> Operation;
    fn get(scope: AppScope<'_>, id: OperationId) -> Operation;
    fn list(state: Option<OperationState>, request: &ListRequest<OperationId>) -> List<Operation>;
    fn stop(id: OperationId) -> Operation;
    fn advance(rows_max: usize) -> Advance;
}

registry_layer! {
    /// A decorator of a store's bulk operations.
    BulkLayer of BulkOperations by bulk;
    fn count(filter: &BulkFilter) -> BulkCount;
    fn start(new: &NewBulkOperation<'_>) -> BulkOperation;
    fn get(id: BulkId) -> BulkOperation;
    fn list(state: Option<OperationState>, request: &ListRequest<BulkId>) -> List<BulkOperation>;
    fn stop(id: BulkId, actor: &str) -> BulkOperation;
    fn advance(rows_max: usize) -> Advance;
}

registry_layer! {
    /// A decorator of a store's activity.
    ActivityLayer of Activity by activity;
    fn report(report: &ActivityReport) -> ();
    fn history(range: HistoryRange) -> History;
    fn workers() -> Vec<WorkerStatus>;
    fn receivers(destinations: &[DestinationId]) -> Vec<ReceiverActivity>;
}

/// Turns a layer of a store, its registry and its activity into a store.
pub fn layer_registry<L>(layer: L) -> Arc<dyn Store>
where
    L: ApplicationsLayer
        + EndpointsLayer
        + MessagesLayer
        + OperationsLayer
        + BulkLayer
        + ActivityLayer
        + Clone,
{
    let store = LayeredStore(layer.clone());
    Arc::new(LayeredStore(StoreWithRegistry { store, registry: LayeredRegistry(layer) }))
}

/// A layered store whose registry is layered too.
struct StoreWithRegistry<L> {
    store: LayeredStore<L>,
    registry: LayeredRegistry<L>,
}

impl<L> StoreLayer for StoreWithRegistry<L>
where
    L: ApplicationsLayer + EndpointsLayer + MessagesLayer + OperationsLayer + BulkLayer + ActivityLayer,
{
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    fn applications(&self) -> &dyn Applications {
        &self.registry
    }

    fn endpoints(&self) -> &dyn Endpoints {
        &self.registry
    }

    fn messages(&self) -> &dyn Messages {
        &self.registry
    }

    fn operations(&self) -> &dyn Operations {
        &self.registry
    }

    fn bulk(&self) -> &dyn BulkOperations {
        &self.registry
    }

    fn activity(&self) -> &dyn Activity {
        &self.registry
    }
}
