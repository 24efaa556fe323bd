//! How many requests a process has out, counted by the world.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_domain::{DestinationId, Lease};
use posthaste_engine::Settings;

#[derive(Default)]
pub(crate) struct Occupancy(Mutex<Out>);

#[derive(Default)]
struct Out {
    total: usize,
    retries: usize,
    by_destination: BTreeMap<DestinationId, usize>,
}

/// One request that is out. Dropped when it ends, however it ends.
pub(crate) struct Request {
    occupancy: Arc<Occupancy>,
    destination: DestinationId,
    retry: bool,
}

impl Occupancy {
    /// The request, and what it exceeds if it does.
    pub(crate) fn enter(self: &Arc<Self>, lease: &Lease, settings: &Settings) -> (Request, Option<String>) {
        let mut out = self.out();
        out.total += 1;
        out.retries += usize::from(lease.is_retry());
        let there = out.by_destination.entry(lease.destination_id).or_default();
        *there += 1;
        let there = *there;
        let exceeded = out.total > settings.concurrency
            || there > settings.per_destination
            || out.retries > settings.retry_batch;
        let finding = exceeded.then(|| {
            format!(
                "{} requests out, {there} to destination {}, {} retries",
                out.total, lease.destination_id, out.retries
            )
        });
        drop(out);
        let request = Request {
            occupancy: Arc::clone(self),
            destination: lease.destination_id,
            retry: lease.is_retry(),
        };
        (request, finding)
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut out = self.occupancy.out();
        out.total -= 1;
        out.retries -= usize::from(self.retry);
        if let Some(there) = out.by_destination.get_mut(&self.destination) {
            *there -= 1;
        }
    }
}
