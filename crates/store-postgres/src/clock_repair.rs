//! Repairs times that lie too far ahead, because the server's clock has stepped back since they were written.
//!
//! A lease that was granted before the step would end late by the length of the step, and so would the delay of a retry and
//! a pause. No lease is taken over before its time: a lease that ends later than a full lease from now is shortened to end
//! then. A live worker renews its leases before that; the leases of a dead worker expire. A delay or a pause that began in
//! the future begins now. A resume in the future happened now. Circuit reports from the future are forgotten; live workers
//! repeat theirs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_claimable::RETRY_POSITION_MIN;
use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::session::Sql;
use crate::{StoreState, sleep};

/// Retries examined, or destinations repaired, in one step.
const STEP_ROWS_MAX: i64 = 5_000;
/// Time between two steps, so that the load stays low.
const STEP_INTERVAL: Duration = Duration::from_millis(20);

/// Shortens leases that end later than a full lease from now. Uses index webhook_claims_expiry_check_at: the expiry check
/// of a claim is never later than the end of its leases. Locks rows of the queue in key order, like every statement.
static SHORTEN_LEASES: Sql = Sql {
    text: "
WITH ahead AS MATERIALIZED (
    SELECT c.id, c.event_keys, app.webhook_now() + c.lease_us * interval '1 microsecond' AS latest_end
    FROM app.webhook_claims c
    WHERE c.expiry_check_at > app.webhook_now()
          AND c.expiry_check_at > app.webhook_now() + c.lease_us * interval '1 microsecond'
),
leased AS MATERIALIZED (
    SELECT a.id AS claim, k.key, a.latest_end
    FROM ahead a
    CROSS JOIN LATERAL unnest(a.event_keys) AS k (key)
    ORDER BY k.key
),
shortened AS (
    UPDATE app.webhook_queue q
    SET lease_until = l.latest_end
    FROM leased l
    WHERE q.id = l.key AND q.lease_claim = l.claim AND q.lease_until > l.latest_end
)
UPDATE app.webhook_claims c
SET expiry_check_at = a.latest_end
FROM ahead a
WHERE c.id = a.id AND c.expiry_check_at > a.latest_end",
    types: &[],
};

/// Examines up to $2 retries that are not due, after the position $1, in the order of their positions. If a retry was
/// written later than now, its delay begins now. Returns the last position and the number of retries examined. Uses
/// index webhook_queue_position.
static RESTART_DELAYS: Sql = Sql {
    text: "
WITH examined AS MATERIALIZED (
    SELECT q.id, q.queue_position, q.updated_at
    FROM app.webhook_queue q
    WHERE q.queue_position > greatest($1, app.webhook_retry_position(app.webhook_now())) AND q.queue_position <> q.id
    ORDER BY q.queue_position
    LIMIT $2
),
ahead AS MATERIALIZED (
    SELECT x.id, x.updated_at FROM examined x WHERE x.updated_at > app.webhook_now() ORDER BY x.id
),
restarted AS (
    UPDATE app.webhook_queue q
    SET next_attempt_at = app.webhook_now() + greatest(q.next_attempt_at - q.updated_at, interval '0'),
        queue_position = app.webhook_retry_position(
            app.webhook_now() + greatest(q.next_attempt_at - q.updated_at, interval '0')
        ),
        updated_at = app.webhook_now()
    FROM ahead a
    WHERE q.id = a.id AND q.updated_at = a.updated_at AND q.lease_until IS NULL
)
SELECT max(x.queue_position), count(*) FROM examined x",
    types: &[Type::INT8, Type::INT8],
};

/// Restarts up to $1 pauses that began later than now, and returns a row per destination. Uses index
/// webhook_destinations_paused. Locks destinations in the order of their ids, like every statement.
static RESTART_PAUSES: Sql = Sql {
    text: "
WITH ahead AS MATERIALIZED (
    SELECT d.id,
           greatest(d.receiver_paused_at - app.webhook_now(), interval '0') AS receiver_ahead,
           greatest(d.operator_paused_at - app.webhook_now(), interval '0') AS operator_ahead
    FROM app.webhook_destinations d
    WHERE d.paused_until > app.webhook_now()
          AND (d.receiver_paused_at > app.webhook_now() OR d.operator_paused_at > app.webhook_now())
    ORDER BY d.id
    LIMIT $1
    FOR UPDATE
)
UPDATE app.webhook_destinations d
SET paused_until = greatest(
        d.receiver_paused_until - a.receiver_ahead,
        CASE WHEN d.operator_paused_at IS NOT NULL
             THEN coalesce(d.operator_paused_until - a.operator_ahead, 'infinity') END,
        CASE WHEN d.disabled_at IS NOT NULL THEN timestamptz 'infinity' END
    ),
    receiver_paused_at = d.receiver_paused_at - a.receiver_ahead,
    receiver_paused_until = d.receiver_paused_until - a.receiver_ahead,
    operator_paused_at = d.operator_paused_at - a.operator_ahead,
    operator_paused_until = d.operator_paused_until - a.operator_ahead
FROM ahead a
WHERE d.id = a.id
RETURNING 1",
    types: &[Type::INT8],
};

/// Dates up to $1 resumes that lie in the future, and returns a row per destination. Uses index
/// webhook_destinations_resumed.
static DATE_RESUMES: Sql = Sql {
    text: "
WITH ahead AS MATERIALIZED (
    SELECT d.id FROM app.webhook_destinations d WHERE d.resumed_at > app.webhook_now() ORDER BY d.id LIMIT $1 FOR UPDATE
)
UPDATE app.webhook_destinations d
SET resumed_at = app.webhook_now()
FROM ahead a
WHERE d.id = a.id
RETURNING 1",
    types: &[Type::INT8],
};

/// Forgets circuit reports from the future. Reads all reports: there is at most one per worker and failing destination.
static FORGET_CIRCUITS: Sql =
    Sql { text: "DELETE FROM app.webhook_circuits c WHERE c.reported_at > app.webhook_now()", types: &[] };

/// The request to compare all times with the clock. Leases are compared at every sweep, which reads only the rows of
/// claims. Other times are compared once per process and after every step back that a claim has noticed, because that
/// reads every retry.
pub(crate) struct ClockRepair {
    is_requested: AtomicBool,
}

impl Default for ClockRepair {
    fn default() -> Self {
        Self { is_requested: AtomicBool::new(true) }
    }
}

impl ClockRepair {
    /// Makes the next sweep compare all times.
    pub(crate) fn request(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
    }

    /// Repairs the times of leases, and all others if that was requested.
    pub(crate) async fn run(&self, store: &StoreState) -> Result<(), StoreError> {
        store.sessions.operate.with(async |session| session.transact(&SHORTEN_LEASES, &[]).await).await?;
        if self.is_requested.swap(false, Ordering::Relaxed)
            && let Err(error) = repair_all(store).await
        {
            self.request();
            return Err(error);
        }
        Ok(())
    }
}

async fn repair_all(store: &StoreState) -> Result<(), StoreError> {
    store.sessions.operate.with(async |session| session.transact(&FORGET_CIRCUITS, &[]).await).await?;
    repair_destinations(store, &DATE_RESUMES).await?;
    repair_destinations(store, &RESTART_PAUSES).await?;
    restart_delays(store).await
}

/// Repeats a statement until it repairs fewer destinations than one step may.
async fn repair_destinations(store: &StoreState, sql: &Sql) -> Result<(), StoreError> {
    loop {
        let step =
            store.sessions.operate.with(async |session| session.transact(sql, &[&STEP_ROWS_MAX]).await);
        if i64::try_from(step.await?.len()).is_ok_and(|repaired| repaired < STEP_ROWS_MAX) {
            return Ok(());
        }
        sleep(STEP_INTERVAL).await;
    }
}

/// Restarts the delays of all retries that were written later than now.
async fn restart_delays(store: &StoreState) -> Result<(), StoreError> {
    let mut after = RETRY_POSITION_MIN;
    loop {
        let step = store.sessions.operate.with(async |session| {
            let rows = session.transact(&RESTART_DELAYS, &[&after, &STEP_ROWS_MAX]).await?;
            let row = rows.first().expect("the statement returns one row");
            Ok((row.try_get::<_, Option<i64>>(0)?, row.try_get::<_, i64>(1)?))
        });
        match step.await? {
            // Retries may share a position, so the last position may have more rows: the next step reads it again.
            (Some(last), examined) if examined >= STEP_ROWS_MAX => after = (last - 1).max(after + 1),
            _ => return Ok(()),
        }
        sleep(STEP_INTERVAL).await;
    }
}
