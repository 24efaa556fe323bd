//! Lanes: tasks that send events, each one event after the other.
//!
//! When an answer arrives, its lane continues with an event that waited for the place in the window. More lanes start as
//! windows grow and claims bring events.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::{JoinError, JoinSet};

use crate::deliver::{InterruptedDelivery, deliver};
use crate::payloads;
use crate::release::release_events;
use crate::slots::{NextEvents, NextStep};
use crate::worker::Worker;

/// The lanes of a worker. Dropping them aborts their deliveries.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<JoinSet<Option<InterruptedDelivery>>>);

impl Lanes {
    /// Starts a lane for each event.
    pub(crate) fn start<E: Into<NextStep>>(&self, worker: &Arc<Worker>, events: impl IntoIterator<Item = E>) {
        let mut lanes = self.lanes();
        for event in events {
            lanes.spawn(run(Arc::clone(worker), event.into()));
        }
    }

    /// Starts a lane for each event that `next` returns as ready, and releases the unsent ones beside the caller. A drain waits for both:
    /// it finds lanes while events are on their way from the slots to them.
    pub(crate) fn start_next(&self, worker: &Arc<Worker>, next: impl FnOnce() -> NextEvents) {
        let mut lanes = self.lanes();
        let NextEvents { ready, unsent } = next();
        for event in ready {
            lanes.spawn(run(Arc::clone(worker), event.into()));
        }
        if !unsent.is_empty() {
            let worker = Arc::clone(worker);
            lanes.spawn(async move {
                release_events(&worker, unsent).await;
                None
            });
        }
    }

    /// Removes lanes that have ended.
    pub(crate) fn reap(&self) {
        let mut lanes = self.lanes();
        while let Some(ended) = lanes.try_join_next() {
            log_panic(ended);
        }
    }

    /// Waits for a lane to end, and returns the deliveries that have been interrupted. Returns `None` when no lane is left.
    pub(crate) async fn join(&self) -> Option<Vec<InterruptedDelivery>> {
        let first = poll_fn(|context| self.lanes().poll_join_next(context)).await?;
        let mut interrupted: Vec<_> = log_panic(first).into_iter().collect();
        let mut lanes = self.lanes();
        while let Some(ended) = lanes.try_join_next() {
            interrupted.extend(log_panic(ended));
        }
        Some(interrupted)
    }

    /// Ends all lanes at once, as a crash would.
    pub(crate) fn abort(&self) {
        self.lanes().abort_all();
    }

    fn lanes(&self) -> MutexGuard<'_, JoinSet<Option<InterruptedDelivery>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the payload of an event if necessary and sends the event, then those that may be sent when its answer has arrived. The first one continues in this lane.
async fn run(worker: Arc<Worker>, first: NextStep) -> Option<InterruptedDelivery> {
    let mut next = match first {
        NextStep::ReadPayload(unread) => payloads::read(&worker, unread).await,
        NextStep::Send(ready) => Some(ready),
    };
    while let Some(event) = next {
        let mut ready = match deliver(&worker, event).await {
            Ok(ready) => ready.into_iter(),
            Err(interrupted) => return Some(interrupted),
        };
        next = ready.next();
        worker.lanes.start(&worker, ready);
    }
    None
}

/// Logs a panic of a delivery. Unwinding has already released its slot and ended its heartbeat, so its lease expires.
fn log_panic(ended: Result<Option<InterruptedDelivery>, JoinError>) -> Option<InterruptedDelivery> {
    ended.unwrap_or_else(|error| {
        tracing::error!(%error, "a delivery panicked; this is a bug. Its event is claimed again");
        None
    })
}
