//! Reads the payloads that did not come with their leases.
//!
//! An event takes no place of a request while its payload is read. Its lease is renewed meanwhile. A read that fails costs
//! no attempt: the lease is released, and the worker claims no such event for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::Lease;
use posthaste_store::{LeaseRef, StoreError};
use tokio::sync::Semaphore;

use crate::backoff::Backoff;
use crate::phase::Phase;
use crate::release::release_events;
use crate::slots::{AfterReading, ClaimedEvent, ReadyEvent, UnreadEvent};
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Maximum size of the payloads that are read at the same time, in bytes. One may exceed it. Large payloads do not keep
/// smaller ones waiting for long: the store reads several of them beside each other.
const READING_BYTES_MAX: usize = 512 << 10;

/// The reads of payloads of one worker.
pub(crate) struct PayloadReads {
    /// One permit for each byte that may be read at the same time.
    bytes: Semaphore,
    pause: Mutex<Pause>,
}

/// The pause after a read that failed.
struct Pause {
    until: Duration,
    backoff: Backoff,
}

impl Default for PayloadReads {
    fn default() -> Self {
        let pause = Mutex::new(Pause { until: Duration::ZERO, backoff: Backoff::new() });
        Self { bytes: Semaphore::new(READING_BYTES_MAX), pause }
    }
}

impl PayloadReads {
    /// Returns whether no payload should be read now, because a read has failed.
    pub(crate) fn are_paused(&self, now: Duration) -> bool {
        now < self.pause().until
    }

    /// Records a read that succeeded. Returns whether earlier ones had failed.
    fn record_success(&self) -> bool {
        self.pause().backoff.reset()
    }

    /// Records a read that failed. Returns whether it begins a new pause: the failures during a pause have the same reason.
    fn record_failure(&self, now: Duration) -> bool {
        let mut pause = self.pause();
        let is_new = now >= pause.until;
        if is_new {
            pause.until = now + pause.backoff.next();
        }
        is_new
    }

    fn pause(&self) -> MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the payload of a claimed event. Returns the event if it may be sent now. Releases it if its payload cannot be
/// read, or if it should not be sent any more.
pub(crate) async fn read(worker: &Arc<Worker>, unread: UnreadEvent) -> Option<ReadyEvent> {
    let UnreadEvent { event, slot } = unread;
    let payload = tokio::select! {
        biased;
        () = worker.phases.reached(Phase::Draining) => None,
        payload = read_payload(worker, &event.lease) => payload,
    };
    let Some(payload) = payload else {
        // From here on, the release counts the lease instead of the slot.
        drop(slot);
        release_events(worker, vec![event]).await;
        return None;
    };
    let ClaimedEvent { lease, renewal, claimed_at, .. } = event;
    // The store has just confirmed the lease.
    let requested_at = worker.ports.clock.monotonic();
    let lease = Lease { payload: payload.into(), ..lease };
    match worker.slots.end_reading(slot, ClaimedEvent { lease, renewal, requested_at, claimed_at }) {
        AfterReading::Ready(ready) => Some(ready),
        AfterReading::Waits => None,
        AfterReading::Stopped(event) => {
            release_events(worker, vec![event]).await;
            None
        }
    }
}

/// Reads the payload of a lease. Returns none if that failed, or if the lease was lost.
async fn read_payload(worker: &Worker, lease: &Lease) -> Option<Bytes> {
    let reads = &worker.payload_reads;
    let bytes = lease.payload.len().min(READING_BYTES_MAX);
    let bytes = u32::try_from(bytes).expect("the limit fits");
    let _permits = reads.bytes.acquire_many(bytes).await.expect("the semaphore is never closed");
    // Another read may have failed while this one waited.
    if reads.are_paused(worker.ports.clock.monotonic()) {
        return None;
    }
    match catch_store_panic(worker.ports.store.read_payload(LeaseRef::from(lease))).await {
        Ok(payload) => {
            if reads.record_success() {
                tracing::info!(worker_id = %worker.settings.worker_id, "payloads can be read again");
            }
            payload
        }
        Err(error) => {
            report_failure(worker, lease, &error);
            None
        }
    }
}

fn report_failure(worker: &Worker, lease: &Lease, error: &StoreError) {
    if worker.payload_reads.record_failure(worker.ports.clock.monotonic()) {
        tracing::warn!(event_id = %lease.event_id, worker_id = %worker.settings.worker_id, code = error.code(), %error,
            "a payload could not be read; its event loses no attempt and is claimed again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_grow_with_failures_and_start_over_after_a_success() {
        let reads = PayloadReads::default();
        assert!(!reads.are_paused(ms(0)) && !reads.record_success());
        assert!(reads.record_failure(ms(0)));
        assert!(!reads.record_failure(ms(99)), "it has the same reason as the first one");
        assert!(reads.are_paused(ms(99)) && !reads.are_paused(ms(100)));
        assert!(reads.record_failure(ms(100)));
        assert!(reads.are_paused(ms(299)) && !reads.are_paused(ms(300)));
        assert!(reads.record_success());
        assert!(reads.record_failure(ms(300)) && !reads.are_paused(ms(400)));
    }
}
