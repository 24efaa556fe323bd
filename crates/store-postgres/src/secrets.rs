//! The instance's signing secrets. The table holds a handful of rows, so only its ids have an index.

use futures_util::future::join3;
use posthaste_domain::signature::Secret;
use posthaste_store::{RotateRequest, StoreError, StoredSecret, VALID_SECRETS_MAX};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::{PgTimestamp, micros};
use crate::operation::repeat_if_unavailable;
use crate::session::{Params, Sql};

/// Stores the first secret under id 0, which the identity column never generates. Of several processes that store a
/// first secret at the same time, one succeeds. Uses index webhook_secrets_id.
static INSERT_FIRST_SECRET: Sql = Sql {
    text: "
INSERT INTO app.webhook_secrets (id, secret)
OVERRIDING SYSTEM VALUE
SELECT 0, $1 WHERE NOT EXISTS (SELECT FROM app.webhook_secrets)
ON CONFLICT (id) DO NOTHING",
    types: &[Type::TEXT],
};

/// Reads the valid secrets, newest first.
static VALID_SECRETS: Sql = Sql {
    text: "
SELECT secret, created_at, created_by, retires_at
FROM app.webhook_secrets
WHERE retires_at IS NULL OR retires_at > app.webhook_now()
ORDER BY id DESC",
    types: &[],
};

/// Serialises rotations until the transaction ends, so that each sees what the one before it has committed.
static LOCK_ROTATION: Sql = Sql { text: "SELECT true FROM pg_advisory_xact_lock(7527, 0)", types: &[] };

/// Adds the secret $1 by the operator $2, lets the newest one before it retire in $3 microseconds, and removes the secrets
/// that have retired. Changes nothing if the secret is stored already, or if $4 secrets are valid.
static ROTATE: Sql = Sql {
    text: "
WITH rotation AS MATERIALIZED (
    SELECT app.webhook_now() AS at
    WHERE NOT EXISTS (SELECT FROM app.webhook_secrets s WHERE s.secret = $1)
          AND (SELECT count(*) FROM app.webhook_secrets s
               WHERE s.retires_at IS NULL OR s.retires_at > app.webhook_now()) < $4
),
removed AS (
    DELETE FROM app.webhook_secrets s USING rotation r WHERE s.retires_at <= r.at
),
retiring AS (
    UPDATE app.webhook_secrets s SET retires_at = r.at + $3 * interval '1 microsecond'
    FROM rotation r
    WHERE s.retires_at IS NULL
)
INSERT INTO app.webhook_secrets (secret, created_at, created_by) SELECT $1, at, $2 FROM rotation",
    types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::INT8],
};

/// Deletes the secrets that have retired.
pub(crate) static DELETE_RETIRED_SECRETS: Sql =
    Sql { text: "DELETE FROM app.webhook_secrets s WHERE s.retires_at <= app.webhook_now()", types: &[] };

/// Stores `first` if there is no secret.
pub(crate) async fn add_first_secret(store: &StoreState, first: &Secret) -> Result<(), StoreError> {
    let text = first.reveal();
    let inserted = store
        .sessions
        .produce
        .with(async |session| session.transact(&INSERT_FIRST_SECRET, &[&text.as_str()]).await);
    inserted.await.map(drop)
}

/// Returns the valid secrets, newest first.
pub(crate) async fn signing_secrets(store: &StoreState) -> Result<Vec<StoredSecret>, StoreError> {
    let rows = store.sessions.operate.with(async |session| session.query(&VALID_SECRETS, &[]).await).await?;
    rows.iter().map(parse_secret).collect()
}

/// Adds a secret, under a lock, and returns the valid ones. The call repeats itself if the connection fails: a secret that
/// is stored already is not added again.
pub(crate) async fn rotate_secret(
    store: &StoreState,
    request: RotateRequest<'_>,
) -> Result<Vec<StoredSecret>, StoreError> {
    let (text, grace) = (request.secret.reveal(), micros(request.grace.duration()));
    let text = text.as_str();
    let valid_max = i64::try_from(VALID_SECRETS_MAX).expect("a small constant");
    let rows = repeat_if_unavailable(|| {
        store.sessions.operate.with(async |session| {
            let lock = session.prepare(&LOCK_ROTATION).await?;
            let rotate = session.prepare(&ROTATE).await?;
            let read = session.prepare(&VALID_SECRETS).await?;
            let params: Params<'_> = &[&text, &request.actor, &grace, &valid_max];
            let statements =
                join3(session.send(&lock, &[]), session.send(&rotate, params), session.send(&read, &[]));
            session
                .transaction(async {
                    let (locked, rotated, valid) = statements.await;
                    locked.and(rotated).and(valid)
                })
                .await
        })
    });
    let valid: Vec<StoredSecret> = rows.await?.iter().map(parse_secret).collect::<Result<_, _>>()?;
    if valid.iter().any(|stored| stored.secret == *request.secret) {
        return Ok(valid);
    }
    let next_retires_at = valid.iter().filter_map(|stored| stored.retires_at).min();
    Err(StoreError::TooManySecrets { next_retires_at })
}

/// Parses a row of [`VALID_SECRETS`].
fn parse_secret(row: &Row) -> Result<StoredSecret, StoreError> {
    let unreadable = |error| StoreError::Rejected {
        reason: format!(
            "webhook_secrets contains a secret that is not valid: {error}; correct or delete that row"
        ),
    };
    Ok(StoredSecret {
        secret: Secret::parse(row.get(0)).map_err(unreadable)?,
        created_at: row.get::<_, PgTimestamp>(1).0,
        created_by: row.get(2),
        retires_at: row.get::<_, Option<PgTimestamp>>(3).map(|at| at.0),
    })
}
