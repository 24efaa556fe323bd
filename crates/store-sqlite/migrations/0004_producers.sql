-- The interface for SQL clients: two views that accept INSERT. A message or an event exists once the client's transaction commits,
-- and workers notice the commit within milliseconds.
--
--   INSERT INTO webhook_publish (app, event_type, payload) VALUES ('customer-1', 'invoice.paid', '{"amount": 1}');
--   INSERT INTO webhook_enqueue (destination_url, event_type, payload) VALUES ('https://host/path', 'invoice.paid', '{}');
--
-- The id of a new message is that of the last row of webhook_messages, in the same transaction:
--   SELECT 'msg_' || lower(hex(id)) FROM webhook_messages ORDER BY key DESC LIMIT 1;
--
-- `created_at` and `message_id` are for the service, which has a clock and a generator of its own; clients leave them out.
-- SQLite cannot put a value into the text of an error, so errors name the column and the rule.

-- The 256 bytes in order: a function that makes a byte of a number came with SQLite 3.41.
CREATE TABLE webhook_bytes (bytes BLOB NOT NULL);
INSERT INTO webhook_bytes (bytes) VALUES (x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff');

-- Publishes a message to the endpoints of an application: `app` is its id or its uid. `channels` and `tags` are JSON arrays.
-- With `endpoint`, an id or a uid, only that endpoint gets the message, whatever its subscription.
CREATE VIEW webhook_publish AS
SELECT NULL AS app, NULL AS event_type, NULL AS payload, NULL AS uid, NULL AS channels, NULL AS tags, NULL AS deliver_at,
       NULL AS payload_retention_days, NULL AS org, NULL AS payment_request_id, NULL AS session_id, NULL AS traceparent,
       NULL AS content_type, NULL AS max_attempts, NULL AS endpoint, NULL AS stored_by, NULL AS created_at, NULL AS message_id
WHERE 0;

CREATE TRIGGER webhook_publish_message INSTEAD OF INSERT ON webhook_publish
BEGIN
    SELECT CASE
        WHEN NEW.event_type IS NULL OR typeof(NEW.event_type) <> 'text' OR length(CAST(NEW.event_type AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.event_type) <> length(CAST(NEW.event_type AS BLOB)) OR NEW.event_type GLOB '*[^A-Za-z0-9._-]*'
            THEN RAISE(ABORT, 'event_type must be 1 to 256 letters, digits, full stops, hyphens or underscores')
        WHEN typeof(NEW.payload) NOT IN ('text', 'blob')
            THEN RAISE(ABORT, 'payload must be JSON text, or a blob, which is sent as it is')
        WHEN CASE typeof(NEW.payload) WHEN 'text' THEN NOT json_valid(NEW.payload) ELSE 0 END
            THEN RAISE(ABORT, 'payload is not valid JSON; pass a blob to send other bytes')
        WHEN NEW.message_id IS NULL
             AND length(CAST(NEW.payload AS BLOB)) > (SELECT value FROM webhook_settings WHERE name = 'payload_bytes_max')
            THEN RAISE(ABORT, 'payload is larger than payload_bytes_max accepts; send a reference to large data')
        WHEN NEW.uid IS NOT NULL AND (typeof(NEW.uid) <> 'text' OR length(CAST(NEW.uid AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.uid) <> length(CAST(NEW.uid AS BLOB)) OR NEW.uid GLOB '*[^A-Za-z0-9._-]*' OR NEW.uid GLOB 'msg[_]*' OR NEW.uid IN ('.', '..'))
            THEN RAISE(ABORT, 'uid must be 1 to 256 letters, digits, full stops, hyphens or underscores, not . or .., and not start with msg_')
        WHEN NEW.channels IS NOT NULL AND CASE
                 WHEN typeof(NEW.channels) <> 'text' THEN 1
                 WHEN NOT json_valid(NEW.channels) THEN 1
                 WHEN json_type(NEW.channels) <> 'array' THEN 1
                 WHEN json_array_length(NEW.channels) NOT BETWEEN 1 AND 5 THEN 1
                 ELSE EXISTS (SELECT 1 FROM json_each(NEW.channels) j WHERE j.type <> 'text' OR typeof(j.value) <> 'text' OR length(CAST(j.value AS BLOB)) NOT BETWEEN 1 AND 128 OR length(j.value) <> length(CAST(j.value AS BLOB)) OR j.value GLOB '*[^A-Za-z0-9._:-]*')
             END
            THEN RAISE(ABORT, 'channels must be a JSON array of 1 to 5 names; leave it out for none')
        WHEN NEW.tags IS NOT NULL AND CASE
                 WHEN typeof(NEW.tags) <> 'text' THEN 1
                 WHEN NOT json_valid(NEW.tags) THEN 1
                 WHEN json_type(NEW.tags) <> 'array' THEN 1
                 WHEN json_array_length(NEW.tags) NOT BETWEEN 1 AND 10 THEN 1
                 ELSE EXISTS (SELECT 1 FROM json_each(NEW.tags) j WHERE j.type <> 'text' OR length(CAST(j.value AS BLOB)) NOT BETWEEN 1 AND 256 OR length(j.value) <> length(CAST(j.value AS BLOB)) OR j.value GLOB '*[^ -~]*' OR j.value <> trim(j.value))
             END
            THEN RAISE(ABORT, 'tags must be a JSON array of 1 to 10 labels; leave it out for none')
        WHEN typeof(NEW.deliver_at) NOT IN ('null', 'integer', 'text')
             OR (NEW.deliver_at IS NOT NULL AND CASE
               WHEN typeof(NEW.deliver_at) = 'text'
                   THEN strftime('%s', NEW.deliver_at) * 1000000 + CAST(substr(strftime('%f', NEW.deliver_at), 4) AS INTEGER) * 1000
               WHEN NEW.deliver_at > 100000000000000 THEN NEW.deliver_at
               WHEN NEW.deliver_at > 100000000000 THEN NEW.deliver_at * 1000
               ELSE NEW.deliver_at * 1000000
           END IS NULL)
            THEN RAISE(ABORT, 'deliver_at must be a date and time in UTC, or a number of seconds, milliseconds or microseconds since 1970')
        WHEN NEW.payload_retention_days IS NOT NULL
             AND (typeof(NEW.payload_retention_days) <> 'integer' OR NEW.payload_retention_days NOT BETWEEN 5 AND 90)
            THEN RAISE(ABORT, 'payload_retention_days must be 5 to 90')
        WHEN NEW.max_attempts IS NOT NULL AND (typeof(NEW.max_attempts) <> 'integer' OR NEW.max_attempts NOT BETWEEN 1 AND 1000)
            THEN RAISE(ABORT, 'max_attempts must be 1 to 1000; leave it out to have the configured number')
        WHEN NEW.content_type IS NOT NULL AND (typeof(NEW.content_type) <> 'text' OR length(CAST(NEW.content_type AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.content_type) <> length(CAST(NEW.content_type AS BLOB))
                OR NEW.content_type GLOB '*[^ -~]*' OR NEW.content_type <> trim(NEW.content_type))
            THEN RAISE(ABORT, 'content_type must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.payment_request_id IS NOT NULL AND (typeof(NEW.payment_request_id) <> 'text' OR length(CAST(NEW.payment_request_id AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.payment_request_id) <> length(CAST(NEW.payment_request_id AS BLOB))
                OR NEW.payment_request_id GLOB '*[^ -~]*' OR NEW.payment_request_id <> trim(NEW.payment_request_id))
            THEN RAISE(ABORT, 'payment_request_id must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.session_id IS NOT NULL AND (typeof(NEW.session_id) <> 'text' OR length(CAST(NEW.session_id AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.session_id) <> length(CAST(NEW.session_id AS BLOB))
                OR NEW.session_id GLOB '*[^ -~]*' OR NEW.session_id <> trim(NEW.session_id))
            THEN RAISE(ABORT, 'session_id must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.traceparent IS NOT NULL AND (typeof(NEW.traceparent) <> 'text' OR length(CAST(NEW.traceparent AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.traceparent) <> length(CAST(NEW.traceparent AS BLOB))
                OR NEW.traceparent GLOB '*[^ -~]*' OR NEW.traceparent <> trim(NEW.traceparent))
            THEN RAISE(ABORT, 'traceparent must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.message_id IS NOT NULL AND (typeof(NEW.message_id) <> 'blob' OR length(NEW.message_id) <> 16)
            THEN RAISE(ABORT, 'message_id must be a UUID of sixteen bytes; leave it out to have one made')
    END;

    -- Indexes: webhook_applications_public_id, webhook_applications_uid.
    SELECT RAISE(ABORT, 'there is no such application; app must be the id or the uid of one')
    WHERE NOT EXISTS (SELECT 1 FROM webhook_applications a
                      WHERE a.org = coalesce(NEW.org, 'org_default') AND a.deleted_at IS NULL AND a.uid = NEW.app)
      AND NOT EXISTS (SELECT 1 FROM webhook_applications a
                      WHERE printf('app_%016x', a.id) = NEW.app AND a.deleted_at IS NULL
                        AND a.org = coalesce(NEW.org, 'org_default'));

    INSERT INTO webhook_messages
        (key, id, app_id, event_type, content_type, payment_request_id, session_id, traceparent, created_at, uid, channels,
         tags, stored_by, max_attempts, deliver_at, payload_expires_at, payload)
    SELECT n.last_event_key + 1,
           coalesce(NEW.message_id, CAST(
               substr(b.bytes, (t.now / 1000 >> 40 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 32 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 24 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 16 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 8 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 0 & 255) + 1, 1)
                          || substr(b.bytes, 112 + (random() & 15) + 1, 1)
                          || randomblob(1)
                          || substr(b.bytes, 128 + (random() & 63) + 1, 1)
                          || randomblob(7)
           AS BLOB)),
           coalesce((SELECT a.id FROM webhook_applications a
                     WHERE a.org = coalesce(NEW.org, 'org_default') AND a.deleted_at IS NULL AND a.uid = NEW.app),
                    (SELECT a.id FROM webhook_applications a WHERE printf('app_%016x', a.id) = NEW.app)),
           NEW.event_type, coalesce(NEW.content_type, 'application/json'), NEW.payment_request_id, NEW.session_id,
           NEW.traceparent, t.now, NEW.uid, NEW.channels, NEW.tags, NEW.stored_by,
           coalesce(NEW.max_attempts, (SELECT value FROM webhook_settings WHERE name = 'max_attempts')),
           CASE WHEN t.due > t.now THEN t.due END,
           t.now + coalesce(NEW.payload_retention_days, 90) * 86400000000,
           CAST(NEW.payload AS BLOB)
    FROM webhook_totals n
    CROSS JOIN webhook_bytes b
    CROSS JOIN (SELECT coalesce(NEW.created_at, strftime('%s', 'now') * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000) AS now,
           CASE
               WHEN typeof(NEW.deliver_at) = 'text'
                   THEN strftime('%s', NEW.deliver_at) * 1000000 + CAST(substr(strftime('%f', NEW.deliver_at), 4) AS INTEGER) * 1000
               WHEN NEW.deliver_at > 100000000000000 THEN NEW.deliver_at
               WHEN NEW.deliver_at > 100000000000 THEN NEW.deliver_at * 1000
               ELSE NEW.deliver_at * 1000000
           END AS due) t
    -- Index: webhook_messages_uid.
    WHERE NEW.uid IS NULL
       OR NOT EXISTS (SELECT 1 FROM webhook_messages other
                      WHERE other.uid = NEW.uid
                        AND other.app_id = coalesce((SELECT a.id FROM webhook_applications a
                                WHERE a.org = coalesce(NEW.org, 'org_default') AND a.deleted_at IS NULL AND a.uid = NEW.app),
                               (SELECT a.id FROM webhook_applications a WHERE printf('app_%016x', a.id) = NEW.app)));

    SELECT RAISE(ABORT, 'uid is taken by another message of the application; choose another')
    WHERE NOT EXISTS (SELECT 1 FROM webhook_messages WHERE key = (SELECT last_event_key + 1 FROM webhook_totals));

    -- From here on, the message is the one with the largest key.
    SELECT RAISE(ABORT, 'deliver_at must be at most 90 days ahead')
    FROM webhook_messages m
    WHERE m.key = (SELECT max(key) FROM webhook_messages) AND m.deliver_at > m.created_at + 90 * 86400000000;

    -- Index: webhook_endpoints_app.
    SELECT RAISE(ABORT, 'the application has no such endpoint that is enabled; endpoint must be the id or the uid of one')
    FROM webhook_messages m
    WHERE NEW.endpoint IS NOT NULL AND m.key = (SELECT max(key) FROM webhook_messages)
      AND NOT EXISTS (SELECT 1 FROM webhook_endpoints p CROSS JOIN webhook_destinations d ON d.id = p.destination_id
                      WHERE p.app_id = m.app_id AND p.deleted_at IS NULL AND d.disabled_at IS NULL
                        AND (p.uid = NEW.endpoint OR printf('ep_%016x', p.destination_id) = NEW.endpoint));

    -- The primary key of webhook_subscriptions finds exactly the endpoints that match.
    INSERT INTO webhook_events
        (id, app_id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at, webhook_id,
         payment_request_id, session_id, stored_by, deliver_at)
    SELECT m.key + row_number() OVER (ORDER BY d.id), m.app_id, 'msg_' || lower(hex(m.id)) || '-' || d.id, m.key, m.id, d.id,
           m.event_type, m.max_attempts, m.created_at, printf('ep_%016x', d.id), m.payment_request_id, m.session_id,
           m.stored_by, m.deliver_at
    FROM webhook_messages m
    CROSS JOIN webhook_destinations d
    WHERE m.key = (SELECT max(key) FROM webhook_messages)
      AND d.disabled_at IS NULL
      AND d.id IN (SELECT s.destination_id FROM webhook_subscriptions s
                   WHERE NEW.endpoint IS NULL AND s.app_id = m.app_id AND s.event_type IN (NEW.event_type, '*')
                     AND s.channel IN (SELECT '' UNION ALL SELECT j.value FROM json_each(coalesce(NEW.channels, '[]')) j)
                   UNION
                   SELECT p.destination_id FROM webhook_endpoints p
                   WHERE NEW.endpoint IS NOT NULL AND p.app_id = m.app_id AND p.deleted_at IS NULL
                     AND (p.uid = NEW.endpoint OR printf('ep_%016x', p.destination_id) = NEW.endpoint));

    INSERT INTO webhook_queue (id, destination_id, app_id, next_attempt_at, updated_at, lease_padding)
    SELECT e.id, e.destination_id, e.app_id, coalesce(e.deliver_at, e.created_at), e.created_at,
           x'00000000000000000000000000000000000000000000000000000000'
    FROM webhook_events e WHERE e.id > (SELECT max(key) FROM webhook_messages);

    INSERT INTO webhook_first_attempts (destination_id, id)
    SELECT e.destination_id, e.id FROM webhook_events e
    WHERE e.id > (SELECT max(key) FROM webhook_messages) AND e.deliver_at IS NULL;

    INSERT INTO webhook_deferred (destination_id, next_attempt_at, id)
    SELECT e.destination_id, e.deliver_at, e.id FROM webhook_events e
    WHERE e.id > (SELECT max(key) FROM webhook_messages) AND e.deliver_at IS NOT NULL;

    UPDATE webhook_destinations
    SET earliest_deferred_at = min(coalesce(earliest_deferred_at, 9223372036854775807),
                                   (SELECT m.deliver_at FROM webhook_messages m ORDER BY m.key DESC LIMIT 1))
    WHERE id IN (SELECT e.destination_id FROM webhook_events e
                 WHERE e.id > (SELECT max(key) FROM webhook_messages) AND e.deliver_at IS NOT NULL);

    UPDATE webhook_totals
    SET last_event_key = coalesce((SELECT max(id) FROM webhook_events WHERE id > last_event_key), last_event_key + 1),
        pending = pending + (SELECT count(*) FROM webhook_events WHERE id > last_event_key),
        deferred = deferred + (SELECT count(*) FROM webhook_events WHERE id > last_event_key AND deliver_at IS NOT NULL);
END;

-- Enqueues an event to a URL, which must be in its normal form: different spellings of a URL would be different destinations.
CREATE VIEW webhook_enqueue AS
SELECT NULL AS destination_url, NULL AS event_type, NULL AS payload, NULL AS event_id, NULL AS payment_request_id,
       NULL AS webhook_id, NULL AS session_id, NULL AS traceparent, NULL AS content_type, NULL AS max_attempts,
       NULL AS deliver_at, NULL AS created_at, NULL AS message_id
WHERE 0;

CREATE TRIGGER webhook_enqueue_event INSTEAD OF INSERT ON webhook_enqueue
BEGIN
    SELECT CASE
        WHEN typeof(u.url) <> 'text' OR length(CAST(u.url AS BLOB)) NOT BETWEEN 1 AND 2048
            THEN RAISE(ABORT, 'destination_url must be an absolute URL of at most 2048 bytes: write it as https://host/path')
        WHEN u.url NOT GLOB 'http://*' AND u.url NOT GLOB 'https://*'
            THEN RAISE(ABORT, 'destination_url must start with http:// or https:// in lower case: write it as https://host/path')
        WHEN length(u.url) <> length(CAST(u.url AS BLOB)) OR u.url GLOB '*[^!-~]*' OR u.url GLOB '*["<>\^`{|}]*'
            THEN RAISE(ABORT, 'destination_url has characters that a URL cannot have: percent-encode them, and write an international host in its xn-- form')
        WHEN instr(u.url, '#') > 0
            THEN RAISE(ABORT, 'destination_url has a fragment, which is never sent: remove everything from # on')
        WHEN instr(u.host, '@') > 0
            THEN RAISE(ABORT, 'destination_url carries a user name or password, which is not sent: remove everything before the @')
        WHEN u.tail = ''
            THEN RAISE(ABORT, 'destination_url has no path: write it with a / after the host')
        WHEN u.name <> lower(u.name)
            THEN RAISE(ABORT, 'destination_url has a host in upper case: write it in lower case')
        WHEN u.bare = '' OR u.bare GLOB '*[^a-z0-9._-]*' OR u.bare GLOB '.*' OR u.bare GLOB '*.' OR u.bare GLOB '*..*'
            THEN RAISE(ABORT, 'destination_url has no usable host: write a host name, or an IPv4 address as four decimal numbers')
        WHEN (u.last_label NOT GLOB '*[^0-9]*' OR (u.last_label GLOB '0x*' AND substr(u.last_label, 3) NOT GLOB '*[^0-9a-f]*'))
             AND (u.bare <> u.name
                  OR (SELECT count(*) FROM json_each('["' || replace(u.bare, '.', '","') || '"]') j
                      WHERE j.value NOT GLOB '*[^0-9]*' AND length(j.value) BETWEEN 1 AND 3
                        AND (j.value = '0' OR j.value NOT GLOB '0*') AND CAST(j.value AS INTEGER) <= 255) <> 4
                  OR length(u.bare) - length(replace(u.bare, '.', '')) <> 3)
            THEN RAISE(ABORT, 'destination_url has a host that is neither a name nor an address: write an IPv4 address as four decimal numbers')
        WHEN u.port IS NOT NULL
             AND (u.port = '' OR u.port GLOB '*[^0-9]*' OR length(u.port) > 5 OR (u.port GLOB '0*' AND u.port <> '0')
                  OR CAST(u.port AS INTEGER) > 65535)
            THEN RAISE(ABORT, 'destination_url has a port that is not a number from 0 to 65535')
        WHEN (u.port = '80' AND u.url GLOB 'http://*') OR (u.port = '443' AND u.url GLOB 'https://*')
            THEN RAISE(ABORT, 'destination_url has the port of its scheme: leave the port out')
        WHEN instr(u.path || '/', '/./') > 0 OR instr(u.path || '/', '/../') > 0
            THEN RAISE(ABORT, 'destination_url has a . or .. segment in its path: write the path that it stands for')
        WHEN instr(u.tail, '?') > 0 AND instr(substr(u.tail, instr(u.tail, '?')), '''') > 0
            THEN RAISE(ABORT, 'destination_url has an apostrophe in its query: write it as %27')
    END
    FROM (SELECT b.*, replace(lower(substr(b.tail, 1, instr(b.tail || '?', '?') - 1)), '%2e', '.') AS path,
                 substr(b.bare, length(rtrim(b.bare, replace(b.bare, '.', ''))) + 1) AS last_label
          FROM (SELECT a.*, CASE WHEN a.name GLOB '*.' THEN substr(a.name, 1, length(a.name) - 1) ELSE a.name END AS bare
                FROM (SELECT h.*, CASE WHEN instr(h.host, ':') > 0 THEN substr(h.host, 1, instr(h.host, ':') - 1) ELSE h.host END
                                  AS name,
                             CASE WHEN instr(h.host, ':') > 0 THEN substr(h.host, instr(h.host, ':') + 1) END AS port
                      FROM (SELECT r.url, substr(r.rest, 1, instr(r.rest || '/', '/') - 1) AS host,
                                   substr(r.rest, instr(r.rest || '/', '/')) AS tail
                            FROM (SELECT NEW.destination_url AS url,
                                         substr(NEW.destination_url, instr(NEW.destination_url, '://') + 3) AS rest) r) h) a) b) u;

    SELECT CASE
        WHEN NEW.event_type IS NULL
            THEN RAISE(ABORT, 'event_type is missing: name what happened, such as invoice.paid')
        WHEN NEW.event_type IS NOT NULL AND (typeof(NEW.event_type) <> 'text' OR length(CAST(NEW.event_type AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.event_type) <> length(CAST(NEW.event_type AS BLOB))
                OR NEW.event_type GLOB '*[^ -~]*' OR NEW.event_type <> trim(NEW.event_type))
            THEN RAISE(ABORT, 'event_type must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN typeof(NEW.payload) NOT IN ('text', 'blob')
            THEN RAISE(ABORT, 'payload must be JSON text, or a blob, which is sent as it is')
        WHEN CASE typeof(NEW.payload) WHEN 'text' THEN NOT json_valid(NEW.payload) ELSE 0 END
            THEN RAISE(ABORT, 'payload is not valid JSON; pass a blob to send other bytes')
        WHEN NEW.message_id IS NULL
             AND length(CAST(NEW.payload AS BLOB)) > (SELECT value FROM webhook_settings WHERE name = 'payload_bytes_max')
            THEN RAISE(ABORT, 'payload is larger than payload_bytes_max accepts; send a reference to large data')
        WHEN NEW.event_id IS NOT NULL
             AND (typeof(NEW.event_id) <> 'text' OR length(CAST(NEW.event_id AS BLOB)) NOT BETWEEN 1 AND 256
                  OR length(NEW.event_id) <> length(CAST(NEW.event_id AS BLOB)) OR NEW.event_id GLOB '*[^!-~]*'
                  OR instr(NEW.event_id, '.') > 0)
            THEN RAISE(ABORT, 'event_id must be 1 to 256 visible ASCII characters without spaces and full stops')
        -- Indexes: webhook_events_event_id, webhook_discarded_events_event_id.
        WHEN EXISTS (SELECT 1 FROM webhook_events WHERE event_id = NEW.event_id)
             OR EXISTS (SELECT 1 FROM webhook_discarded_events WHERE event_id = NEW.event_id)
            THEN RAISE(ABORT, 'event_id is taken: leave it out to have one made, or choose another')
        WHEN typeof(NEW.deliver_at) NOT IN ('null', 'integer', 'text')
             OR (NEW.deliver_at IS NOT NULL AND CASE
               WHEN typeof(NEW.deliver_at) = 'text'
                   THEN strftime('%s', NEW.deliver_at) * 1000000 + CAST(substr(strftime('%f', NEW.deliver_at), 4) AS INTEGER) * 1000
               WHEN NEW.deliver_at > 100000000000000 THEN NEW.deliver_at
               WHEN NEW.deliver_at > 100000000000 THEN NEW.deliver_at * 1000
               ELSE NEW.deliver_at * 1000000
           END IS NULL)
            THEN RAISE(ABORT, 'deliver_at must be a date and time in UTC, or a number of seconds, milliseconds or microseconds since 1970')
        WHEN NEW.max_attempts IS NOT NULL AND (typeof(NEW.max_attempts) <> 'integer' OR NEW.max_attempts NOT BETWEEN 1 AND 1000)
            THEN RAISE(ABORT, 'max_attempts must be 1 to 1000; leave it out to have the configured number')
        WHEN NEW.content_type IS NOT NULL AND (typeof(NEW.content_type) <> 'text' OR length(CAST(NEW.content_type AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.content_type) <> length(CAST(NEW.content_type AS BLOB))
                OR NEW.content_type GLOB '*[^ -~]*' OR NEW.content_type <> trim(NEW.content_type))
            THEN RAISE(ABORT, 'content_type must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.payment_request_id IS NOT NULL AND (typeof(NEW.payment_request_id) <> 'text' OR length(CAST(NEW.payment_request_id AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.payment_request_id) <> length(CAST(NEW.payment_request_id AS BLOB))
                OR NEW.payment_request_id GLOB '*[^ -~]*' OR NEW.payment_request_id <> trim(NEW.payment_request_id))
            THEN RAISE(ABORT, 'payment_request_id must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.webhook_id IS NOT NULL AND (typeof(NEW.webhook_id) <> 'text' OR length(CAST(NEW.webhook_id AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.webhook_id) <> length(CAST(NEW.webhook_id AS BLOB))
                OR NEW.webhook_id GLOB '*[^ -~]*' OR NEW.webhook_id <> trim(NEW.webhook_id))
            THEN RAISE(ABORT, 'webhook_id must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.session_id IS NOT NULL AND (typeof(NEW.session_id) <> 'text' OR length(CAST(NEW.session_id AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.session_id) <> length(CAST(NEW.session_id AS BLOB))
                OR NEW.session_id GLOB '*[^ -~]*' OR NEW.session_id <> trim(NEW.session_id))
            THEN RAISE(ABORT, 'session_id must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.traceparent IS NOT NULL AND (typeof(NEW.traceparent) <> 'text' OR length(CAST(NEW.traceparent AS BLOB)) NOT BETWEEN 1 AND 256 OR length(NEW.traceparent) <> length(CAST(NEW.traceparent AS BLOB))
                OR NEW.traceparent GLOB '*[^ -~]*' OR NEW.traceparent <> trim(NEW.traceparent))
            THEN RAISE(ABORT, 'traceparent must be 1 to 256 printable ASCII characters, with no space at either end')
        WHEN NEW.message_id IS NOT NULL AND (typeof(NEW.message_id) <> 'blob' OR length(NEW.message_id) <> 16)
            THEN RAISE(ABORT, 'message_id must be a UUID of sixteen bytes; leave it out to have one made')
    END;

    -- Index: webhook_destinations_url.
    INSERT INTO webhook_destinations (kind, url, created_at)
    SELECT 'url', NEW.destination_url, coalesce(NEW.created_at, strftime('%s', 'now') * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000)
    WHERE NOT EXISTS (SELECT 1 FROM webhook_destinations WHERE kind = 'url' AND url = NEW.destination_url);

    INSERT INTO webhook_messages
        (key, id, event_type, content_type, payment_request_id, session_id, traceparent, created_at, deliver_at, payload)
    SELECT n.last_event_key + 1,
           coalesce(NEW.message_id, CAST(
               substr(b.bytes, (t.now / 1000 >> 40 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 32 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 24 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 16 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 8 & 255) + 1, 1)
                          || substr(b.bytes, (t.now / 1000 >> 0 & 255) + 1, 1)
                          || substr(b.bytes, 112 + (random() & 15) + 1, 1)
                          || randomblob(1)
                          || substr(b.bytes, 128 + (random() & 63) + 1, 1)
                          || randomblob(7)
           AS BLOB)),
           NEW.event_type, coalesce(NEW.content_type, 'application/json'), NEW.payment_request_id, NEW.session_id,
           NEW.traceparent, t.now, CASE WHEN t.due > t.now THEN t.due END, CAST(NEW.payload AS BLOB)
    FROM webhook_totals n
    CROSS JOIN webhook_bytes b
    CROSS JOIN (SELECT coalesce(NEW.created_at, strftime('%s', 'now') * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000) AS now,
           CASE
               WHEN typeof(NEW.deliver_at) = 'text'
                   THEN strftime('%s', NEW.deliver_at) * 1000000 + CAST(substr(strftime('%f', NEW.deliver_at), 4) AS INTEGER) * 1000
               WHEN NEW.deliver_at > 100000000000000 THEN NEW.deliver_at
               WHEN NEW.deliver_at > 100000000000 THEN NEW.deliver_at * 1000
               ELSE NEW.deliver_at * 1000000
           END AS due) t;

    -- From here on, the message is the one with the largest key, and the event has the same key.
    SELECT RAISE(ABORT, 'deliver_at must be at most 90 days ahead')
    FROM webhook_messages m
    WHERE m.key = (SELECT max(key) FROM webhook_messages) AND m.deliver_at > m.created_at + 90 * 86400000000;

    INSERT INTO webhook_events
        (id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at, webhook_id,
         payment_request_id, session_id, deliver_at)
    SELECT m.key, coalesce(NEW.event_id, 'msg_' || lower(hex(m.id))), m.key, m.id, d.id, m.event_type,
           coalesce(NEW.max_attempts, (SELECT value FROM webhook_settings WHERE name = 'max_attempts')), m.created_at,
           NEW.webhook_id, m.payment_request_id, m.session_id, m.deliver_at
    FROM webhook_messages m
    CROSS JOIN webhook_destinations d
    WHERE m.key = (SELECT max(key) FROM webhook_messages) AND d.kind = 'url' AND d.url = NEW.destination_url;

    INSERT INTO webhook_queue (id, destination_id, next_attempt_at, updated_at, lease_padding)
    SELECT e.id, e.destination_id, coalesce(e.deliver_at, e.created_at), e.created_at,
           x'00000000000000000000000000000000000000000000000000000000'
    FROM webhook_events e WHERE e.id = (SELECT max(key) FROM webhook_messages);

    INSERT INTO webhook_first_attempts (destination_id, id)
    SELECT e.destination_id, e.id FROM webhook_events e
    WHERE e.id = (SELECT max(key) FROM webhook_messages) AND e.deliver_at IS NULL;

    INSERT INTO webhook_deferred (destination_id, next_attempt_at, id)
    SELECT e.destination_id, e.deliver_at, e.id FROM webhook_events e
    WHERE e.id = (SELECT max(key) FROM webhook_messages) AND e.deliver_at IS NOT NULL;

    UPDATE webhook_destinations
    SET earliest_deferred_at = min(coalesce(earliest_deferred_at, 9223372036854775807),
                                   (SELECT m.deliver_at FROM webhook_messages m ORDER BY m.key DESC LIMIT 1))
    WHERE id IN (SELECT e.destination_id FROM webhook_events e
                 WHERE e.id = (SELECT max(key) FROM webhook_messages) AND e.deliver_at IS NOT NULL);

    UPDATE webhook_totals
    SET last_event_key = last_event_key + 1,
        pending = pending + 1,
        deferred = deferred + (SELECT count(*) FROM webhook_events WHERE id > last_event_key AND deliver_at IS NOT NULL);
END;
