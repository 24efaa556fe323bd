-- The outbox. What never changes is written once and never updated; where an event is says what state it is in:
-- a row of webhook_queue is pending, a row of webhook_endings is delivered or failed. A settle so deletes a narrow row
-- and appends another, and no index of an event's identity is ever written again.

-- Even IF NOT EXISTS would ask for the right to create schemas, which whoever was given this one need not have.
DO $$
BEGIN
    IF to_regnamespace('app') IS NULL THEN
        CREATE SCHEMA app;
    END IF;
END
$$;

-- The store's clock: leases and delays are counted by this one alone. It is inlined, and an index can use it.
CREATE FUNCTION app.webhook_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS 'SELECT statement_timestamp()';

-- A moment as a turn of a retry: microseconds since the epoch, far above every number that webhook_turn will reach.
CREATE FUNCTION app.webhook_turn_at(moment timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS 'SELECT (extract(epoch FROM moment) * 1000000)::bigint';

-- Keys of events, and turns of first attempts. Never cached by a session: turns are followed in order.
CREATE SEQUENCE app.webhook_turn AS bigint CACHE 1;

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
-- Payloads are seldom worth the time that compressing takes on the way in.
ALTER TABLE app.webhook_messages ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE app.webhook_destinations (
    id            bigint      GENERATED ALWAYS AS IDENTITY,
    kind          text        NOT NULL DEFAULT 'url',
    url           text        NOT NULL,
    circuit       text,
    circuit_until timestamptz,
    paused_until  timestamptz,
    failing_since timestamptz,
    created_at    timestamptz NOT NULL DEFAULT app.webhook_now()
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_destinations_id ON app.webhook_destinations (id);
CREATE UNIQUE INDEX webhook_destinations_url ON app.webhook_destinations (url) WHERE kind = 'url';

-- One message to one destination. Never updated.
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
    session_id         text
);
CREATE UNIQUE INDEX webhook_events_id ON app.webhook_events (id);
CREATE UNIQUE INDEX webhook_events_event_id ON app.webhook_events (event_id);
CREATE INDEX webhook_events_message_id ON app.webhook_events (message_id);
CREATE INDEX webhook_events_destination ON app.webhook_events (destination_id, id);

-- Pending events. A claim changes no indexed column and finds room on the row's own page, though all rows of a page are
-- often claimed at once: so it writes no index.
CREATE TABLE app.webhook_queue (
    id                 bigint      NOT NULL,
    destination_id     bigint      NOT NULL,
    -- The place in line. First attempts: a number of webhook_turn. Retries: webhook_turn_at of when they are due.
    turn               bigint      NOT NULL,
    next_attempt_at    timestamptz NOT NULL,
    attempts           integer     NOT NULL DEFAULT 0,
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
-- What a claim walks, one range per destination that it asks for.
CREATE INDEX webhook_queue_destination_turn ON app.webhook_queue (destination_id, turn);
-- What discovery follows: first attempts above the last seen, retries that have become due since.
CREATE INDEX webhook_queue_turn ON app.webhook_queue (turn);

-- No pending event has a smaller key than this. Whoever looks for the oldest begins here, and not among the dead
-- index entries of everything that was delivered since the last vacuum.
CREATE TABLE app.webhook_oldest (
    key bigint NOT NULL
);
INSERT INTO app.webhook_oldest (key) VALUES (0);

-- Delivered and failed events; failed ones have a kind.
CREATE TABLE app.webhook_endings (
    id                 bigint      NOT NULL,
    updated_at         timestamptz NOT NULL,
    last_attempted_at  timestamptz,
    attempts           integer     NOT NULL,
    claims             integer     NOT NULL,
    lost_leases        integer     NOT NULL,
    failure_kind       text,
    last_error         text,
    manual_last_action text,
    manual_last_actor  text,
    manual_last_at     timestamptz
);
CREATE UNIQUE INDEX webhook_endings_id ON app.webhook_endings (id);
CREATE INDEX webhook_endings_failed ON app.webhook_endings (id) WHERE failure_kind IS NOT NULL;
CREATE INDEX webhook_endings_dead_letters ON app.webhook_endings (updated_at, id) WHERE failure_kind IS NOT NULL;

-- One row per recorded outcome, a partition per day. The token is the attempt's public id.
CREATE TABLE app.webhook_attempts (
    event_key      bigint      NOT NULL,
    destination_id bigint      NOT NULL,
    token          uuid        NOT NULL,
    recorded_at    timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    duration_us    bigint      NOT NULL,
    attempt        integer     NOT NULL,
    http_status    smallint,
    trigger        text        NOT NULL,
    worker         text        NOT NULL,
    error_class    text,
    excerpt        text        NOT NULL
) PARTITION BY RANGE (recorded_at);
CREATE INDEX webhook_attempts_event ON app.webhook_attempts (event_key);
-- Takes what no day has a partition for yet, so that a settle never fails for want of one.
CREATE TABLE app.webhook_attempts_other PARTITION OF app.webhook_attempts DEFAULT;

-- One row per claim that was granted something: where its leases are found again, by its id or once they may have
-- expired, and whose they are. The leases themselves are in the queue.
CREATE TABLE app.webhook_claims (
    id       uuid        NOT NULL,
    check_at timestamptz NOT NULL,
    owner    text        NOT NULL,
    keys     bigint[]    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, toast_tuple_target = 8160);
CREATE UNIQUE INDEX webhook_claims_id ON app.webhook_claims (id);
CREATE INDEX webhook_claims_check_at ON app.webhook_claims (check_at);

-- How each change changed the numbers of events by state. Their sums are the numbers; maintenance adds rows up.
CREATE TABLE app.webhook_counts (
    pending   bigint NOT NULL DEFAULT 0,
    retrying  bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The notices of one commit. A row gets its position in the log after its commit, when somebody reads, so that
-- positions are in the order of visibility and no transaction elsewhere holds a notice back.
CREATE TABLE app.webhook_notices (
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    position   bigint,
    at         timestamptz NOT NULL,
    event_keys bigint[]    NOT NULL,
    delivered  boolean[]   NOT NULL,
    attempts   integer[]   NOT NULL
) WITH (fillfactor = 80, toast_tuple_target = 8160);
CREATE UNIQUE INDEX webhook_notices_id ON app.webhook_notices (id);
CREATE UNIQUE INDEX webhook_notices_position ON app.webhook_notices (position) WHERE position IS NOT NULL;
CREATE INDEX webhook_notices_unplaced ON app.webhook_notices (id) WHERE position IS NULL;
CREATE SEQUENCE app.webhook_notice_position AS bigint CACHE 1;

CREATE TABLE app.webhook_idempotency (
    key         text        NOT NULL,
    fingerprint bytea       NOT NULL,
    forget_at   timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    event_ids   text[]      NOT NULL
);
CREATE UNIQUE INDEX webhook_idempotency_key ON app.webhook_idempotency (key);
CREATE INDEX webhook_idempotency_forget_at ON app.webhook_idempotency (forget_at);

CREATE TABLE app.webhook_audit (
    id        bigint      GENERATED ALWAYS AS IDENTITY,
    event_key bigint      NOT NULL,
    action    text        NOT NULL,
    actor     text        NOT NULL,
    at        timestamptz NOT NULL
);
CREATE UNIQUE INDEX webhook_audit_id ON app.webhook_audit (id);
CREATE INDEX webhook_audit_event ON app.webhook_audit (event_key);

-- The instance's signing secrets, several valid at once.
CREATE TABLE app.webhook_secrets (
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    secret     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT app.webhook_now(),
    retired_at timestamptz
);
CREATE UNIQUE INDEX webhook_secrets_id ON app.webhook_secrets (id);

-- An event with its state, whatever that is.
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
       coalesce(q.updated_at, x.updated_at) AS updated_at
FROM app.webhook_events e
JOIN app.webhook_destinations d ON d.id = e.destination_id
LEFT JOIN app.webhook_queue q ON q.id = e.id
LEFT JOIN app.webhook_claims c ON c.id = q.lease_claim
LEFT JOIN app.webhook_endings x ON x.id = e.id;

-- The destination of a URL, made when it is new. Volatile, so that it sees what committed a moment ago.
CREATE FUNCTION app.webhook_destination(wanted text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    found_id bigint;
BEGIN
    LOOP
        SELECT d.id INTO found_id FROM app.webhook_destinations d WHERE d.kind = 'url' AND d.url = wanted;
        IF FOUND THEN
            RETURN found_id;
        END IF;
        INSERT INTO app.webhook_destinations (url) VALUES (wanted)
        ON CONFLICT (url) WHERE kind = 'url' DO NOTHING
        RETURNING id INTO found_id;
        IF FOUND THEN
            RETURN found_id;
        END IF;
    END LOOP;
END
$$;
