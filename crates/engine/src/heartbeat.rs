//! Keeps the leases of everything in flight alive, in batches, by a loop of its own.
//!
//! A lease is held from before its request starts until its settle has committed, by a [`Beating`] guard: early
//! returns, panics and aborted tasks drop it like everything else, so nothing is renewed for ever.
//!
//! A renewal that the store refuses ends the renewing of that event. So does an error, once it can no longer be
//! made good: a store that is merely away is asked again for as long as the lease still stands, because three
//! seconds of outage must not cost a lease of thirty. The attempt goes on either way, to a settle that is fenced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::{EventId, Lease, LeaseTerms, LeaseToken, WorkerId};
use posthaste_store::{HeldLease, Store, StoreError};

use crate::clock::{Clock, within};

/// Leases renewed by one call.
const BATCH_MAX: usize = 500;

pub(crate) struct Heartbeat {
    worker_id: WorkerId,
    terms: LeaseTerms,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pulses: Mutex<BTreeMap<LeaseToken, Pulse>>,
}

#[derive(Debug, Clone)]
struct Pulse {
    held: HeldLease,
    event_id: EventId,
    /// When the lease ends unless it is renewed, by this worker's clock and on the safe side.
    lapses_at: Duration,
}

impl Heartbeat {
    pub(crate) fn new(
        worker_id: WorkerId,
        terms: LeaseTerms,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { worker_id, terms, store, clock, pulses: Mutex::default() }
    }

    /// Renews the lease until the guard is dropped. `claimed_at` is when the claim was asked for.
    pub(crate) fn hold(self: &Arc<Self>, lease: &Lease, claimed_at: Duration) -> Beating {
        let pulse = Pulse {
            held: HeldLease::from(lease),
            event_id: lease.event_id.clone(),
            lapses_at: claimed_at + self.terms.duration(),
        };
        self.pulses().insert(lease.token, pulse);
        Beating { heartbeat: Arc::clone(self), token: lease.token }
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let mut pause = self.terms.heartbeat();
        loop {
            self.clock.sleep(pause).await;
            let answered = self.renew_all().await;
            pause = if answered { self.terms.heartbeat() } else { self.terms.heartbeat() / 4 };
        }
    }

    /// False when the store did not answer for some of them.
    async fn renew_all(&self) -> bool {
        let pulses: Vec<Pulse> = self.pulses().values().cloned().collect();
        let batches = pulses.chunks(BATCH_MAX).map(|batch| self.renew(batch));
        join_all(batches).await.into_iter().all(|answered| answered)
    }

    async fn renew(&self, batch: &[Pulse]) -> bool {
        let held: Vec<HeldLease> = batch.iter().map(|pulse| pulse.held).collect();
        let asked_at = self.clock.monotonic();
        let renewal = self.store.renew(&held, self.terms.duration());
        // A call that hangs must not keep the next round from being made.
        let answer = within(&*self.clock, self.terms.heartbeat(), renewal).await;
        match answer {
            Some(Ok(lost)) => {
                self.extend(batch, &lost, asked_at);
                true
            }
            Some(Err(error)) if !error.is_transient() => {
                batch.iter().for_each(|pulse| self.stop(pulse, error.code()));
                true
            }
            Some(Err(error)) => self.unanswered(batch, &error),
            None => self.unanswered(batch, &StoreError::Unavailable { reason: "renewal timed out".into() }),
        }
    }

    fn extend(&self, batch: &[Pulse], lost: &[HeldLease], asked_at: Duration) {
        let lost: BTreeSet<&HeldLease> = lost.iter().collect();
        for pulse in batch {
            if lost.contains(&pulse.held) {
                self.stop(pulse, "lease_lost");
            } else if let Some(pulse) = self.pulses().get_mut(&pulse.held.token) {
                pulse.lapses_at = asked_at + self.terms.duration();
            }
        }
    }

    /// Leases that have lapsed meanwhile are let go; the others are tried again soon.
    fn unanswered(&self, batch: &[Pulse], error: &StoreError) -> bool {
        let now = self.clock.monotonic();
        tracing::warn!(worker_id = %self.worker_id, code = error.code(), %error, leases = batch.len(), "leases were not renewed");
        batch.iter().filter(|pulse| pulse.lapses_at <= now).for_each(|pulse| self.stop(pulse, error.code()));
        false
    }

    fn stop(&self, pulse: &Pulse, code: &'static str) {
        if self.pulses().remove(&pulse.held.token).is_some() {
            tracing::warn!(event_id = %pulse.event_id, worker_id = %self.worker_id, code, "lease renewal failed");
        }
    }

    fn pulses(&self) -> MutexGuard<'_, BTreeMap<LeaseToken, Pulse>> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While this lives, its lease is renewed.
pub(crate) struct Beating {
    heartbeat: Arc<Heartbeat>,
    token: LeaseToken,
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.heartbeat.pulses().remove(&self.token);
    }
}
