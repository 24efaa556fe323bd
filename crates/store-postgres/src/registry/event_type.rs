//! Event types.

use std::collections::BTreeSet;

use async_trait::async_trait;
use posthaste_domain::{Description, EventTypeChange, EventTypeName, EventTypeSettings, NewEventType, OrgId};
use posthaste_store::{AnswerSlot, Created, EventType, EventTypes, List, ListRequest, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::change_answered;
use super::list::{ListSql, PageQuery};
use super::{Call, change, read};
use crate::PostgresStore;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// The columns of an event type `t` that [`parse`] reads.
macro_rules! event_type_columns {
    () => {
        "t.name, t.description, t.schemas, t.is_deprecated, t.group_name, t.feature_flags, t.archived_at, t.created_at, \
         t.updated_at"
    };
}

/// Reads an event type. Uses index webhook_event_types_name.
static SELECT: Sql = Sql {
    text: concat!(
        "SELECT ",
        event_type_columns!(),
        " FROM app.webhook_event_types t WHERE t.org = $1 AND t.name = $2"
    ),
    types: &[Type::TEXT, Type::TEXT],
};

/// Reads and locks an event type.
static LOCK: Sql = Sql {
    text: concat!(
        "SELECT ",
        event_type_columns!(),
        " FROM app.webhook_event_types t WHERE t.org = $1 AND t.name = $2 FOR UPDATE"
    ),
    types: &[Type::TEXT, Type::TEXT],
};

/// Adds an event type, or replaces the settings of an existing one: of an archived one only, unless $8. Returns no row if it
/// changed nothing. The last column tells whether it was added.
static UPSERT: Sql = Sql {
    text: concat!(
        "
INSERT INTO app.webhook_event_types AS t (
    org, name, description, schemas, is_deprecated, group_name, feature_flags, created_at, updated_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, app.webhook_now(), app.webhook_now())
ON CONFLICT (org, name) DO UPDATE
SET description = excluded.description, schemas = excluded.schemas, is_deprecated = excluded.is_deprecated,
    group_name = excluded.group_name, feature_flags = excluded.feature_flags, updated_at = excluded.updated_at,
    archived_at = NULL
WHERE $8 OR t.archived_at IS NOT NULL
RETURNING ",
        event_type_columns!(),
        ", t.xmax = 0"
    ),
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BOOL,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::BOOL,
    ],
};

/// Writes the settings of an event type. $8 tells whether it is archived; it keeps the time of its archiving.
static UPDATE: Sql = Sql {
    text: concat!(
        "
UPDATE app.webhook_event_types t
SET description = $3, schemas = $4, is_deprecated = $5, group_name = $6, feature_flags = $7, updated_at = app.webhook_now(),
    archived_at = CASE WHEN $8 THEN coalesce(t.archived_at, app.webhook_now()) END
WHERE t.org = $1 AND t.name = $2
RETURNING ",
        event_type_columns!()
    ),
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BOOL,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::BOOL,
    ],
};

static EXPUNGE: Sql = Sql {
    text: "DELETE FROM app.webhook_event_types t WHERE t.org = $1 AND t.name = $2 RETURNING 1",
    types: &[Type::TEXT, Type::TEXT],
};

/// Lists event types by name. Uses index webhook_event_types_name.
static LIST: ListSql = ListSql {
    forward: &Sql {
        text: concat!(
            "SELECT ",
            event_type_columns!(),
            " FROM app.webhook_event_types t WHERE t.org = $1 AND t.name > $2 AND ($4 OR t.archived_at IS NULL)
              ORDER BY t.name LIMIT $3"
        ),
        types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL],
    },
    backward: &Sql {
        text: concat!(
            "SELECT ",
            event_type_columns!(),
            " FROM app.webhook_event_types t WHERE t.org = $1 AND t.name < $2 AND ($4 OR t.archived_at IS NULL)
              ORDER BY t.name DESC LIMIT $3"
        ),
        types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL],
    },
};

fn parse(row: &Row) -> Result<EventType, tokio_postgres::Error> {
    Ok(EventType {
        name: EventTypeName::from_stored(row.try_get(0)?),
        settings: EventTypeSettings {
            description: Description::from_stored(row.try_get(1)?),
            schemas: row.try_get(2)?,
            is_deprecated: row.try_get(3)?,
            group_name: row.try_get(4)?,
            feature_flags: row.try_get::<_, Vec<String>>(5)?.into_iter().collect(),
        },
        archived_at: row.try_get::<_, Option<PgTimestamp>>(6)?.map(|PgTimestamp(at)| at),
        created_at: row.try_get::<_, PgTimestamp>(7)?.0,
        updated_at: row.try_get::<_, PgTimestamp>(8)?.0,
    })
}

fn not_found(name: &EventTypeName) -> StoreError {
    StoreError::EventTypeNotFound { name: name.clone() }
}

/// Runs [`UPSERT`] or [`UPDATE`], whose parameters are alike.
async fn write(
    session: &Session,
    sql: &Sql,
    org: &OrgId,
    name: &EventTypeName,
    settings: &EventTypeSettings,
    flag: bool,
) -> Call<Vec<Row>> {
    let EventTypeSettings { description, schemas, is_deprecated, group_name, feature_flags } = settings;
    let flags: Vec<&str> = feature_flags.iter().map(String::as_str).collect();
    let rows = session
        .query(
            sql,
            &[
                &org.as_str(),
                &name.as_str(),
                &description.as_str(),
                schemas,
                is_deprecated,
                group_name,
                &flags,
                &flag,
            ],
        )
        .await?;
    Ok(rows)
}

async fn update(
    session: &Session,
    org: &OrgId,
    name: &EventTypeName,
    change: &EventTypeChange,
) -> Call<EventType> {
    let rows = session.query(&LOCK, &[&org.as_str(), &name.as_str()]).await?;
    let before = parse(rows.first().ok_or_else(|| not_found(name))?)?;
    let EventTypeChange { description, schemas, is_archived, is_deprecated, group_name, feature_flags } =
        change.clone();
    let settings = EventTypeSettings {
        description: description.unwrap_or(before.settings.description),
        schemas: schemas.unwrap_or(before.settings.schemas),
        is_deprecated: is_deprecated.unwrap_or(before.settings.is_deprecated),
        group_name: group_name.unwrap_or(before.settings.group_name),
        feature_flags: feature_flags.unwrap_or(before.settings.feature_flags),
    };
    let is_archived = is_archived.unwrap_or(before.archived_at.is_some());
    let rows = write(session, &UPDATE, org, name, &settings, is_archived).await?;
    Ok(parse(rows.first().expect("the event type is locked"))?)
}

/// Returns which event types an organisation has not registered, by name. Archived types are registered.
pub(super) async fn unknown(
    session: &Session,
    org: &str,
    names: &BTreeSet<EventTypeName>,
) -> Call<Vec<String>> {
    static UNKNOWN: Sql = Sql {
        text: "
SELECT n.name
FROM unnest($2::text[]) WITH ORDINALITY AS n (name, number)
WHERE NOT EXISTS (SELECT FROM app.webhook_event_types t WHERE t.org = $1 AND t.name = n.name)
ORDER BY n.number",
        types: &[Type::TEXT, Type::TEXT_ARRAY],
    };
    let names: Vec<&str> = names.iter().map(EventTypeName::as_str).collect();
    let rows = session.query(&UNKNOWN, &[&org, &names]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

#[async_trait]
impl EventTypes for PostgresStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewEventType,
        answer: Option<&AnswerSlot<EventType>>,
    ) -> Result<EventType, StoreError> {
        change_answered(&self.shared.sessions.operate, answer, async |session| {
            let rows = write(session, &UPSERT, org, &new.name, &new.settings, false).await?;
            let taken = || StoreError::EventTypeTaken { name: new.name.clone() };
            Ok(parse(rows.first().ok_or_else(taken)?)?)
        })
        .await
    }

    async fn put(&self, org: &OrgId, new: &NewEventType) -> Result<Created<EventType>, StoreError> {
        change(&self.shared.sessions.operate, async |session| {
            let rows = write(session, &UPSERT, org, &new.name, &new.settings, true).await?;
            let row = rows.first().expect("the statement replaces an existing row");
            Ok(Created { value: parse(row)?, is_new: row.try_get(9)? })
        })
        .await
    }

    async fn get(&self, org: &OrgId, name: &EventTypeName) -> Result<EventType, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let rows = session.query(&SELECT, &[&org.as_str(), &name.as_str()]).await?;
            Ok(parse(rows.first().ok_or_else(|| not_found(name))?)?)
        })
        .await
    }

    async fn update(
        &self,
        org: &OrgId,
        name: &EventTypeName,
        change: &EventTypeChange,
    ) -> Result<EventType, StoreError> {
        let pool = &self.shared.sessions.operate;
        super::change(pool, async |session| update(session, org, name, change).await).await
    }

    async fn expunge(&self, org: &OrgId, name: &EventTypeName) -> Result<(), StoreError> {
        change(&self.shared.sessions.operate, async |session| {
            match session.query(&EXPUNGE, &[&org.as_str(), &name.as_str()]).await?.is_empty() {
                true => Err(not_found(name).into()),
                false => Ok(()),
            }
        })
        .await
    }

    async fn list(
        &self,
        org: &OrgId,
        include_archived: bool,
        request: &ListRequest<EventTypeName>,
    ) -> Result<List<EventType>, StoreError> {
        let query = PageQuery::new(&LIST, request, EventTypeName::from_stored(String::new()));
        let listed = self.shared.sessions.operate.with(async |session| {
            let bound = query.bound.as_str();
            let rows = session
                .query(query.sql, &[&org.as_str(), &bound, &query.rows_max, &include_archived])
                .await?;
            rows.iter().map(parse).collect::<Result<Vec<_>, _>>()
        });
        Ok(query.page(listed.await?))
    }
}
