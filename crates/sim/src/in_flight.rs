//! Requests in flight of one process, counted outside the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_domain::{DestinationId, Lease};
use posthaste_engine::Settings;

use crate::client::PAYLOAD_BYTES_MAX;

/// Counts the requests that a process has in flight.
#[derive(Default)]
pub(crate) struct InFlightCounter(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    total: usize,
    retries: usize,
    /// Sizes of the payloads that the byte limit counts.
    large_bytes: usize,
    by_destination: BTreeMap<DestinationId, usize>,
}

/// One request in flight. Dropping it ends the request, also when it is aborted.
pub(crate) struct RequestGuard {
    counter: Arc<InFlightCounter>,
    destination: DestinationId,
    is_retry: bool,
    large_bytes: usize,
}

impl InFlightCounter {
    /// Counts a request. The second value describes the counts if they exceed a limit of the settings.
    pub(crate) fn begin_request(
        self: &Arc<Self>,
        lease: &Lease,
        settings: &Settings,
    ) -> (RequestGuard, Option<String>) {
        let mut counts = self.counts();
        counts.total += 1;
        counts.retries += usize::from(lease.is_retry());
        let payload_bytes = lease.payload.len();
        let is_large = payload_bytes * 8 * settings.concurrency > settings.in_flight_bytes_max;
        let large_bytes = if is_large { payload_bytes } else { 0 };
        counts.large_bytes += large_bytes;
        let at_destination = counts.by_destination.entry(lease.destination_id).or_default();
        *at_destination += 1;
        let at_destination = *at_destination;
        let exceeded = counts.total > settings.concurrency
            || at_destination > settings.per_destination
            || counts.retries > settings.retry_batch
            // P16: one event may exceed the byte limit.
            || counts.large_bytes > settings.in_flight_bytes_max + PAYLOAD_BYTES_MAX;
        let violation = exceeded.then(|| {
            format!(
                "{} requests in flight, {at_destination} to destination {}, {} retries, {} bytes",
                counts.total, lease.destination_id, counts.retries, counts.large_bytes
            )
        });
        drop(counts);
        let request = RequestGuard {
            counter: Arc::clone(self),
            destination: lease.destination_id,
            is_retry: lease.is_retry(),
            large_bytes,
        };
        (request, violation)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut counts = self.counter.counts();
        counts.total -= 1;
        counts.retries -= usize::from(self.is_retry);
        counts.large_bytes -= self.large_bytes;
        if let Some(at_destination) = counts.by_destination.get_mut(&self.destination) {
            *at_destination -= 1;
        }
    }
}
