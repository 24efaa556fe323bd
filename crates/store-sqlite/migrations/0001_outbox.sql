-- The outbox. Timestamps are microseconds since the Unix epoch; UUIDs and lease tokens are 16-byte blobs.
-- Uniqueness is enforced by named indexes only, so that a later migration can change it.
--
-- Operators open the file with their own clients, so the schema uses nothing that SQLite 3.35 does not know: no STRICT
-- table (3.37), no unixepoch() (3.38). A single unknown word would make the whole file unreadable for such a client.
--
-- A commit writes every changed page to the write-ahead log, 4 KiB for a single row. Each table and index that an
-- event touches therefore costs a page per event while events arrive one by one, so there are as few as the queries
-- allow: tests/sqlite/write_ahead_log.rs counts the pages.

-- A message of an application has an event for each endpoint that gets it, and a key of its own. An event that was enqueued to
-- a URL has a message of its own, under the same key, with app_id 0, and so has a replay of it. The indexes leave such messages
-- out.
CREATE TABLE webhook_messages (
    key                INTEGER PRIMARY KEY, -- from webhook_totals.last_event_key, like webhook_events.id
    id                 BLOB    NOT NULL,
    app_id             INTEGER NOT NULL DEFAULT 0,
    event_type         TEXT    NOT NULL,
    content_type       TEXT    NOT NULL,
    payment_request_id TEXT,
    session_id         TEXT,
    traceparent        TEXT,
    created_at         INTEGER NOT NULL,
    uid                TEXT,
    channels           TEXT,             -- JSON array, NULL for none
    tags               TEXT,             -- JSON array, NULL for none
    stored_by          TEXT,
    max_attempts       INTEGER,
    deliver_at         INTEGER,          -- NULL: at once
    payload_expires_at INTEGER,          -- NULL once the payload is expunged
    payload            BLOB              -- NULL once expunged. Last column: reading the others skips its overflow pages.
);

CREATE UNIQUE INDEX webhook_messages_id ON webhook_messages (id) WHERE app_id > 0;
CREATE UNIQUE INDEX webhook_messages_uid ON webhook_messages (app_id, uid) WHERE uid IS NOT NULL;
CREATE INDEX webhook_messages_app ON webhook_messages (app_id, key) WHERE app_id > 0;
CREATE INDEX webhook_messages_expiry ON webhook_messages (payload_expires_at) WHERE payload_expires_at IS NOT NULL;

-- The immutable part of an event. The tables that also contain its id define its state:
--
--   webhook_queue      pending; without a lease, also in webhook_first_attempts, webhook_deferred or webhook_retries
--   webhook_failures   failed
--   neither            delivered, by the last of its attempts
--
-- An id is never reused, not even after retention: a late write under an old id must match no row. Ids are assigned in
-- the order of creation, and listings sort by them.
CREATE TABLE webhook_events (
    id                 INTEGER PRIMARY KEY,
    app_id             INTEGER NOT NULL DEFAULT 0, -- 0: the event was enqueued to a URL
    event_id           TEXT    NOT NULL,
    message_key        INTEGER NOT NULL,
    message_id         BLOB    NOT NULL, -- copy of webhook_messages.id, so that listings do not read that table
    destination_id     INTEGER NOT NULL,
    event_type         TEXT    NOT NULL,
    max_attempts       INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    webhook_id         TEXT,
    payment_request_id TEXT,
    session_id         TEXT,
    stored_by          TEXT,             -- the name of the producer's API key; NULL where it used none
    deliver_at         INTEGER,          -- when the first attempt is due, if that is later than created_at
    replay_of          TEXT              -- the event_id of the delivered event that an operator sent once more
);

CREATE UNIQUE INDEX webhook_events_event_id ON webhook_events (event_id);
CREATE INDEX webhook_events_destination ON webhook_events (destination_id);
-- Searches by a reference of the producer. Events without references have no entry. The webhook_id of an endpoint's event is the
-- id of the endpoint.
CREATE INDEX webhook_events_payment_request_id ON webhook_events (payment_request_id) WHERE payment_request_id IS NOT NULL;
CREATE INDEX webhook_events_session_id ON webhook_events (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX webhook_events_webhook_id ON webhook_events (webhook_id) WHERE webhook_id IS NOT NULL AND app_id = 0;
CREATE INDEX webhook_events_message ON webhook_events (message_key, destination_id) WHERE app_id > 0;

-- Pending events. A claim updates one row per event and a settle updates or deletes it; the table has no index to
-- maintain. `lease_padding` is as long as the lease columns, and the first lease replaces it: otherwise claiming all
-- rows of a full page together would split the page.
CREATE TABLE webhook_queue (
    id                INTEGER PRIMARY KEY,
    destination_id    INTEGER NOT NULL,
    app_id            INTEGER NOT NULL DEFAULT 0, -- as in webhook_events
    attempts          INTEGER NOT NULL DEFAULT 0,
    claims            INTEGER NOT NULL DEFAULT 0,
    lost_leases       INTEGER NOT NULL DEFAULT 0,
    next_attempt_at   INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    requeued_at       INTEGER,
    last_attempted_at INTEGER,
    last_error        TEXT,
    lease_token       BLOB,    -- drawn per claim; the worker's token combines it with the id, src/token_seed.rs
    lease_claim       INTEGER, -- webhook_claims.id
    lease_until       INTEGER,
    lease_padding     BLOB,
    -- The lease columns are all set or all NULL.
    CHECK ((lease_token IS NULL) = (lease_until IS NULL) AND (lease_token IS NULL) = (lease_claim IS NULL))
);

-- The three queues of each destination hold its pending events without a lease: first attempts in the order of their
-- ids; first attempts that the producer deferred, and retries, in the order of their due times. A claim takes events from the
-- head of a queue. A deferred event that was leased once is a first attempt like others: it was due.
--
-- First attempts below their destination's `first_attempts_head` have been taken already; their rows are consumed.
-- Consumed rows are deleted many at a time: a claim that takes a few events from each of many queues would otherwise
-- write a page per queue.
CREATE TABLE webhook_first_attempts (
    destination_id INTEGER NOT NULL,
    id             INTEGER NOT NULL,
    requeued_at    INTEGER, -- as in webhook_queue
    PRIMARY KEY (destination_id, id)
) WITHOUT ROWID;

CREATE TABLE webhook_deferred (
    destination_id  INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL, -- as in webhook_queue
    id              INTEGER NOT NULL,
    PRIMARY KEY (destination_id, next_attempt_at, id)
) WITHOUT ROWID;

CREATE INDEX webhook_deferred_id ON webhook_deferred (destination_id, id);

CREATE TABLE webhook_retries (
    destination_id  INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL, -- as in webhook_queue
    id              INTEGER NOT NULL,
    PRIMARY KEY (destination_id, next_attempt_at, id)
) WITHOUT ROWID;

-- Leases on events of endpoints in FIFO order, which get one event at a time. A row is written with its lease and stays when
-- the lease ends, until the next lease of its endpoint: webhook_queue shows whether the event is still leased.
CREATE TABLE webhook_line_leases (
    destination_id INTEGER NOT NULL,
    id             INTEGER NOT NULL, -- webhook_queue.id
    PRIMARY KEY (destination_id, id)
) WITHOUT ROWID;

-- Claims that still hold leases, with the number of leases on first attempts and on retries. A claim's row is deleted
-- with its last lease. `expiry_check_at` is never later than the earliest `lease_until` of its leases. `lease_us` is the
-- longest duration that one of its leases was granted or renewed for. `event_keys` are
-- the events that the claim was granted, eight bytes per key, big-endian; webhook_queue.lease_claim shows which of them
-- it still holds. The column is last, because a settle that only changes the counts then leaves its overflow pages
-- unchanged.
--
-- No index: there are never more rows than leases, and every claim reads them all.
CREATE TABLE webhook_claims (
    id                   INTEGER PRIMARY KEY,
    claim_uuid           BLOB    NOT NULL,
    owner                TEXT    NOT NULL,
    first_attempt_leases INTEGER NOT NULL,
    retry_leases         INTEGER NOT NULL,
    expiry_check_at      INTEGER NOT NULL,
    lease_us             INTEGER NOT NULL,
    event_keys           BLOB    NOT NULL
);

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
);

CREATE INDEX webhook_failures_destination ON webhook_failures (destination_id);
CREATE INDEX webhook_failures_updated_at ON webhook_failures (updated_at);

-- Bulk operations on failed events. The conditions of the filter that are NULL select every event.
CREATE TABLE webhook_bulk_operations (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    action              TEXT    NOT NULL,
    state               TEXT    NOT NULL,
    filter_url          TEXT,
    filter_endpoint     INTEGER,
    filter_app          INTEGER,
    filter_event_type   TEXT,
    filter_failure_kind TEXT,
    filter_error        TEXT,
    filter_since        INTEGER,
    filter_until        INTEGER NOT NULL,
    rate_per_second     INTEGER NOT NULL,
    spent_until         INTEGER,
    cursor              INTEGER NOT NULL, -- the key of the last failed event that it examined
    matched_count       INTEGER NOT NULL,
    is_matched_exact    INTEGER NOT NULL,
    examined_count      INTEGER NOT NULL,
    done_count          INTEGER NOT NULL,
    reason              TEXT,
    actor               TEXT    NOT NULL,
    stopped_by          TEXT,
    request_key         TEXT,             -- names the request that started it
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
);

CREATE INDEX webhook_bulk_operations_running ON webhook_bulk_operations (id) WHERE state = 'running';
CREATE UNIQUE INDEX webhook_bulk_operations_request ON webhook_bulk_operations (request_key) WHERE request_key IS NOT NULL;

-- One row per request whose result reached the store, in the order of `position`. The position of an applied result is
-- 256 times the ordinal of its lease within the event. A result whose lease had been lost was not applied; it follows the
-- last row of its event, so its position is no multiple of 256.
CREATE TABLE webhook_attempts (
    event_key    INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    applied      INTEGER NOT NULL,
    lease_token  BLOB    NOT NULL,
    attempt      INTEGER NOT NULL,
    trigger      TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    duration_us  INTEGER NOT NULL,
    http_status  INTEGER,
    error_class  TEXT,
    excerpt      TEXT    NOT NULL,
    worker_id    TEXT    NOT NULL,
    recorded_at  INTEGER NOT NULL,
    endpoint_id  INTEGER, -- webhook_events.destination_id, if that is an endpoint
    PRIMARY KEY (event_key, position)
) WITHOUT ROWID;

CREATE INDEX webhook_attempts_endpoint ON webhook_attempts (endpoint_id, recorded_at, event_key, position)
    WHERE endpoint_id IS NOT NULL;

-- `earliest_retry_at` is never later than the due time of the destination's first retry without a lease, and
-- `earliest_deferred_at` never later than that of its first deferred event. An id is never used again, because workers keep
-- circuits by it.
CREATE TABLE webhook_destinations (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id                  INTEGER NOT NULL DEFAULT 0,     -- the application of an endpoint
    kind                    TEXT    NOT NULL DEFAULT 'url', -- or 'endpoint', with a row in webhook_endpoints
    url                     TEXT    NOT NULL,
    paused_until            INTEGER, -- the later end of both pauses; the greatest integer without end and while disabled
    receiver_paused_at      INTEGER,
    receiver_paused_until   INTEGER,
    operator_paused_at      INTEGER,
    operator_paused_until   INTEGER, -- NULL: until an operator resumes the destination
    operator_paused_by      TEXT,
    operator_pause_reason   TEXT,
    resumed_at              INTEGER,
    probe_requested_at      INTEGER, -- when an operator last asked for a probe
    failing_since           INTEGER,
    earliest_retry_at       INTEGER,
    first_attempts_head     INTEGER NOT NULL DEFAULT 0,
    first_attempts_consumed INTEGER NOT NULL DEFAULT 0, -- number of rows of webhook_first_attempts below the head
    created_at              INTEGER NOT NULL,
    profile_version         INTEGER NOT NULL DEFAULT 0, -- grows with each change of keys, headers or URL; 0: no own keys
    profile_updated_at      INTEGER,
    earliest_deferred_at    INTEGER,
    disabled_at             INTEGER, -- only endpoints
    disabled_reason         TEXT,
    is_fifo                 INTEGER NOT NULL DEFAULT 0,
    throttle_per_second     INTEGER,
    throttle_spent_until    INTEGER
);

CREATE UNIQUE INDEX webhook_destinations_url ON webhook_destinations (url) WHERE kind = 'url';
CREATE INDEX webhook_destinations_paused ON webhook_destinations (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX webhook_destinations_earliest_retry_at
    ON webhook_destinations (earliest_retry_at) WHERE earliest_retry_at IS NOT NULL;
CREATE INDEX webhook_destinations_earliest_deferred_at
    ON webhook_destinations (earliest_deferred_at) WHERE earliest_deferred_at IS NOT NULL;
CREATE INDEX webhook_destinations_updated
    ON webhook_destinations (profile_updated_at) WHERE profile_updated_at IS NOT NULL;
CREATE INDEX webhook_destinations_disabled ON webhook_destinations (id) WHERE disabled_at IS NOT NULL;
CREATE INDEX webhook_destinations_failing ON webhook_destinations (id) WHERE failing_since IS NOT NULL;
CREATE INDEX webhook_destinations_resumed ON webhook_destinations (resumed_at) WHERE resumed_at IS NOT NULL;
CREATE INDEX webhook_destinations_probed
    ON webhook_destinations (probe_requested_at) WHERE probe_requested_at IS NOT NULL;

-- The open circuits that workers report: the last report of each worker on a destination.
CREATE TABLE webhook_circuits (
    destination_id INTEGER NOT NULL,
    worker         TEXT    NOT NULL,
    since          INTEGER NOT NULL,
    next_probe_at  INTEGER NOT NULL,
    last_error     TEXT,
    reported_at    INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    PRIMARY KEY (destination_id, worker)
) WITHOUT ROWID;

-- Actions of operators on destinations.
CREATE TABLE webhook_destination_audit (
    id             INTEGER PRIMARY KEY,
    destination_id INTEGER NOT NULL,
    action         TEXT    NOT NULL,
    actor          TEXT    NOT NULL,
    at             INTEGER NOT NULL,
    paused_until   INTEGER, -- the planned end of a pause
    reason         TEXT
);

CREATE INDEX webhook_destination_audit_destination ON webhook_destination_audit (destination_id);

-- `event_ids` is the stored response: newline-separated event ids in the order of the request. Keys are kept equally
-- long, so the rows expire in the order of their ids, and maintenance needs no index.
CREATE TABLE webhook_idempotency (
    id          INTEGER PRIMARY KEY,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    event_ids   TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
);

CREATE UNIQUE INDEX webhook_idempotency_key ON webhook_idempotency (key);

-- The instance's signing secrets, the newest with the largest id. Those that have not retired are valid together.
CREATE TABLE webhook_secrets (
    id         INTEGER PRIMARY KEY,
    secret     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT,
    retires_at INTEGER
);

CREATE TABLE webhook_audit (
    id        INTEGER PRIMARY KEY,
    event_key INTEGER NOT NULL,
    action    TEXT    NOT NULL,
    actor     TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    reason    TEXT,             -- why the operator cancelled or discarded; NULL where no reason was stated
    operation_key TEXT          -- the idempotency key of the action; NULL where the caller sent none
);

CREATE INDEX webhook_audit_event ON webhook_audit (event_key);
CREATE UNIQUE INDEX webhook_audit_operation ON webhook_audit (operation_key) WHERE operation_key IS NOT NULL;

-- Events that an operator discarded, as long as retention keeps them. Their rows in webhook_audit and webhook_notices
-- stay, under the same key. Their ids stay taken: a receiver that deduplicates by event id may have seen the discarded
-- event, and would ignore another event of the same id.
CREATE TABLE webhook_discarded_events (
    id                 INTEGER PRIMARY KEY, -- webhook_events.id
    app_id             INTEGER NOT NULL,    -- as in webhook_events
    destination_id     INTEGER NOT NULL,
    event_id           TEXT    NOT NULL,
    webhook_id         TEXT,
    payment_request_id TEXT,
    session_id         TEXT,
    discarded_at       INTEGER NOT NULL
);

CREATE UNIQUE INDEX webhook_discarded_events_event_id ON webhook_discarded_events (event_id);
CREATE INDEX webhook_discarded_events_discarded_at ON webhook_discarded_events (discarded_at);

-- The log of event results, in commit order: one row per batch, seventeen bytes per entry. src/notices.rs defines the
-- encoding. Retention removes entries from the oldest row first; `entries_removed` counts those removed from a row.
-- Ids are assigned from webhook_totals and never reused, because followers keep them as cursors.
CREATE TABLE webhook_notices (
    id              INTEGER PRIMARY KEY,
    at              INTEGER NOT NULL,
    entries_removed INTEGER NOT NULL DEFAULT 0,
    entries         BLOB    NOT NULL
);

-- A single row: the number of events in each state, updated in the transactions that change states, and the last
-- event key and notice id that were assigned.
CREATE TABLE webhook_totals (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    pending        INTEGER NOT NULL,
    retrying       INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL, -- of the failed
    delivered      INTEGER NOT NULL,
    deferred       INTEGER NOT NULL, -- rows of webhook_deferred
    last_event_key INTEGER NOT NULL,
    last_notice_id INTEGER NOT NULL
);

INSERT INTO webhook_totals (id, pending, retrying, failed, cancelled, delivered, deferred, last_event_key, last_notice_id)
VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);

-- What all workers did, in buckets of 10 seconds, a minute and half an hour. Each report is added to one bucket of each
-- length, and removes old buckets.
CREATE TABLE webhook_activity (
    step_seconds      INTEGER NOT NULL,
    at                INTEGER NOT NULL, -- when the bucket began
    delivered_count   INTEGER NOT NULL,
    retried_count     INTEGER NOT NULL,
    failed_count      INTEGER NOT NULL,
    latency_counts    TEXT    NOT NULL, -- JSON array: the number of requests in each bucket of the latency histogram
    pending_count     INTEGER NOT NULL, -- at the last report
    dead_letter_count INTEGER NOT NULL, -- at the last report
    PRIMARY KEY (step_seconds, at)
) WITHOUT ROWID;

-- The last report of each process that runs a worker. A worker that stops removes its row.
CREATE TABLE webhook_workers (
    process       TEXT    NOT NULL PRIMARY KEY, -- differs for every start of a worker
    worker_id     TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    started_at    INTEGER NOT NULL,
    heartbeat_at  INTEGER NOT NULL,
    in_flight     INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL, -- a report with this number or a lower one was added already
    -- What the worker knows of the destinations that it used last: JSON, [[id, window, requests, failures, latency in µs], …].
    receivers     TEXT    NOT NULL
) WITHOUT ROWID;

CREATE INDEX webhook_workers_heartbeat ON webhook_workers (heartbeat_at);

-- Read-only view: each event with its current state in one row.
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
    coalesce(q.claims, f.claims, a.position / 256)  AS claims,
    coalesce(q.lost_leases, f.lost_leases, 0)       AS lost_leases,
    q.next_attempt_at    AS next_attempt_at,
    q.lease_token        AS lease_token,
    c.claim_uuid         AS lease_claim,
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
    m.reason             AS manual_last_reason,
    e.stored_by          AS stored_by,
    e.replay_of          AS replay_of
FROM webhook_events e
JOIN webhook_destinations d ON d.id = e.destination_id
LEFT JOIN webhook_queue q ON q.id = e.id
LEFT JOIN webhook_claims c ON c.id = q.lease_claim
LEFT JOIN webhook_failures f ON f.id = e.id
-- For a delivered event, the attempt that delivered it.
LEFT JOIN webhook_attempts a
    ON q.id IS NULL AND f.id IS NULL AND a.event_key = e.id
    AND a.position = (SELECT max(position) FROM webhook_attempts WHERE event_key = e.id AND applied)
LEFT JOIN webhook_audit m
    ON m.id = (SELECT max(id) FROM webhook_audit WHERE event_key = e.id AND action <> 'view_content');
