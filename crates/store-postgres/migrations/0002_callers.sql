-- The interface for SQL clients: a function that enqueues inside their own transaction, and a view of deliveries.

-- Defaults and limits of app.enqueue_webhook. The service writes its configuration here when it starts.
CREATE TABLE app.webhook_settings (
    name  text   NOT NULL,
    value bigint NOT NULL
);
CREATE UNIQUE INDEX webhook_settings_name ON app.webhook_settings (name);
INSERT INTO app.webhook_settings (name, value) VALUES ('max_attempts', 6), ('payload_bytes_max', 1048576);

-- Returns a destination URL in its normal form, so that different spellings of a URL share one destination. Every URL that
-- it accepts has the same normal form as in DestinationUrl::parse of the domain crate.
CREATE FUNCTION app.webhook_normalized_url(given text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    parts     text[];
    scheme    text;
    host      text;
    port      text;
    path      text;
    last_part text;
    dotted    text[];
BEGIN
    IF given IS NULL OR given = '' THEN
        RAISE EXCEPTION 'destination_url is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it as https://host/path.';
    END IF;
    IF octet_length(given) > 2048 THEN
        RAISE EXCEPTION 'destination_url is % bytes long; at most 2048 are accepted', octet_length(given)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter URL.';
    END IF;
    parts := regexp_match(given, '^([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)([?][^#]*)?(#.*)?$');
    IF parts IS NULL THEN
        RAISE EXCEPTION 'destination_url is not an absolute URL'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it as https://host/path.';
    END IF;
    scheme := lower(parts[1]);
    IF scheme NOT IN ('http', 'https') THEN
        RAISE EXCEPTION 'destination_url has the scheme "%"; only http and https are delivered to', scheme
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it as https://host/path.';
    END IF;
    IF strpos(parts[2], '@') > 0 THEN
        RAISE EXCEPTION 'destination_url carries a user name or password; credentials are not sent'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Remove everything before the @.';
    END IF;
    IF parts[5] IS NOT NULL THEN
        RAISE EXCEPTION 'destination_url has a fragment, which is never sent'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Remove everything from # on.';
    END IF;
    IF given COLLATE "C" ~ '[^!-~]' OR given ~ '["<>\\^`{|}]' THEN
        RAISE EXCEPTION 'destination_url has characters that a URL cannot have'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Percent-encode the path and the query; write an international host in its xn-- form.';
    END IF;
    path := coalesce(nullif(parts[3], ''), '/');
    IF path ~* '(^|/)([.]|%2e){1,2}(/|$)' THEN
        RAISE EXCEPTION 'destination_url has a . or .. segment in its path'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write the path that it stands for.';
    END IF;

    parts[2] := lower(parts[2]);
    host := substring(parts[2] FROM '^(.*?)(?::[0-9]*)?$');
    port := substring(parts[2] FROM ':([0-9]+)$');
    last_part := substring(host FROM '([^.]*)[.]?$');
    IF host ~ '^\[[0-9a-f.]*:[0-9a-f:.]*\]$' THEN
        BEGIN
            host := host(trim(both '[]' FROM host)::inet);
            -- PostgreSQL prints an embedded IPv4 address in dotted form; the normal form has it in hexadecimal.
            dotted := regexp_match(host, '^(.*:)([0-9]+)[.]([0-9]+)[.]([0-9]+)[.]([0-9]+)$');
            IF dotted IS NOT NULL THEN
                host := dotted[1]
                     || CASE WHEN dotted[1] = '::' AND dotted[2] = '0' AND dotted[3] = '0' THEN ''
                             ELSE to_hex(dotted[2]::integer * 256 + dotted[3]::integer) || ':' END
                     || to_hex(dotted[4]::integer * 256 + dotted[5]::integer);
            END IF;
            host := '[' || host || ']';
        EXCEPTION WHEN invalid_text_representation THEN
            RAISE EXCEPTION 'destination_url has a host that is no address'
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Write an IPv6 address as [2001:db8::1].';
        END;
    ELSIF host !~ '^[a-z0-9_]([a-z0-9._-]*[a-z0-9_.])?$' OR host ~ '[.][.]' THEN
        RAISE EXCEPTION 'destination_url has no usable host'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it as https://host/path.';
    ELSIF last_part ~ '^([0-9]+|0x[0-9a-f]*)$'
          AND host !~ '^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])([.](?!$)|$)){4}$' THEN
        RAISE EXCEPTION 'destination_url has a host that is neither a name nor an address'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write an IPv4 address as four decimal numbers.';
    END IF;
    IF port::numeric > 65535 THEN
        RAISE EXCEPTION 'destination_url has port %; ports end at 65535', port
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Correct the port.';
    END IF;
    port := port::integer::text;
    IF port IS NOT NULL AND (scheme, port) NOT IN (('http', '80'), ('https', '443')) THEN
        host := host || ':' || port;
    END IF;
    given := scheme || '://' || host || path || replace(coalesce(parts[4], ''), '''', '%27');
    IF octet_length(given) > 2048 THEN
        RAISE EXCEPTION 'destination_url is % bytes long; at most 2048 are accepted', octet_length(given)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter URL.';
    END IF;
    RETURN given;
END
$$;

-- Returns a label unchanged, or raises an error: labels appear in headers and log lines and must be printable ASCII
-- without a space at either end.
CREATE FUNCTION app.webhook_checked_label(field text, given text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF given IS NOT NULL
       AND (octet_length(given) > 256 OR given COLLATE "C" !~ '^[!-~]([ -~]*[!-~])?$') THEN
        RAISE EXCEPTION '% must be 1 to 256 printable ASCII characters, got "%"', field, left(given, 64)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'No space at either end, and no line breaks.';
    END IF;
    RETURN given;
END
$$;

-- Stores one event in the caller's transaction and returns the event's id. Workers deliver the event once the transaction
-- has committed, and not before deliver_at; if it rolls back, the event does not exist. The type json keeps the payload's text
-- as passed, and that text is signed. The function runs with its owner's privileges: a producer needs only USAGE on the
-- schema and EXECUTE on the function.
CREATE FUNCTION app.enqueue_webhook(
    destination_url    text,
    event_type         text,
    payload            json,
    event_id           text        DEFAULT NULL,
    payment_request_id text        DEFAULT NULL,
    webhook_id         text        DEFAULT NULL,
    session_id         text        DEFAULT NULL,
    traceparent        text        DEFAULT NULL,
    content_type       text        DEFAULT 'application/json',
    max_attempts       integer     DEFAULT NULL,
    deliver_at         timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
<<new>>
DECLARE
    key            bigint;
    destination_id bigint;
    message_id     uuid;
    event_id       text := enqueue_webhook.event_id;
    max_attempts   bigint := enqueue_webhook.max_attempts;
    due_at         timestamptz;
    bytes          bytea;
    bytes_max      bigint;
    random         text := replace(gen_random_uuid()::text, '-', '');
    millis         bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    IF event_type IS NULL THEN
        RAISE EXCEPTION 'event_type is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name what happened, such as invoice.paid.';
    END IF;
    IF payload IS NULL THEN
        RAISE EXCEPTION 'payload is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Pass the JSON null if there is nothing to say.';
    END IF;
    IF content_type IS NULL THEN
        RAISE EXCEPTION 'content_type is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out to have application/json.';
    END IF;
    IF new.event_id COLLATE "C" !~ '^[!-~]+$' OR octet_length(new.event_id) > 256 OR strpos(new.event_id, '.') > 0 THEN
        RAISE EXCEPTION 'event_id "%" is not usable', left(new.event_id, 64)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Use 1 to 256 visible ASCII characters without spaces and full stops.';
    END IF;
    -- Checked before the insert: catching the error instead would cost every call a subtransaction.
    IF EXISTS (SELECT FROM app.webhook_events e WHERE e.event_id = new.event_id) THEN
        RAISE EXCEPTION 'event_id "%" is taken', new.event_id
            USING ERRCODE = 'unique_violation', HINT = 'Leave it out to have one made, or choose another.';
    END IF;
    PERFORM app.webhook_refuse_discarded_ids(ARRAY[new.event_id]) WHERE new.event_id IS NOT NULL;
    IF deliver_at > app.webhook_now() + interval '90 days' THEN
        RAISE EXCEPTION 'deliver_at must be at most 90 days ahead, got %', deliver_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Enqueue the event later.';
    END IF;
    IF deliver_at > app.webhook_now() THEN
        due_at := deliver_at;
    END IF;

    SELECT coalesce(new.max_attempts, s.value) INTO new.max_attempts
    FROM app.webhook_settings s WHERE s.name = 'max_attempts';
    IF new.max_attempts IS NULL OR new.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts must be 1 to 1000, got %', new.max_attempts
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out to have the configured number.';
    END IF;

    new.bytes := convert_to(payload::text, 'UTF8');
    SELECT s.value INTO new.bytes_max FROM app.webhook_settings s WHERE s.name = 'payload_bytes_max';
    IF octet_length(new.bytes) > new.bytes_max THEN
        RAISE EXCEPTION 'payload is % bytes; at most % are accepted', octet_length(new.bytes), new.bytes_max
            USING ERRCODE = 'program_limit_exceeded',
                  HINT = 'Send a reference to large data, and let the receiver fetch it.';
    END IF;

    -- A UUID of version 7: 48 bits of milliseconds, the rest random.
    new.message_id := (lpad(to_hex(millis), 12, '0') || '7' || substr(random, 14))::uuid;
    new.event_id := coalesce(new.event_id, 'msg_' || replace(new.message_id::text, '-', ''));
    new.destination_id := app.webhook_destination_id(app.webhook_normalized_url(enqueue_webhook.destination_url));
    new.key := app.webhook_next_event_key();

    INSERT INTO app.webhook_events (
        id, destination_id, created_at, message_id, max_attempts, event_id, event_type, content_type, webhook_id,
        payment_request_id, session_id, traceparent, deliver_at, payload
    ) VALUES (
        new.key, new.destination_id, app.webhook_now(), new.message_id, new.max_attempts, new.event_id,
        app.webhook_checked_label('event_type', enqueue_webhook.event_type),
        app.webhook_checked_label('content_type', enqueue_webhook.content_type),
        app.webhook_checked_label('webhook_id', enqueue_webhook.webhook_id),
        app.webhook_checked_label('payment_request_id', enqueue_webhook.payment_request_id),
        app.webhook_checked_label('session_id', enqueue_webhook.session_id),
        app.webhook_checked_label('traceparent', enqueue_webhook.traceparent), due_at, new.bytes
    );
    INSERT INTO app.webhook_queue (id, destination_id, queue_position, next_attempt_at, payload_bytes, updated_at)
    VALUES (
        new.key, new.destination_id, coalesce(app.webhook_retry_position(due_at), new.key),
        coalesce(due_at, app.webhook_now()), octet_length(new.bytes), app.webhook_now()
    );
    INSERT INTO app.webhook_counts (pending) VALUES (1);
    -- A worker may send the event as soon as it is visible. A crash must not undo a change that the receiver has already seen.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    RETURN new.event_id;
END
$$;

REVOKE ALL ON FUNCTION app.enqueue_webhook(
    text, text, json, text, text, text, text, text, text, integer, timestamptz
) FROM PUBLIC;

-- Refuses a payload of type jsonb, which does not cast to json implicitly: PostgreSQL would only say that no such function
-- exists. Any role may call this function, because it does nothing else.
--
-- The type name keeps other calls away from it. PostgreSQL prefers text to name for untyped and for text arguments, so it
-- selects the function above for every payload but jsonb. With text in both functions, an untyped payload would be ambiguous.
CREATE FUNCTION app.enqueue_webhook(
    destination_url    name,
    event_type         name,
    payload            jsonb,
    event_id           text        DEFAULT NULL,
    payment_request_id text        DEFAULT NULL,
    webhook_id         text        DEFAULT NULL,
    session_id         text        DEFAULT NULL,
    traceparent        text        DEFAULT NULL,
    content_type       text        DEFAULT 'application/json',
    max_attempts       integer     DEFAULT NULL,
    deliver_at         timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'payload is jsonb; it must be json, whose text is signed and delivered exactly as it was written'
        USING ERRCODE = 'datatype_mismatch',
              HINT = 'jsonb does not keep the text. Pass the original text, or write payload::json for what jsonb has kept.';
END
$$;

-- Stores a message of an application in the caller's transaction, and an event for each endpoint that is enabled and whose
-- subscription matches; or for one endpoint alone, whatever its subscription. The caller has checked every value. Both the
-- function below and the Rust store publish with it. Returns no row if the message's uid is taken.
--
-- The transaction gets its id before it reads an endpoint, as webhook_destination_id explains. The shared lock keeps an endpoint
-- from changing between FIFO order and any order until the transaction ends.
CREATE FUNCTION app.webhook_fan_out(
    app_id             bigint,
    message_id         uuid,
    event_type         text,
    payload            bytea,
    uid                text,
    channels           text[],
    tags               text[],
    deliver_at         timestamptz,
    payload_retention  interval,
    payment_request_id text,
    session_id         text,
    traceparent        text,
    content_type       text,
    max_attempts       integer,
    stored_by          text,
    only_destination   bigint,
    OUT event_count    bigint,
    OUT created_at     timestamptz
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
<<new>>
DECLARE
    key          bigint;
    destinations bigint[];
    fifo         boolean[];
    has_line     boolean;
    id_text      text := 'msg_' || replace(message_id::text, '-', '');
    due_at       timestamptz;
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(7527, pg_catalog.hashint8(webhook_fan_out.app_id));
    webhook_fan_out.created_at := app.webhook_now();
    IF webhook_fan_out.deliver_at > webhook_fan_out.created_at THEN
        due_at := webhook_fan_out.deliver_at;
    END IF;
    INSERT INTO app.webhook_messages (
        app_id, id, created_at, deliver_at, payload_expires_at, payload_bytes, max_attempts, event_type, content_type, uid,
        channels, tags, payment_request_id, session_id, traceparent, stored_by, payload
    ) VALUES (
        webhook_fan_out.app_id, webhook_fan_out.message_id, webhook_fan_out.created_at, due_at,
        webhook_fan_out.created_at + webhook_fan_out.payload_retention, octet_length(webhook_fan_out.payload),
        webhook_fan_out.max_attempts, webhook_fan_out.event_type, webhook_fan_out.content_type, webhook_fan_out.uid,
        webhook_fan_out.channels, webhook_fan_out.tags, webhook_fan_out.payment_request_id, webhook_fan_out.session_id,
        webhook_fan_out.traceparent, webhook_fan_out.stored_by, webhook_fan_out.payload
    )
    ON CONFLICT (app_id, uid) WHERE uid IS NOT NULL DO NOTHING
    RETURNING webhook_messages.key INTO new.key;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    IF only_destination IS NOT NULL THEN
        SELECT ARRAY[d.id], ARRAY[d.is_fifo], d.is_fifo INTO destinations, fifo, has_line
        FROM app.webhook_destinations d WHERE d.id = only_destination;
    ELSE
        SELECT array_agg(m.id ORDER BY m.id), array_agg(m.is_fifo ORDER BY m.id), bool_or(m.is_fifo)
        INTO destinations, fifo, has_line
        FROM (
            SELECT DISTINCT d.id, d.is_fifo
            FROM app.webhook_subscriptions s
            JOIN app.webhook_destinations d ON d.id = s.destination_id
            WHERE s.app_id = webhook_fan_out.app_id
                  AND s.event_type = ANY (ARRAY[webhook_fan_out.event_type, '*'])
                  AND s.channel = ANY (array_append(webhook_fan_out.channels, ''))
                  AND d.disabled_at IS NULL
        ) m;
    END IF;
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        -- The snapshot may be older than the removal of an endpoint.
        PERFORM FROM app.webhook_destinations d WHERE d.id = ANY (destinations) ORDER BY d.id FOR KEY SHARE;
    END IF;
    IF has_line THEN
        PERFORM FROM app.webhook_fifo_lines l WHERE l.destination_id = ANY (destinations) ORDER BY l.destination_id FOR UPDATE;
    END IF;

    WITH keyed AS MATERIALIZED (
        SELECT app.webhook_next_event_key() AS id, m.destination_id, m.is_fifo
        FROM (
            SELECT m.destination_id, m.is_fifo FROM unnest(destinations, fifo) AS m (destination_id, is_fifo) ORDER BY 1
        ) m
    ),
    events AS (
        INSERT INTO app.webhook_events (
            id, app_id, destination_id, created_at, message_id, max_attempts, event_id, event_type, content_type, webhook_id,
            payment_request_id, session_id, traceparent, stored_by, message_key, deliver_at
        )
        SELECT k.id, webhook_fan_out.app_id, k.destination_id, webhook_fan_out.created_at, webhook_fan_out.message_id,
               webhook_fan_out.max_attempts, id_text || '-' || k.destination_id, webhook_fan_out.event_type,
               webhook_fan_out.content_type, 'ep_' || lpad(to_hex(k.destination_id), 16, '0'),
               webhook_fan_out.payment_request_id, webhook_fan_out.session_id, webhook_fan_out.traceparent,
               webhook_fan_out.stored_by, new.key, due_at
        FROM keyed k
    ),
    queue AS (
        INSERT INTO app.webhook_queue (
            id, destination_id, queue_position, next_attempt_at, payload_bytes, is_fifo, updated_at
        )
        SELECT k.id, k.destination_id, coalesce(app.webhook_retry_position(due_at), k.id),
               coalesce(due_at, webhook_fan_out.created_at), octet_length(webhook_fan_out.payload), k.is_fifo,
               webhook_fan_out.created_at
        FROM keyed k
    )
    INSERT INTO app.webhook_counts (pending) SELECT count(*) FROM keyed HAVING count(*) > 0;
    webhook_fan_out.event_count := coalesce(cardinality(destinations), 0);
    -- A worker may send the events as soon as they are visible. A crash must not undo a change that a receiver has already seen.
    PERFORM set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
    RETURN NEXT;
END
$$;

-- Publishes a message to the endpoints of an application in the caller's transaction, and returns the message's id. Workers
-- deliver its events once the transaction has committed; if it rolls back, neither the message nor an event exists. "application" is
-- the id or the uid of one. The function runs with its owner's privileges: a producer needs only USAGE on the schema and
-- EXECUTE on the function.
CREATE FUNCTION app.publish_webhook(
    application            text,
    event_type             text,
    payload                json,
    uid                    text        DEFAULT NULL,
    channels               text[]      DEFAULT NULL,
    tags                   text[]      DEFAULT NULL,
    deliver_at             timestamptz DEFAULT NULL,
    payload_retention_days integer     DEFAULT 90,
    org                    text        DEFAULT 'org_default',
    payment_request_id     text        DEFAULT NULL,
    session_id             text        DEFAULT NULL,
    traceparent            text        DEFAULT NULL,
    content_type           text        DEFAULT 'application/json',
    max_attempts           integer     DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
<<new>>
DECLARE
    app_id       bigint;
    message_id   uuid;
    max_attempts bigint := publish_webhook.max_attempts;
    bytes        bytea;
    bytes_max    bigint;
    item         text;
    random       text := replace(gen_random_uuid()::text, '-', '');
    millis       bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    IF payload IS NULL THEN
        RAISE EXCEPTION 'payload is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Pass the JSON null if there is nothing to say.';
    END IF;
    IF content_type IS NULL THEN
        RAISE EXCEPTION 'content_type is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out to have application/json.';
    END IF;
    IF event_type IS NULL OR event_type COLLATE "C" !~ '^[A-Za-z0-9._-]+$' OR octet_length(event_type) > 256 THEN
        RAISE EXCEPTION 'event_type "%" is not usable', left(event_type, 64)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Use 1 to 256 letters, digits, full stops, hyphens and underscores, such as invoice.paid.';
    END IF;
    IF uid COLLATE "C" !~ '^[A-Za-z0-9._-]+$' OR octet_length(uid) > 256 OR starts_with(uid, 'msg_') OR uid IN ('.', '..') THEN
        RAISE EXCEPTION 'uid "%" is not usable', left(uid, 64)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Use 1 to 256 letters, digits, full stops, hyphens and underscores that do not begin with msg_, and neither . nor ..';
    END IF;
    IF channels IS NOT NULL AND coalesce(cardinality(channels), 0) NOT BETWEEN 1 AND 5 THEN
        RAISE EXCEPTION 'there must be 1 to 5 channels, got %', cardinality(channels)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave them out for none.';
    END IF;
    FOREACH item IN ARRAY coalesce(channels, '{}') LOOP
        IF item IS NULL OR item COLLATE "C" !~ '^[A-Za-z0-9._:-]{1,128}$' THEN
            RAISE EXCEPTION 'channel "%" is not usable', left(item, 64)
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Use 1 to 128 letters, digits, full stops, hyphens, underscores and colons.';
        END IF;
    END LOOP;
    IF cardinality(tags) > 10 THEN
        RAISE EXCEPTION 'there are % tags; at most 10 are accepted', cardinality(tags)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave some out.';
    END IF;
    FOREACH item IN ARRAY coalesce(tags, '{}') LOOP
        PERFORM app.webhook_checked_label('tags', coalesce(item, ''));
    END LOOP;
    IF deliver_at > app.webhook_now() + interval '90 days' THEN
        RAISE EXCEPTION 'deliver_at is %, more than 90 days ahead', deliver_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Publish the message later.';
    END IF;
    IF payload_retention_days IS NULL OR payload_retention_days NOT BETWEEN 5 AND 90 THEN
        RAISE EXCEPTION 'payload_retention_days must be 5 to 90, got %', payload_retention_days
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out to have 90.';
    END IF;
    SELECT coalesce(new.max_attempts, s.value) INTO new.max_attempts
    FROM app.webhook_settings s WHERE s.name = 'max_attempts';
    IF new.max_attempts IS NULL OR new.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts must be 1 to 1000, got %', new.max_attempts
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out to have the configured number.';
    END IF;
    new.bytes := convert_to(payload::text, 'UTF8');
    SELECT s.value INTO new.bytes_max FROM app.webhook_settings s WHERE s.name = 'payload_bytes_max';
    IF octet_length(new.bytes) > new.bytes_max THEN
        RAISE EXCEPTION 'payload is % bytes; at most % are accepted', octet_length(new.bytes), new.bytes_max
            USING ERRCODE = 'program_limit_exceeded',
                  HINT = 'Send a reference to large data, and let the receiver fetch it.';
    END IF;

    IF publish_webhook.application COLLATE "C" ~ '^app_[0-9a-f]{16}$' THEN
        SELECT a.id INTO new.app_id
        FROM app.webhook_applications a
        WHERE a.id = ('x' || substr(publish_webhook.application, 5))::bit(64)::bigint
              AND a.org = publish_webhook.org AND a.deleted_at IS NULL;
    ELSE
        SELECT a.id INTO new.app_id
        FROM app.webhook_applications a
        WHERE a.org = publish_webhook.org AND a.uid = publish_webhook.application AND a.deleted_at IS NULL;
    END IF;
    IF new.app_id IS NULL THEN
        RAISE EXCEPTION 'there is no application "%" in %', left(publish_webhook.application, 64), left(publish_webhook.org, 64)
            USING ERRCODE = 'no_data_found', HINT = 'Pass the id or the uid of an application; posthaste apps list shows them.';
    END IF;

    -- A UUID of version 7: 48 bits of milliseconds, the rest random.
    new.message_id := (lpad(to_hex(millis), 12, '0') || '7' || substr(random, 14))::uuid;
    PERFORM FROM app.webhook_fan_out(
        new.app_id, new.message_id, publish_webhook.event_type, new.bytes, publish_webhook.uid, publish_webhook.channels,
        nullif(publish_webhook.tags, '{}'), publish_webhook.deliver_at,
        publish_webhook.payload_retention_days * interval '24 hours',
        app.webhook_checked_label('payment_request_id', publish_webhook.payment_request_id),
        app.webhook_checked_label('session_id', publish_webhook.session_id),
        app.webhook_checked_label('traceparent', publish_webhook.traceparent),
        app.webhook_checked_label('content_type', publish_webhook.content_type), new.max_attempts::integer, NULL, NULL
    );
    IF NOT FOUND THEN
        RAISE EXCEPTION 'uid "%" is taken', publish_webhook.uid
            USING ERRCODE = 'unique_violation', HINT = 'The message was published before. Leave the uid out, or choose another.';
    END IF;
    RETURN 'msg_' || replace(new.message_id::text, '-', '');
END
$$;
REVOKE ALL ON FUNCTION app.publish_webhook(
    text, text, json, text, text[], text[], timestamptz, integer, text, text, text, text, text, integer
) FROM PUBLIC;

-- Refuses a payload of type jsonb, as the function app.enqueue_webhook of this form does.
CREATE FUNCTION app.publish_webhook(
    application            name,
    event_type             name,
    payload                jsonb,
    uid                    text        DEFAULT NULL,
    channels               text[]      DEFAULT NULL,
    tags                   text[]      DEFAULT NULL,
    deliver_at             timestamptz DEFAULT NULL,
    payload_retention_days integer     DEFAULT 90,
    org                    text        DEFAULT 'org_default',
    payment_request_id     text        DEFAULT NULL,
    session_id             text        DEFAULT NULL,
    traceparent            text        DEFAULT NULL,
    content_type           text        DEFAULT 'application/json',
    max_attempts           integer     DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'payload is jsonb; it must be json, whose text is signed and delivered exactly as it was written'
        USING ERRCODE = 'datatype_mismatch',
              HINT = 'jsonb does not keep the text. Pass the original text, or write payload::json for what jsonb has kept.';
END
$$;

-- Deliveries, under the column and status names of their operators. The one write it accepts resets a dead delivery.
CREATE VIEW app.webhook_deliveries AS
SELECT v.event_id AS id, v.webhook_id, v.session_id, v.destination_url AS target_url,
       CASE WHEN v.delivery_status = 'failed' THEN 'dead'
            WHEN v.delivery_status = 'pending' AND v.attempts > 0 THEN 'failed'
            ELSE v.delivery_status END AS status,
       v.attempts AS attempt_count, v.last_attempted_at, v.next_attempt_at AS next_retry_at,
       v.last_error AS error_detail, v.created_at
FROM app.webhook_outbox_events v;

-- Does for the reset of a dead delivery what a requeue through the API does. The function runs with its owner's privileges:
-- an operator needs only USAGE on the schema, and SELECT and UPDATE on the view.
CREATE FUNCTION app.webhook_requeue_delivery() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    expected app.webhook_deliveries := OLD;
    requeued record;
BEGIN
    IF TG_OP <> 'UPDATE' THEN
        RAISE EXCEPTION 'webhook_deliveries takes no %', TG_OP
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Enqueue with app.enqueue_webhook; the one write here is the reset of a dead delivery.';
    END IF;
    expected.status := 'pending';
    expected.attempt_count := 0;
    -- The event becomes due now in any case. now() is the start of the operator's transaction.
    IF NEW.next_retry_at IS NULL OR NEW.next_retry_at = now()
       OR NEW.next_retry_at BETWEEN app.webhook_now() - interval '1 minute' AND app.webhook_now() + interval '1 minute' THEN
        expected.next_retry_at := NEW.next_retry_at;
    END IF;
    IF OLD.status <> 'dead' OR NEW IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'delivery "%" is %, and only the reset of a dead delivery can be written', OLD.id, OLD.status
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'UPDATE app.webhook_deliveries SET status = ''pending'', attempt_count = 0 WHERE id = …; '
                         'next_retry_at may be set to now() or NULL.';
    END IF;
    DELETE FROM app.webhook_failures f USING app.webhook_events e
    WHERE e.event_id = OLD.id AND f.id = e.id
    RETURNING f.id, f.destination_id, f.last_attempted_at, f.claims, f.failure_kind,
              app.webhook_payload_bytes(e.payload, e.message_key) AS payload_bytes
    INTO requeued;
    IF NOT FOUND THEN
        -- Another transaction has requeued it.
        RETURN NULL;
    END IF;
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, payload_bytes, is_fifo, last_attempted_at, requeued_at, claims,
        updated_at
    ) VALUES (
        requeued.id, requeued.destination_id, app.webhook_next_event_key(), app.webhook_now(), requeued.payload_bytes,
        (SELECT d.is_fifo FROM app.webhook_destinations d WHERE d.id = requeued.destination_id),
        requeued.last_attempted_at, app.webhook_now(), requeued.claims, app.webhook_now()
    );
    PERFORM pg_advisory_xact_lock_shared(7526, 2);
    UPDATE app.webhook_pending_watermark w SET min_key = requeued.id WHERE w.min_key > requeued.id;
    INSERT INTO app.webhook_counts (pending, failed, cancelled)
    VALUES (1, -1, CASE WHEN requeued.failure_kind = 'cancelled' THEN -1 ELSE 0 END);
    INSERT INTO app.webhook_audit (event_key, action, actor, at)
    VALUES (requeued.id, 'requeue', 'sql:' || session_user, app.webhook_now());
    RETURN NEW;
END
$$;
CREATE TRIGGER webhook_deliveries_requeue
INSTEAD OF INSERT OR UPDATE OR DELETE ON app.webhook_deliveries
FOR EACH ROW EXECUTE FUNCTION app.webhook_requeue_delivery();
-- Otherwise any role could attach the function to a table of its own, and requeue what it likes.
REVOKE ALL ON FUNCTION app.webhook_requeue_delivery() FROM PUBLIC;
