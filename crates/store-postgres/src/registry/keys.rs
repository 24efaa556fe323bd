//! Keys and custom headers of destinations.

use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::signature::{DESTINATION_KEYS_MAX, KeyKind};
use posthaste_domain::{ApplicationId, DestinationId};
use posthaste_store::{
    DestinationAction, DestinationKey, DestinationProfile, NewKey, NewSecrets, Reseal, RotateKey, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Call;
use super::endpoint_change::record_audit;
use crate::StoreState;
use crate::convert::{PgTimestamp, micros};
use crate::session::{Session, Sql};

/// The kind of the row with the custom headers.
const HEADERS: &str = "headers";

/// The columns of a key `s` that [`parse_key`] reads.
macro_rules! key_columns {
    () => {
        "s.kind, s.id, s.sealed, s.created_at, s.created_by, s.retires_at"
    };
}

/// The condition under which the key `s` is valid.
macro_rules! is_valid_key {
    () => {
        "s.kind <> 'headers' AND (s.retires_at IS NULL OR s.retires_at > app.webhook_now())"
    };
}

static FIND_DESTINATION: Sql =
    Sql { text: "SELECT FROM app.webhook_destinations d WHERE d.id = $1", types: &[Type::INT8] };

static LOCK_DESTINATION: Sql =
    Sql { text: "SELECT FROM app.webhook_destinations d WHERE d.id = $1 FOR UPDATE", types: &[Type::INT8] };

/// Reads the valid keys of a destination, newest first. Uses index webhook_sealed_values_destination.
static VALID_KEYS: Sql = Sql {
    text: concat!(
        "SELECT ",
        key_columns!(),
        " FROM app.webhook_sealed_values s WHERE s.destination_id = $1 AND ",
        is_valid_key!(),
        " ORDER BY s.number DESC"
    ),
    types: &[Type::INT8],
};

/// Adds a sealed value. Does nothing if a value of the destination has the id.
static INSERT: Sql = Sql {
    text: "
INSERT INTO app.webhook_sealed_values (id, destination_id, kind, sealed, created_at, created_by)
VALUES ($1, $2, $3, $4, app.webhook_now(), $5)",
    types: &[Type::UUID, Type::INT8, Type::TEXT, Type::BYTEA, Type::TEXT],
};

static HAS_KEY: Sql = Sql {
    text: "SELECT FROM app.webhook_sealed_values s WHERE s.id = $1 AND s.destination_id = $2",
    types: &[Type::UUID, Type::INT8],
};

/// Removes the keys of a destination that have retired.
static REMOVE_RETIRED_OF: Sql = Sql {
    text: "DELETE FROM app.webhook_sealed_values s WHERE s.destination_id = $1 AND s.retires_at <= app.webhook_now()",
    types: &[Type::INT8],
};

/// Lets the newest key of a destination retire in $2 microseconds.
static RETIRE: Sql = Sql {
    text: "
UPDATE app.webhook_sealed_values s
SET retires_at = app.webhook_now() + $2 * interval '1 microsecond'
WHERE s.destination_id = $1 AND s.kind <> 'headers' AND s.retires_at IS NULL",
    types: &[Type::INT8, Type::INT8],
};

/// Raises the version of a destination's profile. Workers have read only versions above zero, so they are informed only of changes of
/// those.
static CHANGE_PROFILE: Sql = Sql {
    text: "
UPDATE app.webhook_destinations d
SET profile_version = d.profile_version + 1,
    profile_updated_at = CASE WHEN d.profile_version > 0 THEN app.webhook_now() END
WHERE d.id = $1",
    types: &[Type::INT8],
};

/// Reads the custom headers of a destination. Uses index webhook_sealed_values_headers.
static HEADERS_OF: Sql = Sql {
    text: "SELECT s.id, s.sealed FROM app.webhook_sealed_values s WHERE s.destination_id = $1 AND s.kind = 'headers'",
    types: &[Type::INT8],
};

static REMOVE_HEADERS: Sql = Sql {
    text: "DELETE FROM app.webhook_sealed_values s WHERE s.destination_id = $1 AND s.kind = 'headers'",
    types: &[Type::INT8],
};

/// Reads the profiles of destinations, with a row per key and per set of headers. Uses indexes webhook_destinations_id and
/// webhook_sealed_values_destination.
static PROFILES: Sql = Sql {
    text: concat!(
        "
SELECT ",
        key_columns!(),
        ", d.id, d.profile_version, nullif(d.app_id, 0)
FROM unnest($1::bigint[]) AS k (id)
JOIN app.webhook_destinations d ON d.id = k.id AND d.profile_version > 0
LEFT JOIN app.webhook_sealed_values s ON s.destination_id = d.id
    AND (s.kind = 'headers' OR ",
        is_valid_key!(),
        ")
ORDER BY d.id, s.number DESC"
    ),
    types: &[Type::INT8_ARRAY],
};

/// Reads sealed values by id. Uses index webhook_sealed_values_id.
static SEALED_VALUES: Sql = Sql {
    text: "
SELECT s.id, s.sealed
FROM app.webhook_sealed_values s
WHERE s.id > $1 OR $2
ORDER BY s.id
LIMIT $3",
    types: &[Type::UUID, Type::BOOL, Type::INT8],
};

/// Replaces the bytes of sealed values that have not changed.
static RESEAL: Sql = Sql {
    text: "
UPDATE app.webhook_sealed_values s
SET sealed = n.new
FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS n (id, old, new)
WHERE s.id = n.id AND s.sealed = n.old
RETURNING 1",
    types: &[Type::UUID_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};

/// Removes the keys that have retired. Uses index webhook_sealed_values_retires_at.
pub(crate) static REMOVE_RETIRED: Sql = Sql {
    text: "DELETE FROM app.webhook_sealed_values s WHERE s.retires_at <= app.webhook_now()",
    types: &[],
};

fn sealed(id: Uuid, bytes: Vec<u8>) -> SealedValue {
    SealedValue { id: SealedId::from_uuid(id), bytes }
}

/// Parses the columns of `key_columns!`.
fn parse_key(row: &Row) -> Result<DestinationKey, tokio_postgres::Error> {
    Ok(DestinationKey {
        kind: row.try_get::<_, &str>(0).map(KeyKind::from_name)?.unwrap_or(KeyKind::Hmac),
        sealed: sealed(row.try_get(1)?, row.try_get(2)?),
        created_at: row.try_get::<_, PgTimestamp>(3)?.0,
        created_by: row.try_get(4)?,
        retires_at: row.try_get::<_, Option<PgTimestamp>>(5)?.map(|PgTimestamp(at)| at),
    })
}

/// Refuses a destination that does not exist.
pub(super) async fn find_destination(session: &Session, id: DestinationId) -> Call<()> {
    match session.query(&FIND_DESTINATION, &[&id.0]).await?.is_empty() {
        true => Err(StoreError::DestinationNotFound { id: id.0 }.into()),
        false => Ok(()),
    }
}

async fn lock_destination(session: &Session, id: DestinationId) -> Call<()> {
    match session.query(&LOCK_DESTINATION, &[&id.0]).await?.is_empty() {
        true => Err(StoreError::DestinationNotFound { id: id.0 }.into()),
        false => Ok(()),
    }
}

/// Returns the valid keys of a destination, newest first.
pub(super) async fn valid(session: &Session, id: DestinationId) -> Call<Vec<DestinationKey>> {
    let rows = session.query(&VALID_KEYS, &[&id.0]).await?;
    Ok(rows.iter().map(parse_key).collect::<Result<_, _>>()?)
}

async fn insert(
    session: &Session,
    id: DestinationId,
    kind: &str,
    value: &SealedValue,
    by: Option<&str>,
) -> Call<()> {
    session.query(&INSERT, &[&value.id.as_uuid(), &id.0, &kind, &value.bytes, &by]).await?;
    Ok(())
}

/// Adds the secrets of a new endpoint.
pub(super) async fn add_first(session: &Session, id: DestinationId, secrets: &NewSecrets) -> Call<()> {
    let NewSecrets { key: NewKey { kind, sealed }, headers } = secrets;
    insert(session, id, kind.as_str(), sealed, None).await?;
    match headers {
        Some(headers) => insert(session, id, HEADERS, headers, None).await,
        None => Ok(()),
    }
}

/// Adds a key, and lets the newest one before it retire.
pub(super) async fn rotate(
    session: &Session,
    id: DestinationId,
    request: &RotateKey<'_>,
) -> Call<Vec<DestinationKey>> {
    lock_destination(session, id).await?;
    let NewKey { kind, sealed } = &request.key;
    if !session.query(&HAS_KEY, &[&sealed.id.as_uuid(), &id.0]).await?.is_empty() {
        return valid(session, id).await;
    }
    let before = valid(session, id).await?;
    if before.len() >= DESTINATION_KEYS_MAX {
        let next_retires_at = before.iter().filter_map(|key| key.retires_at).min();
        return Err(StoreError::TooManyKeys { next_retires_at }.into());
    }
    session.query(&REMOVE_RETIRED_OF, &[&id.0]).await?;
    session.query(&RETIRE, &[&id.0, &micros(request.grace.duration())]).await?;
    insert(session, id, kind.as_str(), sealed, Some(request.actor)).await?;
    session.query(&CHANGE_PROFILE, &[&id.0]).await?;
    record_audit(session, id, DestinationAction::RotateKey, request.actor, None).await?;
    valid(session, id).await
}

/// Returns the custom headers of a destination.
pub(super) async fn headers(session: &Session, id: DestinationId) -> Call<Option<SealedValue>> {
    let rows = session.query(&HEADERS_OF, &[&id.0]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(sealed(row.try_get(0)?, row.try_get(1)?)))
}

/// Replaces the custom headers of a destination, if they are still the expected ones.
pub(super) async fn set_headers(
    session: &Session,
    id: DestinationId,
    expected: Option<SealedId>,
    new: Option<&SealedValue>,
) -> Call<()> {
    lock_destination(session, id).await?;
    if headers(session, id).await?.map(|headers| headers.id) != expected {
        return Err(StoreError::Busy { reason: "another request has changed the headers" }.into());
    }
    session.query(&REMOVE_HEADERS, &[&id.0]).await?;
    if let Some(new) = new {
        insert(session, id, HEADERS, new, None).await?;
    }
    session.query(&CHANGE_PROFILE, &[&id.0]).await?;
    Ok(())
}

/// Returns the profiles of destinations, for a worker.
pub(super) async fn profiles(
    store: &StoreState,
    destinations: &[DestinationId],
) -> Result<Vec<DestinationProfile>, StoreError> {
    let ids: Vec<i64> = destinations.iter().map(|id| id.0).collect();
    let read = store.sessions.dispatch.with(async |session| {
        let mut profiles: Vec<DestinationProfile> = Vec::new();
        for row in session.transact(&PROFILES, &[&ids]).await? {
            let destination = DestinationId(row.try_get(6)?);
            if profiles.last().is_none_or(|last| last.destination != destination) {
                let (version, app) = (row.try_get(7)?, row.try_get::<_, Option<i64>>(8)?.map(ApplicationId));
                profiles.push(DestinationProfile {
                    destination,
                    app,
                    version,
                    keys: Vec::new(),
                    headers: None,
                });
            }
            let profile = profiles.last_mut().expect("a profile was just added");
            match row.try_get::<_, Option<&str>>(0)? {
                None => {}
                Some(HEADERS) => profile.headers = Some(sealed(row.try_get(1)?, row.try_get(2)?)),
                Some(_) => profile.keys.push(parse_key(&row)?),
            }
        }
        Ok(profiles)
    });
    read.await
}

/// Lists sealed values by id.
pub(super) async fn sealed_values(
    store: &StoreState,
    after: Option<SealedId>,
    limit: usize,
) -> Result<Vec<SealedValue>, StoreError> {
    let (bound, is_start) = (after.map_or(Uuid::nil(), SealedId::as_uuid), after.is_none());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let read = store.sessions.operate.with(async |session| {
        let rows = session.query(&SEALED_VALUES, &[&bound, &is_start, &limit]).await?;
        rows.iter().map(|row| Ok(sealed(row.try_get(0)?, row.try_get(1)?))).collect::<Result<Vec<_>, _>>()
    });
    read.await
}

/// Replaces the bytes of sealed values that have not changed. Returns how many it replaced.
pub(super) async fn reseal(store: &StoreState, values: &[Reseal]) -> Result<usize, StoreError> {
    let ids: Vec<Uuid> = values.iter().map(|value| value.old.id.as_uuid()).collect();
    let old: Vec<&[u8]> = values.iter().map(|value| &value.old.bytes[..]).collect();
    let new: Vec<&[u8]> = values.iter().map(|value| &value.new.bytes[..]).collect();
    let replaced = store
        .sessions
        .operate
        .with(async |session| Ok(session.transact(&RESEAL, &[&ids, &old, &new]).await?.len()));
    replaced.await
}
