//! Repeated claims: a worker that got no response claims again under the same id.

use tokio_postgres::types::Type;

use crate::session::Sql;

/// Extends the leases that the claim $1 still holds to the full length $2 and returns them. Uses index
/// webhook_claims_id, then the queue by key. A new claim pays one lookup in a small index.
pub(super) static REPEAT_CLAIM: Sql = Sql {
    text: "
WITH held AS (
    UPDATE app.webhook_queue q
    SET lease_until = app.webhook_now() + $2 * interval '1 microsecond'
    FROM (SELECT unnest(c.event_keys) AS key FROM app.webhook_claims c WHERE c.id = $1) k
    WHERE q.id = k.key AND q.lease_claim = $1
    RETURNING q.*
),
claim AS (
    UPDATE app.webhook_claims c
    SET expiry_check_at = app.webhook_now() + $2 * interval '1 microsecond'
    WHERE c.id = $1 AND EXISTS (SELECT FROM held)
)
SELECT 0::bigint, q.queue_position, q.id, q.lease_token, e.event_id, e.message_id, e.destination_id, d.url, e.event_type,
       m.content_type, m.payload, m.traceparent, q.attempts, e.max_attempts, q.manual_last_action,
       q.next_attempt_at, app.webhook_now()
FROM held q
JOIN app.webhook_events e ON e.id = q.id
JOIN app.webhook_destinations d ON d.id = e.destination_id
JOIN app.webhook_messages m ON m.id = e.message_id",
    types: &[Type::UUID, Type::INT8],
};
