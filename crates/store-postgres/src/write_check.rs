//! The check that PostgreSQL accepts writes: a trial enqueue, claim and settle that are rolled back, and a commit.
//!
//! The trial runs the statements of the real operations, so it needs every table, column, index, function and right that
//! they need. It leaves nothing but a gap in the event keys and a few dead rows.
//!
//! A rollback waits for no synchronous standby. So the check also commits a message to the write-ahead log, which changes
//! no row.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::{StoreError, trial};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::StoreState;
use crate::claim::{grant_in_transaction, try_look};
use crate::enqueue::insert_in_transaction;
use crate::error::unavailable;
use crate::session::{BEGIN, Session, SessionPools, Sql};
use crate::settle::settle_in_transaction;

const PAYLOAD_BYTES: usize = 256;
/// How long the health of the store waits for a check. A check that takes longer continues in the background.
const HEALTH_WAIT: Duration = Duration::from_secs(3);
/// How long a successful check is valid, unless a write fails meanwhile.
const VALID_FOR: Duration = Duration::from_secs(10);

/// Writes an empty message to the write-ahead log. Its commit is as durable as that of an enqueue.
static LOG_MESSAGE: Sql =
    Sql { text: "SELECT pg_catalog.pg_logical_emit_message(true, 'posthaste', '')", types: &[] };

/// Checks that every write is possible. An error names the table, function or right that is missing.
pub(crate) async fn check_writes(store: &StoreState) -> Result<(), StoreError> {
    let failures_before = store.sessions.write_failures();
    run(&store.sessions).await?;
    store.write_check.record_success(failures_before);
    Ok(())
}

/// Makes the trial and the commit.
pub(crate) async fn run(sessions: &SessionPools) -> Result<(), StoreError> {
    let checked = sessions.checks.with(async |session| {
        try_writes(session).await?;
        session.transact(&LOG_MESSAGE, &[]).await
    });
    checked.await.map(drop)
}

/// Enqueues, claims and settles an event, and rolls back. If a statement fails, the session is closed, and PostgreSQL
/// rolls back.
async fn try_writes(session: &Session) -> Result<(), tokio_postgres::Error> {
    session.begin(&BEGIN).await?;
    let destination = insert_in_transaction(session, &trial::event(PAYLOAD_BYTES)).await?;
    try_look(session).await?;
    let lease = grant_in_transaction(session, &trial::claim(), destination).await?;
    // Without a lease, an operator has paused the destination of the trial.
    if let Some(lease) = lease {
        settle_in_transaction(session, &trial::worker(), trial::settlement(&lease)).await?;
    }
    session.client().batch_execute("ROLLBACK").await
}

/// The last successful check, and the check in progress that the health of the store waits for.
#[derive(Default)]
pub(crate) struct WriteCheck {
    last_success: std::sync::Mutex<Option<Success>>,
    running: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

/// A successful check.
#[derive(Clone, Copy)]
struct Success {
    at: tokio::time::Instant,
    /// The number of failed writes when the check began.
    failures: usize,
}

impl WriteCheck {
    fn record_success(&self, failures: usize) {
        let success = Success { at: now(), failures };
        *self.last_success.lock().expect("no holder of this lock panics") = Some(success);
    }

    /// Returns whether a recent check succeeded, and no write has failed since it began.
    fn is_valid(&self, failures: usize) -> bool {
        let last = *self.last_success.lock().expect("no holder of this lock panics");
        last.is_some_and(|success| success.failures == failures && now() < success.at + VALID_FOR)
    }
}

/// Returns whether writes are possible, within [`HEALTH_WAIT`]. At most one check is in progress, so that checks that
/// hang do not take up the server's connections.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for the network; nothing is scheduled by it")]
pub(crate) async fn recently_writable(store: &Arc<StoreState>) -> Result<(), StoreError> {
    let check = &store.write_check;
    let mut running = check.running.lock().await;
    if running.is_none() && check.is_valid(store.sessions.write_failures()) {
        return Ok(());
    }
    let task = running.get_or_insert_with(|| {
        let store = Arc::clone(store);
        tokio::spawn(async move { check_writes(&store).await })
    });
    match tokio::time::timeout(HEALTH_WAIT, task).await {
        Ok(ended) => {
            *running = None;
            ended.unwrap_or_else(|_| Err(unavailable("the check of writes panicked; this is a bug")))
        }
        Err(_) => Err(unavailable(format!(
            "PostgreSQL has not committed a trial write within {HEALTH_WAIT:?}; check its synchronous standbys, its locks \
             and its disk"
        ))),
    }
}

#[expect(clippy::disallowed_methods, reason = "ages a check of the server; nothing is scheduled by it")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
