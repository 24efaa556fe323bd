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

/// A destination has a breaker from its first send until nothing is out and nothing is left to remember.
pub(crate) struct Circuits {
    policy: BreakerPolicy,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    watched: BTreeMap<DestinationId, Watched>,
    /// Those that are not closed: a claim looks at these alone, however many destinations there are.
    tripped: BTreeSet<DestinationId>,
}

struct Watched {
    breaker: Breaker,
    /// Sends that were admitted and not answered yet.
    out: usize,
}

impl Circuits {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self { policy, known: Mutex::default() }
    }

    /// How many sends the circuits allow where they do not allow all.
    pub(crate) fn allowed(&self, now: Duration) -> BTreeMap<DestinationId, usize> {
        let circuits = self.tripped(now).into_iter();
        circuits
            .map(|(id, circuit)| {
                let probe_may_go = circuit == Circuit::HalfOpen { probe_out: false };
                (id, usize::from(probe_may_go))
            })
            .collect()
    }

    /// Asks to send now; none means that the circuit opened since the claim was planned.
    pub(crate) fn admit(self: &Arc<Self>, destination: DestinationId, now: Duration) -> Option<Admission> {
        let mut known = self.known();
        let fresh = || Watched { breaker: Breaker::new(self.policy, now), out: 0 };
        let watched = known.watched.entry(destination).or_insert_with(fresh);
        let permit = watched.breaker.admit(now)?;
        watched.out += 1;
        Some(Admission { circuits: Arc::clone(self), destination, permit: Some(permit) })
    }

    /// True when more may be sent than before.
    fn record(&self, destination: DestinationId, permit: Permit, health: Health, now: Duration) -> bool {
        let mut known = self.known();
        let Known { watched, tripped } = &mut *known;
        let Some(watched) = watched.get_mut(&destination) else { return false };
        watched.out -= 1;
        let before = watched.breaker.circuit(now);
        watched.breaker.record(permit, health, now);
        let after = watched.breaker.circuit(now);
        if after == Circuit::Closed {
            tripped.remove(&destination);
        } else {
            tripped.insert(destination);
        }
        before != after && matches!(after, Circuit::Closed | Circuit::HalfOpen { probe_out: false })
    }

    fn withdraw(&self, destination: DestinationId, permit: Permit) {
        if let Some(watched) = self.known().watched.get_mut(&destination) {
            watched.out -= 1;
            watched.breaker.withdraw(permit);
        }
    }

    /// How many are not closed.
    pub(crate) fn open(&self, now: Duration) -> usize {
        self.tripped(now).into_iter().filter(|(_, circuit)| *circuit != Circuit::Closed).count()
    }

    /// Those that were not closed when they were last looked at.
    fn tripped(&self, now: Duration) -> Vec<(DestinationId, Circuit)> {
        let mut known = self.known();
        let Known { watched, tripped } = &mut *known;
        tripped.iter().filter_map(|id| Some((*id, watched.get_mut(id)?.breaker.circuit(now)))).collect()
    }

    fn forget_the_idle(&self, now: Duration) {
        let mut known = self.known();
        let Known { watched, tripped } = &mut *known;
        watched.retain(|_, watched| watched.out > 0 || !watched.breaker.is_idle(now));
        tripped.retain(|id| watched.contains_key(id));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        if let Some(permit) = self.permit.take() {
            self.circuits.withdraw(self.destination, permit);
        }
    }
}

/// Tells the store which circuits are not closed, again and again, and once more when one closes.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut told: BTreeSet<DestinationId> = BTreeSet::new();
    loop {
        worker.ports.clock.sleep(REPORT_EVERY).await;
        let now = worker.ports.clock.monotonic();
        worker.circuits.forget_the_idle(now);
        let tripped: BTreeMap<DestinationId, CircuitState> =
            worker.circuits.tripped(now).into_iter().map(|(id, circuit)| (id, state(circuit))).collect();
        let closed = told.iter().filter(|id| !tripped.contains_key(id)).map(|id| (*id, CircuitState::Closed));
        let reports: Vec<CircuitReport> = closed
            .chain(tripped.iter().map(|(id, state)| (*id, *state)))
            .map(|(destination, state)| CircuitReport {
                worker: worker.settings.owner.clone(),
                destination,
                state,
                expires_in: REPORT_EXPIRES_IN,
            })
            .collect();
        if reports.is_empty() {
            continue;
        }
        match worker.ports.store.report_circuits(&reports).await {
            Ok(()) => told = tripped.into_keys().collect(),
            Err(error) => tracing::warn!(code = error.code(), %error, "circuits were not reported"),
        }
    }
}

fn state(circuit: Circuit) -> CircuitState {
    match circuit {
        Circuit::Closed => CircuitState::Closed,
        Circuit::Open { .. } => CircuitState::Open,
        Circuit::HalfOpen { .. } => CircuitState::HalfOpen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DestinationId = DestinationId(1);

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Opens after two failures in a row, for thirty seconds.
    fn opened() -> Arc<Circuits> {
        let policy = BreakerPolicy::new(s(60), 1_000, 10_000, 2, s(30)).unwrap();
        let circuits = Arc::new(Circuits::new(policy));
        for _ in 0..2 {
            circuits.admit(HERE, s(0)).unwrap().answer(Health::Unhealthy, s(0));
        }
        assert_eq!(circuits.allowed(s(29)), BTreeMap::from([(HERE, 0)]));
        circuits
    }

    #[test]
    fn a_probe_that_is_dropped_without_an_answer_makes_room_for_another() {
        let circuits = opened();
        let probe = circuits.admit(HERE, s(30)).unwrap();
        assert_eq!(circuits.allowed(s(30)), BTreeMap::from([(HERE, 0)]));
        drop(probe);
        assert_eq!(circuits.allowed(s(30)), BTreeMap::from([(HERE, 1)]));
    }

    #[test]
    fn an_answer_says_whether_more_may_be_sent() {
        let circuits = opened();
        let failed = circuits.admit(HERE, s(30)).unwrap();
        assert!(!failed.answer(Health::Unhealthy, s(31)), "it opened again");
        let succeeded = circuits.admit(HERE, s(61)).unwrap();
        assert!(succeeded.answer(Health::Healthy, s(62)), "it closed");
        assert_eq!(circuits.allowed(s(62)), BTreeMap::new());
    }

    #[test]
    fn a_destination_is_forgotten_when_nothing_is_out_and_nothing_is_remembered() {
        let circuits = opened();
        let other = circuits.admit(DestinationId(2), s(0)).unwrap();
        circuits.forget_the_idle(s(3_601));
        let known = |circuits: &Circuits| circuits.known().watched.keys().copied().collect::<Vec<_>>();
        assert_eq!(known(&circuits), [DestinationId(2)], "a send is still out there");
        assert_eq!(circuits.allowed(s(3_601)), BTreeMap::new());
        other.answer(Health::Healthy, s(3_601));
        circuits.forget_the_idle(s(3_700));
        assert_eq!(known(&circuits), []);
    }
}
