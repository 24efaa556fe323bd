//! The circuit breakers of one worker, and what it tells operators of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{Breaker, BreakerPolicy, Circuit, DestinationId, Health, Permit};
use posthaste_store::{CircuitReport, CircuitState};

use crate::worker::Worker;

const REPORT_EVERY: Duration = Duration::from_secs(5);
/// A report outlives one that got lost, and not much more.
const REPORT_EXPIRES_IN: Duration = Duration::from_secs(15);

/// A destination has a breaker from its first failure until nothing is left to remember.
pub(crate) struct Circuits {
    policy: BreakerPolicy,
    breakers: Mutex<BTreeMap<DestinationId, Breaker>>,
}

impl Circuits {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self { policy, breakers: Mutex::default() }
    }

    /// How many sends the circuits allow where they do not allow all.
    pub(crate) fn allowed(&self, now: Duration) -> BTreeMap<DestinationId, usize> {
        let mut breakers = self.breakers();
        breakers.retain(|_, breaker| !breaker.is_idle(now));
        breakers
            .iter_mut()
            .filter_map(|(id, breaker)| match breaker.circuit(now) {
                Circuit::Closed => None,
                Circuit::Open { .. } | Circuit::HalfOpen { probe_out: true } => Some((*id, 0)),
                Circuit::HalfOpen { probe_out: false } => Some((*id, 1)),
            })
            .collect()
    }

    /// Asks to send now; none means that the circuit opened since the claim was made.
    pub(crate) fn admit(self: &Arc<Self>, destination: DestinationId, now: Duration) -> Option<Admission> {
        let permit = match self.breakers().get_mut(&destination) {
            Some(breaker) => breaker.admit(now)?,
            None => Breaker::new(self.policy, now).admit(now)?,
        };
        Some(Admission { circuits: Arc::clone(self), destination, permit: Some(permit) })
    }

    fn record(&self, destination: DestinationId, permit: Permit, health: Health, now: Duration) -> bool {
        let mut breakers = self.breakers();
        let breaker = match health {
            Health::Unhealthy => {
                breakers.entry(destination).or_insert_with(|| Breaker::new(self.policy, now))
            }
            Health::Healthy | Health::Unknown => match breakers.get_mut(&destination) {
                Some(breaker) => breaker,
                None => return false,
            },
        };
        let before = breaker.circuit(now);
        breaker.record(permit, health, now);
        before != Circuit::Closed && breaker.circuit(now) != before
    }

    fn states(&self, now: Duration) -> BTreeMap<DestinationId, CircuitState> {
        self.breakers()
            .iter_mut()
            .filter_map(|(id, breaker)| match breaker.circuit(now) {
                Circuit::Closed => None,
                Circuit::Open { .. } => Some((*id, CircuitState::Open)),
                Circuit::HalfOpen { .. } => Some((*id, CircuitState::HalfOpen)),
            })
            .collect()
    }

    fn breakers(&self) -> MutexGuard<'_, BTreeMap<DestinationId, Breaker>> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to send, to be answered with what the send showed. Dropped without an answer, it showed nothing.
pub(crate) struct Admission {
    circuits: Arc<Circuits>,
    destination: DestinationId,
    permit: Option<Permit>,
}

impl Admission {
    /// True when the answer changed a circuit so that more may be sent.
    pub(crate) fn answer(mut self, health: Health, now: Duration) -> bool {
        self.permit.take().is_some_and(|permit| self.circuits.record(self.destination, permit, health, now))
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let (Some(permit), Some(breaker)) =
            (self.permit.take(), self.circuits.breakers().get_mut(&self.destination))
        {
            breaker.withdraw(permit);
        }
    }
}

/// Tells the store which circuits are not closed, again and again, and once more when one closes.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut told: BTreeSet<DestinationId> = BTreeSet::new();
    loop {
        worker.ports.clock.sleep(REPORT_EVERY).await;
        let states = worker.circuits.states(worker.ports.clock.monotonic());
        let closed = told.iter().filter(|id| !states.contains_key(id)).map(|id| (*id, CircuitState::Closed));
        let reports: Vec<CircuitReport> = closed
            .chain(states.iter().map(|(id, state)| (*id, *state)))
            .map(|(destination, state)| CircuitReport {
                worker: worker.settings.worker_id.clone(),
                destination,
                state,
                expires_in: REPORT_EXPIRES_IN,
            })
            .collect();
        if reports.is_empty() {
            continue;
        }
        match worker.ports.store.report_circuits(&reports).await {
            Ok(()) => told = states.into_keys().collect(),
            Err(error) => tracing::warn!(code = error.code(), %error, "circuits were not reported"),
        }
    }
}
