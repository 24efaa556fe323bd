//! Expiry: dead-letters events that have not ended in time.
//!
//! A worker walks over the pending events again and again, oldest first, in small steps. Every worker walks; the store lets
//! each event expire once. An event expires at most a pause and a walk after its time. A single cycle begins with one walk.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{EventId, EventKey};
use posthaste_store::ExpireRequest;

use crate::phase::Phase;
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Longest pause between two walks.
const WALK_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Shortest pause between two walks.
const WALK_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Pause between two steps of one walk, so that dispatch gets the store in between.
const STEP_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of events that one step examines.
const ROWS_MAX: usize = 500;
/// Maximum number of steps of the walk of a single cycle, which delivers afterwards. Later cycles expire the other events.
const CYCLE_STEPS_MAX: usize = 100;
/// Maximum number of expired events of one step that are logged by their ids.
const LOGGED_MAX: usize = 20;

/// Walks over the pending events again and again, unless events never expire.
pub(crate) async fn run(worker: Arc<Worker>) {
    let Some(expire_after) = worker.settings.expire_after else {
        return std::future::pending().await;
    };
    let walk_pause = (expire_after / 100).clamp(WALK_PAUSE_MIN, WALK_PAUSE_MAX);
    let mut request = first_step(expire_after);
    loop {
        request.after = step(&worker, &request).await;
        let pause = if request.after.is_some() { STEP_PAUSE } else { walk_pause };
        worker.ports.clock.sleep(pause).await;
    }
}

/// Walks over the pending events once, unless events never expire or the worker is asked to stop.
pub(crate) async fn run_once(worker: &Worker) {
    let Some(expire_after) = worker.settings.expire_after else { return };
    let mut request = first_step(expire_after);
    for _ in 0..CYCLE_STEPS_MAX {
        request.after = step(worker, &request).await;
        if request.after.is_none() || worker.phases.current() != Phase::Running {
            return;
        }
    }
}

const fn first_step(expire_after: Duration) -> ExpireRequest {
    ExpireRequest { expire_after, after: None, rows_max: ROWS_MAX }
}

/// Makes one step of a walk. Returns the event after which the next step continues; none if the walk has ended.
async fn step(worker: &Worker, request: &ExpireRequest) -> Option<EventKey> {
    match catch_store_panic(worker.ports.store.expire(request)).await {
        Ok(response) => {
            report(worker, &response.expired);
            response.next
        }
        Err(error) => {
            tracing::warn!(code = error.code(), %error, "expired events not dead-lettered; trying again later");
            None
        }
    }
}

/// Counts and logs expired events. After an outage very many can expire together, so only the first of a step are logged
/// one by one.
fn report(worker: &Worker, expired: &[EventId]) {
    if expired.is_empty() {
        return;
    }
    let worker_id = &worker.settings.worker_id;
    for event_id in expired.iter().take(LOGGED_MAX) {
        tracing::info!(%event_id, %worker_id, "event expired; event dead-lettered");
    }
    if let Some(more @ 1..) = expired.len().checked_sub(LOGGED_MAX) {
        tracing::info!(events = more, %worker_id, "more events expired; events dead-lettered");
    }
    worker.cycle.count_failed(expired.len());
    worker.activity.count_failed(expired.len());
    worker.ports.observer.on_expired(expired.len());
}
