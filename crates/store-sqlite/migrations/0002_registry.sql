-- The registry: applications with their endpoints, event types, keys, background operations and kept answers.
-- Times, UUIDs and indexes are as in the outbox. Lists of names are JSON arrays.

CREATE TABLE webhook_applications (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    org                  TEXT    NOT NULL,
    uid                  TEXT,
    name                 TEXT    NOT NULL,
    throttle_per_second  INTEGER,
    throttle_spent_until INTEGER,
    metadata             TEXT    NOT NULL, -- JSON object
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    deleted_at           INTEGER
);

-- The public id, by which SQL clients name an application.
CREATE UNIQUE INDEX webhook_applications_public_id ON webhook_applications (printf('app_%016x', id));
CREATE UNIQUE INDEX webhook_applications_uid ON webhook_applications (org, uid)
    WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX webhook_applications_org ON webhook_applications (org, id) WHERE deleted_at IS NULL;
CREATE INDEX webhook_applications_deleted ON webhook_applications (id) WHERE deleted_at IS NOT NULL;

-- What an endpoint has beside what every destination has.
CREATE TABLE webhook_endpoints (
    destination_id INTEGER PRIMARY KEY, -- webhook_destinations.id
    app_id         INTEGER NOT NULL,
    uid            TEXT,
    description    TEXT    NOT NULL,
    event_types    TEXT,             -- NULL: all
    channels       TEXT,             -- NULL: whatever the channels of a message
    metadata       TEXT    NOT NULL, -- JSON object
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    is_cancelling  INTEGER NOT NULL DEFAULT 0 -- deleted, and may have pending events that maintenance cancels
);

CREATE UNIQUE INDEX webhook_endpoints_uid ON webhook_endpoints (app_id, uid)
    WHERE deleted_at IS NULL AND uid IS NOT NULL;
CREATE INDEX webhook_endpoints_app ON webhook_endpoints (app_id, destination_id);
CREATE INDEX webhook_endpoints_cancelling ON webhook_endpoints (destination_id) WHERE is_cancelling;

-- What a publish reads: a row for each event type (or '*') and channel (or '') of an endpoint that is not deleted.
CREATE TABLE webhook_subscriptions (
    app_id         INTEGER NOT NULL,
    event_type     TEXT    NOT NULL,
    channel        TEXT    NOT NULL,
    destination_id INTEGER NOT NULL,
    PRIMARY KEY (app_id, event_type, channel, destination_id)
) WITHOUT ROWID;

CREATE INDEX webhook_subscriptions_destination ON webhook_subscriptions (destination_id);

CREATE TABLE webhook_event_types (
    org           TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    schemas       TEXT,             -- JSON
    is_deprecated INTEGER NOT NULL,
    group_name    TEXT,
    feature_flags TEXT    NOT NULL,
    archived_at   INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (org, name)
) WITHOUT ROWID;

-- Signing keys and custom headers of destinations, sealed. The newest key has the largest number.
CREATE TABLE webhook_sealed_values (
    number         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB    NOT NULL,
    destination_id INTEGER NOT NULL,
    kind           TEXT    NOT NULL, -- hmac, ed25519 or headers
    sealed         BLOB    NOT NULL,
    created_at     INTEGER NOT NULL,
    created_by     TEXT,
    retires_at     INTEGER
);

CREATE UNIQUE INDEX webhook_sealed_values_id ON webhook_sealed_values (id);
CREATE INDEX webhook_sealed_values_destination ON webhook_sealed_values (destination_id);
CREATE INDEX webhook_sealed_values_retiring ON webhook_sealed_values (retires_at) WHERE retires_at IS NOT NULL;

CREATE TABLE webhook_operations (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id          INTEGER NOT NULL,
    destination_id  INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    since           INTEGER NOT NULL,
    until           INTEGER NOT NULL,
    rate_per_second INTEGER NOT NULL,
    spent_until     INTEGER,
    cursor          INTEGER NOT NULL, -- the key of the last event or message that it examined
    examined_count  INTEGER NOT NULL,
    done_count      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
);

CREATE INDEX webhook_operations_running ON webhook_operations (id) WHERE state = 'running';

-- Answers to requests with an idempotency key.
CREATE TABLE webhook_answers (
    key         BLOB    NOT NULL PRIMARY KEY,
    fingerprint BLOB    NOT NULL,
    status      INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    body        BLOB    NOT NULL
) WITHOUT ROWID;

CREATE INDEX webhook_answers_expiry ON webhook_answers (expires_at);

-- Defaults and limits for SQL clients. The service writes its configuration here when it starts.
CREATE TABLE webhook_settings (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO webhook_settings (name, value) VALUES ('max_attempts', 6), ('payload_bytes_max', 1048576);
