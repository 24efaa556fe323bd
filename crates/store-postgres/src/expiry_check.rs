//! The time of the next expiry check of a claim: the earliest time at which one of its leases may have expired.
//!
//! The row of a claim carries that time. It has to be recomputed when a takeover removes leases from the claim, when
//! the claim had expired leases that have been renewed, and when a renewal shortens leases.

/// Builds a statement that sets the next expiry check of the claims of `$claims`, a query of claim ids, to the earliest
/// expiry among the leases that each claim still holds. `$also_set` sets more columns.
macro_rules! reschedule_expiry_checks {
    ($claims:literal, $also_set:literal) => {
        concat!(
            "
UPDATE app.webhook_claims c
SET expiry_check_at = l.first_expiry",
            $also_set,
            "
FROM (
    SELECT c.id, min(held.lease_until) AS first_expiry
    FROM (",
            $claims,
            ") s (id)
    JOIN app.webhook_claims c ON c.id = s.id
    CROSS JOIN LATERAL unnest(c.event_keys) AS k (key)
    JOIN app.webhook_queue held ON held.id = k.key AND held.lease_claim = c.id
    GROUP BY c.id
) l
WHERE c.id = l.id"
        )
    };
}

pub(crate) use reschedule_expiry_checks;
