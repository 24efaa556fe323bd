-- The outbox. Messages and events are inserted once and never updated. The table that holds an event's key defines its
-- state: in webhook_queue it is pending, in webhook_terminal_events it is delivered or failed. A settle deletes a narrow
-- row from one and inserts one into the other, and writes no index of webhook_events.

-- CREATE SCHEMA IF NOT EXISTS would require the CREATE privilege on the database even where the schema exists.
DO $$
BEGIN
    IF to_regnamespace('app') IS NULL THEN
        CREATE SCHEMA app;
    END IF;
END
$$;

-- The store's clock. Leases and delays are measured by it alone. PostgreSQL inlines the function, so that conditions on
-- it can use an index.
CREATE FUNCTION app.webhook_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS 'SELECT statement_timestamp()';

-- The queue position of a retry that is due at this time: microseconds since the epoch, far above every key that
-- webhook_event_key will reach.
CREATE FUNCTION app.webhook_retry_position(due_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS 'SELECT (extract(epoch FROM due_at) * 1000000)::bigint';

-- Keys of events. A key is also the queue position of a first attempt. Sessions must not cache numbers: discovery follows
-- positions in order.
CREATE SEQUENCE app.webhook_event_key AS bigint CACHE 1;

-- Draws the next key, after the transaction has got its id. A transaction without an id is in no snapshot: while it waits
-- for a lock, nothing would show that its key may still be committed.
CREATE FUNCTION app.webhook_next_event_key() RETURNS bigint
LANGUAGE sql VOLATILE
AS 'SELECT CASE WHEN pg_catalog.pg_current_xact_id() IS NOT NULL THEN pg_catalog.nextval(''app.webhook_event_key'') END';

-- What a producer published. Never updated.

CREATE TABLE app.webhook_messages (
    id                 uuid        NOT NULL,
    app_id             bigint      NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL,
    event_type         text        NOT NULL,
    content_type       text        NOT NULL,
    payment_request_id text,
    session_id         text,
    traceparent        text,
    payload            bytea
);
CREATE UNIQUE INDEX webhook_messages_id ON app.webhook_messages (id);
-- Compressing payloads costs more time on insert than it saves.
ALTER TABLE app.webhook_messages ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Destinations with what receivers and workers have reported about them. Half of each page stays empty, so that an update
-- finds space beside its row and writes no index.
CREATE TABLE app.webhook_destinations (
    id                    bigint      GENERATED ALWAYS AS IDENTITY,
    kind                  text        NOT NULL DEFAULT 'url',
    url                   text        NOT NULL,
    -- The later end of both pauses; infinity for a pause without end. Claims read only this column.
    paused_until          timestamptz,
    receiver_paused_at    timestamptz,
    receiver_paused_until timestamptz,
    operator_paused_at    timestamptz,
    operator_paused_until timestamptz, -- NULL: until an operator resumes the destination
    operator_paused_by    text,
    operator_pause_reason text,
    resumed_at            timestamptz,
    failing_since         timestamptz,
    created_at            timestamptz NOT NULL DEFAULT app.webhook_now(),
    -- Not NULL: maintenance is about to remove the destination. src/maintain/destinations.rs has the protocol.
    removal_xid           bigint
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_destinations_id ON app.webhook_destinations (id);
CREATE UNIQUE INDEX webhook_destinations_url ON app.webhook_destinations (url) WHERE kind = 'url';
CREATE INDEX webhook_destinations_paused ON app.webhook_destinations (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX webhook_destinations_failing ON app.webhook_destinations (id) WHERE failing_since IS NOT NULL;
CREATE INDEX webhook_destinations_resumed ON app.webhook_destinations (resumed_at) WHERE resumed_at IS NOT NULL;

-- The open circuits that workers report: the last report of each worker on a destination.
CREATE TABLE app.webhook_circuits (
    destination_id bigint      NOT NULL,
    worker         text        NOT NULL,
    since          timestamptz NOT NULL,
    next_probe_at  timestamptz NOT NULL,
    last_error     text,
    reported_at    timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX webhook_circuits_destination ON app.webhook_circuits (destination_id, worker);
CREATE INDEX webhook_circuits_expires_at ON app.webhook_circuits (expires_at);

-- Actions of operators on destinations.
CREATE TABLE app.webhook_destination_audit (
    id             bigint      GENERATED ALWAYS AS IDENTITY,
    destination_id bigint      NOT NULL,
    action         text        NOT NULL,
    actor          text        NOT NULL,
    at             timestamptz NOT NULL,
    paused_until   timestamptz, -- the planned end of a pause
    reason         text
);
CREATE INDEX webhook_destination_audit_destination ON app.webhook_destination_audit (destination_id, id);

-- One message to one destination: the immutable part of an event. Never updated.
CREATE TABLE app.webhook_events (
    id                 bigint      NOT NULL,
    app_id             bigint      NOT NULL DEFAULT 0,
    message_id         uuid        NOT NULL,
    destination_id     bigint      NOT NULL,
    created_at         timestamptz NOT NULL,
    max_attempts       integer     NOT NULL,
    event_id           text        NOT NULL,
    event_type         text        NOT NULL,
    webhook_id         text,
    payment_request_id text,
    session_id         text,
    -- The name of the producer's API key; NULL where it used none.
    stored_by          text
);
CREATE UNIQUE INDEX webhook_events_id ON app.webhook_events (id);
CREATE UNIQUE INDEX webhook_events_event_id ON app.webhook_events (event_id);
CREATE INDEX webhook_events_message_id ON app.webhook_events (message_id);
CREATE INDEX webhook_events_destination ON app.webhook_events (destination_id, id);

-- Pending events. A claim changes no indexed column, and the fillfactor leaves space on the page for the new versions of
-- all its rows: so a claim writes no index, even when it takes every row of a page.
CREATE TABLE app.webhook_queue (
    id                 bigint      NOT NULL,
    destination_id     bigint      NOT NULL,
    -- Order within the queue. First attempt: a number of webhook_event_key. Retry: webhook_retry_position of its due time.
    queue_position     bigint      NOT NULL,
    next_attempt_at    timestamptz NOT NULL,
    attempts           integer     NOT NULL DEFAULT 0,
    -- Size of the payload. A claim limits the payloads that it reads by this column, before it reads them.
    payload_bytes      integer     NOT NULL,
    last_attempted_at  timestamptz,
    last_error         text,
    manual_last_action text,
    manual_last_actor  text,
    manual_last_at     timestamptz,
    claims             integer     NOT NULL DEFAULT 0,
    lost_leases        integer     NOT NULL DEFAULT 0,
    updated_at         timestamptz NOT NULL,
    lease_until        timestamptz,
    lease_token        uuid,
    lease_claim        uuid,
    CONSTRAINT webhook_queue_lease_form CHECK (
        (lease_until IS NULL) = (lease_token IS NULL)
        AND (lease_until IS NULL) = (lease_claim IS NULL)
    )
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX webhook_queue_id ON app.webhook_queue (id);
-- Claims scan one range of this index per destination.
CREATE INDEX webhook_queue_destination_position ON app.webhook_queue (destination_id, queue_position);
-- Discovery scans this index: first attempts above the last position seen, and retries that have become due since.
CREATE INDEX webhook_queue_position ON app.webhook_queue (queue_position);

-- One row: no pending event has a smaller key than min_key. Queries for the oldest pending event start here and so skip
-- the dead index entries of events that were delivered since the last vacuum. Every sweep checks the row, and lowers it
-- if it is wrong.
CREATE TABLE app.webhook_pending_watermark (
    min_key bigint NOT NULL
);
INSERT INTO app.webhook_pending_watermark (min_key) VALUES (0);

-- Delivered and failed events. A failed event has a failure_kind, a delivered one has none.
CREATE TABLE app.webhook_terminal_events (
    id                    bigint      NOT NULL,
    updated_at            timestamptz NOT NULL,
    last_attempted_at     timestamptz,
    attempts              integer     NOT NULL,
    claims                integer     NOT NULL,
    lost_leases           integer     NOT NULL,
    failure_kind          text,
    last_error            text,
    manual_last_action    text,
    manual_last_actor     text,
    manual_last_at        timestamptz,
    manual_last_reason    text,
    -- Set by a trigger on failed events only, so that the index below lists the dead letters of a destination and a
    -- delivery pays for no further index.
    failed_destination_id bigint
);
CREATE UNIQUE INDEX webhook_terminal_events_id ON app.webhook_terminal_events (id);
CREATE INDEX webhook_terminal_events_failed ON app.webhook_terminal_events (id) WHERE failure_kind IS NOT NULL;
CREATE INDEX webhook_terminal_events_dead_letters ON app.webhook_terminal_events (updated_at, id)
WHERE failure_kind IS NOT NULL;
CREATE INDEX webhook_terminal_events_failed_destination ON app.webhook_terminal_events (failed_destination_id, id)
WHERE failure_kind IS NOT NULL;

CREATE FUNCTION app.webhook_set_failed_destination() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT e.destination_id INTO NEW.failed_destination_id FROM app.webhook_events e WHERE e.id = NEW.id;
    RETURN NEW;
END
$$;
CREATE TRIGGER webhook_terminal_events_failed_destination
BEFORE INSERT ON app.webhook_terminal_events
FOR EACH ROW WHEN (NEW.failure_kind IS NOT NULL) EXECUTE FUNCTION app.webhook_set_failed_destination();

-- One row per request whose result reached the store, one partition per day. The lease token is the attempt's public id. A
-- result whose lease had been lost was not applied: it changed nothing.
CREATE TABLE app.webhook_attempts (
    event_key      bigint      NOT NULL,
    destination_id bigint      NOT NULL,
    lease_token    uuid        NOT NULL,
    recorded_at    timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    duration_us    bigint      NOT NULL,
    attempt        integer     NOT NULL,
    http_status    smallint,
    trigger        text        NOT NULL,
    worker_id      text        NOT NULL,
    error_class    text,
    excerpt        text        NOT NULL,
    applied        boolean     NOT NULL DEFAULT true
) PARTITION BY RANGE (recorded_at);
CREATE INDEX webhook_attempts_event ON app.webhook_attempts (event_key);
-- Holds attempts of days without a partition, so that a settle does not fail for lack of one.
CREATE TABLE app.webhook_attempts_default PARTITION OF app.webhook_attempts DEFAULT;

-- One row per claim that was granted leases: the owner and the keys of the events. A repeated claim finds its leases here
-- by id; a sweep finds leases that may have expired by expiry_check_at, which is never later than the first expiry. The
-- leases themselves are in webhook_queue.
CREATE TABLE app.webhook_claims (
    id              uuid        NOT NULL,
    expiry_check_at timestamptz NOT NULL,
    -- Length of a lease in microseconds: the longest that the claim or a renewal has set.
    lease_us        bigint      NOT NULL,
    owner           text        NOT NULL,
    event_keys      bigint[]    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, toast_tuple_target = 8160);
CREATE UNIQUE INDEX webhook_claims_id ON app.webhook_claims (id);
CREATE INDEX webhook_claims_expiry_check_at ON app.webhook_claims (expiry_check_at);

-- Changes of the numbers of events by state, one row per commit. The sums of all rows are the numbers; maintenance merges
-- rows. A single row with the numbers would make every commit wait for the one before.
CREATE TABLE app.webhook_counts (
    pending   bigint NOT NULL DEFAULT 0,
    retrying  bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0 -- of the failed
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The notices of one commit per row. A reader assigns a row's position in the log after its commit, so that positions
-- follow the order of visibility and no open transaction delays a notice.
CREATE TABLE app.webhook_notices (
    id            bigint      GENERATED ALWAYS AS IDENTITY,
    position      bigint,
    at            timestamptz NOT NULL,
    event_keys    bigint[]    NOT NULL,
    failure_kinds text[]      NOT NULL, -- a NULL element: the event was delivered
    attempts      integer[]   NOT NULL
) WITH (fillfactor = 80, toast_tuple_target = 8160);
CREATE UNIQUE INDEX webhook_notices_id ON app.webhook_notices (id);
CREATE UNIQUE INDEX webhook_notices_position ON app.webhook_notices (position) WHERE position IS NOT NULL;
CREATE INDEX webhook_notices_without_position ON app.webhook_notices (id) WHERE position IS NULL;
CREATE SEQUENCE app.webhook_notice_position AS bigint CACHE 1;

-- The base of notice positions. PostgreSQL starts a new timeline with every failover and every restore of a physical backup;
-- each has its own range of positions, above those of earlier timelines. So a position is never used again, although the
-- sequence goes back when a failover loses commits. Where the timeline cannot be read, the base is always 0.
CREATE FUNCTION app.webhook_notice_position_base() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1) << 40;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END
$$;

-- Idempotency keys, each with the event ids of its first request.
CREATE TABLE app.webhook_idempotency (
    key         text        NOT NULL,
    fingerprint bytea       NOT NULL,
    expires_at  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    event_ids   text[]      NOT NULL
);
CREATE UNIQUE INDEX webhook_idempotency_key ON app.webhook_idempotency (key);
CREATE INDEX webhook_idempotency_expires_at ON app.webhook_idempotency (expires_at);

-- Actions of operators on events.
CREATE TABLE app.webhook_audit (
    id        bigint      GENERATED ALWAYS AS IDENTITY,
    event_key bigint      NOT NULL,
    action    text        NOT NULL,
    actor     text        NOT NULL,
    at        timestamptz NOT NULL,
    -- The operator's reason for a cancel or discard; NULL where none was given.
    reason    text,
    -- The idempotency key of the action. A repetition of the action under its key changes nothing.
    operation_key text
);
CREATE UNIQUE INDEX webhook_audit_id ON app.webhook_audit (id);
CREATE INDEX webhook_audit_event ON app.webhook_audit (event_key);
CREATE UNIQUE INDEX webhook_audit_operation ON app.webhook_audit (operation_key) WHERE operation_key IS NOT NULL;

-- Events that an operator discarded, as long as retention keeps them. Their rows in webhook_audit and webhook_notices stay,
-- under the same key. Their ids stay taken: a receiver that deduplicates by event id may have seen the discarded event, and
-- would ignore another event of the same id.
CREATE TABLE app.webhook_discarded_events (
    id                 bigint      NOT NULL, -- the key of the event
    discarded_at       timestamptz NOT NULL,
    event_id           text        NOT NULL,
    webhook_id         text,
    payment_request_id text,
    session_id         text
);
CREATE UNIQUE INDEX webhook_discarded_events_id ON app.webhook_discarded_events (id);
CREATE UNIQUE INDEX webhook_discarded_events_event_id ON app.webhook_discarded_events (event_id);
CREATE INDEX webhook_discarded_events_discarded_at ON app.webhook_discarded_events (discarded_at);

-- Raises an error if a producer's event id is that of a discarded event. The index of webhook_events refuses the ids of the
-- other events.
CREATE FUNCTION app.webhook_refuse_discarded_ids(event_ids text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    taken text;
BEGIN
    SELECT d.event_id INTO taken FROM app.webhook_discarded_events d WHERE d.event_id = ANY (event_ids) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'event_id "%" is taken', taken
            USING ERRCODE = 'unique_violation', HINT = 'Leave it out to have one made, or choose another.';
    END IF;
END
$$;

-- The instance's signing secrets, the newest with the largest id. Those that have not retired are valid together.
CREATE TABLE app.webhook_secrets (
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    secret     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT app.webhook_now(),
    created_by text,
    retires_at timestamptz
);
CREATE UNIQUE INDEX webhook_secrets_id ON app.webhook_secrets (id);

-- Every event with its state.
CREATE VIEW app.webhook_outbox_events AS
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
       x.manual_last_reason, e.stored_by
FROM app.webhook_events e
JOIN app.webhook_destinations d ON d.id = e.destination_id
LEFT JOIN app.webhook_queue q ON q.id = e.id
LEFT JOIN app.webhook_claims c ON c.id = q.lease_claim
LEFT JOIN app.webhook_terminal_events x ON x.id = e.id;

-- Returns the id of a URL's destination, inserting the destination if it is new. VOLATILE, so that each statement of the
-- function sees destinations that were committed after the calling statement began.
--
-- Maintenance must not remove the destination before the caller's transaction has ended. It waits for every transaction whose
-- id is older than the removal, so the transaction gets its id before it reads the destination. A transaction that sees the
-- removal announced locks the row, and so does one with a snapshot of its own, which may not see the announcement.
CREATE FUNCTION app.webhook_destination_id(wanted_url text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    found_id   bigint;
    must_lock  boolean;
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
    LOOP
        SELECT d.id, d.removal_xid IS NOT NULL OR pg_catalog.current_setting('transaction_isolation') <> 'read committed'
        INTO found_id, must_lock
        FROM app.webhook_destinations d
        WHERE d.kind = 'url' AND d.url = wanted_url;
        IF FOUND AND must_lock THEN
            SELECT d.id INTO found_id FROM app.webhook_destinations d WHERE d.id = found_id FOR KEY SHARE;
        END IF;
        IF FOUND THEN
            RETURN found_id;
        END IF;
        INSERT INTO app.webhook_destinations (url) VALUES (wanted_url)
        ON CONFLICT (url) WHERE kind = 'url' DO NOTHING
        RETURNING id INTO found_id;
        IF FOUND THEN
            RETURN found_id;
        END IF;
    END LOOP;
END
$$;
