//! The statements that insert events.

use tokio_postgres::types::Type;

use crate::session::{Sql, durable_commit};

/// Builds a statement that inserts events, their queue rows and the change of the pending count.
/// Destinations whose ids this process has cached come with those ids, which hold if the server has them too and does not
/// remove them; other destinations are looked up or inserted. Destinations and event ids are inserted in one order, so that
/// two statements cannot deadlock. The commit becomes durable in a caller's transaction too: a worker may send an event
/// as soon as it is visible, and a crash must not undo a change that the receiver has already seen.
///
/// `$more_arrays` and `$more_columns` add columns to the new events, `$deliver_at` is the time of a later first attempt, `$queue` inserts their rows of the queue, and `$result`
/// adds columns to the result.
macro_rules! insert_events {
    (
        $more_arrays:literal,
        $more_columns:literal,
        ($deliver_at_column:literal, $deliver_at:literal),
        $queue:literal,
        $result:literal
    ) => {
        concat!(
            "
WITH destinations AS MATERIALIZED (
    SELECT ARRAY(
        SELECT coalesce(
            (SELECT d.id FROM app.webhook_destinations d WHERE d.id = p.id AND d.url = p.url AND d.removal_xid IS NULL),
            app.webhook_destination_id(p.url)
        )
        FROM unnest($1::text[], $2::bigint[]) AS p (url, id)
    ) AS ids
),
new_events AS MATERIALIZED (
    SELECT app.webhook_next_event_key() AS id, d.ids[i.destination_index] AS destination_id, i.*
    FROM destinations d, unnest(
        $3::integer[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[],
        $11::text[], $12::text[], $13::bytea[], $14::text[]",
            $more_arrays,
            "
    ) AS i (
        destination_index, message_id, event_id, event_type, webhook_id, payment_request_id, session_id, max_attempts,
        content_type, traceparent, payload, stored_by",
            $more_columns,
            "
    )
),
events AS (
    INSERT INTO app.webhook_events (
        id, destination_id, created_at, message_id, max_attempts, event_id, event_type, content_type, webhook_id,
        payment_request_id, session_id, traceparent, stored_by, ",
            $deliver_at_column,
            "payload
    )
    SELECT id, destination_id, app.webhook_now(), message_id, max_attempts, event_id, event_type, content_type, webhook_id,
           payment_request_id, session_id, traceparent, stored_by, ",
            $deliver_at,
            "payload
    FROM new_events
    ORDER BY event_id COLLATE \"C\"
),
",
            $queue,
            ",
counted AS (
    INSERT INTO app.webhook_counts (pending) SELECT count(*) FROM new_events
)
SELECT app.webhook_now() AS now, d.ids, ",
            durable_commit!(),
            $result,
            "
FROM destinations d"
        )
    };
}

/// The types of the parameters $1 to $14, and of those after them.
macro_rules! event_types {
    ($($further:expr),*) => {
        &[
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
            Type::INT4_ARRAY,
            Type::UUID_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::INT4_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::BYTEA_ARRAY,
            Type::TEXT_ARRAY,
            $($further),*
        ]
    };
}

/// Inserts events that workers claim.
pub(crate) static INSERT: Sql = Sql {
    text: insert_events!(
        "",
        "",
        ("", ""),
        "queue AS (
    INSERT INTO app.webhook_queue (id, destination_id, queue_position, next_attempt_at, payload_bytes, updated_at)
    SELECT id, destination_id, id, app.webhook_now(), octet_length(payload), app.webhook_now() FROM new_events
)",
        ""
    ),
    types: event_types!(),
};

/// Inserts events of which some are due later: $15 is the time until then in microseconds, NULL for events that are due now.
pub(crate) static INSERT_DEFERRED: Sql = Sql {
    text: insert_events!(
        ", $15::bigint[]",
        ", deliver_us",
        ("deliver_at, ", "app.webhook_now() + deliver_us * interval '1 microsecond', "),
        "queue AS (
    INSERT INTO app.webhook_queue (id, destination_id, queue_position, next_attempt_at, payload_bytes, updated_at)
    SELECT n.id, n.destination_id, coalesce(app.webhook_retry_position(n.due_at), n.id), coalesce(n.due_at, app.webhook_now()),
           octet_length(n.payload), app.webhook_now()
    FROM (
        SELECT e.id, e.destination_id, e.payload, app.webhook_now() + e.deliver_us * interval '1 microsecond' AS due_at
        FROM new_events e
    ) n
)",
        ""
    ),
    types: event_types!(Type::INT8_ARRAY),
};

/// Inserts events, and leases those of $15 to the claim $16 of the owner $17 for $18 microseconds, unless their destination is
/// paused, or has keys or headers of its own, which the worker has to read first. The queue and the claim then have the rows that a claim would have left. Returns the keys of all events and of
/// those that are leased, in order.
pub(crate) static INSERT_LEASED: Sql = Sql {
    text: insert_events!(
        ", $15::boolean[]",
        ", wants_lease",
        ("", ""),
        "paused AS MATERIALIZED (
    SELECT d.id
    FROM app.webhook_destinations d
    WHERE d.id = ANY ((SELECT p.ids FROM destinations p)::bigint[])
          AND (d.paused_until > app.webhook_now() OR d.profile_version > 0)
),
queue AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, payload_bytes, claims, updated_at, lease_until, lease_claim
    )
    SELECT n.id, n.destination_id, n.id, app.webhook_now(), n.payload_bytes, n.is_leased::integer, app.webhook_now(),
           CASE WHEN n.is_leased THEN app.webhook_now() + $18 * interval '1 microsecond' END,
           CASE WHEN n.is_leased THEN $16 END
    FROM (
        SELECT e.id, e.destination_id, octet_length(e.payload) AS payload_bytes,
               e.wants_lease AND NOT EXISTS (SELECT FROM paused p WHERE p.id = e.destination_id) AS is_leased
        FROM new_events e
    ) n
    RETURNING id, lease_claim
),
claim AS (
    INSERT INTO app.webhook_claims (id, expiry_check_at, lease_us, owner, event_keys)
    SELECT $16, app.webhook_now() + $18 * interval '1 microsecond', $18, $17, array_agg(q.id ORDER BY q.id)
    FROM queue q
    WHERE q.lease_claim IS NOT NULL
    HAVING count(*) > 0
    RETURNING event_keys
)",
        ",
       ARRAY(SELECT n.id FROM new_events n ORDER BY n.id) AS keys, (SELECT c.event_keys FROM claim c) AS leased_keys"
    ),
    types: event_types!(Type::BOOL_ARRAY, Type::UUID, Type::TEXT, Type::INT8),
};
