//! The heartbeat: a loop that renews the leases of all deliveries in flight, in batches.
//!
//! A delivery holds a [`RenewalGuard`] from before its request starts until its settle has committed. Early returns,
//! panics and aborted tasks drop the guard, so no lease is renewed forever.
//!
//! A lease that the store reports as lost is renewed no more. A renewal that fails is retried, also past the expiry that
//! this worker's clock computes. The delivery continues in either case; its settle is fenced by the token.
//! [`lease_protocol`](crate::lease_protocol) explains why this is safe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::{EventId, Lease, LeaseTerms, WorkerId};
use posthaste_store::{LeaseRef, Store, StoreError};

use crate::clock::{Clock, within};
use crate::observe::Observer;
use crate::supervise::catch_store_panic;

/// Minimum pause between two rounds, however long the first took.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Maximum number of leases renewed by one call.
const BATCH_MAX: usize = 500;
/// Leases refused alone, while nothing was accepted, after which a refused batch is split no further.
const REFUSED_ALONE_MAX: usize = 16;

/// The leases that a worker renews, and the loop that renews them.
pub(crate) struct Heartbeat {
    worker_id: WorkerId,
    terms: LeaseTerms,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    renewals: Mutex<BTreeMap<LeaseRef, Renewal>>,
}

/// A lease in flight that is being renewed.
#[derive(Debug, Clone)]
struct Renewal {
    lease: LeaseRef,
    event_id: EventId,
    /// When the lease expires unless it is renewed, as computed by this worker's clock.
    expected_expiry: Duration,
    /// Whether the worker has logged that the lease expired without a renewal. It logs this once.
    is_reported: bool,
    /// The settle or the release has started. A settle reports a lost lease itself. The commit of either ends the lease.
    is_settling: bool,
}

impl Heartbeat {
    pub(crate) fn new(
        worker_id: WorkerId,
        terms: LeaseTerms,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self { worker_id, terms, store, clock, observer, renewals: Mutex::default() }
    }

    /// Starts to renew a lease that has just been granted. Renewals stop when the returned guard is dropped.
    pub(crate) fn start_renewing(self: &Arc<Self>, lease: &Lease) -> RenewalGuard {
        let renewal = Renewal {
            lease: LeaseRef::from(lease),
            event_id: lease.event_id.clone(),
            expected_expiry: self.clock.monotonic() + self.terms.duration(),
            is_reported: false,
            is_settling: false,
        };
        let lease = renewal.lease;
        self.renewals().insert(lease, renewal);
        RenewalGuard { heartbeat: Arc::clone(self), lease }
    }

    /// Renews all leases every heartbeat interval, or four times as often while the store does not answer.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut pause = self.terms.heartbeat();
        loop {
            self.clock.sleep(pause).await;
            let started_at = self.clock.monotonic();
            let answered = self.renew_all().await;
            let interval = if answered { self.terms.heartbeat() } else { self.terms.heartbeat() / 4 };
            // The interval runs from the start of one round to the start of the next.
            let took = self.clock.monotonic().saturating_sub(started_at);
            pause = interval.saturating_sub(took).max(PAUSE_MIN);
        }
    }

    /// Renews all leases. Returns false if the store did not answer for some of them.
    async fn renew_all(&self) -> bool {
        let renewals: Vec<Renewal> = self.renewals().values().cloned().collect();
        let batches = renewals.chunks(BATCH_MAX).map(|batch| self.renew(batch));
        join_all(batches).await.into_iter().all(|answered| answered)
    }

    /// Renews one batch. Returns false if the store did not answer. If the store refuses the batch, splits it in half, so
    /// that one lease does not stop the renewals of the others; but not down to every lease of a store that refuses all.
    async fn renew(&self, batch: &[Renewal]) -> bool {
        let mut parts = vec![batch];
        let (mut is_answered, mut is_accepted, mut refused) = (true, false, 0);
        while let Some(part) = parts.pop() {
            match self.renew_once(part).await {
                Ok(lost) => {
                    is_accepted = true;
                    self.record_renewed(part, &lost);
                }
                Err(error) if error.is_transient() => {
                    is_answered = false;
                    self.record_failed(part, &error);
                }
                Err(_) if part.len() > 1 && (is_accepted || refused < REFUSED_ALONE_MAX) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(error) => {
                    refused += 1;
                    self.record_failed(part, &error);
                }
            }
        }
        is_answered
    }

    /// Makes one call. A call that hangs is cancelled, so that it does not delay the next round.
    async fn renew_once(&self, batch: &[Renewal]) -> Result<Vec<LeaseRef>, StoreError> {
        let leases: Vec<LeaseRef> = batch.iter().map(|renewal| renewal.lease).collect();
        let call = catch_store_panic(self.store.renew(&leases, self.terms.duration()));
        let timed_out = || Err(StoreError::Unavailable { reason: "renewal timed out".into() });
        within(&*self.clock, self.terms.heartbeat(), call).await.unwrap_or_else(timed_out)
    }

    fn record_renewed(&self, batch: &[Renewal], lost: &[LeaseRef]) {
        let expected_expiry = self.clock.monotonic() + self.terms.duration();
        let lost: BTreeSet<&LeaseRef> = lost.iter().collect();
        for renewal in batch {
            if lost.contains(&renewal.lease) {
                self.stop_renewing(renewal, "lease_lost");
            } else if let Some(renewal) = self.renewals().get_mut(&renewal.lease) {
                renewal.expected_expiry = expected_expiry;
                renewal.is_reported = false;
            }
        }
    }

    /// Logs each lease of the batch that should have expired by now, once. The next round retries all of them.
    fn record_failed(&self, batch: &[Renewal], error: &StoreError) {
        tracing::debug!(worker_id = %self.worker_id, code = error.code(), %error, leases = batch.len(),
            "leases were not renewed; trying again");
        let now = self.clock.monotonic();
        let mut renewals = self.renewals();
        for renewal in batch {
            if let Some(renewal) = renewals.get_mut(&renewal.lease)
                && renewal.expected_expiry <= now
                && !renewal.is_reported
            {
                renewal.is_reported = true;
                self.report_lost(renewal, error.code());
            }
        }
    }

    fn stop_renewing(&self, renewal: &Renewal, code: &'static str) {
        let stopped = self.renewals().remove(&renewal.lease);
        if stopped.is_some_and(|stopped| !stopped.is_settling) {
            self.report_lost(renewal, code);
        }
    }

    fn report_lost(&self, renewal: &Renewal, code: &'static str) {
        self.observer.on_lease_lost();
        tracing::warn!(event_id = %renewal.event_id, worker_id = %self.worker_id, code, "lease renewal failed");
    }

    fn renewals(&self) -> MutexGuard<'_, BTreeMap<LeaseRef, Renewal>> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a lease that the heartbeat renews. Dropping it stops the renewals.
pub(crate) struct RenewalGuard {
    heartbeat: Arc<Heartbeat>,
    lease: LeaseRef,
}

impl RenewalGuard {
    /// Marks the lease as being settled or released: from now on the heartbeat does not report it as lost.
    pub(crate) fn mark_settling(&self) {
        if let Some(renewal) = self.heartbeat.renewals().get_mut(&self.lease) {
            renewal.is_settling = true;
        }
    }
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        self.heartbeat.renewals().remove(&self.lease);
    }
}
