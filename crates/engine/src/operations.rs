//! The loop of background operations: runs them in small steps, at the rate of each.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::StoreError;

use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Pause when no operation is running, or when a step failed.
const IDLE_PAUSE: Duration = Duration::from_secs(2);
/// Shortest and longest pause between two steps, so that dispatch gets the store in between and a new operation starts soon.
const STEP_PAUSE_MIN: Duration = Duration::from_millis(50);
const STEP_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Maximum number of rows of each operation that one step examines.
const ROWS_MAX: usize = 500;

/// Advances all running operations of the store, those of endpoints and those in bulk. Every worker does; the store changes or
/// adds each event once.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut is_failing = false;
    loop {
        let step = catch_store_panic(advance(&worker)).await;
        if let Err(error) = &step
            && !is_failing
        {
            tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
                "background operations do not advance; trying again");
        }
        is_failing = step.is_err();
        let next_in = step.ok().flatten();
        let pause = next_in.map_or(IDLE_PAUSE, |next_in| next_in.clamp(STEP_PAUSE_MIN, STEP_PAUSE_MAX));
        worker.ports.clock.sleep(pause).await;
    }
}

/// Runs one step of every operation. Returns the time until one of them has something to do, if any is running.
async fn advance(worker: &Worker) -> Result<Option<Duration>, StoreError> {
    let store = &worker.ports.store;
    let mut advance = store.operations().advance(ROWS_MAX).await?;
    advance.add(store.bulk().advance(ROWS_MAX).await?);
    Ok(advance.next_in)
}
