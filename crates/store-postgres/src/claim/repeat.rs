//! Repeated claims: a worker that got no response claims again under the same id.

use posthaste_store::ClaimRequest;
use tokio_postgres::types::Type;

use super::grant::{parse_lease, parse_references};
use super::grant_sql::notice_references;
use super::granted::GrantedLeases;
use crate::convert::{bytes, micros};
use crate::session::{Params, Session, Sql};

/// Extends the leases that the claim of the request $1 still holds to the full length $2 and returns them. Keeps the largest
/// payload, and of the others the smallest that have at most $3 bytes together. Releases the leases on the others, which return to the
/// end of the queue, and reports in the last column whether there are any. Returns no payload of more than $4 bytes, only its size. Uses index webhook_claims_request, then the queue
/// by key.
pub(super) static REPEAT_CLAIM: Sql = Sql {
    text: concat!(
        "
WITH held AS MATERIALIZED (
    SELECT q.id, q.lease_claim,
           sum(q.payload_bytes) OVER (ORDER BY q.payload_bytes, q.id ROWS UNBOUNDED PRECEDING) <= $3
           OR row_number() OVER (ORDER BY q.payload_bytes DESC, q.id DESC) = 1 AS is_kept
    FROM (SELECT c.id AS claim, unnest(c.event_keys) AS key FROM app.webhook_claims c WHERE c.request_id = $1) k
    JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = k.claim
),
kept AS (
    UPDATE app.webhook_queue q
    SET lease_until = app.webhook_now() + $2 * interval '1 microsecond'
    FROM held h
    WHERE h.is_kept AND q.id = h.id AND q.lease_claim = h.lease_claim
    RETURNING q.*
),
released AS (
    UPDATE app.webhook_queue q
    SET queue_position = CASE WHEN q.attempts > 0 THEN app.webhook_retry_position(app.webhook_now())
                    ELSE app.webhook_next_event_key() END,
        updated_at = app.webhook_now(),
        lease_until = NULL, lease_claim = NULL
    FROM held h
    WHERE NOT h.is_kept AND q.id = h.id AND q.lease_claim = h.lease_claim
),
claim AS (
    UPDATE app.webhook_claims c
    SET expiry_check_at = app.webhook_now() + $2 * interval '1 microsecond',
        event_keys = ARRAY(SELECT k.id FROM kept k WHERE k.lease_claim = c.id)
    WHERE c.request_id = $1 AND EXISTS (SELECT FROM kept k WHERE k.lease_claim = c.id)
)
SELECT 0::bigint, q.queue_position, q.id, e.event_id, e.message_id, e.destination_id, d.url, e.event_type, e.content_type,
       CASE WHEN q.payload_bytes <= $4 THEN coalesce(e.payload, m.payload) END, e.traceparent, q.attempts, e.max_attempts,
       q.requeued_at IS NOT NULL, q.next_attempt_at, app.webhook_now(), q.payload_bytes,
       CASE WHEN e.message_key IS NULL THEN coalesce(e.replay_of, '') END,
       d.profile_version, q.lease_claim, ",
        notice_references!(),
        ",
       EXISTS (SELECT FROM held h WHERE NOT h.is_kept)
FROM kept q
JOIN app.webhook_events e ON e.id = q.id
JOIN app.webhook_destinations d ON d.id = e.destination_id
LEFT JOIN app.webhook_messages m ON m.key = e.message_key"
    ),
    types: &[Type::UUID, Type::INT8, Type::INT8, Type::INT8],
};

/// Returns the leases that the claim still holds, and whether leases whose payloads did not fit were released.
pub(super) async fn repeat_claim(
    session: &Session,
    request: &ClaimRequest,
) -> Result<(GrantedLeases, bool), tokio_postgres::Error> {
    let (claim, lease, payload_bytes_max) =
        (request.id.as_uuid(), micros(request.lease), bytes(request.payload_bytes_max));
    let inline_payload_bytes_max = bytes(request.inline_payload_bytes_max);
    let params: Params<'_> = &[&claim, &lease, &payload_bytes_max, &inline_payload_bytes_max];
    let rows = session.transact(&REPEAT_CLAIM, params).await?;
    let has_released = rows.first().map_or(Ok(false), |row| row.try_get(21))?;
    let mut leases = GrantedLeases::default();
    for row in &rows {
        leases.push(parse_lease(row.try_get(19)?, row)?, parse_references(row)?);
    }
    Ok((leases, has_released))
}
