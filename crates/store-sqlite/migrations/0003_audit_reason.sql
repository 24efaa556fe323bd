-- Why an operator cancelled, in their own words; NULL where they gave no reason, and before there was this column.

ALTER TABLE webhook_audit ADD COLUMN reason TEXT;

-- An event and its state under the usual names, for reading.
DROP VIEW webhook_outbox_events;
CREATE VIEW webhook_outbox_events AS
SELECT
    e.id                 AS id,
    e.app_id             AS app_id,
    e.event_id           AS event_id,
    e.message_id         AS message_id,
    e.webhook_id         AS webhook_id,
    e.destination_id     AS destination_id,
    d.url                AS destination_url,
    e.event_type         AS event_type,
    e.payment_request_id AS payment_request_id,
    e.session_id         AS session_id,
    CASE
        WHEN q.id IS NOT NULL THEN 'pending'
        WHEN f.id IS NOT NULL THEN 'failed'
        ELSE 'delivered'
    END                  AS delivery_status,
    f.failure_kind       AS failure_kind,
    coalesce(q.attempts, f.attempts, a.attempt)     AS attempts,
    e.max_attempts       AS max_attempts,
    coalesce(q.claims, f.claims, a.lease)           AS claims,
    coalesce(q.lost_leases, f.lost_leases, 0)       AS lost_leases,
    q.next_attempt_at    AS next_attempt_at,
    q.lease_token        AS lease_token,
    c.claim              AS lease_claim,
    c.owner              AS lease_owner,
    q.lease_until        AS lease_until,
    coalesce(q.last_error, f.last_error)            AS last_error,
    coalesce(q.last_attempted_at, f.last_attempted_at, a.started_at) AS last_attempted_at,
    a.recorded_at        AS delivered_at,
    m.action             AS manual_last_action,
    m.actor              AS manual_last_actor,
    m.at                 AS manual_last_at,
    e.created_at         AS created_at,
    coalesce(q.updated_at, f.updated_at, a.recorded_at) AS updated_at,
    m.reason             AS manual_last_reason
FROM webhook_events e
JOIN webhook_destinations d ON d.id = e.destination_id
LEFT JOIN webhook_queue q ON q.id = e.id
LEFT JOIN webhook_claims c ON c.id = q.lease_claim
LEFT JOIN webhook_failures f ON f.id = e.id
-- The attempt that delivered it, if it was.
LEFT JOIN webhook_attempts a
    ON q.id IS NULL AND f.id IS NULL AND a.event_key = e.id
    AND a.lease = (SELECT max(lease) FROM webhook_attempts WHERE event_key = e.id)
LEFT JOIN webhook_audit m
    ON m.id = (SELECT max(id) FROM webhook_audit WHERE event_key = e.id);
