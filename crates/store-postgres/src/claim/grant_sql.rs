//! The statements that grant leases.

use tokio_postgres::types::Type;

use crate::session::{Sql, asynchronous_commit};

/// The references of the event `e` that its notices repeat, which most events do not have: webhook_id, session_id,
/// payment_request_id.
macro_rules! notice_references {
    () => {
        "CASE WHEN num_nonnulls(e.webhook_id, e.session_id, e.payment_request_id) > 0
            THEN ARRAY[e.webhook_id, e.session_id, e.payment_request_id] END"
    };
}
pub(super) use notice_references;

/// Builds a statement that grants leases on rows of the CTE `candidates` (n, url, profile_version, lost_claim, id, row_ctid,
/// is_locked, queue_position, payload_bytes) and writes the claim's own row. `$candidates` defines that CTE; `$paused` appends rows
/// that report paused destinations.
///
/// The sizes of the payloads limit the grant before a payload is read, and only rows that the claim is granted are locked:
/// a row that it locked in vain would be missing from the index of another worker, which skips it. The first candidate is
/// chosen whatever its size, unless the claim was granted one before ($6). Then the claim takes one row of each n, small
/// payloads first, then the second of each, up to $4 bytes. So a large payload delays those of other destinations by one
/// claim at most. A payload of more than $5 bytes keeps back its own n only. If all candidates fit, as they nearly always
/// do, they are not ordered for this.
///
/// A row is granted only in the version that `candidates` read: `granted` finds it by its ctid, and every change of a row
/// gives it another one. Nearly all candidates have no xmax, so no transaction has locked them, and the update is their
/// only lock. It may wait for a transaction that is a moment faster, and then skips the row; so it goes in key order, like
/// every statement that locks several rows. A row with an xmax may be locked for any length of time: `picked` locks it
/// first, or skips it. No indexed column changes, so a lease writes no index entry. $1 is the id of the grant, $2 the owner,
/// $3 the length of a lease, $7 the id of the claim's request. A payload of more than $8 bytes is not returned, only its size. The
/// parameters of `$candidates` begin at $10.
///
/// Claims take turns, by an advisory lock: two claims at the same moment would choose the same rows. The later one would wait for
/// the commit of the earlier one, and PostgreSQL would then lock the rows with their new leases for it, before it skips them:
/// settles of the other worker would have to wait, and the statements could deadlock. If another claim has the turn, the
/// statement grants nothing and returns one row whose n is 0. $9 grants leases out of turn. `$commit` is an expression that may
/// change how the transaction commits.
///
/// Returns, beside the granted events, a row without a queue position for each n with candidates that were not granted:
/// the position and the size of the first one whose payload did not fit, the last position of all candidates, their number, and
/// the number of those that another transaction has locked.
macro_rules! grant_leases {
    ($commit:expr, $candidates:literal, $paused:literal) => {
        concat!(
            "
WITH turn AS MATERIALIZED (
    SELECT $9 OR pg_try_advisory_xact_lock(7526, 4) AS is_taken, ",
            $commit,
            "
),
",
            $candidates,
            ",
total AS MATERIALIZED (
    SELECT coalesce(sum(c.payload_bytes) <= $4 AND max(c.payload_bytes) <= $5, true) AS fits FROM candidates c
),
sized AS (
    SELECT c.*,
           bool_or(c.payload_bytes > $5)
               OVER (PARTITION BY c.n ORDER BY c.queue_position, c.row_ctid ROWS UNBOUNDED PRECEDING) AS is_too_large
    FROM candidates c
    WHERE NOT (SELECT t.fits FROM total t)
),
numbered AS (
    SELECT s.*,
           NOT s.is_too_large AND count(*) FILTER (WHERE NOT s.is_too_large)
               OVER (ORDER BY s.n, s.queue_position, s.row_ctid ROWS UNBOUNDED PRECEDING) = 1 AS is_first,
           row_number() OVER (PARTITION BY s.n ORDER BY s.queue_position, s.row_ctid) AS round
    FROM sized s
),
chosen AS MATERIALIZED (
    SELECT c.n, c.url, c.profile_version, c.lost_claim, c.id, c.row_ctid, c.is_locked, c.queue_position, c.payload_bytes,
           true AS fits
    FROM candidates c
    WHERE (SELECT t.fits FROM total t)
    UNION ALL
    SELECT o.n, o.url, o.profile_version, o.lost_claim, o.id, o.row_ctid, o.is_locked, o.queue_position, o.payload_bytes,
           NOT o.is_too_large AND sum(CASE WHEN o.is_too_large OR ($6 AND o.is_first) THEN 0 ELSE o.payload_bytes END)
               OVER (ORDER BY NOT o.is_first, o.round, o.payload_bytes, o.n ROWS UNBOUNDED PRECEDING) <= $4
    FROM numbered o
),
picked AS MATERIALIZED (
    SELECT p.n, p.url, p.profile_version, p.lost_claim, p.row_ctid
    FROM (
        SELECT c.n, c.url, c.profile_version, c.lost_claim, c.id, c.row_ctid
        FROM chosen c
        WHERE c.fits AND NOT c.is_locked
        UNION ALL
        SELECT c.n, c.url, c.profile_version, c.lost_claim, c.id, q.row_ctid
        FROM chosen c
        CROSS JOIN LATERAL (
            SELECT q.ctid AS row_ctid
            FROM app.webhook_queue q
            WHERE q.ctid = c.row_ctid
            FOR UPDATE SKIP LOCKED
        ) q
        WHERE c.fits AND c.is_locked
    ) p
    ORDER BY p.id
),
granted AS (
    UPDATE app.webhook_queue q
    SET claims = q.claims + 1,
        lost_leases = q.lost_leases + (p.lost_claim IS NOT NULL)::integer,
        updated_at = app.webhook_now(),
        lease_until = app.webhook_now() + $3 * interval '1 microsecond',
        lease_claim = $1
    FROM picked p
    WHERE q.ctid = p.row_ctid
    RETURNING p.n, p.url, p.profile_version, p.lost_claim, q.id, q.queue_position, q.attempts, q.requeued_at,
              q.next_attempt_at, q.payload_bytes
),
claim AS (
    INSERT INTO app.webhook_claims (id, expiry_check_at, lease_us, owner, request_id, event_keys)
    SELECT $1, app.webhook_now() + $3 * interval '1 microsecond', $3, $2, $7, array_agg(g.id)
    FROM granted g
    HAVING count(*) > 0
)
SELECT g.n, g.queue_position, g.id, e.event_id, e.message_id, e.destination_id, g.url, e.event_type, e.content_type,
       CASE WHEN g.payload_bytes <= $8 THEN coalesce(e.payload, m.payload) END, e.traceparent, g.attempts, e.max_attempts,
       g.requeued_at IS NOT NULL, g.next_attempt_at, app.webhook_now(), g.payload_bytes,
       CASE WHEN e.message_key IS NULL THEN coalesce(e.replay_of, '') END,
       g.profile_version, g.lost_claim, ",
            notice_references!(),
            "
FROM granted g
JOIN app.webhook_events e ON e.id = g.id
LEFT JOIN app.webhook_messages m ON m.key = e.message_key
UNION ALL
SELECT r.n, NULL, min(r.queue_position) FILTER (WHERE NOT r.fits), NULL, NULL, max(r.queue_position), NULL, NULL, NULL,
       NULL, NULL, count(r.queue_position)::integer,
       (2 * count(r.queue_position) FILTER (WHERE r.fits) - count(*) FILTER (WHERE r.fits))::integer, NULL, NULL, NULL,
       (array_agg(r.payload_bytes ORDER BY r.queue_position) FILTER (WHERE NOT r.fits))[1], NULL, NULL, NULL, NULL
FROM (
    SELECT c.n, c.queue_position, c.payload_bytes, c.fits FROM chosen c
    UNION ALL
    SELECT g.n, NULL, NULL, true FROM granted g
) r
WHERE (SELECT count(*) FROM chosen) > (SELECT count(*) FROM granted)
GROUP BY r.n
HAVING 2 * count(r.queue_position) > count(*)
UNION ALL
SELECT 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL
FROM turn t
WHERE NOT t.is_taken",
            $paused
        )
    };
}

/// Grants leases within one index range per destination, by webhook_queue_destination_position. Skips rows that
/// another claim has locked. Returns a row without an event for each paused destination, with the end of its pause. A
/// pause is read again after five seconds at the latest, because an operator may have ended it. Unless $14, grants nothing
/// if the claim has been granted leases before.
///
/// A destination that is throttled or in FIFO order gets no lease, but a row that names it: `limited.rs` grants its leases.
pub(super) static GRANT_RANGES: Sql = Sql {
    text: grant_leases!(
        asynchronous_commit!(),
        "requested AS MATERIALIZED (
    SELECT r.n, r.destination_id, r.low, r.high, r.rows_max, d.url, d.profile_version, d.paused_until, d.is_limited
    FROM unnest($10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
         WITH ORDINALITY AS r (destination_id, low, high, rows_max, n)
    JOIN app.webhook_destinations d ON d.id = r.destination_id
    WHERE (SELECT t.is_taken FROM turn t)
          AND ($14 OR NOT EXISTS (SELECT FROM app.webhook_claims c WHERE c.request_id = $7))
),
candidates AS (
    SELECT r.n, r.url, r.profile_version, NULL::uuid AS lost_claim, q.id, q.row_ctid, q.is_locked, q.queue_position,
           q.payload_bytes
    FROM requested r
    CROSS JOIN LATERAL (
        SELECT q.id, q.ctid AS row_ctid, q.xmax <> 0 AS is_locked, q.queue_position, q.payload_bytes
        FROM app.webhook_queue q
        WHERE q.destination_id = r.destination_id AND q.queue_position > r.low AND q.queue_position <= r.high
              AND q.lease_until IS NULL
        ORDER BY q.queue_position
        LIMIT r.rows_max
    ) q
    WHERE (r.paused_until IS NULL OR r.paused_until <= app.webhook_now()) AND NOT r.is_limited
)",
        "
UNION ALL
SELECT r.n, NULL, NULL, NULL, NULL, r.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       least(r.paused_until, app.webhook_now() + interval '5 seconds'), NULL, NULL, NULL, NULL, NULL, NULL
FROM requested r
WHERE r.paused_until > app.webhook_now()
UNION ALL
SELECT r.n, NULL, NULL, NULL, NULL, r.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL
FROM requested r
WHERE r.is_limited AND (r.paused_until IS NULL OR r.paused_until <= app.webhook_now())"
    ),
    types: &[
        Type::UUID,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::BOOL,
        Type::UUID,
        Type::INT8,
        Type::BOOL,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BOOL,
    ],
};

/// Grants new leases on events whose lease has expired, by their keys. An event of a paused destination gets no lease,
/// but a row with the end of the pause, as in [`GRANT_RANGES`], and without a queue position. So does an event of a destination
/// that is throttled or in FIFO order.
pub(super) static TAKE_OVER_EXPIRED: Sql = Sql {
    text: grant_leases!(
        asynchronous_commit!(),
        "candidates AS (
    SELECT k.n, d.url, d.profile_version, q.lost_claim, q.id, q.row_ctid, q.is_locked, q.queue_position, q.payload_bytes
    FROM unnest($10::bigint[]) WITH ORDINALITY AS k (key, n)
    CROSS JOIN LATERAL (
        SELECT q.id, q.ctid AS row_ctid, q.xmax <> 0 AS is_locked, q.lease_claim AS lost_claim, q.destination_id,
               q.queue_position, q.payload_bytes
        FROM app.webhook_queue q
        WHERE q.id = k.key AND q.lease_until <= app.webhook_now()
    ) q
    JOIN app.webhook_destinations d ON d.id = q.destination_id
    WHERE (SELECT t.is_taken FROM turn t) AND (d.paused_until IS NULL OR d.paused_until <= app.webhook_now())
          AND NOT d.is_limited
)",
        "
UNION ALL
SELECT k.n, NULL, NULL, NULL, NULL, q.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       least(d.paused_until, app.webhook_now() + interval '5 seconds'), NULL, NULL, NULL, NULL, NULL, NULL
FROM unnest($10::bigint[]) WITH ORDINALITY AS k (key, n)
JOIN app.webhook_queue q ON q.id = k.key
JOIN app.webhook_destinations d ON d.id = q.destination_id
WHERE d.paused_until > app.webhook_now() AND (SELECT t.is_taken FROM turn t)
UNION ALL
SELECT k.n, NULL, NULL, NULL, NULL, q.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL
FROM unnest($10::bigint[]) WITH ORDINALITY AS k (key, n)
JOIN app.webhook_queue q ON q.id = k.key
JOIN app.webhook_destinations d ON d.id = q.destination_id
WHERE d.is_limited AND (d.paused_until IS NULL OR d.paused_until <= app.webhook_now())
      AND q.lease_until <= app.webhook_now() AND (SELECT t.is_taken FROM turn t)"
    ),
    types: &[
        Type::UUID,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::BOOL,
        Type::UUID,
        Type::INT8,
        Type::BOOL,
        Type::INT8_ARRAY,
    ],
};

/// Grants leases on events of destinations that the caller's transaction has locked: the first $13 events within a range of
/// positions of a destination, or the event $14 by its key, whether or not it has an expired lease. Uses indexes
/// webhook_queue_destination_position and webhook_queue_id.
pub(super) static GRANT_LIMITED: Sql = Sql {
    text: grant_leases!(
        "NULL",
        "requested AS MATERIALIZED (
    SELECT r.n, r.destination_id, r.low, r.high, r.rows_max, r.key, d.url, d.profile_version
    FROM unnest($10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
         WITH ORDINALITY AS r (destination_id, low, high, rows_max, key, n)
    JOIN app.webhook_destinations d ON d.id = r.destination_id
),
candidates AS (
    SELECT r.n, r.url, r.profile_version, q.lost_claim, q.id, q.row_ctid, q.is_locked, q.queue_position, q.payload_bytes
    FROM requested r
    CROSS JOIN LATERAL (
        (
            SELECT q.id, q.ctid AS row_ctid, q.xmax <> 0 AS is_locked, NULL::uuid AS lost_claim, q.queue_position,
                   q.payload_bytes
            FROM app.webhook_queue q
            WHERE r.key IS NULL AND q.destination_id = r.destination_id AND q.queue_position > r.low
                  AND q.queue_position <= r.high AND q.lease_until IS NULL
            ORDER BY q.queue_position
            LIMIT r.rows_max
        )
        UNION ALL
        SELECT q.id, q.ctid, q.xmax <> 0, q.lease_claim, q.queue_position, q.payload_bytes
        FROM app.webhook_queue q
        WHERE q.id = r.key AND q.destination_id = r.destination_id
              AND (q.lease_until IS NULL OR q.lease_until <= app.webhook_now())
    ) q
)",
        ""
    ),
    types: &[
        Type::UUID,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::BOOL,
        Type::UUID,
        Type::INT8,
        Type::BOOL,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};
