//! Access to messages, with their attempts.

use async_trait::async_trait;
use posthaste_domain::{AttemptId, EndpointId, EndpointRef, EventId, MessageId, MessageRef};
use posthaste_store::{
    AnswerSlot, AppScope, AttemptFilter, AttemptRecord, EndpointMessage, List, ListRequest,
    MessageDestination, MessageFilter, MessageView, Messages, Publication, PublishRequest, StoreError,
};

use super::{
    OwnedScope, answer, attempt, find_endpoint, find_message, message, message_retention, publish, resend,
};
use crate::SqliteStore;
use crate::command::CommandKind;

#[async_trait]
impl Messages for SqliteStore {
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        let request = request.clone();
        self.write(CommandKind::Enqueue { events: 1 }, move |context| {
            context.reserve.clone()?;
            let (db, now) = (context.db, context.now);
            answer::change(db, now, request.answer.as_ref(), || publish::publish(context, &request))
        })
        .await
    }

    async fn get(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<MessageView, StoreError> {
        let (scope, named) = (OwnedScope::from(scope), message.clone());
        self.read(move |db| {
            let key = find_message(db, scope.find_app(db)?, &named)?;
            Ok(message::read(db, key, with_content)?.view)
        })
        .await
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<MessageView>, StoreError> {
        let (scope, filter, request) = (OwnedScope::from(scope), filter.clone(), *request);
        self.read(move |db| message::list(db, scope.find_app(db)?, &filter, &request, with_content)).await
    }

    async fn expunge(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let (scope, named, actor) = (OwnedScope::from(scope), message.clone(), actor.to_owned());
        self.write(CommandKind::Other, move |context| {
            let key = find_message(context.db, scope.find_app(context.db)?, &named)?;
            message_retention::expunge(context.db, context.now, key, &actor)
        })
        .await
    }

    async fn destinations(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<MessageDestination>, StoreError> {
        let (scope, named, request) = (OwnedScope::from(scope), message.clone(), *request);
        self.read(move |db| {
            let key = find_message(db, scope.find_app(db)?, &named)?;
            message::destinations(db, key, &request)
        })
        .await
    }

    async fn of_endpoint(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<EndpointMessage>, StoreError> {
        let (scope, named) = (OwnedScope::from(scope), endpoint.clone());
        let (filter, request) = (filter.clone(), *request);
        self.read(move |db| {
            let app = scope.find_app(db)?;
            let endpoint = find_endpoint(db, app, &named)?;
            message::list_of_endpoint(db, app, endpoint, &filter, &request, with_content)
        })
        .await
    }

    async fn attempts(
        &self,
        scope: AppScope<'_>,
        filter: &AttemptFilter,
        request: &ListRequest<AttemptId>,
    ) -> Result<List<AttemptRecord>, StoreError> {
        let (scope, filter, request) = (OwnedScope::from(scope), filter.clone(), *request);
        self.read(move |db| attempt::list(db, scope.find_app(db)?, &filter, &request)).await
    }

    async fn attempt(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<AttemptRecord, StoreError> {
        let (scope, named) = (OwnedScope::from(scope), message.clone());
        self.read(move |db| {
            let key = find_message(db, scope.find_app(db)?, &named)?;
            attempt::find(db, key, attempt)
        })
        .await
    }

    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        let (scope, message, endpoint) = (OwnedScope::from(scope), message.clone(), endpoint.clone());
        let (actor, answer) = (actor.to_owned(), answer.cloned());
        self.write(CommandKind::MakesDue, move |context| {
            let (db, now) = (context.db, context.now);
            answer::change(db, now, answer.as_ref(), || {
                resend::resend(db, now, scope.find_app(db)?, &message, &endpoint, &actor)
            })
        })
        .await
    }
}
