-- The outbox. Times are microseconds since the Unix epoch; uuids and tokens are 16-byte blobs.
-- Uniqueness is in named indexes only, so that a later migration can change it.

CREATE TABLE webhook_messages (
    id                 BLOB    NOT NULL,
    app_id             INTEGER NOT NULL DEFAULT 0,
    event_type         TEXT    NOT NULL,
    payload            BLOB,             -- NULL once expunged
    content_type       TEXT    NOT NULL,
    payment_request_id TEXT,
    session_id         TEXT,
    traceparent        TEXT,
    created_at         INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX webhook_messages_id ON webhook_messages (id);

-- No payload here: this table is rewritten at every step of an event's life, and listed by operators.
-- A key is never used twice, not even after retention: a late write under an old key must find nothing.
CREATE TABLE webhook_outbox_events (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id             INTEGER NOT NULL DEFAULT 0,
    event_id           TEXT    NOT NULL,
    message_id         BLOB    NOT NULL,
    webhook_id         TEXT,
    destination_id     INTEGER NOT NULL,
    destination_url    TEXT    NOT NULL,
    event_type         TEXT    NOT NULL,
    payment_request_id TEXT,
    session_id         TEXT,
    delivery_status    TEXT    NOT NULL DEFAULT 'pending',
    failure_kind       TEXT,
    attempts           INTEGER NOT NULL DEFAULT 0,
    max_attempts       INTEGER NOT NULL,
    claims             INTEGER NOT NULL DEFAULT 0,
    lost_leases        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at    INTEGER,
    lease_token        BLOB,
    lease_claim        BLOB,
    lease_owner        TEXT,
    lease_until        INTEGER,
    last_error         TEXT,
    last_attempted_at  INTEGER,
    delivered_at       INTEGER,
    manual_last_action TEXT,
    manual_last_actor  TEXT,
    manual_last_at     INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    -- Not `IN`, for which SQLite would build a table at every update.
    CHECK (delivery_status = 'pending' OR delivery_status = 'delivered' OR delivery_status = 'failed'),
    -- A lease is whole or not there.
    CHECK ((lease_token IS NULL) = (lease_until IS NULL) AND (lease_token IS NULL) = (lease_owner IS NULL))
) STRICT;

CREATE UNIQUE INDEX webhook_outbox_events_event_id ON webhook_outbox_events (event_id);
CREATE INDEX webhook_outbox_events_message ON webhook_outbox_events (message_id);

-- What a claim looks through. The rowid is the last key of each.
CREATE INDEX webhook_outbox_events_first_attempts ON webhook_outbox_events (destination_id)
    WHERE delivery_status = 'pending' AND attempts = 0 AND lease_token IS NULL;
CREATE INDEX webhook_outbox_events_retries ON webhook_outbox_events (destination_id, next_attempt_at)
    WHERE delivery_status = 'pending' AND attempts > 0 AND lease_token IS NULL;
CREATE INDEX webhook_outbox_events_leases ON webhook_outbox_events (lease_until, lease_claim)
    WHERE lease_until IS NOT NULL;

-- What operators list, newest first. Those over all events are written once and never touched again; an index by state
-- is only there where skipping the others would cost what the history holds.
CREATE INDEX webhook_outbox_events_created ON webhook_outbox_events (created_at);
CREATE INDEX webhook_outbox_events_destination ON webhook_outbox_events (destination_id, created_at);
CREATE INDEX webhook_outbox_events_pending ON webhook_outbox_events (created_at)
    WHERE delivery_status = 'pending';
CREATE INDEX webhook_outbox_events_failed ON webhook_outbox_events (created_at)
    WHERE delivery_status = 'failed';
CREATE INDEX webhook_outbox_events_failed_destination ON webhook_outbox_events (destination_id, created_at)
    WHERE delivery_status = 'failed';
CREATE INDEX webhook_outbox_events_dead_letters ON webhook_outbox_events (updated_at)
    WHERE delivery_status = 'failed';

-- One row per recorded outcome. A token is granted for one event, so that both together are the token's uniqueness;
-- the event leads because tokens are random and would scatter the index. The id is the order of recording.
CREATE TABLE webhook_attempts (
    id             INTEGER PRIMARY KEY,
    event_key      INTEGER NOT NULL,
    lease_token    BLOB    NOT NULL,
    destination_id INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    trigger        TEXT    NOT NULL,
    started_at     INTEGER NOT NULL,
    duration_us    INTEGER NOT NULL,
    http_status    INTEGER,
    error_class    TEXT,
    excerpt        TEXT    NOT NULL,
    worker_id      TEXT    NOT NULL,
    recorded_at    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX webhook_attempts_token ON webhook_attempts (event_key, lease_token);

-- `retry_at` is never later than the moment at which the first of the destination's unleased retries is due.
CREATE TABLE webhook_destinations (
    id              INTEGER PRIMARY KEY,
    app_id          INTEGER NOT NULL DEFAULT 0,
    kind            TEXT    NOT NULL DEFAULT 'url',
    url             TEXT    NOT NULL,
    circuit         TEXT,
    circuit_worker  TEXT,
    circuit_until   INTEGER,
    paused_until    INTEGER,
    failing_since   INTEGER,
    retry_at        INTEGER,
    created_at      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX webhook_destinations_url ON webhook_destinations (url) WHERE kind = 'url';
CREATE INDEX webhook_destinations_paused ON webhook_destinations (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX webhook_destinations_retries ON webhook_destinations (retry_at) WHERE retry_at IS NOT NULL;

-- `event_ids` are the answer: one id a line, in the order of the request.
CREATE TABLE webhook_idempotency (
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    event_ids   TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    forget_at   INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX webhook_idempotency_key ON webhook_idempotency (key);
CREATE INDEX webhook_idempotency_forget_at ON webhook_idempotency (forget_at);

-- The instance's signing secrets. Those that are not retired are valid at once.
CREATE TABLE webhook_secrets (
    id         INTEGER PRIMARY KEY,
    secret     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;

CREATE TABLE webhook_audit (
    id        INTEGER PRIMARY KEY,
    event_key INTEGER NOT NULL,
    action    TEXT    NOT NULL,
    actor     TEXT    NOT NULL,
    at        INTEGER NOT NULL
) STRICT;

CREATE INDEX webhook_audit_event ON webhook_audit (event_key);

-- A place in the log is never used again, not even after retention: followers keep it.
CREATE TABLE webhook_notices (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    kind               TEXT    NOT NULL,
    event_id           TEXT    NOT NULL,
    webhook_id         TEXT,
    session_id         TEXT,
    payment_request_id TEXT,
    attempts           INTEGER NOT NULL,
    at                 INTEGER NOT NULL
) STRICT;

-- How many events are in each state, kept in the transactions that change them. One row.
CREATE TABLE webhook_totals (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    pending   INTEGER NOT NULL,
    retrying  INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    delivered INTEGER NOT NULL
) STRICT;

INSERT INTO webhook_totals (id, pending, retrying, failed, delivered) VALUES (1, 0, 0, 0, 0);
