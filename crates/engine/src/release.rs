//! Returns leases of events that will not be sent to the store, so that the events are due again at once.

use posthaste_store::LeaseRef;

use crate::backoff::Backoff;
use crate::phase::Phase;
use crate::slots::ClaimedEvent;
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Releases events that were claimed and not sent. Their renewals end with the release.
pub(crate) async fn release_events(worker: &Worker, events: Vec<ClaimedEvent>) {
    let leases: Vec<LeaseRef> = events.iter().map(|event| LeaseRef::from(&event.lease)).collect();
    events.iter().for_each(|event| event.renewal.mark_settling());
    release_unsent(worker, &leases).await;
}

/// Releases leases of events that were not sent. The report of a drain does not count them as released: no delivery was
/// interrupted. It counts those that cannot be released.
pub(crate) async fn release_unsent(worker: &Worker, leases: &[LeaseRef]) {
    if try_release(worker, leases).await {
        worker.drain.remove_pending(leases.len());
    }
}

/// Releases leases that a drain reports: of interrupted deliveries, of results that were given up, and of a claim whose
/// response was lost.
pub(crate) async fn release_leases(worker: &Worker, leases: &[LeaseRef]) {
    if try_release(worker, leases).await {
        worker.drain.mark_released(leases.len());
    }
}

/// Releases leases, and returns whether they are released. Gives up when the store is unavailable for a whole lease
/// duration: the leases have expired then. The leases count as pending before and, if they could not be released during a
/// drain, afterwards.
async fn try_release(worker: &Worker, leases: &[LeaseRef]) -> bool {
    if leases.is_empty() {
        return true;
    }
    let clock = &worker.ports.clock;
    let deadline = clock.monotonic() + worker.settings.lease.duration();
    let mut backoff = Backoff::new();
    worker.drain.add_pending(leases.len());
    loop {
        match catch_store_panic(worker.ports.store.release(leases)).await {
            Ok(()) => return true,
            Err(error) if error.is_transient() && clock.monotonic() < deadline => {
                clock.sleep(backoff.next()).await;
            }
            Err(error) => {
                tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
                    leases = leases.len(), "leases were not released; their events wait until they expire");
                if worker.phases.current() == Phase::Running {
                    worker.drain.remove_pending(leases.len());
                }
                return false;
            }
        }
    }
}
