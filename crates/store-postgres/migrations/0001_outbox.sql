-- The outbox. Events are inserted once and never updated. The table that holds an event's key defines its state: in
-- webhook_queue it is pending, in webhook_failures it is failed, and in neither it is delivered. A settle deletes a narrow
-- row of the queue, inserts the attempt, and writes no index of webhook_events.

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

-- Destinations with what receivers and workers have reported about them. Half of each page stays empty, so that an update
-- finds space beside its row and writes no index.
CREATE TABLE app.webhook_destinations (
    id                    bigint      GENERATED ALWAYS AS IDENTITY,
    -- 'url', or 'endpoint': a destination that is registered in webhook_endpoints.
    kind                  text        NOT NULL DEFAULT 'url',
    url                   text        NOT NULL,
    -- The application of an endpoint; 0 for a URL.
    app_id                bigint      NOT NULL DEFAULT 0,
    -- Grows with every change of URL, keys or headers; 0 if the destination has neither keys nor headers of its own.
    profile_version       bigint      NOT NULL DEFAULT 0,
    -- Whether claims must lock this row first: the destination is a line in FIFO order, or it or its application is throttled.
    is_limited            boolean     NOT NULL DEFAULT false,
    -- Whether an endpoint gets its events in FIFO order; NULL for a URL.
    is_fifo               boolean,
    -- The later end of both pauses; infinity for a pause without end, and while the endpoint is disabled. Claims read only
    -- this column.
    paused_until          timestamptz,
    receiver_paused_at    timestamptz,
    receiver_paused_until timestamptz,
    operator_paused_at    timestamptz,
    operator_paused_until timestamptz, -- NULL: until an operator resumes the destination
    operator_paused_by    text,
    operator_pause_reason text,
    resumed_at            timestamptz,
    -- When an operator last asked for a probe.
    probe_requested_at    timestamptz,
    failing_since         timestamptz,
    created_at            timestamptz NOT NULL DEFAULT app.webhook_now(),
    -- Not NULL: maintenance is about to remove the destination. src/maintain/destinations.rs has the protocol.
    removal_xid           bigint,
    -- The last change of URL, keys or headers.
    profile_updated_at    timestamptz,
    disabled_at           timestamptz,
    disabled_reason       text,
    throttle_per_second   integer,
    -- The bucket of the throttle is full again at this time.
    throttle_spent_until  timestamptz,
    -- The events of a line in FIFO order that claims have leased; some of them may have ended.
    line_leases           bigint[]
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_destinations_id ON app.webhook_destinations (id);
CREATE UNIQUE INDEX webhook_destinations_url ON app.webhook_destinations (url) WHERE kind = 'url';
CREATE INDEX webhook_destinations_paused ON app.webhook_destinations (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX webhook_destinations_failing ON app.webhook_destinations (id) WHERE failing_since IS NOT NULL;
CREATE INDEX webhook_destinations_resumed ON app.webhook_destinations (resumed_at) WHERE resumed_at IS NOT NULL;
CREATE INDEX webhook_destinations_probed ON app.webhook_destinations (probe_requested_at)
    WHERE probe_requested_at IS NOT NULL;
CREATE INDEX webhook_destinations_updated ON app.webhook_destinations (profile_updated_at)
    WHERE profile_updated_at IS NOT NULL;
CREATE INDEX webhook_destinations_disabled ON app.webhook_destinations (id) WHERE disabled_at IS NOT NULL;

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

-- One message to one destination: the immutable part of an event. Never updated. An event that was enqueued to a URL has its
-- own payload. An event of an endpoint has none: its payload is that of its message.
CREATE TABLE app.webhook_events (
    id                 bigint      NOT NULL,
    app_id             bigint      NOT NULL DEFAULT 0,
    destination_id     bigint      NOT NULL,
    created_at         timestamptz NOT NULL,
    message_id         uuid        NOT NULL,
    max_attempts       integer     NOT NULL,
    event_id           text        NOT NULL,
    event_type         text        NOT NULL,
    content_type       text        NOT NULL,
    webhook_id         text,
    payment_request_id text,
    session_id         text,
    traceparent        text,
    -- The name of the producer's API key; NULL where it used none.
    stored_by          text,
    -- The message in webhook_messages, of which this is an event; NULL for an event that was enqueued to a URL.
    message_key        bigint,
    -- When the first attempt was due, if that is later than the creation.
    deliver_at         timestamptz,
    -- The event_id of the delivered event that an operator sent once more with this event.
    replay_of          text,
    payload            bytea
);
-- Compressing payloads costs more time on insert than it saves.
ALTER TABLE app.webhook_events ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX webhook_events_id ON app.webhook_events (id);
CREATE UNIQUE INDEX webhook_events_event_id ON app.webhook_events (event_id);
CREATE INDEX webhook_events_destination ON app.webhook_events (destination_id, id);
-- Searches by a reference of the producer. Events without references have no entry. The webhook_id of an endpoint's event is the
-- id of the endpoint.
CREATE INDEX webhook_events_payment_request_id ON app.webhook_events (payment_request_id, id)
    WHERE payment_request_id IS NOT NULL;
CREATE INDEX webhook_events_session_id ON app.webhook_events (session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX webhook_events_webhook_id ON app.webhook_events (webhook_id, id) WHERE webhook_id IS NOT NULL AND app_id = 0;
CREATE INDEX webhook_events_message ON app.webhook_events (message_key, destination_id) WHERE message_key IS NOT NULL;

-- Pending events. A claim changes no indexed column, and the fillfactor leaves space on the page for the new versions of
-- all its rows: so a claim writes no index, even when it takes every row of a page. The columns that a claim changes come
-- last: PostgreSQL logs an updated row from its first changed byte on.
CREATE TABLE app.webhook_queue (
    id                 bigint      NOT NULL,
    destination_id     bigint      NOT NULL,
    -- Order within the queue. First attempt: a number of webhook_event_key. Retry: webhook_retry_position of its due time.
    queue_position     bigint      NOT NULL,
    next_attempt_at    timestamptz NOT NULL,
    -- Size of the payload. A claim limits the payloads that it reads by this column, before it reads them.
    payload_bytes      integer     NOT NULL,
    attempts           integer     NOT NULL DEFAULT 0,
    -- Whether the event waits in a line in FIFO order; NULL for an event that was enqueued to a URL.
    is_fifo            boolean,
    last_attempted_at  timestamptz,
    last_error         text,
    -- The last requeue or resend, which makes the event due and restarts its expiry.
    requeued_at        timestamptz,
    claims             integer     NOT NULL DEFAULT 0,
    lost_leases        integer     NOT NULL DEFAULT 0,
    updated_at         timestamptz NOT NULL,
    lease_until        timestamptz,
    -- The claim that holds the lease: the fence of every write on behalf of the lease.
    lease_claim        uuid,
    CONSTRAINT webhook_queue_lease_form CHECK ((lease_until IS NULL) = (lease_claim IS NULL))
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX webhook_queue_id ON app.webhook_queue (id);
-- Claims scan one range of this index per destination.
CREATE INDEX webhook_queue_destination_position ON app.webhook_queue (destination_id, queue_position);
-- Discovery scans webhook_queue_id for new events, whose position is their key, and this index for the others: retries that
-- have become due, and events that were released or requeued. So a new event has no entry in this index.
CREATE INDEX webhook_queue_position ON app.webhook_queue (queue_position) WHERE queue_position <> id;
-- Lines in FIFO order. Events of other destinations have no entry.
CREATE INDEX webhook_queue_line ON app.webhook_queue (destination_id, id) WHERE is_fifo;

-- One row: no pending event has a smaller key than min_key. Queries for the oldest pending event start here and so skip
-- the dead index entries of events that were delivered since the last vacuum. Every sweep checks the row, and lowers it
-- if it is wrong.
CREATE TABLE app.webhook_pending_watermark (
    min_key bigint NOT NULL
);
INSERT INTO app.webhook_pending_watermark (min_key) VALUES (0);

-- Failed events.
CREATE TABLE app.webhook_failures (
    id                bigint      NOT NULL,
    destination_id    bigint      NOT NULL,
    updated_at        timestamptz NOT NULL,
    last_attempted_at timestamptz,
    attempts          integer     NOT NULL,
    claims            integer     NOT NULL,
    lost_leases       integer     NOT NULL,
    failure_kind      text        NOT NULL,
    last_error        text
);
CREATE UNIQUE INDEX webhook_failures_id ON app.webhook_failures (id);
CREATE INDEX webhook_failures_updated_at ON app.webhook_failures (updated_at, id);
CREATE INDEX webhook_failures_destination ON app.webhook_failures (destination_id, id);

-- The lease token of an event: the id of the claim that granted the lease, with the event's key in its upper half. So one
-- random id per claim makes a token that no other lease of any event has.
CREATE FUNCTION app.webhook_lease_token(claim uuid, key bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
    SELECT encode(
        int8send(('x' || encode(substring(uuid_send(claim) FOR 8), 'hex'))::bit(64)::bigint # key)
        || substring(uuid_send(claim) FROM 9),
        'hex'
    )::uuid
$$;

-- One row per request whose result reached the store, one partition per day. webhook_lease_token of the claim and the key
-- is the attempt's public id. A result whose lease had been lost was not applied: it changed nothing.
CREATE TABLE app.webhook_attempts (
    event_key       bigint      NOT NULL,
    lease_claim     uuid        NOT NULL,
    recorded_at     timestamptz NOT NULL,
    started_at      timestamptz NOT NULL,
    duration_us     bigint      NOT NULL,
    attempt         integer     NOT NULL,
    -- The claims of the event, on the attempt that delivered it; NULL on every other attempt. A delivered event has no
    -- other row than this one that says when it was delivered.
    delivery_claims integer,
    http_status     smallint,
    applied         boolean     NOT NULL DEFAULT true,
    trigger         text        NOT NULL,
    worker_id       text        NOT NULL,
    error_class     text,
    -- The destination, if it is an endpoint; NULL for a URL.
    endpoint_id     bigint,
    excerpt         text        NOT NULL
) PARTITION BY RANGE (recorded_at);
CREATE INDEX webhook_attempts_event ON app.webhook_attempts (event_key);
CREATE INDEX webhook_attempts_endpoint ON app.webhook_attempts (endpoint_id, recorded_at, event_key)
    WHERE endpoint_id IS NOT NULL;
-- Holds attempts of days without a partition, so that a settle does not fail for lack of one.
CREATE TABLE app.webhook_attempts_default PARTITION OF app.webhook_attempts DEFAULT;

-- One row per statement that granted leases: the owner and the keys of the events. The id is random and new for every
-- grant, and is the fence of its leases. A repeated claim finds its leases here by the id of its request; a sweep finds leases that may have expired by expiry_check_at, which is never later than the first expiry. The
-- leases themselves are in webhook_queue.
CREATE TABLE app.webhook_claims (
    id              uuid        NOT NULL,
    expiry_check_at timestamptz NOT NULL,
    -- Length of a lease in microseconds: the longest that the claim or a renewal has set.
    lease_us        bigint      NOT NULL,
    owner           text        NOT NULL,
    -- The id of the worker's claim request; NULL for leases that were granted with the insert of their events.
    request_id      uuid,
    event_keys      bigint[]    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, toast_tuple_target = 8160);
CREATE UNIQUE INDEX webhook_claims_id ON app.webhook_claims (id);
CREATE INDEX webhook_claims_request ON app.webhook_claims (request_id) WHERE request_id IS NOT NULL;
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
    -- A NULL element: the event was delivered. endpoint_disabled: and a reason: its result disabled the endpoint.
    failure_kinds text[]      NOT NULL,
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
    app_id             bigint      NOT NULL,
    destination_id     bigint      NOT NULL,
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

-- Applications: the tenants of an organisation, each with endpoints and messages of its own. A deleted application stays while
-- endpoints or messages of it exist.
CREATE TABLE app.webhook_applications (
    id                   bigint      GENERATED ALWAYS AS IDENTITY,
    org                  text        NOT NULL,
    uid                  text,
    name                 text        NOT NULL,
    throttle_per_second  integer,
    throttle_spent_until timestamptz,
    metadata             text        NOT NULL,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    deleted_at           timestamptz
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_applications_id ON app.webhook_applications (id);
CREATE UNIQUE INDEX webhook_applications_uid ON app.webhook_applications (org, uid)
    WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX webhook_applications_org ON app.webhook_applications (org, id) WHERE deleted_at IS NULL;
CREATE INDEX webhook_applications_deleted ON app.webhook_applications (id) WHERE deleted_at IS NOT NULL;

-- What an endpoint has beside its row in webhook_destinations. A deleted endpoint stays while events of it exist.
CREATE TABLE app.webhook_endpoints (
    destination_id bigint      NOT NULL,
    app_id         bigint      NOT NULL,
    uid            text,
    description    text        NOT NULL,
    event_types    text[],     -- NULL: all
    channels       text[],     -- NULL: messages on any channel and on none
    metadata       text        NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    deleted_at     timestamptz
);
CREATE UNIQUE INDEX webhook_endpoints_destination ON app.webhook_endpoints (destination_id);
CREATE UNIQUE INDEX webhook_endpoints_uid ON app.webhook_endpoints (app_id, uid)
    WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX webhook_endpoints_app ON app.webhook_endpoints (app_id, destination_id);
CREATE INDEX webhook_endpoints_deleted ON app.webhook_endpoints (destination_id) WHERE deleted_at IS NOT NULL;

-- What a publish reads: one row per event type and channel of an endpoint that is not deleted. The type * stands for all types,
-- an empty channel for messages on any channel and on none.
CREATE TABLE app.webhook_subscriptions (
    app_id         bigint NOT NULL,
    event_type     text   NOT NULL,
    channel        text   NOT NULL,
    destination_id bigint NOT NULL
);
CREATE UNIQUE INDEX webhook_subscriptions_match
    ON app.webhook_subscriptions (app_id, event_type, channel, destination_id);
CREATE INDEX webhook_subscriptions_destination ON app.webhook_subscriptions (destination_id);

-- One row per endpoint. A transaction that adds events to a line in FIFO order locks its row before it draws their keys, so the
-- keys of a line are in the order of commits. Workers never lock these rows.
CREATE TABLE app.webhook_fifo_lines (
    destination_id bigint NOT NULL
);
CREATE UNIQUE INDEX webhook_fifo_lines_destination ON app.webhook_fifo_lines (destination_id);

-- The registered event types of organisations.
CREATE TABLE app.webhook_event_types (
    org           text        NOT NULL,
    name          text        NOT NULL COLLATE "C",
    description   text        NOT NULL,
    schemas       text,
    is_deprecated boolean     NOT NULL,
    group_name    text,
    feature_flags text[]      NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    archived_at   timestamptz
);
CREATE UNIQUE INDEX webhook_event_types_name ON app.webhook_event_types (org, name);

-- Messages that were published to the endpoints of an application, each with its payload. An event that was enqueued to a URL
-- has no row here.
CREATE TABLE app.webhook_messages (
    key                bigint      GENERATED ALWAYS AS IDENTITY,
    app_id             bigint      NOT NULL,
    id                 uuid        NOT NULL,
    created_at         timestamptz NOT NULL,
    -- When the first attempt is due, if that is later than the creation.
    deliver_at         timestamptz,
    payload_expires_at timestamptz NOT NULL,
    payload_bytes      integer     NOT NULL,
    max_attempts       integer     NOT NULL,
    event_type         text        NOT NULL,
    content_type       text        NOT NULL,
    uid                text,
    channels           text[],     -- NULL: none
    tags               text[],     -- NULL: none
    payment_request_id text,
    session_id         text,
    traceparent        text,
    stored_by          text,
    payload            bytea       -- NULL: removed
);
ALTER TABLE app.webhook_messages ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX webhook_messages_key ON app.webhook_messages (key);
CREATE UNIQUE INDEX webhook_messages_id ON app.webhook_messages (id);
CREATE UNIQUE INDEX webhook_messages_uid ON app.webhook_messages (app_id, uid) WHERE uid IS NOT NULL;
CREATE INDEX webhook_messages_app ON app.webhook_messages (app_id, key);
CREATE INDEX webhook_messages_expiry ON app.webhook_messages (payload_expires_at) WHERE payload IS NOT NULL;

-- The size of an event's payload: of its own, or of that of its message. 0 if it was removed.
CREATE FUNCTION app.webhook_payload_bytes(payload bytea, message_key bigint) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT coalesce(
        octet_length(payload),
        (SELECT m.payload_bytes FROM app.webhook_messages m WHERE m.key = message_key AND m.payload IS NOT NULL),
        0
    )
$$;

-- Keys and custom headers of destinations, sealed: hmac and ed25519 are kinds of keys, headers the custom headers.
CREATE TABLE app.webhook_sealed_values (
    id             uuid        NOT NULL,
    -- The newest key has the largest number.
    number         bigint      GENERATED ALWAYS AS IDENTITY,
    destination_id bigint      NOT NULL,
    kind           text        NOT NULL,
    sealed         bytea       NOT NULL,
    created_at     timestamptz NOT NULL,
    created_by     text,
    retires_at     timestamptz
);
CREATE UNIQUE INDEX webhook_sealed_values_id ON app.webhook_sealed_values (id);
CREATE INDEX webhook_sealed_values_destination ON app.webhook_sealed_values (destination_id, number);
CREATE UNIQUE INDEX webhook_sealed_values_headers ON app.webhook_sealed_values (destination_id) WHERE kind = 'headers';
CREATE INDEX webhook_sealed_values_retires_at ON app.webhook_sealed_values (retires_at) WHERE retires_at IS NOT NULL;

-- Background operations on the events of endpoints.
CREATE TABLE app.webhook_operations (
    id              bigint      GENERATED ALWAYS AS IDENTITY,
    app_id          bigint      NOT NULL,
    destination_id  bigint      NOT NULL,
    kind            text        NOT NULL,
    state           text        NOT NULL,
    since           timestamptz NOT NULL,
    until           timestamptz NOT NULL,
    rate_per_second integer     NOT NULL,
    -- The bucket of the rate is full again at this time.
    spent_until     timestamptz,
    -- The key of the last event or message that was examined.
    cursor_key      bigint      NOT NULL DEFAULT 0,
    examined_count  bigint      NOT NULL DEFAULT 0,
    done_count      bigint      NOT NULL DEFAULT 0,
    actor           text        NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_operations_id ON app.webhook_operations (id);
CREATE INDEX webhook_operations_running ON app.webhook_operations (id) WHERE state = 'running';
CREATE INDEX webhook_operations_updated_at ON app.webhook_operations (updated_at) WHERE state <> 'running';

-- Bulk operations on failed events. The conditions of the filter that are NULL select every event.
CREATE TABLE app.webhook_bulk_operations (
    id                  bigint      GENERATED ALWAYS AS IDENTITY,
    action              text        NOT NULL,
    state               text        NOT NULL,
    filter_url          text,
    filter_endpoint     bigint,
    filter_app          bigint,
    filter_event_type   text,
    filter_failure_kind text,
    filter_error        text,
    filter_since        timestamptz,
    filter_until        timestamptz NOT NULL,
    rate_per_second     integer     NOT NULL,
    -- The bucket of the rate is full again at this time.
    spent_until         timestamptz,
    -- The key of the last failed event that was examined.
    cursor_key          bigint      NOT NULL DEFAULT 0,
    matched_count       bigint      NOT NULL,
    is_matched_exact    boolean     NOT NULL,
    examined_count      bigint      NOT NULL DEFAULT 0,
    done_count          bigint      NOT NULL DEFAULT 0,
    reason              text,
    actor               text        NOT NULL,
    stopped_by          text,
    -- Names the request that started the operation.
    request_key         text,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_bulk_operations_id ON app.webhook_bulk_operations (id);
CREATE INDEX webhook_bulk_operations_running ON app.webhook_bulk_operations (id) WHERE state = 'running';
CREATE INDEX webhook_bulk_operations_updated_at ON app.webhook_bulk_operations (updated_at) WHERE state <> 'running';
CREATE UNIQUE INDEX webhook_bulk_operations_request ON app.webhook_bulk_operations (request_key);

-- Answers to requests with an idempotency key. Each is written with the change that it answers.
CREATE TABLE app.webhook_answers (
    key         bytea       NOT NULL,
    fingerprint bytea       NOT NULL,
    status      smallint    NOT NULL,
    body        bytea       NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX webhook_answers_key ON app.webhook_answers (key);
CREATE INDEX webhook_answers_expires_at ON app.webhook_answers (expires_at);

-- What all workers did, in buckets of 10 seconds, a minute and half an hour. Each report is added to one bucket of each
-- length, and removes old buckets.
CREATE TABLE app.webhook_activity (
    step_seconds      integer     NOT NULL,
    -- When the bucket began.
    at                timestamptz NOT NULL,
    delivered_count   bigint      NOT NULL,
    retried_count     bigint      NOT NULL,
    failed_count      bigint      NOT NULL,
    -- The number of requests in each bucket of the latency histogram.
    latency_counts    bigint[]    NOT NULL,
    -- Events at the last report.
    pending_count     bigint      NOT NULL,
    dead_letter_count bigint      NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_activity_at ON app.webhook_activity (step_seconds, at);

-- The last report of each process that runs a worker. A worker that stops removes its row.
CREATE TABLE app.webhook_workers (
    -- Differs for every start of a worker.
    process       text        NOT NULL,
    worker_id     text        NOT NULL,
    version       text        NOT NULL,
    started_at    timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    in_flight     bigint      NOT NULL,
    -- A report with this number or a lower one was added already.
    last_sequence bigint      NOT NULL,
    -- What the worker knows of the destinations that it used last: an element of each array for each destination.
    receiver_ids          bigint[] NOT NULL,
    receiver_windows      bigint[] NOT NULL,
    receiver_requests     bigint[] NOT NULL,
    receiver_failures     bigint[] NOT NULL,
    receiver_latencies_us bigint[] NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX webhook_workers_process ON app.webhook_workers (process);
CREATE INDEX webhook_workers_heartbeat_at ON app.webhook_workers (heartbeat_at);

-- Every event with its state.
CREATE VIEW app.webhook_outbox_events AS
SELECT e.id, e.app_id, e.event_id, e.message_id, e.webhook_id, e.destination_id, d.url AS destination_url,
       e.event_type, e.payment_request_id, e.session_id,
       CASE WHEN q.id IS NOT NULL THEN 'pending' WHEN f.id IS NOT NULL THEN 'failed' ELSE 'delivered' END AS delivery_status,
       f.failure_kind,
       coalesce(q.attempts, f.attempts, a.attempt, 1) AS attempts,
       e.max_attempts,
       coalesce(q.claims, f.claims, a.delivery_claims, 1) AS claims,
       coalesce(q.lost_leases, f.lost_leases, 0) AS lost_leases,
       q.next_attempt_at, app.webhook_lease_token(q.lease_claim, e.id) AS lease_token, c.owner AS lease_owner,
       q.lease_until,
       coalesce(q.last_error, f.last_error) AS last_error,
       coalesce(q.last_attempted_at, f.last_attempted_at, a.started_at) AS last_attempted_at,
       a.recorded_at AS delivered_at,
       m.action AS manual_last_action, m.actor AS manual_last_actor, m.at AS manual_last_at,
       e.created_at,
       coalesce(q.updated_at, f.updated_at, a.recorded_at, e.created_at) AS updated_at,
       m.reason AS manual_last_reason, e.stored_by, e.replay_of
FROM app.webhook_events e
JOIN app.webhook_destinations d ON d.id = e.destination_id
LEFT JOIN app.webhook_queue q ON q.id = e.id
LEFT JOIN app.webhook_claims c ON c.id = q.lease_claim
LEFT JOIN app.webhook_failures f ON f.id = e.id
LEFT JOIN LATERAL (
    SELECT a.attempt, a.delivery_claims, a.started_at, a.recorded_at
    FROM app.webhook_attempts a
    WHERE q.id IS NULL AND f.id IS NULL AND a.event_key = e.id AND a.delivery_claims IS NOT NULL
    LIMIT 1
) a ON true
LEFT JOIN LATERAL (
    SELECT m.action, m.actor, m.at, m.reason
    FROM app.webhook_audit m
    WHERE m.event_key = e.id AND m.action <> 'view_content'
    ORDER BY m.id DESC
    LIMIT 1
) m ON true;

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
