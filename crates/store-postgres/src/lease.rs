//! Lease renewal and release. `crates/engine/src/lease_protocol.md` explains why fencing by the lease token is enough.

use std::time::Duration;

use futures_util::future::join;
use posthaste_domain::EventKey;
use posthaste_store::{LeaseRef, StoreError};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::StoreState;
use crate::convert::{lease_claim, lease_token, micros};
use crate::expiry_check::reschedule_expiry_checks;
use crate::session::Sql;

/// Extends leases. Finds each event in the queue by key, fenced by the claim that holds the lease. Returns the leases that are still
/// held.
///
/// A holder may extend an expired lease that no worker has taken over. A renewal skips locked rows instead of waiting:
/// another statement is settling the event or taking its lease over. Only an expired lease can be taken over. So a
/// locked lease that has not expired counts as held, although it is not extended.
static RENEW_LEASES: Sql = Sql {
    text: "
WITH held AS MATERIALIZED (
    SELECT q.id, q.lease_claim, q.lease_until > app.webhook_now() AS is_live
    FROM unnest($1::bigint[], $2::uuid[]) AS h (key, claim)
    JOIN app.webhook_queue q ON q.id = h.key AND q.lease_claim = h.claim
),
unlocked AS MATERIALIZED (
    SELECT q.row_ctid
    FROM unnest($1::bigint[], $2::uuid[]) AS h (key, claim)
    CROSS JOIN LATERAL (
        SELECT q.ctid AS row_ctid
        FROM app.webhook_queue q
        WHERE q.id = h.key AND q.lease_claim = h.claim
        FOR UPDATE SKIP LOCKED
    ) q
),
renewed AS (
    UPDATE app.webhook_queue q
    SET lease_until = app.webhook_now() + $3 * interval '1 microsecond'
    FROM unlocked u
    WHERE q.ctid = u.row_ctid
    RETURNING q.id, q.lease_claim
)
SELECT id, lease_claim FROM renewed
UNION
SELECT id, lease_claim FROM held WHERE is_live",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY, Type::INT8],
};

/// Reschedules the expiry checks of the claims of the renewed events $1. Skips claims whose check lies between now and
/// the new expiry ($2 from now): an early check is harmless, so a usual renewal writes no claim. Records a longer lease.
static RESCHEDULE_RENEWED_CLAIMS: Sql = Sql {
    text: reschedule_expiry_checks!(
        "SELECT o.id
     FROM (SELECT DISTINCT q.lease_claim FROM app.webhook_queue q WHERE q.id = ANY ($1)) r
     JOIN app.webhook_claims o ON o.id = r.lease_claim AND (
         o.expiry_check_at <= app.webhook_now() OR o.expiry_check_at > app.webhook_now() + $2 * interval '1 microsecond'
         OR o.lease_us < $2
     )",
        ", lease_us = greatest(c.lease_us, $2)"
    ),
    types: &[Type::INT8_ARRAY, Type::INT8],
};

/// Returns events to the queue, at its end: discovery in other workers has passed their old position. The due time of
/// the event does not change.
static RELEASE_LEASES: Sql = Sql {
    text: "
UPDATE app.webhook_queue q
SET queue_position = CASE WHEN q.attempts > 0 THEN app.webhook_retry_position(app.webhook_now())
                ELSE app.webhook_next_event_key() END,
    updated_at = app.webhook_now(),
    lease_until = NULL, lease_claim = NULL
FROM unnest($1::bigint[], $2::uuid[]) AS h (key, claim)
WHERE q.id = h.key AND q.lease_claim = h.claim",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY],
};

/// Returns keys and the claims that granted the leases as parameters, in key order. Every statement that locks several rows locks them in key
/// order, which rules out deadlocks.
fn sorted_columns(held: &[LeaseRef]) -> (Vec<i64>, Vec<Uuid>) {
    let mut held = held.to_vec();
    held.sort_unstable();
    held.iter().map(|held| (held.key.0, lease_claim(held.token, held.key))).unzip()
}

/// Extends leases so that they expire `lease` from now. Returns the leases that the holder has lost.
pub(crate) async fn renew(
    store: &StoreState,
    held: &[LeaseRef],
    lease: Duration,
) -> Result<Vec<LeaseRef>, StoreError> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let (keys, claims) = sorted_columns(held);
    let lease = micros(lease);
    let renewed = store.sessions.heartbeat.with(async |session| {
        let (renew, reschedule) =
            (session.prepare(&RENEW_LEASES).await?, session.prepare(&RESCHEDULE_RENEWED_CLAIMS).await?);
        let rows = session.transaction(async {
            let (renewed, rescheduled) = join(
                session.send(&renew, &[&keys, &claims, &lease]),
                session.send(&reschedule, &[&keys, &lease]),
            )
            .await;
            rescheduled.and(renewed)
        });
        let mut renewed = Vec::new();
        for row in rows.await? {
            let key = EventKey(row.try_get(0)?);
            renewed.push(LeaseRef { key, token: lease_token(row.try_get(1)?, key) });
        }
        renewed.sort_unstable();
        Ok(renewed)
    });
    let renewed = renewed.await?;
    Ok(held.iter().filter(|held| renewed.binary_search(held).is_err()).copied().collect())
}

/// Ends leases without recording an attempt. Skips leases that the holder has lost.
pub(crate) async fn release(store: &StoreState, held: &[LeaseRef]) -> Result<(), StoreError> {
    if held.is_empty() {
        return Ok(());
    }
    let (keys, claims) = sorted_columns(held);
    store
        .sessions
        .dispatch
        .with(async |session| session.transact(&RELEASE_LEASES, &[&keys, &claims]).await)
        .await?;
    drop(store.outstanding.remove(held.iter().map(|held| held.token)));
    // The destinations of the leases are not known here.
    store.blocked.release_all();
    store.waker.wake();
    Ok(())
}
