//! The parts of the statements that end events: an event that fails leaves the queue for webhook_failures, and its counts
//! and notice are written with it. Settles, cancels, expiry and abandonment share them.

/// CTEs that insert the failures of the CTE `ended` and change the counts. The CTE has the columns id, destination_id,
/// last_attempted_at, attempts, was_retrying, claims, lost_leases, failure_kind and failure_error.
macro_rules! insert_failures {
    () => {
        "
failures AS (
    INSERT INTO app.webhook_failures (
        id, destination_id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error
    )
    SELECT id, destination_id, app.webhook_now(), last_attempted_at, attempts, claims, lost_leases, failure_kind,
           failure_error
    FROM ended
),
failure_counts AS (
    INSERT INTO app.webhook_counts (pending, retrying, failed, cancelled)
    SELECT -count(*), -count(*) FILTER (WHERE was_retrying), count(*), count(*) FILTER (WHERE failure_kind = 'cancelled')
    FROM ended
    HAVING count(*) > 0
)"
    };
}

/// A CTE that inserts the notices of a commit. `$ended` selects key, failure_kind (NULL for a delivered event), attempts,
/// and n, by which the notices are ordered.
macro_rules! insert_notices {
    ($ended:literal) => {
        concat!(
            "
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, failure_kinds, attempts)
    SELECT app.webhook_now(), array_agg(o.key), array_agg(o.failure_kind), array_agg(o.attempts)
    FROM (
        SELECT u.key, u.failure_kind, u.attempts
        FROM (
        ",
            $ended,
            "
        ) u
        ORDER BY u.n
    ) o
    HAVING count(*) > 0
    RETURNING id
)"
        )
    };
}

pub(crate) use {insert_failures, insert_notices};
