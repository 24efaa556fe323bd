//! Applications as a store keeps them.

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationName, ApplicationRef, Metadata, NewApplication, OrgId,
    Throttle, Timestamp, Uid,
};

use super::{AnswerSlot, List, ListRequest};
use crate::StoreError;

/// An application, named within its organisation.
#[derive(Debug, Clone, Copy)]
pub struct AppScope<'a> {
    pub org: &'a OrgId,
    pub app: &'a ApplicationRef,
}

/// A stored application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    pub id: ApplicationId,
    pub org: OrgId,
    pub uid: Option<Uid>,
    pub name: ApplicationName,
    /// The limit of all its endpoints together.
    pub throttle: Option<Throttle>,
    pub metadata: Metadata,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A resource, and whether the call created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created<T> {
    pub value: T,
    pub is_new: bool,
}

/// What a call does if the uid of a new application is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// It fails with [`StoreError::UidTaken`].
    Refuse,
    /// It returns the application that has the uid, unchanged.
    ReturnExisting,
}

/// Access to the applications of a store. A deleted application does not exist for any call, and its uid is free.
#[async_trait]
pub trait Applications: Send + Sync {
    /// Creates an application.
    async fn create(
        &self,
        org: &OrgId,
        new: &NewApplication,
        if_taken: IfTaken,
        answer: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError>;

    /// Replaces every field of an application. Creates one if `app` is a uid that no application has; the uid of `new` then
    /// precedes that of `app`.
    async fn put(
        &self,
        org: &OrgId,
        app: &ApplicationRef,
        new: &NewApplication,
    ) -> Result<Created<Application>, StoreError>;

    async fn get(&self, scope: AppScope<'_>) -> Result<Application, StoreError>;

    /// Changes some fields of an application.
    async fn update(
        &self,
        scope: AppScope<'_>,
        change: &ApplicationChange,
    ) -> Result<Application, StoreError>;

    /// Deletes an application and its endpoints, as [`Endpoints::delete`](super::Endpoints::delete) does.
    async fn delete(&self, scope: AppScope<'_>, actor: &str) -> Result<(), StoreError>;

    /// Lists the applications of an organisation by id, ascending.
    async fn list(
        &self,
        org: &OrgId,
        request: &ListRequest<ApplicationId>,
    ) -> Result<List<Application>, StoreError>;
}
