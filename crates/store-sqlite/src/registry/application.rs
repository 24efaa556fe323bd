//! Applications.

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationName, ApplicationRef, DestinationId, NewApplication, OrgId,
    Timestamp, Uid,
};
use posthaste_store::{
    AnswerSlot, AppScope, Application, Applications, Created, IfTaken, List, ListRequest, StoreError,
};
use rusqlite::{Connection, Row};

use super::answer::change;
use super::list::KeyRange;
use super::{
    OwnedScope, endpoint_delete, find_app, metadata, metadata_json, per_second, throttle, uid, uid_taken,
};
use crate::SqliteStore;
use crate::command::CommandKind;
use crate::error::CallError;
use crate::row;

const COLUMNS: &str = "id, org, uid, name, throttle_per_second, metadata, created_at, updated_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Application> {
    Ok(Application {
        id: ApplicationId(row.get(0)?),
        org: OrgId::from_stored(row.get(1)?),
        uid: uid(row, 2)?,
        name: ApplicationName::from_stored(row.get(3)?),
        throttle: throttle(row, 4)?,
        metadata: metadata(row, 5)?,
        created_at: row::timestamp(row, 6)?,
        updated_at: row::timestamp(row, 7)?,
    })
}

fn read(db: &Connection, id: ApplicationId) -> rusqlite::Result<Application> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM webhook_applications WHERE id = ?1"))?
        .query_row([id.0], from_row)
}

/// Finds the application that has a uid.
fn find_by_uid(db: &Connection, org: &OrgId, uid: &Uid) -> Result<Option<ApplicationId>, CallError> {
    match find_app(db, AppScope { org, app: &ApplicationRef::Uid(uid.clone()) }) {
        Ok(id) => Ok(Some(id)),
        Err(CallError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds an application, whose uid the caller has checked.
pub(super) fn add(
    db: &Connection,
    now: Timestamp,
    org: &OrgId,
    new: &NewApplication,
) -> rusqlite::Result<ApplicationId> {
    db.prepare_cached(
        "INSERT INTO webhook_applications (org, uid, name, throttle_per_second, metadata, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
    )?
    .insert((
        org.as_str(),
        new.uid.as_ref().map(Uid::as_str),
        new.name.as_str(),
        per_second(new.throttle),
        metadata_json(&new.metadata),
        now.as_micros(),
    ))
    .map(ApplicationId)
}

fn create(
    db: &Connection,
    now: Timestamp,
    org: &OrgId,
    new: &NewApplication,
    if_taken: IfTaken,
) -> Result<Created<Application>, CallError> {
    let existing = match &new.uid {
        Some(uid) => find_by_uid(db, org, uid)?.map(|id| (id, uid)),
        None => None,
    };
    match (existing, if_taken) {
        (None, _) => Ok(Created { value: read(db, add(db, now, org, new)?)?, is_new: true }),
        (Some((id, _)), IfTaken::ReturnExisting) => Ok(Created { value: read(db, id)?, is_new: false }),
        (Some((_, uid)), IfTaken::Refuse) => Err(uid_taken(uid)),
    }
}

fn put(
    db: &Connection,
    now: Timestamp,
    org: &OrgId,
    app: &ApplicationRef,
    new: &NewApplication,
) -> Result<Created<Application>, CallError> {
    match (find_app(db, AppScope { org, app }), app.uid()) {
        (Ok(id), _) => {
            let value = update(db, now, id, &ApplicationChange::from(new.clone()))?;
            Ok(Created { value, is_new: false })
        }
        (Err(CallError::Refused(_)), Some(uid)) => {
            let new = NewApplication { uid: new.uid.clone().or(Some(uid.clone())), ..new.clone() };
            create(db, now, org, &new, IfTaken::Refuse)
        }
        (Err(error), _) => Err(error),
    }
}

fn update(
    db: &Connection,
    now: Timestamp,
    id: ApplicationId,
    change: &ApplicationChange,
) -> Result<Application, CallError> {
    let before = read(db, id)?;
    if let Some(Some(uid)) = &change.uid
        && find_by_uid(db, &before.org, uid)?.is_some_and(|other| other != id)
    {
        return Err(uid_taken(uid));
    }
    let ApplicationChange { name, uid, throttle, metadata } = change.clone();
    let after = Application {
        name: name.unwrap_or(before.name),
        uid: uid.unwrap_or(before.uid),
        throttle: throttle.unwrap_or(before.throttle),
        metadata: metadata.unwrap_or(before.metadata),
        updated_at: now,
        ..before
    };
    db.prepare_cached(
        "UPDATE webhook_applications
         SET uid = ?2, name = ?3, throttle_per_second = ?4, metadata = ?5, updated_at = ?6
         WHERE id = ?1",
    )?
    .execute((
        id.0,
        after.uid.as_ref().map(Uid::as_str),
        after.name.as_str(),
        per_second(after.throttle),
        metadata_json(&after.metadata),
        now.as_micros(),
    ))?;
    Ok(after)
}

/// The endpoints of an application that are not deleted. Index: webhook_endpoints_app.
pub(super) const LIVE_ENDPOINTS: &str = "
    SELECT destination_id FROM webhook_endpoints WHERE app_id = ?1 AND deleted_at IS NULL ORDER BY destination_id";

fn delete(db: &Connection, now: Timestamp, id: ApplicationId, actor: &str) -> Result<(), CallError> {
    let endpoints: Vec<DestinationId> = db
        .prepare_cached(LIVE_ENDPOINTS)?
        .query_map([id.0], |row| row.get(0).map(DestinationId))?
        .collect::<Result<_, _>>()?;
    for endpoint in endpoints {
        endpoint_delete::delete(db, now, endpoint, actor)?;
    }
    db.prepare_cached("UPDATE webhook_applications SET deleted_at = ?2 WHERE id = ?1")?
        .execute((id.0, now.as_micros()))?;
    Ok(())
}

/// Deleted applications to which no endpoint and no message belongs. Indexes: webhook_applications_deleted,
/// webhook_endpoints_app, webhook_messages_app.
pub(crate) const REMOVE_DELETED: &str = "
    DELETE FROM webhook_applications
    WHERE id IN (SELECT a.id FROM webhook_applications a
                 WHERE a.deleted_at IS NOT NULL
                   AND NOT EXISTS (SELECT 1 FROM webhook_endpoints p WHERE p.app_id = a.id)
                   AND NOT EXISTS (SELECT 1 FROM webhook_messages m WHERE m.app_id = a.id AND m.app_id > 0)
                 ORDER BY a.id LIMIT ?1)";

pub(crate) fn remove_deleted(db: &Connection, rows_max: i64) -> rusqlite::Result<()> {
    db.prepare_cached(REMOVE_DELETED)?.execute([rows_max])?;
    Ok(())
}

/// Builds the statement that reads a page of applications. Index: webhook_applications_org.
pub(super) fn list_sql(order: &str) -> String {
    format!(
        "SELECT {COLUMNS} FROM webhook_applications
         WHERE org = ?1 AND deleted_at IS NULL AND id > ?2 AND id < ?3 ORDER BY id {order}"
    )
}

fn list(
    db: &Connection,
    org: &OrgId,
    request: &ListRequest<ApplicationId>,
) -> Result<List<Application>, CallError> {
    let range = KeyRange::ascending(request, ApplicationId(i64::MIN), ApplicationId(i64::MAX));
    let mut listed = db.prepare_cached(&list_sql(range.order()))?;
    Ok(range.page(listed.query_map((org.as_str(), range.low.0, range.high.0), from_row)?)?)
}

#[async_trait]
impl Applications for SqliteStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewApplication,
        if_taken: IfTaken,
        answer: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError> {
        let (org, new, answer) = (org.clone(), new.clone(), answer.cloned());
        self.write(CommandKind::Other, move |context| {
            let (db, now) = (context.db, context.now);
            change(db, now, answer.as_ref(), || create(db, now, &org, &new, if_taken))
        })
        .await
    }

    async fn put(
        &self,
        org: &OrgId,
        app: &ApplicationRef,
        new: &NewApplication,
    ) -> Result<Created<Application>, StoreError> {
        let (org, app, new) = (org.clone(), app.clone(), new.clone());
        self.write(CommandKind::Other, move |context| put(context.db, context.now, &org, &app, &new)).await
    }

    async fn get(&self, scope: AppScope<'_>) -> Result<Application, StoreError> {
        let scope = OwnedScope::from(scope);
        self.read(move |db| Ok(read(db, scope.find_app(db)?)?)).await
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        change: &ApplicationChange,
    ) -> Result<Application, StoreError> {
        let (scope, change) = (OwnedScope::from(scope), change.clone());
        self.write(CommandKind::Other, move |context| {
            let id = scope.find_app(context.db)?;
            update(context.db, context.now, id, &change)
        })
        .await
    }

    async fn delete(&self, scope: AppScope<'_>, actor: &str) -> Result<(), StoreError> {
        let (scope, actor) = (OwnedScope::from(scope), actor.to_owned());
        self.write(CommandKind::Other, move |context| {
            let id = scope.find_app(context.db)?;
            delete(context.db, context.now, id, &actor)
        })
        .await
    }

    async fn list(
        &self,
        org: &OrgId,
        request: &ListRequest<ApplicationId>,
    ) -> Result<List<Application>, StoreError> {
        let (org, request) = (org.clone(), *request);
        self.read(move |db| list(db, &org, &request)).await
    }
}
