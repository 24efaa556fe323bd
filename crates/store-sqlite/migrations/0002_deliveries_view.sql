-- The outbox in the words `pending`, `failed`, `dead` and `delivered`. It is for reading, with one exception: whoever
-- sets a dead row back to `attempt_count = 0, status = 'pending'` requeues it, as the API would.

CREATE VIEW webhook_deliveries AS
SELECT
    event_id          AS id,
    webhook_id        AS webhook_id,
    session_id        AS session_id,
    destination_url   AS target_url,
    CASE
        WHEN delivery_status = 'delivered' THEN 'delivered'
        WHEN delivery_status = 'failed'    THEN 'dead'
        WHEN attempts > 0                  THEN 'failed'
        ELSE 'pending'
    END               AS status,
    attempts          AS attempt_count,
    last_attempted_at AS last_attempted_at,
    next_attempt_at   AS next_retry_at, -- NULL for dead and delivered
    last_error        AS error_detail,
    created_at        AS created_at
FROM webhook_outbox_events;

CREATE TRIGGER webhook_deliveries_insert INSTEAD OF INSERT ON webhook_deliveries
BEGIN
    SELECT RAISE(ABORT, 'webhook_deliveries takes no new rows: enqueue events through Posthaste');
END;

CREATE TRIGGER webhook_deliveries_delete INSTEAD OF DELETE ON webhook_deliveries
BEGIN
    SELECT RAISE(ABORT, 'webhook_deliveries gives up no rows: cancel the event; retention removes what was delivered');
END;

CREATE TRIGGER webhook_deliveries_update INSTEAD OF UPDATE ON webhook_deliveries
BEGIN
    SELECT RAISE(ABORT, 'only a dead delivery can be reset: its status must be ''dead''')
    WHERE OLD.status <> 'dead';

    SELECT RAISE(ABORT, 'the only write through webhook_deliveries is SET attempt_count = 0, status = ''pending''')
    WHERE NEW.status IS NOT 'pending'
       OR NEW.attempt_count IS NOT 0
       OR NEW.id IS NOT OLD.id
       OR NEW.webhook_id IS NOT OLD.webhook_id
       OR NEW.session_id IS NOT OLD.session_id
       OR NEW.target_url IS NOT OLD.target_url
       OR NEW.last_attempted_at IS NOT OLD.last_attempted_at
       OR NEW.next_retry_at IS NOT OLD.next_retry_at
       OR NEW.error_detail IS NOT OLD.error_detail
       OR NEW.created_at IS NOT OLD.created_at;

    UPDATE webhook_outbox_events
    SET delivery_status    = 'pending',
        failure_kind       = NULL,
        attempts           = 0,
        lost_leases        = 0,
        next_attempt_at    = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
        lease_token        = NULL,
        lease_claim        = NULL,
        lease_owner        = NULL,
        lease_until        = NULL,
        last_error         = NULL,
        manual_last_action = 'requeue',
        manual_last_actor  = 'sql',
        manual_last_at     = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
        updated_at         = CAST(unixepoch('subsec') * 1000000 AS INTEGER)
    WHERE event_id = OLD.id AND delivery_status = 'failed';

    INSERT INTO webhook_audit (event_key, action, actor, at)
    SELECT id, manual_last_action, manual_last_actor, manual_last_at
    FROM webhook_outbox_events
    WHERE event_id = OLD.id;

    UPDATE webhook_totals SET failed = failed - 1, pending = pending + 1;
END;
