//! A claim asked again, because its reply got lost.

use tokio_postgres::types::Type;

use crate::session::Sql;

/// The leases that are still this claim's own, at their full length again. Index webhook_claims_id, then the queue by
/// key: for a claim that is new, one look into a small index.
pub(super) static AGAIN: Sql = Sql {
    text: "
WITH held AS (
    UPDATE app.webhook_queue q
    SET lease_until = app.webhook_now() + $2 * interval '1 microsecond'
    FROM (SELECT unnest(c.keys) AS key FROM app.webhook_claims c WHERE c.id = $1) k
    WHERE q.id = k.key AND q.lease_claim = $1
    RETURNING q.*
),
noted AS (
    UPDATE app.webhook_claims c
    SET check_at = app.webhook_now() + $2 * interval '1 microsecond'
    WHERE c.id = $1 AND EXISTS (SELECT FROM held)
)
SELECT 0::bigint, q.turn, q.id, q.lease_token, e.event_id, e.message_id, e.destination_id, d.url, e.event_type,
       m.content_type, m.payload, m.traceparent, q.attempts, e.max_attempts, q.manual_last_action,
       q.next_attempt_at, app.webhook_now()
FROM held q
JOIN app.webhook_events e ON e.id = q.id
JOIN app.webhook_destinations d ON d.id = e.destination_id
JOIN app.webhook_messages m ON m.id = e.message_id",
    types: &[Type::UUID, Type::INT8],
};
