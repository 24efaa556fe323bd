//! Divides time into intervals for the slots: in each they count the hosts that compete for places, and after some of them
//! a request is old.
//!
//! An interval is counted when it ends. So a process that was stopped for an hour has lived through one more.

use std::sync::Arc;

use crate::slots::INTERVALS_UNTIL_OLD;
use crate::worker::Worker;

/// Begins an interval after the other.
pub(crate) async fn run(worker: Arc<Worker>) {
    let interval = worker.settings.slow_after / INTERVALS_UNTIL_OLD;
    loop {
        worker.ports.clock.sleep(interval).await;
        worker.lanes.start_next(&worker, || worker.slots.begin_interval());
    }
}
