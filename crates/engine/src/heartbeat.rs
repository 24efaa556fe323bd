//! Keeps the leases of everything in flight alive, in batches, by a loop of its own.
//!
//! A lease is held from before its request starts until its settle has committed, by a [`Renewing`] guard: early
//! returns, panics and aborted tasks drop it like everything else, so nothing is renewed for ever.
//!
//! A renewal that the store refuses ends the renewing of that event, and so does an error that will not pass. A store
//! that is merely away is asked again, past the moment at which the lease should have lapsed by this worker's clock:
//! that clock may run fast, nobody else can take the event over while the store is away, and a lease that has been
//! taken over cannot be renewed anyway. The attempt goes on in any case, to a settle that is fenced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::{EventId, Lease, LeaseTerms, LeaseToken, WorkerId};
use posthaste_store::{HeldLease, Store, StoreError};

use crate::clock::{Clock, within};
use crate::observe::Observer;
use crate::supervise::contained;

/// Between two rounds, however long the first took.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Leases renewed by one call.
const BATCH_MAX: usize = 500;

pub(crate) struct Heartbeat {
    worker_id: WorkerId,
    terms: LeaseTerms,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    renewals: Mutex<BTreeMap<LeaseToken, Renewal>>,
}

#[derive(Debug, Clone)]
struct Renewal {
    held: HeldLease,
    event_id: EventId,
    /// When the lease should lapse unless it is renewed, by this worker's clock.
    lapses_at: Duration,
    /// Operators have been told that it was not renewed in time.
    told: bool,
    /// The settle is on its way: it will say itself whether the lease was lost, or that it ended it.
    settling: bool,
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

    /// Renews a lease that has just been granted, until the guard is dropped.
    pub(crate) fn hold(self: &Arc<Self>, lease: &Lease) -> Renewing {
        let renewal = Renewal {
            held: HeldLease::from(lease),
            event_id: lease.event_id.clone(),
            lapses_at: self.clock.monotonic() + self.terms.duration(),
            told: false,
            settling: false,
        };
        self.renewals().insert(lease.token, renewal);
        Renewing { heartbeat: Arc::clone(self), token: lease.token }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let mut pause = self.terms.heartbeat();
        loop {
            self.clock.sleep(pause).await;
            let began_at = self.clock.monotonic();
            let answered = self.renew_all().await;
            let period = if answered { self.terms.heartbeat() } else { self.terms.heartbeat() / 4 };
            // What the calls took is not waited once more.
            let took = self.clock.monotonic().saturating_sub(began_at);
            pause = period.saturating_sub(took).max(PAUSE_MIN);
        }
    }

    /// False when the store did not answer for some of them.
    async fn renew_all(&self) -> bool {
        let renewals: Vec<Renewal> = self.renewals().values().cloned().collect();
        let batches = renewals.chunks(BATCH_MAX).map(|batch| self.renew(batch));
        join_all(batches).await.into_iter().all(|answered| answered)
    }

    async fn renew(&self, batch: &[Renewal]) -> bool {
        let held: Vec<HeldLease> = batch.iter().map(|renewal| renewal.held).collect();
        let call = contained(self.store.renew(&held, self.terms.duration()));
        // A call that hangs must not keep the next round from being made.
        let answer = within(&*self.clock, self.terms.heartbeat(), call).await;
        match answer {
            Some(Ok(lost)) => {
                self.extend(batch, &lost);
                true
            }
            // One that the store refuses must not take the others with it.
            Some(Err(error)) if !error.is_transient() && batch.len() > 1 => {
                let alone = batch.chunks(1).map(|one| Box::pin(self.renew(one)));
                join_all(alone).await.into_iter().all(|answered| answered)
            }
            Some(Err(error)) if !error.is_transient() => {
                batch.iter().for_each(|renewal| self.stop(renewal, error.code()));
                true
            }
            Some(Err(error)) => self.unanswered(batch, &error),
            None => self.unanswered(batch, &StoreError::Unavailable { reason: "renewal timed out".into() }),
        }
    }

    fn extend(&self, batch: &[Renewal], lost: &[HeldLease]) {
        let lapses_at = self.clock.monotonic() + self.terms.duration();
        let lost: BTreeSet<&HeldLease> = lost.iter().collect();
        for renewal in batch {
            if lost.contains(&renewal.held) {
                self.stop(renewal, "lease_lost");
            } else if let Some(renewal) = self.renewals().get_mut(&renewal.held.token) {
                renewal.lapses_at = lapses_at;
                renewal.told = false;
            }
        }
    }

    /// They are tried again soon; for those that should have lapsed meanwhile, operators are told once.
    fn unanswered(&self, batch: &[Renewal], error: &StoreError) -> bool {
        tracing::debug!(worker_id = %self.worker_id, code = error.code(), %error, leases = batch.len(),
            "leases were not renewed; trying again");
        let now = self.clock.monotonic();
        let mut renewals = self.renewals();
        for renewal in batch {
            if let Some(renewal) = renewals.get_mut(&renewal.held.token)
                && renewal.lapses_at <= now
                && !renewal.told
            {
                renewal.told = true;
                self.tell(renewal, error.code());
            }
        }
        false
    }

    fn stop(&self, renewal: &Renewal, code: &'static str) {
        let stopped = self.renewals().remove(&renewal.held.token);
        if stopped.is_some_and(|stopped| !stopped.settling) {
            self.tell(renewal, code);
        }
    }

    fn tell(&self, renewal: &Renewal, code: &'static str) {
        self.observer.lease_lost();
        tracing::warn!(event_id = %renewal.event_id, worker_id = %self.worker_id, code, "lease renewal failed");
    }

    fn renewals(&self) -> MutexGuard<'_, BTreeMap<LeaseToken, Renewal>> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While this lives, its lease is renewed.
pub(crate) struct Renewing {
    heartbeat: Arc<Heartbeat>,
    token: LeaseToken,
}

impl Renewing {
    /// From here on the settle is the one to say whether the lease was lost.
    pub(crate) fn settling(&self) {
        if let Some(renewal) = self.heartbeat.renewals().get_mut(&self.token) {
            renewal.settling = true;
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.heartbeat.renewals().remove(&self.token);
    }
}
