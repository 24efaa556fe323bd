//! The statements that write the results of attempts.

use tokio_postgres::types::Type;

use crate::fail::{insert_failures, insert_notices};
use crate::notices::topic_time;
use crate::session::Sql;

/// The trigger of an attempt, from the row `q` of the queue and its attempts before this one. It mirrors
/// `Trigger::for_attempt`: the last action of an operator on a pending event, if any, was a requeue.
macro_rules! trigger {
    ($attempts_before:literal) => {
        concat!(
            "CASE WHEN q.requeued_at IS NOT NULL AND ",
            $attempts_before,
            " = 0 THEN 'manual' ELSE 'scheduled' END AS trigger"
        )
    };
}

/// The endpoint of the row `q` of the queue; NULL for an event that was enqueued to a URL.
macro_rules! endpoint {
    () => {
        "CASE WHEN q.is_fifo IS NOT NULL THEN q.destination_id END AS endpoint_id, "
    };
}

/// Builds a statement that writes results. Finds each event in the queue by key, and applies the result only if its claim
/// still holds the lease. $1 to $7 are the columns of deliveries, $8 is the worker.
///
/// A delivered event leaves the queue; its attempt is its only other row. The attempt's number and trigger, counts and
/// notices derive from the row of the queue, so a settlement whose lease was lost changes nothing. `$further` adds the CTEs
/// that write everything else. The rows of the completed claims $9 are deleted. `$applied` selects the batch indexes of the
/// results that were applied. Returns them, the id of the row of webhook_notices, if there is one, with its time, and whether
/// there are notices about disabled endpoints in it, which is `$names_endpoints`.
macro_rules! settle {
    ($further:expr, $applied:literal, $names_endpoints:literal) => {
        concat!(
            "
WITH delivered AS (
    DELETE FROM app.webhook_queue q
    USING unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::integer[])
          AS i (key, claim, started_us, duration_us, http_status, excerpt, n)
    WHERE q.id = i.key AND q.lease_claim = i.claim
    RETURNING i.*, q.destination_id, q.attempts, q.claims, ",
            endpoint!(),
            trigger!("q.attempts"),
            "
),
delivery_attempts AS (
    INSERT INTO app.webhook_attempts (
        event_key, lease_claim, recorded_at, started_at, duration_us, attempt, delivery_claims, http_status, trigger,
        worker_id, endpoint_id, excerpt
    )
    SELECT key, claim, app.webhook_now(), app.webhook_now() - started_us * interval '1 microsecond', duration_us,
           attempts + 1, claims, http_status, trigger, $8, endpoint_id, excerpt
    FROM delivered
),
delivery_counts AS (
    INSERT INTO app.webhook_counts (pending, retrying, delivered)
    SELECT -count(*), -count(*) FILTER (WHERE attempts > 0), count(*) FROM delivered HAVING count(*) > 0
),
completed_claims AS (
    DELETE FROM app.webhook_claims c
    USING unnest($9::uuid[], $10::integer[]) AS f (id, leases)
    WHERE c.id = f.id AND cardinality(c.event_keys) = f.leases
),",
            $further,
            "
SELECT ARRAY(",
            $applied,
            "), (SELECT n.id FROM notices n), ",
            topic_time!("app.webhook_now()"),
            ", ",
            $names_endpoints
        )
    };
}

/// Writes deliveries: the usual batch. Ends the failing state of their destinations. OFFSET 0, and an update that names no other
/// condition than the id, keep the planner from reading all failing destinations (webhook_destinations_failing) for it: there may
/// be thousands.
pub(crate) static SETTLE_DELIVERIES: Sql = Sql {
    text: settle!(
        concat!(
            insert_notices!("SELECT key, NULL::text AS failure_kind, attempts + 1 AS attempts, n FROM delivered"),
            ",
destinations AS (
    UPDATE app.webhook_destinations d
    SET failing_since = NULL
    FROM (
        SELECT f.id
        FROM (SELECT DISTINCT destination_id AS id FROM delivered) h
        CROSS JOIN LATERAL (
            SELECT d.id FROM app.webhook_destinations d WHERE d.id = h.id AND d.failing_since IS NOT NULL OFFSET 0
        ) f
        ORDER BY f.id
    ) f
    WHERE d.id = f.id
)"
        ),
        "SELECT n FROM delivered",
        "false"
    ),
    types: &[
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// Writes results of any kind. $11 to $24 are the columns of retries and failures. A retry gets a new queue position, and
/// retries of one batch get distinct positions. The last result of a batch for a destination decides whether it is failing.
///
/// A result with `disable_us` disables an endpoint that is failing for at least so long; zero disables it at once. `disabling`
/// locks the rows of such endpoints, so that one of several results disables an endpoint. It reads no destination of a URL.
pub(crate) static SETTLE: Sql = Sql {
    text: settle!(
        concat!(
            "
results AS MATERIALIZED (
    SELECT i.*
    FROM unnest(
        $11::bigint[], $12::uuid[], $13::bigint[], $14::bigint[], $15::smallint[], $16::text[], $17::integer[],
        $18::bigint[], $19::text[], $20::text[], $21::text[], $22::bigint[], $23::smallint[], $24::bigint[]
    ) AS i (
        key, claim, started_us, duration_us, http_status, excerpt, n,
        retry_us, failure_kind, failure_error, error_class, pause_us, health, disable_us
    )
),
ended AS (
    DELETE FROM app.webhook_queue q
    USING results i
    WHERE i.retry_us IS NULL AND q.id = i.key AND q.lease_claim = i.claim
    RETURNING i.*, q.id, q.destination_id, q.attempts > 0 AS was_retrying, q.attempts + 1 AS attempts, q.claims,
              0 AS lost_leases, app.webhook_now() - i.started_us * interval '1 microsecond' AS last_attempted_at, ",
            endpoint!(),
            trigger!("q.attempts"),
            "
),",
            insert_failures!(),
            ",
retried AS (
    UPDATE app.webhook_queue q
    SET attempts = q.attempts + 1,
        lost_leases = 0,
        last_attempted_at = app.webhook_now() - i.started_us * interval '1 microsecond',
        last_error = i.failure_error,
        next_attempt_at = app.webhook_now() + i.retry_us * interval '1 microsecond',
        queue_position = app.webhook_retry_position(app.webhook_now() + i.retry_us * interval '1 microsecond') + i.n,
        updated_at = app.webhook_now(),
        lease_until = NULL, lease_claim = NULL
    FROM results i
    WHERE i.retry_us IS NOT NULL AND q.id = i.key AND q.lease_claim = i.claim
    RETURNING i.*, q.destination_id, q.attempts, q.last_attempted_at, ",
            endpoint!(),
            trigger!("q.attempts - 1"),
            "
),
failed_attempts AS (
    INSERT INTO app.webhook_attempts (
        event_key, lease_claim, recorded_at, started_at, duration_us, attempt, http_status, trigger, worker_id, error_class,
        endpoint_id, excerpt
    )
    SELECT key, claim, app.webhook_now(), last_attempted_at, duration_us, attempts, http_status, trigger, $8, error_class,
           endpoint_id, excerpt
    FROM ended
    UNION ALL
    SELECT key, claim, app.webhook_now(), last_attempted_at, duration_us, attempts, http_status, trigger, $8, error_class,
           endpoint_id, excerpt
    FROM retried
),
retry_counts AS (
    INSERT INTO app.webhook_counts (retrying)
    SELECT count(*) FROM retried WHERE attempts = 1 HAVING count(*) > 0
),",
            "
disable_rules AS MATERIALIZED (
    SELECT r.endpoint_id, r.key, r.attempts, r.n, r.disable_us
    FROM (
        SELECT DISTINCT ON (r.endpoint_id) r.*
        FROM (
            SELECT endpoint_id, key, attempts, n, disable_us FROM ended WHERE disable_us IS NOT NULL
            UNION ALL
            SELECT endpoint_id, key, attempts, n, disable_us FROM retried WHERE disable_us IS NOT NULL
        ) r
        WHERE r.endpoint_id IS NOT NULL
        ORDER BY r.endpoint_id, r.disable_us > 0, r.n
    ) r
    WHERE r.disable_us = 0 OR NOT EXISTS (
        SELECT FROM delivered d WHERE d.endpoint_id = r.endpoint_id AND d.n < r.n
    )
    ORDER BY r.endpoint_id
),
disabling AS MATERIALIZED (
    SELECT d.id, r.key, r.attempts, r.n, CASE WHEN r.disable_us > 0 THEN 'failing' ELSE 'gone' END AS reason
    FROM disable_rules r
    CROSS JOIN LATERAL (
        SELECT d.id
        FROM app.webhook_destinations d
        WHERE d.id = r.endpoint_id AND d.disabled_at IS NULL
              AND (r.disable_us = 0
                   OR d.failing_since <= app.webhook_now() - r.disable_us * interval '1 microsecond')
        FOR NO KEY UPDATE
    ) d
),
disable_audit AS (
    INSERT INTO app.webhook_destination_audit (destination_id, action, actor, at, reason)
    SELECT id, 'disable', 'posthaste', app.webhook_now(), reason FROM disabling
),
disabled_endpoints AS (
    UPDATE app.webhook_endpoints e SET updated_at = app.webhook_now() FROM disabling x WHERE e.destination_id = x.id
),",
            insert_notices!(
                "SELECT key, NULL::text AS failure_kind, attempts + 1 AS attempts, 2 * n AS n FROM delivered
        UNION ALL
        SELECT key, failure_kind, attempts, 2 * n FROM ended
        UNION ALL
        SELECT key, 'endpoint_disabled:' || reason, attempts, 2 * n + 1 FROM disabling"
            ),
            ",
destination_health AS MATERIALIZED (
    SELECT a.destination_id, max(a.pause_us) AS pause_us,
           max(a.n) FILTER (WHERE a.health > 0) AS last_healthy,
           max(a.n) FILTER (WHERE a.health < 0) AS last_unhealthy
    FROM (
        SELECT destination_id, NULL::bigint AS pause_us, 1 AS health, n FROM delivered
        UNION ALL
        SELECT destination_id, pause_us, health, n FROM ended
        UNION ALL
        SELECT destination_id, pause_us, health, n FROM retried
    ) a
    GROUP BY a.destination_id
    ORDER BY a.destination_id
),
changed_destinations AS MATERIALIZED (
    SELECT h.*, x.reason AS disable_reason
    FROM destination_health h
    LEFT JOIN disabling x ON x.id = h.destination_id
),
destinations AS (
    UPDATE app.webhook_destinations d
    SET paused_until = greatest(
            d.paused_until, app.webhook_now() + h.pause_us * interval '1 microsecond',
            CASE WHEN h.disable_reason IS NOT NULL THEN timestamptz 'infinity' END
        ),
        disabled_at = CASE WHEN h.disable_reason IS NOT NULL THEN app.webhook_now() ELSE d.disabled_at END,
        disabled_reason = coalesce(h.disable_reason, d.disabled_reason),
        receiver_paused_until = greatest(
            d.receiver_paused_until, app.webhook_now() + h.pause_us * interval '1 microsecond'
        ),
        receiver_paused_at = CASE
            WHEN h.pause_us IS NULL OR d.receiver_paused_until > app.webhook_now() THEN d.receiver_paused_at
            ELSE app.webhook_now()
        END,
        failing_since = CASE
            WHEN h.last_healthy > coalesce(h.last_unhealthy, -1) THEN NULL
            WHEN h.last_unhealthy > h.last_healthy THEN app.webhook_now()
            WHEN h.last_unhealthy IS NOT NULL THEN coalesce(d.failing_since, app.webhook_now())
            ELSE d.failing_since
        END
    FROM changed_destinations h
    WHERE d.id = h.destination_id
          AND (h.pause_us IS NOT NULL
               OR h.disable_reason IS NOT NULL
               OR (h.last_healthy IS NOT NULL AND (d.failing_since IS NOT NULL OR h.last_unhealthy > h.last_healthy))
               OR (h.last_unhealthy IS NOT NULL AND d.failing_since IS NULL))
)"
        ),
        "SELECT n FROM delivered UNION ALL SELECT n FROM ended UNION ALL SELECT n FROM retried",
        "EXISTS (SELECT FROM disabling)"
    ),
    types: &[
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
    ],
};
