//! Access to endpoints, and to the keys of destinations.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    DestinationId, DestinationUrl, EndpointChange, EndpointId, EndpointRef, NewEndpoint, Timestamp,
};
use posthaste_store::{
    AnswerSlot, AppScope, Created, DestinationKey, DestinationProfile, Endpoint, EndpointStats, Endpoints,
    List, ListRequest, NewSecrets, Reseal, RotateKey, StoreError,
};

use super::answer::change;
use super::keys::{self, OwnedRotation};
use super::{OwnedScope, endpoint, endpoint_delete};
use crate::SqliteStore;
use crate::command::CommandKind;
use crate::enqueue;

#[async_trait]
impl Endpoints for SqliteStore {
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        let (scope, new, secrets) = (OwnedScope::from(scope), new.clone(), secrets.clone());
        let answer = answer.cloned();
        self.write(CommandKind::Other, move |context| {
            let (db, now) = (context.db, context.now);
            change(db, now, answer.as_ref(), || {
                endpoint::create(db, now, scope.find_app(db)?, &new, &secrets)
            })
        })
        .await
    }

    async fn put(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        actor: &str,
    ) -> Result<Created<Endpoint>, StoreError> {
        let (scope, named, actor) = (OwnedScope::from(scope), endpoint.clone(), actor.to_owned());
        let (new, secrets) = (new.clone(), secrets.clone());
        self.write(CommandKind::MakesDue, move |context| {
            let (db, now) = (context.db, context.now);
            endpoint::put(db, now, scope.find_app(db)?, &named, &new, &secrets, &actor)
        })
        .await
    }

    async fn get(&self, scope: AppScope<'_>, endpoint: &EndpointRef) -> Result<Endpoint, StoreError> {
        let (scope, named) = (OwnedScope::from(scope), endpoint.clone());
        self.read(move |db| Ok(endpoint::read(db, scope.find_endpoint(db, &named)?)?)).await
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError> {
        let (scope, named, actor) = (OwnedScope::from(scope), endpoint.clone(), actor.to_owned());
        let change = change.clone();
        self.write(CommandKind::MakesDue, move |context| {
            let id = scope.find_endpoint(context.db, &named)?;
            endpoint::update(context.db, context.now, id, &change, &actor)
        })
        .await
    }

    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let (scope, named, actor) = (OwnedScope::from(scope), endpoint.clone(), actor.to_owned());
        self.write(CommandKind::Other, move |context| {
            let id = scope.find_endpoint(context.db, &named)?;
            endpoint_delete::delete(context.db, context.now, id, &actor)
        })
        .await
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<Endpoint>, StoreError> {
        let (scope, request) = (OwnedScope::from(scope), *request);
        self.read(move |db| endpoint::list(db, scope.find_app(db)?, &request)).await
    }

    async fn find(&self, id: EndpointId) -> Result<Endpoint, StoreError> {
        self.read(move |db| {
            let not_found = || StoreError::EndpointNotFound { endpoint: id.to_string() };
            Ok(endpoint::find(db, id.0)?.ok_or_else(not_found)?)
        })
        .await
    }

    async fn stats(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        let (scope, named) = (OwnedScope::from(scope), endpoint.clone());
        self.read(move |db| Ok(endpoint::stats(db, scope.find_endpoint(db, &named)?, since, until)?)).await
    }

    async fn url_destination(&self, url: &DestinationUrl) -> Result<DestinationId, StoreError> {
        let url = url.clone();
        self.write(CommandKind::Other, move |context| {
            Ok(enqueue::find_or_add_destination(context.db, context.now, &url)?)
        })
        .await
    }

    async fn keys(&self, destination: DestinationId) -> Result<Vec<DestinationKey>, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| keys::valid(db, clock.now(), destination)).await
    }

    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        let (rotation, answer) = (OwnedRotation::from(request), answer.cloned());
        self.write(CommandKind::Other, move |context| {
            let (db, now) = (context.db, context.now);
            change(db, now, answer.as_ref(), || keys::rotate(db, now, destination, &rotation))
        })
        .await
    }

    async fn headers(&self, destination: DestinationId) -> Result<Option<SealedValue>, StoreError> {
        self.read(move |db| keys::headers(db, destination)).await
    }

    async fn set_headers(
        &self,
        destination: DestinationId,
        expected: Option<SealedId>,
        headers: Option<&SealedValue>,
    ) -> Result<(), StoreError> {
        let headers = headers.cloned();
        self.write(CommandKind::Other, move |context| {
            keys::set_headers(context.db, context.now, destination, expected, headers.as_ref())
        })
        .await
    }

    async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
        let (clock, destinations) = (Arc::clone(&self.shared.clock), destinations.to_vec());
        self.read(move |db| keys::profiles(db, clock.now(), &destinations)).await
    }

    async fn sealed_values(
        &self,
        after: Option<SealedId>,
        limit: usize,
    ) -> Result<Vec<SealedValue>, StoreError> {
        self.read(move |db| Ok(keys::sealed_values(db, after, limit)?)).await
    }

    async fn reseal(&self, values: &[Reseal]) -> Result<usize, StoreError> {
        let values = values.to_vec();
        self.write(CommandKind::Other, move |context| Ok(keys::reseal(context.db, &values)?)).await
    }
}
