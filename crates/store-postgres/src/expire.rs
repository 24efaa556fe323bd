//! Expiry: dead-letters events that have been pending for too long, a small step per call.

use posthaste_domain::{EventId, EventKey, Hold, TerminalState};
use posthaste_store::{ExpireRequest, ExpireResponse, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::micros;
use crate::fail::{insert_failures, insert_notices};
use crate::session::{Session, Sql};

/// Examines up to $3 pending events after the key $1, in key order, which is the order of creation. Uses index
/// webhook_queue_id, from the oldest-pending watermark on: above the dead index entries of delivered events.
pub(crate) static FIND_EXPIRED: Sql = Sql {
    text: "
WITH horizon AS (
    SELECT app.webhook_now() - $2 * interval '1 microsecond' AS at
),
examined AS MATERIALIZED (
    SELECT q.id, q.destination_id, q.claims, q.lease_until, q.last_error, q.requeued_at
    FROM app.webhook_queue q
    WHERE q.id > $1 AND q.id >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
    ORDER BY q.id
    LIMIT $3
)
SELECT x.id, x.claims, x.last_error, e.created_at <= h.at,
       coalesce(x.requeued_at, e.deliver_at, e.created_at) <= h.at AND coalesce(x.lease_until <= app.webhook_now(), true),
       coalesce(d.paused_until > app.webhook_now(), false),
       EXISTS (SELECT FROM app.webhook_circuits c
               WHERE c.destination_id = x.destination_id AND c.expires_at > app.webhook_now()),
       d.disabled_at IS NOT NULL
FROM horizon h, examined x
JOIN app.webhook_events e ON e.id = x.id
JOIN app.webhook_destinations d ON d.id = x.destination_id
ORDER BY x.id",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Moves events to their terminal state, with counts and notices, if they are as the walk found them: no lease was granted
/// since (`claims`), and no operator has requeued them since. Skips events that another transaction is changing; the next
/// walk finds them if they are still pending.
static EXPIRE_EVENTS: Sql = Sql {
    text: concat!(
        "
WITH found AS MATERIALIZED (
    SELECT q.id, g.failure_kind, g.last_error
    FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[]) AS g (key, claims, failure_kind, last_error)
    JOIN app.webhook_queue q ON q.id = g.key
    JOIN app.webhook_events e ON e.id = q.id
    WHERE q.claims = g.claims
          AND coalesce(q.requeued_at, e.deliver_at, e.created_at) <= app.webhook_now() - $5 * interval '1 microsecond'
          AND (q.lease_until IS NULL OR q.lease_until <= app.webhook_now())
    ORDER BY q.id
    FOR UPDATE OF q SKIP LOCKED
),
ended AS (
    DELETE FROM app.webhook_queue q
    USING found f
    WHERE q.id = f.id
    RETURNING q.id, q.destination_id, q.last_attempted_at, q.attempts, q.attempts > 0 AS was_retrying, q.claims,
              q.lost_leases, f.failure_kind, f.last_error AS failure_error
),",
        insert_failures!(),
        ",",
        insert_notices!("SELECT id AS key, failure_kind, attempts, id AS n FROM ended"),
        "
SELECT e.event_id FROM ended x JOIN app.webhook_events e ON e.id = x.id ORDER BY x.id"
    ),
    types: &[Type::INT8_ARRAY, Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8],
};

/// Dead-letters the expired events among the next `rows_max` pending events. Claims need not be notified: a claim that
/// names a row which is gone finds nothing, as after a cancel.
pub(crate) async fn expire(
    store: &StoreState,
    request: &ExpireRequest,
) -> Result<ExpireResponse, StoreError> {
    let response = store.sessions.operate.with(async |session| run_step(session, request).await).await?;
    if !response.expired.is_empty() {
        store.committed_notices.notify();
        store.blocked.release_all();
    }
    Ok(response)
}

async fn run_step(
    session: &Session,
    request: &ExpireRequest,
) -> Result<ExpireResponse, tokio_postgres::Error> {
    let after = request.after.map_or(i64::MIN, |key| key.0);
    let expire_after = micros(request.expire_after);
    let rows_max = i64::try_from(request.rows_max).unwrap_or(i64::MAX);
    let examined = session.transact(&FIND_EXPIRED, &[&after, &expire_after, &rows_max]).await?;
    let last = examined.last().filter(|_| examined.len() == request.rows_max);
    let next = match last {
        Some(last) if last.try_get(3)? => Some(EventKey(last.try_get(0)?)),
        _ => None,
    };
    let (mut keys, mut claims, mut states) = (Vec::<i64>::new(), Vec::<i32>::new(), Vec::new());
    for row in &examined {
        if row.try_get(4)? {
            keys.push(row.try_get(0)?);
            claims.push(row.try_get(1)?);
            states.push(terminal_state(row, request)?);
        }
    }
    if keys.is_empty() {
        return Ok(ExpireResponse { expired: Vec::new(), next });
    }
    let kinds: Vec<&str> = states.iter().map(|state| state.failure_kind().as_str()).collect();
    let errors: Vec<&str> = states.iter().map(TerminalState::last_error).collect();
    let rows = session.transact(&EXPIRE_EVENTS, &[&keys, &claims, &kinds, &errors, &expire_after]).await?;
    let expired =
        rows.iter().map(|row| Ok(EventId::from_stored(row.try_get(0)?))).collect::<Result<_, _>>()?;
    Ok(ExpireResponse { expired, next })
}

fn terminal_state(row: &Row, request: &ExpireRequest) -> Result<TerminalState, tokio_postgres::Error> {
    let hold = Hold::of_destination(row.try_get(7)?, row.try_get(5)?, row.try_get(6)?);
    Ok(TerminalState::expired(request.expire_after, row.try_get(2)?, hold))
}
