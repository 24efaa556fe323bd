//! Finding what has become claimable, at a cost that does not grow with what is waiting.
//!
//! Discovery reads each row once: first attempts by their turns, above the last that was seen, and retries as their
//! time comes. It never begins at the bottom of an index, where the dead entries of everything delivered lie. Numbers
//! that were passed over are looked for again ([`Gaps`]), and a sweep over all destinations, at the start and now and
//! then, finds what any of this could have missed.

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::frontier::{Expired, Frontier, Gaps, Horizon, RETRIES_FROM, Span};
use crate::moment::Moment;
use crate::number::count;
use crate::session::Sql;

/// Rows read of one span in one step; the rest is read in the next.
const STEP_ROWS: usize = 5_000;
pub(crate) const STEP_ROWS_MAX: i64 = 5_000;
/// What became due this long ago is read again, because it may have been committed since: a lease of a retry that
/// is given back makes it due at once.
const OVERLAP_US: i64 = 100_000;
/// Claims whose leases may have expired, looked at in one step.
pub(crate) const STEP_CLAIMS_MAX: i64 = 32;
/// How far below the last number drawn discovery begins, so that it sees what is committing just then.
const STEP_BACK: i64 = 10_000;

/// Asked before the rows, so that what was over by then is seen by then.
pub(crate) static HORIZON: Sql = Sql {
    text: "
SELECT app.webhook_now(),
       pg_snapshot_xmin(s)::text::bigint,
       pg_snapshot_xmax(s)::text::bigint,
       (SELECT last_value FROM app.webhook_turn)
FROM pg_current_snapshot() s",
    types: &[],
};

/// Index webhook_queue_turn, from each low mark upwards.
pub(crate) static NEWS: Sql = Sql {
    text: "
SELECT s.n, q.turn, q.destination_id, q.leased
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS s (low, high, n)
CROSS JOIN LATERAL (
    SELECT q.turn, q.destination_id, q.lease_until IS NOT NULL AS leased
    FROM app.webhook_queue q
    WHERE q.turn > s.low AND q.turn <= least(s.high, app.webhook_turn_at(app.webhook_now()))
    ORDER BY q.turn
    LIMIT $3
) q",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8],
};

/// Of the numbers that were passed over, those that have been committed since: index webhook_events_id. Asked before
/// the queue, so that one that is not in the queue either has come to its end already.
pub(crate) static COMMITTED: Sql = Sql {
    text: "
SELECT s.n, e.id
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS s (low, high, n)
CROSS JOIN LATERAL (
    SELECT e.id FROM app.webhook_events e WHERE e.id > s.low AND e.id <= s.high ORDER BY e.id LIMIT $3
) e",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8],
};

/// Index webhook_claims_check_at, from the low mark upwards. A claim with nothing left is forgotten, one whose leases
/// all live is looked at again when the first of them can have expired; of the others, the expired leases are told. One
/// that was granted more meanwhile is left as it is.
pub(crate) static EXPIRED: Sql = Sql {
    text: "
WITH due AS MATERIALIZED (
    SELECT c.id, c.check_at, c.keys
    FROM app.webhook_claims c
    WHERE c.check_at > timestamptz 'epoch' + $1 * interval '1 microsecond' AND c.check_at <= app.webhook_now()
    ORDER BY c.check_at
    LIMIT $2
),
leased AS MATERIALIZED (
    SELECT d.id AS claim, q.id, q.destination_id, q.attempts, q.lost_leases, q.lease_until
    FROM due d
    CROSS JOIN LATERAL unnest(d.keys) AS k (key)
    JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = d.id
),
living AS (
    UPDATE app.webhook_claims c
    SET check_at = l.until, keys = l.keys
    FROM (SELECT claim, min(lease_until) AS until, array_agg(id) AS keys FROM leased GROUP BY claim) l
    JOIN due d ON d.id = l.claim
    WHERE c.id = l.claim AND c.keys = d.keys AND l.until > app.webhook_now()
),
ended AS (
    DELETE FROM app.webhook_claims c
    USING due d
    WHERE c.id = d.id AND c.keys = d.keys AND NOT EXISTS (SELECT FROM leased l WHERE l.claim = d.id)
)
SELECT (SELECT count(*) FROM due), (SELECT max(check_at) FROM due), l.id, l.destination_id, l.attempts, l.lost_leases
FROM (SELECT) one
LEFT JOIN leased l ON l.lease_until <= app.webhook_now()",
    types: &[Type::INT8, Type::INT8],
};

/// Where discovery stands.
#[derive(Default)]
pub(crate) struct Marks {
    /// First attempts up to this turn were seen; nothing was yet.
    first: Option<i64>,
    /// Retries due up to here were seen.
    retry: i64,
    /// Claims to be looked at up to here were.
    claims: i64,
    gaps: Gaps,
}

/// What one step looks at.
pub(crate) struct Step {
    /// First attempts, retries, then the gaps.
    pub(crate) lows: Vec<i64>,
    pub(crate) highs: Vec<i64>,
    pub(crate) gap_lows: Vec<i64>,
    pub(crate) gap_highs: Vec<i64>,
}

impl Marks {
    /// Where a process begins that has just swept: at what is being committed now.
    pub(crate) fn begin(&mut self, last_turn: i64, now: Timestamp) {
        *self =
            Self { first: Some((last_turn - STEP_BACK).max(0)), retry: now.as_micros(), ..Self::default() };
    }

    pub(crate) fn begun(&self) -> bool {
        self.first.is_some()
    }

    /// Claims are looked at from the beginning once more.
    pub(crate) fn recheck_claims(&mut self) {
        self.claims = 0;
    }

    pub(crate) fn claims(&self) -> i64 {
        self.claims
    }

    /// Up to where the lanes are known: what a sweep finds below is made to reach it.
    pub(crate) fn known_to(&self) -> (i64, i64) {
        (self.first.unwrap_or(0), self.retry)
    }

    pub(crate) fn step(&self) -> Step {
        let (gap_lows, gap_highs): (Vec<i64>, Vec<i64>) =
            self.gaps.spans().map(|span| (span.low, span.high)).unzip();
        let lows =
            [self.first.unwrap_or(0), self.retry].into_iter().chain(gap_lows.iter().copied()).collect();
        let highs = [RETRIES_FROM - 1, i64::MAX].into_iter().chain(gap_highs.iter().copied()).collect();
        Step { lows, highs, gap_lows, gap_highs }
    }

    /// Takes in what a step saw.
    pub(crate) fn took(
        &mut self,
        step: &Step,
        horizon: Horizon,
        committed: &[Row],
        rows: &[Row],
        frontier: &mut Frontier,
    ) -> Result<(), tokio_postgres::Error> {
        let mut seen: Vec<Vec<i64>> = vec![Vec::new(); step.lows.len()];
        for row in rows {
            let (turn, leased): (i64, bool) = (row.try_get(1)?, row.try_get(3)?);
            seen[numbered(row)?].push(turn);
            // Somebody else was faster. If they do not finish, their claim tells.
            if !leased {
                frontier.saw(DestinationId(row.try_get(2)?), turn);
            }
        }
        let mut ended: Vec<Vec<i64>> = vec![Vec::new(); step.gap_lows.len()];
        for row in committed {
            ended[numbered(row)?].push(row.try_get(1)?);
        }
        self.advance(step, horizon, &seen, &ended);
        Ok(())
    }

    fn advance(&mut self, step: &Step, horizon: Horizon, seen: &[Vec<i64>], ended: &[Vec<i64>]) {
        // A reading that stopped at the limit says nothing of what lies beyond its last row.
        let read_to = |rows: &[i64], high: i64| match rows.last() {
            Some(last) if rows.len() >= STEP_ROWS => *last,
            _ => high,
        };
        self.gaps.close(horizon);
        for (gap, (low, high)) in step.gap_lows.iter().zip(&step.gap_highs).enumerate() {
            let (queued, ended) = (&seen[gap + 2], &ended[gap]);
            let high = read_to(queued, *high).min(read_to(ended, *high));
            let mut found = [&queued[..], &ended[..]].concat();
            found.sort_unstable();
            found.dedup();
            self.gaps.narrow(Span { low: *low, high }, &found);
        }
        self.gaps.pass(step.lows[0], seen[0].iter().copied(), horizon.now);
        if let Some(last) = seen[0].last() {
            self.first = Some(*last);
        }
        // Retries may have the same turn: the last one that was read may have another behind it.
        let due_to = self.retry.max(horizon.now.as_micros() - OVERLAP_US);
        self.retry = self.retry.max(read_to(&seen[1], due_to + 1) - 1);
    }

    /// Takes in leases that have expired.
    pub(crate) fn took_expired(
        &mut self,
        horizon: Horizon,
        rows: &[Row],
        frontier: &mut Frontier,
    ) -> Result<(), tokio_postgres::Error> {
        for row in rows {
            if let Some(key) = row.try_get::<_, Option<i64>>(2)? {
                let expired = Expired {
                    destination: DestinationId(row.try_get(3)?),
                    attempts: count(row.try_get(4)?),
                    lost_leases: count(row.try_get(5)?),
                };
                frontier.expired.insert(EventKey(key), expired);
            }
        }
        let Some(row) = rows.first() else { return Ok(()) };
        let looked_at: i64 = row.try_get(0)?;
        self.claims = match row.try_get::<_, Option<Moment>>(1)? {
            Some(Moment(last)) if looked_at >= STEP_CLAIMS_MAX => last.as_micros(),
            _ => self.claims.max(horizon.now.as_micros()),
        };
        Ok(())
    }
}

pub(crate) fn horizon(rows: &[Row]) -> Result<(Horizon, i64), tokio_postgres::Error> {
    let row = rows.first().expect("the statement answers with one row");
    let horizon =
        Horizon { now: row.try_get::<_, Moment>(0)?.0, xmin: row.try_get(1)?, xmax: row.try_get(2)? };
    Ok((horizon, row.try_get(3)?))
}

/// Which span a row was read for: they are numbered from one.
fn numbered(row: &Row) -> Result<usize, tokio_postgres::Error> {
    Ok(usize::try_from(row.try_get::<_, i64>(0)? - 1).expect("spans are numbered from one"))
}
