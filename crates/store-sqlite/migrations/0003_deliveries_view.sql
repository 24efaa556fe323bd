-- View of the outbox as deliveries with the states `pending`, `failed`, `dead` and `delivered`. It accepts one write:
-- setting a dead row to `attempt_count = 0, status = 'pending'` requeues the event, as the API does. The same statement
-- may set `next_retry_at` to NULL or to the current time: the event becomes due now in any case.
--
-- SQLite counts no changed rows for a view, so changes() is 0 after a reset. `RETURNING id` lists the rows that were
-- reset.

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

CREATE TRIGGER webhook_deliveries_reject_insert INSTEAD OF INSERT ON webhook_deliveries
BEGIN
    SELECT RAISE(ABORT, 'webhook_deliveries does not accept INSERT: enqueue events through Posthaste');
END;

CREATE TRIGGER webhook_deliveries_reject_delete INSTEAD OF DELETE ON webhook_deliveries
BEGIN
    SELECT RAISE(ABORT, 'webhook_deliveries does not accept DELETE: discard the event; retention removes delivered events');
END;

CREATE TRIGGER webhook_deliveries_requeue INSTEAD OF UPDATE ON webhook_deliveries
BEGIN
    SELECT RAISE(ABORT, 'only a dead delivery can be reset: its status must be ''dead''')
    WHERE OLD.status <> 'dead';

    SELECT RAISE(ABORT, 'the only write through webhook_deliveries is SET attempt_count = 0, status = ''pending''; next_retry_at may be set to now or NULL')
    WHERE NEW.status IS NOT 'pending'
       OR NEW.attempt_count IS NOT 0
       OR NEW.id IS NOT OLD.id
       OR NEW.webhook_id IS NOT OLD.webhook_id
       OR NEW.session_id IS NOT OLD.session_id
       OR NEW.target_url IS NOT OLD.target_url
       OR NEW.last_attempted_at IS NOT OLD.last_attempted_at
       OR NEW.error_detail IS NOT OLD.error_detail
       OR NEW.created_at IS NOT OLD.created_at
       -- Now is within a minute: as text, or as seconds, milliseconds or microseconds since the epoch.
       OR abs(strftime('%s', 'now') - CASE
              WHEN NEW.next_retry_at IS NULL THEN strftime('%s', 'now')
              WHEN typeof(NEW.next_retry_at) = 'text' THEN coalesce(strftime('%s', NEW.next_retry_at), 0)
              WHEN NEW.next_retry_at > 100000000000000 THEN NEW.next_retry_at / 1000000
              WHEN NEW.next_retry_at > 100000000000 THEN NEW.next_retry_at / 1000
              ELSE NEW.next_retry_at
          END) > 60;

    -- Seconds and milliseconds are those of one instant, because 'now' does not change within a statement.
    INSERT INTO webhook_audit (event_key, action, actor, at)
    SELECT id, 'requeue', 'sql',
           strftime('%s', 'now') * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
    FROM webhook_events
    WHERE event_id = OLD.id;

    -- The timestamp is that of the audit row inserted above.
    INSERT INTO webhook_queue
        (id, destination_id, app_id, claims, next_attempt_at, updated_at, requeued_at, last_attempted_at)
    SELECT f.id, f.destination_id, e.app_id, f.claims, m.at, m.at, m.at, f.last_attempted_at
    FROM webhook_events e
    JOIN webhook_failures f ON f.id = e.id
    JOIN webhook_audit m ON m.id = (SELECT max(id) FROM webhook_audit WHERE event_key = e.id)
    WHERE e.event_id = OLD.id;

    -- Delete the consumed rows of the destination's queue: the event returns to a position among them, where its old
    -- row may still exist.
    DELETE FROM webhook_first_attempts
    WHERE destination_id = (SELECT destination_id FROM webhook_events WHERE event_id = OLD.id)
      AND id < (SELECT d.first_attempts_head FROM webhook_events e JOIN webhook_destinations d ON d.id = e.destination_id
                WHERE e.event_id = OLD.id);

    UPDATE webhook_destinations
    SET first_attempts_head = 0, first_attempts_consumed = 0
    WHERE id = (SELECT destination_id FROM webhook_events WHERE event_id = OLD.id);

    INSERT INTO webhook_first_attempts (destination_id, id, requeued_at)
    SELECT q.destination_id, q.id, q.requeued_at
    FROM webhook_events e
    JOIN webhook_queue q ON q.id = e.id
    WHERE e.event_id = OLD.id;

    UPDATE webhook_totals
    SET pending = pending + 1,
        failed = failed - 1,
        cancelled = cancelled - (SELECT f.failure_kind = 'cancelled'
                                 FROM webhook_events e JOIN webhook_failures f ON f.id = e.id
                                 WHERE e.event_id = OLD.id);

    DELETE FROM webhook_failures WHERE id = (SELECT id FROM webhook_events WHERE event_id = OLD.id);

    -- Maintenance cancels the event again if its endpoint is deleted.
    UPDATE webhook_endpoints
    SET is_cancelling = 1
    WHERE deleted_at IS NOT NULL
      AND destination_id = (SELECT destination_id FROM webhook_events WHERE event_id = OLD.id);
END;
