//! Applications.

use std::collections::BTreeMap;

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationChange, ApplicationId, ApplicationName, ApplicationRef, DestinationId, Metadata,
    NewApplication, OrgId, Throttle, Uid,
};
use posthaste_store::{
    AnswerSlot, AppScope, Application, Applications, Created, IfTaken, List, ListRequest, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::change_answered;
use super::list::{PageQuery, list_by_number};
use super::{Call, CallError, app_not_found, change, endpoint_change, find_app, read};
use crate::PostgresStore;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// The columns of an application `a` that [`parse`] reads.
macro_rules! application_columns {
    () => {
        "a.id, a.org, a.uid, a.name, a.throttle_per_second, a.metadata, a.created_at, a.updated_at"
    };
}

/// Adds an application, unless its uid is taken.
static INSERT: Sql = Sql {
    text: concat!(
        "
INSERT INTO app.webhook_applications AS a (org, uid, name, throttle_per_second, metadata, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, app.webhook_now(), app.webhook_now())
ON CONFLICT (org, uid) WHERE deleted_at IS NULL AND uid IS NOT NULL DO NOTHING
RETURNING ",
        application_columns!()
    ),
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::INT4, Type::TEXT],
};

/// Reads an application. Uses index webhook_applications_id.
static SELECT: Sql = Sql {
    text: concat!("SELECT ", application_columns!(), " FROM app.webhook_applications a WHERE a.id = $1"),
    types: &[Type::INT8],
};

/// Reads and locks an application that is not deleted.
static LOCK: Sql = Sql {
    text: concat!(
        "SELECT ",
        application_columns!(),
        " FROM app.webhook_applications a WHERE a.id = $1 AND a.deleted_at IS NULL FOR UPDATE"
    ),
    types: &[Type::INT8],
};

static UPDATE: Sql = Sql {
    text: concat!(
        "
UPDATE app.webhook_applications a
SET uid = $2, name = $3, throttle_per_second = $4, metadata = $5, updated_at = app.webhook_now()
WHERE a.id = $1
RETURNING ",
        application_columns!()
    ),
    types: &[Type::INT8, Type::TEXT, Type::TEXT, Type::INT4, Type::TEXT],
};

/// Records in the endpoints of the application $1 whether claims must lock them, after a change of the application's throttle.
/// Locks them in the order of their ids. Uses indexes webhook_endpoints_app and webhook_destinations_id.
static LIMIT_ENDPOINTS: Sql = Sql {
    text: "
WITH endpoints AS MATERIALIZED (
    SELECT d.id
    FROM app.webhook_destinations d
    WHERE d.id = ANY (ARRAY(SELECT e.destination_id FROM app.webhook_endpoints e WHERE e.app_id = $1))
    ORDER BY d.id
    FOR UPDATE
)
UPDATE app.webhook_destinations d
SET is_limited = $2 OR coalesce(d.is_fifo, false) OR d.throttle_per_second IS NOT NULL
FROM endpoints e
WHERE d.id = e.id",
    types: &[Type::INT8, Type::BOOL],
};

/// Reads the endpoints of an application that are not deleted. Uses index webhook_endpoints_app.
static ENDPOINTS: Sql = Sql {
    text: "
SELECT e.destination_id
FROM app.webhook_endpoints e
WHERE e.app_id = $1 AND e.deleted_at IS NULL
ORDER BY e.destination_id",
    types: &[Type::INT8],
};

static DELETE: Sql = Sql {
    text: "UPDATE app.webhook_applications a SET deleted_at = app.webhook_now() WHERE a.id = $1",
    types: &[Type::INT8],
};

/// Removes the deleted applications to which no endpoint and no message belongs. Uses indexes webhook_applications_deleted,
/// webhook_endpoints_app and webhook_messages_app.
pub(crate) static REMOVE_DELETED: Sql = Sql {
    text: "
DELETE FROM app.webhook_applications a
WHERE a.deleted_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM app.webhook_endpoints e WHERE e.app_id = a.id)
      AND NOT EXISTS (SELECT FROM app.webhook_messages m WHERE m.app_id = a.id)",
    types: &[],
};

// Uses index webhook_applications_org.
list_by_number!(
    LIST,
    concat!(
        "SELECT ",
        application_columns!(),
        " FROM app.webhook_applications a WHERE a.org = $1 AND a.deleted_at IS NULL"
    ),
    "a.id",
    ascending,
    &[Type::TEXT, Type::INT8, Type::INT8]
);

fn parse(row: &Row) -> Result<Application, tokio_postgres::Error> {
    Ok(Application {
        id: ApplicationId(row.try_get(0)?),
        org: OrgId::from_stored(row.try_get(1)?),
        uid: row.try_get::<_, Option<String>>(2)?.map(Uid::from_stored),
        name: ApplicationName::from_stored(row.try_get(3)?),
        throttle: throttle_from_stored(row.try_get(4)?),
        metadata: metadata_from_stored(row.try_get(5)?),
        created_at: row.try_get::<_, PgTimestamp>(6)?.0,
        updated_at: row.try_get::<_, PgTimestamp>(7)?.0,
    })
}

pub(super) fn throttle_from_stored(per_second: Option<i32>) -> Option<Throttle> {
    per_second.and_then(|rate| Throttle::new(rate.into()).ok())
}

pub(super) fn throttle_to_store(throttle: Option<Throttle>) -> Option<i32> {
    throttle.map(|throttle| i32::try_from(throttle.per_second()).unwrap_or(i32::MAX))
}

pub(super) fn metadata_from_stored(json: &str) -> Metadata {
    let pairs: BTreeMap<String, String> = serde_json::from_str(json).unwrap_or_default();
    Metadata::from_stored(pairs)
}

pub(super) fn metadata_to_store(metadata: &Metadata) -> String {
    serde_json::to_string(metadata.pairs()).expect("a map of texts can be written as JSON")
}

/// Adds an application. Returns `None` if its uid is taken.
pub(super) async fn add(session: &Session, org: &OrgId, new: &NewApplication) -> Call<Option<Application>> {
    let (uid, throttle) = (new.uid.as_ref().map(Uid::as_str), throttle_to_store(new.throttle));
    let metadata = metadata_to_store(&new.metadata);
    let rows =
        session.query(&INSERT, &[&org.as_str(), &uid, &new.name.as_str(), &throttle, &metadata]).await?;
    Ok(rows.first().map(parse).transpose()?)
}

async fn select(session: &Session, id: ApplicationId) -> Call<Application> {
    let rows = session.query(&SELECT, &[&id.0]).await?;
    let row = rows.first().ok_or_else(|| app_not_found(&ApplicationRef::Id(id)))?;
    Ok(parse(row)?)
}

async fn create(
    session: &Session,
    org: &OrgId,
    new: &NewApplication,
    if_taken: IfTaken,
) -> Call<Created<Application>> {
    if let Some(value) = add(session, org, new).await? {
        return Ok(Created { value, is_new: true });
    }
    let uid = new.uid.clone().expect("only a uid can be taken");
    match if_taken {
        IfTaken::Refuse => Err(StoreError::UidTaken { uid: uid.to_string() }.into()),
        IfTaken::ReturnExisting => {
            let app = ApplicationRef::Uid(uid);
            let id = find_app(session, AppScope { org, app: &app }).await?;
            Ok(Created { value: select(session, id).await?, is_new: false })
        }
    }
}

async fn update(session: &Session, id: ApplicationId, change: &ApplicationChange) -> Call<Application> {
    let rows = session.query(&LOCK, &[&id.0]).await?;
    let before = parse(rows.first().ok_or_else(|| app_not_found(&ApplicationRef::Id(id)))?)?;
    let ApplicationChange { name, uid, throttle, metadata } = change.clone();
    let (name, uid) = (name.unwrap_or(before.name), uid.unwrap_or(before.uid));
    let (throttle, metadata) = (throttle.unwrap_or(before.throttle), metadata.unwrap_or(before.metadata));
    let uid = uid.as_ref().map(Uid::as_str);
    let metadata = metadata_to_store(&metadata);
    let updated = session
        .query(&UPDATE, &[&id.0, &uid, &name.as_str(), &throttle_to_store(throttle), &metadata])
        .await
        .map_err(|error| CallError::of_uid(error, uid))?;
    if throttle.is_some() != before.throttle.is_some() {
        session.query(&LIMIT_ENDPOINTS, &[&id.0, &throttle.is_some()]).await?;
    }
    Ok(parse(updated.first().expect("the application is locked"))?)
}

async fn put(
    session: &Session,
    org: &OrgId,
    app: &ApplicationRef,
    new: &NewApplication,
) -> Call<Created<Application>> {
    match find_app(session, AppScope { org, app }).await {
        Ok(id) => {
            let value = update(session, id, &ApplicationChange::from(new.clone())).await?;
            Ok(Created { value, is_new: false })
        }
        Err(CallError::Refused(not_found)) => {
            let Some(uid) = app.uid() else { return Err(not_found.into()) };
            let new = NewApplication { uid: new.uid.clone().or(Some(uid.clone())), ..new.clone() };
            create(session, org, &new, IfTaken::Refuse).await
        }
        Err(failed) => Err(failed),
    }
}

async fn delete(session: &Session, scope: AppScope<'_>, actor: &str) -> Call<()> {
    let id = find_app(session, scope).await?;
    if session.query(&LOCK, &[&id.0]).await?.is_empty() {
        return Err(app_not_found(scope.app).into());
    }
    for row in session.query(&ENDPOINTS, &[&id.0]).await? {
        endpoint_change::delete(session, DestinationId(row.try_get(0)?), actor).await?;
    }
    session.query(&DELETE, &[&id.0]).await?;
    Ok(())
}

#[async_trait]
impl Applications for PostgresStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewApplication,
        if_taken: IfTaken,
        answer: Option<&AnswerSlot<Created<Application>>>,
    ) -> Result<Created<Application>, StoreError> {
        let pool = &self.shared.sessions.operate;
        change_answered(pool, answer, async |session| create(session, org, new, if_taken).await).await
    }

    async fn put(
        &self,
        org: &OrgId,
        app: &ApplicationRef,
        new: &NewApplication,
    ) -> Result<Created<Application>, StoreError> {
        let pool = &self.shared.sessions.operate;
        let put = change(pool, async |session| put(session, org, app, new).await).await;
        self.shared.blocked.release_all();
        put
    }

    async fn get(&self, scope: AppScope<'_>) -> Result<Application, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let id = find_app(session, scope).await?;
            select(session, id).await
        })
        .await
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        change: &ApplicationChange,
    ) -> Result<Application, StoreError> {
        let updated = super::change(&self.shared.sessions.operate, async |session| {
            let id = find_app(session, scope).await?;
            update(session, id, change).await
        });
        let updated = updated.await;
        self.shared.blocked.release_all();
        updated
    }

    async fn delete(&self, scope: AppScope<'_>, actor: &str) -> Result<(), StoreError> {
        let pool = &self.shared.sessions.operate;
        change(pool, async |session| delete(session, scope, actor).await).await?;
        self.shared.committed_notices.notify();
        Ok(())
    }

    async fn list(
        &self,
        org: &OrgId,
        request: &ListRequest<ApplicationId>,
    ) -> Result<List<Application>, StoreError> {
        let query = PageQuery::new(&LIST, request, ApplicationId(i64::MIN));
        let listed = self.shared.sessions.operate.with(async |session| {
            let rows = session.query(query.sql, &[&org.as_str(), &query.bound.0, &query.rows_max]).await?;
            rows.iter().map(parse).collect::<Result<Vec<_>, _>>()
        });
        Ok(query.page(listed.await?))
    }
}
