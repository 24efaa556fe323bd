-- What operators ask for: why somebody did what they did, and the dead letters of one destination.

-- Of a cancel, in the operator's own words; NULL where they gave none, and before there was this column.
ALTER TABLE app.webhook_audit ADD COLUMN reason text;

-- Beside manual_last_action. What is in the queue was not cancelled, and needs none.
ALTER TABLE app.webhook_endings ADD COLUMN manual_last_reason text;

-- An event with its state, whatever that is. Columns of a view are only ever added at its end.
CREATE OR REPLACE VIEW app.webhook_outbox_events AS
SELECT e.id, e.app_id, e.event_id, e.message_id, e.webhook_id, e.destination_id, d.url AS destination_url,
       e.event_type, e.payment_request_id, e.session_id,
       CASE WHEN q.id IS NOT NULL THEN 'pending'
            WHEN x.failure_kind IS NOT NULL THEN 'failed'
            WHEN x.id IS NOT NULL THEN 'delivered' END AS delivery_status,
       x.failure_kind,
       coalesce(q.attempts, x.attempts) AS attempts,
       e.max_attempts,
       coalesce(q.claims, x.claims) AS claims,
       coalesce(q.lost_leases, x.lost_leases) AS lost_leases,
       q.next_attempt_at, q.lease_token, c.owner AS lease_owner, q.lease_until,
       CASE WHEN q.id IS NOT NULL THEN q.last_error ELSE x.last_error END AS last_error,
       coalesce(q.last_attempted_at, x.last_attempted_at) AS last_attempted_at,
       CASE WHEN x.failure_kind IS NULL THEN x.updated_at END AS delivered_at,
       coalesce(q.manual_last_action, x.manual_last_action) AS manual_last_action,
       coalesce(q.manual_last_actor, x.manual_last_actor) AS manual_last_actor,
       coalesce(q.manual_last_at, x.manual_last_at) AS manual_last_at,
       e.created_at,
       coalesce(q.updated_at, x.updated_at) AS updated_at,
       x.manual_last_reason
FROM app.webhook_events e
JOIN app.webhook_destinations d ON d.id = e.destination_id
LEFT JOIN app.webhook_queue q ON q.id = e.id
LEFT JOIN app.webhook_claims c ON c.id = q.lease_claim
LEFT JOIN app.webhook_endings x ON x.id = e.id;

-- The destination of a failed event, so that its dead letters are found without stepping over everything that was
-- delivered there. Delivered ones have none: a delivery pays for no further index.
ALTER TABLE app.webhook_endings ADD COLUMN failed_destination_id bigint;
UPDATE app.webhook_endings x
SET failed_destination_id = e.destination_id
FROM app.webhook_events e
WHERE e.id = x.id AND x.failure_kind IS NOT NULL;
CREATE INDEX webhook_endings_failed_destination ON app.webhook_endings (failed_destination_id, id)
WHERE failure_kind IS NOT NULL;

-- Whoever writes a failed ending, also a worker that is a version behind.
CREATE FUNCTION app.webhook_failed_destination() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT e.destination_id INTO NEW.failed_destination_id FROM app.webhook_events e WHERE e.id = NEW.id;
    RETURN NEW;
END
$$;
CREATE TRIGGER webhook_endings_failed_destination
BEFORE INSERT ON app.webhook_endings
FOR EACH ROW WHEN (NEW.failure_kind IS NOT NULL) EXECUTE FUNCTION app.webhook_failed_destination();
