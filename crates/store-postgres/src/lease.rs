//! Extending leases, and giving them back.

use std::time::Duration;

use futures_util::future::join;
use posthaste_domain::{EventKey, LeaseToken};
use posthaste_store::{HeldLease, StoreError};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Shared;
use crate::moment::micros;
use crate::session::Sql;

/// The queue by key, fenced by token. An expired lease that nobody took over is still its holder's to extend. A
/// heartbeat waits for nobody: a row that is locked is being settled, or taken over, which only an expired one can be.
static RENEW: Sql = Sql {
    text: "
WITH mine AS MATERIALIZED (
    SELECT q.id, q.lease_token, q.lease_until > app.webhook_now() AS living
    FROM unnest($1::bigint[], $2::uuid[]) AS h (key, token)
    JOIN app.webhook_queue q ON q.id = h.key AND q.lease_token = h.token
),
free AS MATERIALIZED (
    SELECT q.place
    FROM unnest($1::bigint[], $2::uuid[]) AS h (key, token)
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place
        FROM app.webhook_queue q
        WHERE q.id = h.key AND q.lease_token = h.token
        FOR UPDATE SKIP LOCKED
    ) q
),
renewed AS (
    UPDATE app.webhook_queue q
    SET lease_until = app.webhook_now() + $3 * interval '1 microsecond'
    FROM free f
    WHERE q.ctid = f.place
    RETURNING q.id, q.lease_token
)
SELECT id, lease_token FROM renewed
UNION
SELECT id, lease_token FROM mine WHERE living",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY, Type::INT8],
};

/// A claim is looked at when the first of its leases can have expired. That changes when it was found to have expired
/// leases and has them no more, and when leases are cut short.
static RENEWED_CLAIMS: Sql = Sql {
    text: "
UPDATE app.webhook_claims c
SET check_at = l.until
FROM (
    SELECT c.id, min(held.lease_until) AS until
    FROM (SELECT DISTINCT q.lease_claim FROM app.webhook_queue q WHERE q.id = ANY ($1)) r
    JOIN app.webhook_claims c ON c.id = r.lease_claim AND (
        c.check_at <= app.webhook_now() OR c.check_at > app.webhook_now() + $2 * interval '1 microsecond'
    )
    CROSS JOIN LATERAL unnest(c.keys) AS k (key)
    JOIN app.webhook_queue held ON held.id = k.key AND held.lease_claim = c.id
    GROUP BY c.id
) l
WHERE c.id = l.id",
    types: &[Type::INT8_ARRAY, Type::INT8],
};

/// Back into the line, at its end: what lies further up, other workers have passed. When it is due stays as it was.
static RELEASE: Sql = Sql {
    text: "
UPDATE app.webhook_queue q
SET turn = CASE WHEN q.attempts > 0 THEN app.webhook_turn_at(app.webhook_now())
                ELSE nextval('app.webhook_turn') END,
    updated_at = app.webhook_now(),
    lease_until = NULL, lease_token = NULL, lease_claim = NULL
FROM unnest($1::bigint[], $2::uuid[]) AS h (key, token)
WHERE q.id = h.key AND q.lease_token = h.token",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY],
};

/// Rows are locked in the order of their keys, whoever locks several: so nobody waits in a circle.
fn columns(held: &[HeldLease]) -> (Vec<i64>, Vec<Uuid>) {
    let mut held = held.to_vec();
    held.sort_unstable();
    held.iter().map(|held| (held.key.0, held.token.as_uuid())).unzip()
}

pub(crate) async fn renew(
    store: &Shared,
    held: &[HeldLease],
    lease: Duration,
) -> Result<Vec<HeldLease>, StoreError> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let (keys, tokens) = columns(held);
    let lease = micros(lease);
    let renewed = store.sessions.heartbeat.with(async |session| {
        let (renew, claims) = (session.prepare(&RENEW).await?, session.prepare(&RENEWED_CLAIMS).await?);
        let answers = session.transaction(async {
            let (renewed, noted) = join(
                session.send(&renew, &[&keys, &tokens, &lease]),
                session.send(&claims, &[&keys, &lease]),
            )
            .await;
            noted.and(renewed)
        });
        let mut renewed = Vec::new();
        for row in answers.await? {
            let token = LeaseToken::from_uuid(row.try_get(1)?);
            renewed.push(HeldLease { key: EventKey(row.try_get(0)?), token });
        }
        renewed.sort_unstable();
        Ok(renewed)
    });
    let renewed = renewed.await?;
    Ok(held.iter().filter(|held| renewed.binary_search(held).is_err()).copied().collect())
}

pub(crate) async fn release(store: &Shared, held: &[HeldLease]) -> Result<(), StoreError> {
    if held.is_empty() {
        return Ok(());
    }
    let (keys, tokens) = columns(held);
    store.sessions.dispatch.with(async |session| session.transact(&RELEASE, &[&keys, &tokens]).await).await?;
    store.granted.end(held.iter().map(|held| held.token));
    store.waker.wake();
    Ok(())
}
