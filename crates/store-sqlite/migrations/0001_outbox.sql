-- The outbox. Times are microseconds since the Unix epoch; uuids and tokens are 16-byte blobs.
-- Uniqueness is in named indexes only, so that a later migration can change it.

CREATE TABLE webhook_messages (
    key                INTEGER PRIMARY KEY,
    id                 BLOB    NOT NULL,
    app_id             INTEGER NOT NULL DEFAULT 0,
    event_type         TEXT    NOT NULL,
    content_type       TEXT    NOT NULL,
    payment_request_id TEXT,
    session_id         TEXT,
    traceparent        TEXT,
    created_at         INTEGER NOT NULL,
    payload            BLOB              -- NULL once expunged; last, so that a long one is in nobody's way
) STRICT;

CREATE UNIQUE INDEX webhook_messages_id ON webhook_messages (id);

-- What never changes of an event. Where else its key stands says what state it is in:
--
--   webhook_queue      pending; and then, unless it is leased, in webhook_ready or webhook_retries
--   webhook_failures   failed
--   nowhere            delivered, by the last of its attempts
--
-- A key is never used twice, not even after retention: a late write under an old key must find nothing. Keys are given
-- in the order of creation, and lists go by them.
CREATE TABLE webhook_events (
    id                 INTEGER PRIMARY KEY,
    app_id             INTEGER NOT NULL DEFAULT 0,
    event_id           TEXT    NOT NULL,
    message_key        INTEGER NOT NULL,
    message_id         BLOB    NOT NULL, -- that of the message, so that a list need not touch payloads
    destination_id     INTEGER NOT NULL,
    event_type         TEXT    NOT NULL,
    max_attempts       INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    webhook_id         TEXT,
    payment_request_id TEXT,
    session_id         TEXT
) STRICT;

CREATE UNIQUE INDEX webhook_events_event_id ON webhook_events (event_id);
CREATE INDEX webhook_events_message ON webhook_events (message_key);
CREATE INDEX webhook_events_destination ON webhook_events (destination_id);

-- Pending events. A claim and a settle rewrite or remove one such row each, and no index comes with it.
-- `reserve` is as long as a lease and makes way for the first: a page that is full of rows which are claimed together
-- would else have to be split.
CREATE TABLE webhook_queue (
    id                INTEGER PRIMARY KEY,
    destination_id    INTEGER NOT NULL,
    attempts          INTEGER NOT NULL DEFAULT 0,
    claims            INTEGER NOT NULL DEFAULT 0,
    lost_leases       INTEGER NOT NULL DEFAULT 0,
    next_attempt_at   INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    requeued_at       INTEGER,
    last_attempted_at INTEGER,
    last_error        TEXT,
    lease_token       BLOB,
    lease_claim       INTEGER, -- a row of webhook_claims
    lease_until       INTEGER,
    reserve           BLOB,
    -- A lease is whole or not there.
    CHECK ((lease_token IS NULL) = (lease_until IS NULL) AND (lease_token IS NULL) = (lease_claim IS NULL))
) STRICT;

-- The lines of the destinations, of what has no lease: first attempts in the order of their keys, retries by when they
-- are due. A claim takes them off the front.
--
-- First attempts that are below their destination's `ready_from` are gone from the line, and their rows are spent: they
-- are removed many at a time, because a claim that takes a few of each of many lines would else write a page for each.
CREATE TABLE webhook_ready (
    destination_id INTEGER NOT NULL,
    id             INTEGER NOT NULL,
    requeued_at    INTEGER, -- as in webhook_queue
    PRIMARY KEY (destination_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_retries (
    destination_id  INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL, -- as in webhook_queue
    id              INTEGER NOT NULL,
    PRIMARY KEY (destination_id, next_attempt_at, id)
) STRICT, WITHOUT ROWID;

-- Claims that hold leases: how many on first attempts and on retries. A claim goes with the last of them.
-- `check_at` is never later than the first `lease_until` among its leases.
CREATE TABLE webhook_claims (
    id             INTEGER PRIMARY KEY,
    claim          BLOB    NOT NULL,
    owner          TEXT    NOT NULL,
    first_attempts INTEGER NOT NULL,
    retries        INTEGER NOT NULL,
    check_at       INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX webhook_claims_claim ON webhook_claims (claim);
CREATE INDEX webhook_claims_check_at ON webhook_claims (check_at);

-- The events that a claim was granted, eight bytes each, the most significant first. Those that are still its own say
-- so in webhook_queue. A table of its own, because the counts beside it change with every settle.
CREATE TABLE webhook_claimed (
    claim      INTEGER PRIMARY KEY,
    event_keys BLOB NOT NULL
) STRICT;

CREATE TABLE webhook_failures (
    id                INTEGER PRIMARY KEY,
    destination_id    INTEGER NOT NULL,
    failure_kind      TEXT    NOT NULL,
    attempts          INTEGER NOT NULL,
    claims            INTEGER NOT NULL,
    lost_leases       INTEGER NOT NULL,
    last_attempted_at INTEGER,
    last_error        TEXT,
    updated_at        INTEGER NOT NULL
) STRICT;

CREATE INDEX webhook_failures_destination ON webhook_failures (destination_id);
CREATE INDEX webhook_failures_updated_at ON webhook_failures (updated_at);

-- One row per recorded outcome, under the lease that it was recorded with: the how-manieth of its event.
CREATE TABLE webhook_attempts (
    event_key   INTEGER NOT NULL,
    lease       INTEGER NOT NULL,
    lease_token BLOB    NOT NULL,
    attempt     INTEGER NOT NULL,
    trigger     TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    http_status INTEGER,
    error_class TEXT,
    excerpt     TEXT    NOT NULL,
    worker_id   TEXT    NOT NULL,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (event_key, lease)
) STRICT, WITHOUT ROWID;

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
    ready_from      INTEGER NOT NULL DEFAULT 0,
    ready_spent     INTEGER NOT NULL DEFAULT 0, -- rows of webhook_ready below that
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

-- What became of events, in the order in which it was written: one row per batch, seventeen bytes an entry.
-- src/notices.rs says how an entry reads. Retention takes entries off the front, and `gone` says how many of the row it
-- has taken. A place in the log is never used again: followers keep it.
CREATE TABLE webhook_notices (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    gone    INTEGER NOT NULL DEFAULT 0,
    entries BLOB    NOT NULL
) STRICT;

-- How many events are in each state, kept in the transactions that change them, and the last key that was given.
-- One row.
CREATE TABLE webhook_totals (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    pending   INTEGER NOT NULL,
    retrying  INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    last_key  INTEGER NOT NULL
) STRICT;

INSERT INTO webhook_totals (id, pending, retrying, failed, delivered, last_key) VALUES (1, 0, 0, 0, 0, 0);

-- An event and its state under the usual names, for reading.
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
    coalesce(q.updated_at, f.updated_at, a.recorded_at) AS updated_at
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
