//! Wake-ups for events that SQL callers and other processes have committed.
//!
//! A transaction that enqueues sends no notification: PostgreSQL lets only one transaction of the whole server commit
//! notifications at a time, and each holds that lock while its commit is flushed to disk. Instead a process with a worker
//! *polls*: every few milliseconds it reads whether discovery would find a row. A process without a worker *rings* after
//! its commits: one notification for many, in a transaction of its own that waits for no disk.

use std::sync::{Arc, Weak};
use std::time::Duration;

use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::session::Sql;
use crate::{StoreState, sleep};

/// Time between two polls while events arrive. It doubles with each poll that finds none.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(2);
/// Time between two polls while no event arrives.
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(75);
/// Time between two polls when no event has arrived for [`IDLE_AFTER`].
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(125);
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// A process whose last look is older has no worker. Workers look at least every minute.
const WORKER_LOOKS_WITHIN: Duration = Duration::from_secs(90);
/// Time between two rings. Enqueues meanwhile share the next ring.
const RING_INTERVAL: Duration = Duration::from_millis(5);

/// Returns whether one of these position ranges holds a row that no worker has leased. Uses index webhook_queue_id for new
/// events, whose position is their key, and webhook_queue_position for the others.
static HAS_NEW_ROWS: Sql = Sql {
    text: "
SELECT EXISTS (
    SELECT
    FROM unnest($1::bigint[], $2::bigint[]) AS s (low, high)
    CROSS JOIN LATERAL (
        (
            SELECT FROM app.webhook_queue q
            WHERE q.id > s.low AND q.id <= s.high AND q.lease_until IS NULL
            LIMIT 1
        )
        UNION ALL
        (
            SELECT FROM app.webhook_queue q
            WHERE q.queue_position > s.low AND q.queue_position <= s.high AND q.queue_position <> q.id
                  AND q.lease_until IS NULL
            LIMIT 1
        )
    ) q
)",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY],
};

/// Notifies the workers of all processes. The commit waits for no disk: a lost notification delays an event until the next
/// poll.
static RING: Sql = Sql {
    text: "SELECT set_config('synchronous_commit', 'off', true), pg_notify('posthaste_due', '')",
    types: &[],
};

/// The result of a poll.
enum Poll {
    /// There may be rows to claim.
    NewRows,
    NoRows,
    /// A claim is looking for rows itself, or no worker of this process claims.
    Skipped,
}

impl StoreState {
    /// Wakes the workers of this process after an enqueue, and those of other processes if this one has none.
    pub(crate) fn wake_after_enqueue(&self) {
        self.waker.wake();
        if !self.has_worker() {
            self.ring_request.notify_one();
        }
    }

    /// Wakes the workers of all processes after a rare change that no poll finds.
    pub(crate) fn wake_all(&self) {
        self.waker.wake();
        self.ring_request.notify_one();
    }

    /// Returns whether a worker of this process claims, or has claimed lately.
    fn has_worker(&self) -> bool {
        self.discovery.try_lock().map_or(true, |discovery| !discovery.is_look_older_than(WORKER_LOOKS_WITHIN))
    }
}

/// Polls until the store is dropped.
pub(crate) async fn poll(store: Weak<StoreState>) {
    let mut interval = POLL_INTERVAL_MIN;
    let mut idle = Duration::ZERO;
    loop {
        sleep(interval).await;
        idle += interval;
        let Some(store) = store.upgrade() else { return };
        match poll_once(&store).await {
            Ok(Poll::NewRows) => {
                store.waker.wake();
                (interval, idle) = (POLL_INTERVAL_MIN, Duration::ZERO);
            }
            Ok(Poll::Skipped) => {}
            // The claims report the error.
            Ok(Poll::NoRows) | Err(_) if idle < IDLE_AFTER => {
                interval = (interval * 2).min(POLL_INTERVAL_MAX);
            }
            Ok(Poll::NoRows) | Err(_) => interval = IDLE_POLL_INTERVAL,
        }
    }
}

async fn poll_once(store: &StoreState) -> Result<Poll, StoreError> {
    let (lows, highs) = {
        let Ok(discovery) = store.discovery.try_lock() else { return Ok(Poll::Skipped) };
        if discovery.is_look_older_than(WORKER_LOOKS_WITHIN)
            || !discovery.is_look_older_than(POLL_INTERVAL_MIN)
        {
            return Ok(Poll::Skipped);
        }
        discovery.cursors.first_attempt_ranges()
    };
    let rows = store
        .sessions
        .operate
        .with(async |session| {
            session
                .transact(&HAS_NEW_ROWS, &[&lows, &highs])
                .await?
                .first()
                .map(|row| row.try_get(0))
                .transpose()
        })
        .await?;
    Ok(if rows == Some(true) { Poll::NewRows } else { Poll::NoRows })
}

/// Rings on request until the store is dropped.
pub(crate) async fn ring(store: Weak<StoreState>) {
    loop {
        let Some(request) = store.upgrade().map(|store| Arc::clone(&store.ring_request)) else { return };
        request.notified().await;
        let Some(store) = store.upgrade() else { return };
        // Workers that miss a notification find the events at their next poll.
        let rung = store.sessions.operate.with(async |session| session.transact(&RING, &[]).await).await;
        if let Err(error) = rung {
            tracing::debug!(code = error.code(), %error, "workers of other processes not notified; they poll");
        }
        drop(store);
        sleep(RING_INTERVAL).await;
    }
}
