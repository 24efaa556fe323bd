//! The registry: applications, endpoints, event types, messages, operations and kept answers.
//!
//! Each file has the statements of one resource and its trait. Calls find rows only within the application and the
//! organisation that they name. A call checks everything before it writes, because a refused command must have written
//! nothing.

mod answer;
mod application;
mod attempt;
mod endpoint;
mod endpoint_delete;
mod endpoint_state;
mod endpoint_store;
mod event_type;
mod keys;
mod list;
mod message;
mod message_retention;
mod message_store;
mod operation;
mod operation_step;
mod publish;
pub(crate) mod resend;

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{
    ApplicationId, ApplicationRef, DestinationId, EndpointId, EndpointRef, MessageRef, Metadata, OrgId,
    Throttle, Uid,
};
use posthaste_store::{AppScope, StoreError};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::error::CallError;

pub(crate) use answer::remove_expired as remove_expired_answers;
pub(crate) use application::remove_deleted as remove_deleted_applications;
pub(crate) use endpoint_delete::cancel_of_deleted;
pub(crate) use endpoint_state::disable as disable_endpoint;
pub(crate) use keys::remove_retired as remove_retired_keys;
pub(crate) use list::KeyRange;
pub(crate) use message_retention::{MessageCursor, expunge_expired, remove_old as remove_old_messages};
pub(crate) use operation::remove_old as remove_old_operations;

#[cfg(test)]
pub(crate) mod plans;

/// The owned form of an [`AppScope`], for other threads.
pub(crate) struct OwnedScope {
    org: OrgId,
    app: ApplicationRef,
}

impl From<AppScope<'_>> for OwnedScope {
    fn from(scope: AppScope<'_>) -> Self {
        Self { org: scope.org.clone(), app: scope.app.clone() }
    }
}

impl OwnedScope {
    fn find_app(&self, db: &Connection) -> Result<ApplicationId, CallError> {
        find_app(db, AppScope { org: &self.org, app: &self.app })
    }

    /// Finds an endpoint of the application.
    fn find_endpoint(&self, db: &Connection, endpoint: &EndpointRef) -> Result<DestinationId, CallError> {
        find_endpoint(db, self.find_app(db)?, endpoint)
    }
}

/// An application by uid. Index: webhook_applications_uid.
const APP_BY_UID: &str =
    "SELECT id FROM webhook_applications WHERE org = ?1 AND uid = ?2 AND deleted_at IS NULL";

/// Finds an application of an organisation.
fn find_app(db: &Connection, scope: AppScope<'_>) -> Result<ApplicationId, CallError> {
    let found = match scope.app {
        ApplicationRef::Id(id) => db
            .prepare_cached(
                "SELECT id FROM webhook_applications WHERE id = ?2 AND org = ?1 AND deleted_at IS NULL",
            )?
            .query_row((scope.org.as_str(), id.0), |row| row.get(0))
            .optional()?,
        ApplicationRef::Uid(uid) => db
            .prepare_cached(APP_BY_UID)?
            .query_row((scope.org.as_str(), uid.as_str()), |row| row.get(0))
            .optional()?,
    };
    let not_found = || StoreError::ApplicationNotFound { app: scope.app.to_string() };
    Ok(ApplicationId(found.ok_or_else(not_found)?))
}

/// An endpoint by uid. Index: webhook_endpoints_uid.
const ENDPOINT_BY_UID: &str =
    "SELECT destination_id FROM webhook_endpoints WHERE app_id = ?1 AND uid = ?2 AND deleted_at IS NULL";

/// Finds an endpoint of an application.
fn find_endpoint(
    db: &Connection,
    app: ApplicationId,
    endpoint: &EndpointRef,
) -> Result<DestinationId, CallError> {
    let found = match endpoint {
        EndpointRef::Id(EndpointId(id)) => db
            .prepare_cached(
                "SELECT destination_id FROM webhook_endpoints
                 WHERE destination_id = ?2 AND app_id = ?1 AND deleted_at IS NULL",
            )?
            .query_row((app.0, id.0), |row| row.get(0))
            .optional()?,
        EndpointRef::Uid(uid) => db
            .prepare_cached(ENDPOINT_BY_UID)?
            .query_row((app.0, uid.as_str()), |row| row.get(0))
            .optional()?,
    };
    let not_found = || StoreError::EndpointNotFound { endpoint: endpoint.to_string() };
    Ok(DestinationId(found.ok_or_else(not_found)?))
}

/// The key of a message, `webhook_messages.key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MessageKey(i64);

/// A message by id. Index: webhook_messages_id.
const MESSAGE_BY_ID: &str = "SELECT key FROM webhook_messages WHERE id = ?2 AND app_id > 0 AND app_id = ?1";
/// A message by uid. Index: webhook_messages_uid.
const MESSAGE_BY_UID: &str = "SELECT key FROM webhook_messages WHERE app_id = ?1 AND uid = ?2";

/// Finds a message of an application.
fn find_message(db: &Connection, app: ApplicationId, message: &MessageRef) -> Result<MessageKey, CallError> {
    let found = match message {
        MessageRef::Id(id) => db
            .prepare_cached(MESSAGE_BY_ID)?
            .query_row((app.0, id.as_uuid().into_bytes()), |row| row.get(0))
            .optional()?,
        MessageRef::Uid(uid) => db
            .prepare_cached(MESSAGE_BY_UID)?
            .query_row((app.0, uid.as_str()), |row| row.get(0))
            .optional()?,
    };
    let not_found = || StoreError::MessageNotFound { message: message.to_string() };
    Ok(MessageKey(found.ok_or_else(not_found)?))
}

fn uid_taken(uid: &Uid) -> CallError {
    StoreError::UidTaken { uid: uid.to_string() }.into()
}

fn uid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uid>> {
    Ok(row.get::<_, Option<String>>(column)?.map(Uid::from_stored))
}

fn throttle(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Throttle>> {
    Ok(row.get::<_, Option<i64>>(column)?.and_then(|rate| Throttle::new(rate).ok()))
}

fn per_second(throttle: Option<Throttle>) -> Option<u32> {
    throttle.map(Throttle::per_second)
}

/// Writes names as a JSON array.
fn to_json<'a>(names: impl Iterator<Item = &'a str>) -> String {
    serde_json::Value::from_iter(names).to_string()
}

/// Reads a JSON array of names, or NULL.
fn names<T: Ord>(
    row: &Row<'_>,
    column: usize,
    from_stored: impl Fn(String) -> T,
) -> rusqlite::Result<Option<BTreeSet<T>>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    let names: Vec<String> = serde_json::from_str(text).map_err(|error| not_json(column, error))?;
    Ok(Some(names.into_iter().map(from_stored).collect()))
}

fn metadata_json(metadata: &Metadata) -> String {
    let pairs = metadata.pairs().iter().map(|(key, value)| (key.clone(), value.clone()));
    serde_json::Value::from_iter(pairs).to_string()
}

fn metadata(row: &Row<'_>, column: usize) -> rusqlite::Result<Metadata> {
    let text = row.get_ref(column)?.as_str()?;
    let pairs: BTreeMap<String, String> =
        serde_json::from_str(text).map_err(|error| not_json(column, error))?;
    Ok(Metadata::from_stored(pairs))
}

fn not_json(column: usize, error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
