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

    INSERT INTO webhook_audit (event_key, action, actor, at)
    SELECT id, 'requeue', 'sql', CAST(unixepoch('subsec') * 1000000 AS INTEGER)
    FROM webhook_events
    WHERE event_id = OLD.id;

    -- As of the audit row that was just written.
    INSERT INTO webhook_queue
        (id, destination_id, claims, next_attempt_at, updated_at, requeued_at, last_attempted_at)
    SELECT f.id, f.destination_id, f.claims, m.at, m.at, m.at, f.last_attempted_at
    FROM webhook_events e
    JOIN webhook_failures f ON f.id = e.id
    JOIN webhook_audit m ON m.id = (SELECT max(id) FROM webhook_audit WHERE event_key = e.id)
    WHERE e.event_id = OLD.id;

    -- It goes to the front of its line, where it may have a spent row.
    DELETE FROM webhook_ready
    WHERE destination_id = (SELECT destination_id FROM webhook_events WHERE event_id = OLD.id)
      AND id < (SELECT d.ready_from FROM webhook_events e JOIN webhook_destinations d ON d.id = e.destination_id
                WHERE e.event_id = OLD.id);

    UPDATE webhook_destinations
    SET ready_from = 0, ready_spent = 0
    WHERE id = (SELECT destination_id FROM webhook_events WHERE event_id = OLD.id);

    INSERT INTO webhook_ready (destination_id, id, requeued_at)
    SELECT q.destination_id, q.id, q.requeued_at
    FROM webhook_events e
    JOIN webhook_queue q ON q.id = e.id
    WHERE e.event_id = OLD.id;

    DELETE FROM webhook_failures WHERE id = (SELECT id FROM webhook_events WHERE event_id = OLD.id);

    UPDATE webhook_totals SET failed = failed - 1, pending = pending + 1;
END;
