//! The circuit breakers of one worker, and the loop that reports them to the store for operators.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{BreakerPolicy, Circuit, CircuitBreaker, DestinationId, Permit, ReceiverHealth};
use posthaste_store::{CircuitReport, CircuitState};

use crate::worker::Worker;

const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// How long operators see a report: three intervals, so that one lost report leaves no gap.
const REPORT_TTL: Duration = Duration::from_secs(15);

/// The circuit breakers of all destinations that this worker has recently sent to.
pub(crate) struct Circuits {
    /// None admits every request: the retry policy uses no circuit breaker.
    policy: Option<BreakerPolicy>,
    table: Mutex<BreakerTable>,
}

#[derive(Default)]
struct BreakerTable {
    breakers: BTreeMap<DestinationId, TrackedBreaker>,
    /// Destinations whose circuit was not closed after its last result. A claim reads only these, so its cost does not
    /// grow with the number of destinations.
    tripped: BTreeSet<DestinationId>,
}

struct TrackedBreaker {
    breaker: CircuitBreaker,
    /// Admitted requests without a result yet.
    in_flight: usize,
}

impl Circuits {
    pub(crate) fn new(policy: Option<BreakerPolicy>) -> Self {
        Self { policy, table: Mutex::default() }
    }

    /// Returns how many requests may be sent to each destination whose circuit is not closed: one probe or none.
    pub(crate) fn send_limits(&self, now: Duration) -> BTreeMap<DestinationId, usize> {
        let circuits = self.tripped(now).into_iter();
        circuits
            .map(|(id, circuit)| {
                let probe_allowed = circuit == Circuit::HalfOpen { probe_in_flight: false };
                (id, usize::from(probe_allowed))
            })
            .collect()
    }

    /// Admits one request to a destination. None means that its circuit opened after the claim was planned.
    pub(crate) fn admit(self: &Arc<Self>, destination: DestinationId, now: Duration) -> Option<Admission> {
        let permit = match self.policy {
            Some(policy) => Some(self.admit_by_breaker(policy, destination, now)?),
            None => None,
        };
        Some(Admission { circuits: Arc::clone(self), destination, permit })
    }

    fn admit_by_breaker(
        &self,
        policy: BreakerPolicy,
        destination: DestinationId,
        now: Duration,
    ) -> Option<Permit> {
        let mut table = self.table();
        let new_breaker = || TrackedBreaker { breaker: CircuitBreaker::new(policy, now), in_flight: 0 };
        let tracked = table.breakers.entry(destination).or_insert_with(new_breaker);
        let permit = tracked.breaker.admit(now)?;
        tracked.in_flight += 1;
        Some(permit)
    }

    /// Records the result of an admitted request. Returns true if the circuit now allows more requests than before.
    fn record(
        &self,
        destination: DestinationId,
        permit: Permit,
        health: ReceiverHealth,
        now: Duration,
    ) -> bool {
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        let Some(tracked) = breakers.get_mut(&destination) else { return false };
        tracked.in_flight -= 1;
        let before = tracked.breaker.circuit(now);
        tracked.breaker.record(permit, health, now);
        let after = tracked.breaker.circuit(now);
        if after == Circuit::Closed {
            tripped.remove(&destination);
        } else {
            tripped.insert(destination);
        }
        before != after && matches!(after, Circuit::Closed | Circuit::HalfOpen { probe_in_flight: false })
    }

    /// Takes back an admission whose request has no result.
    fn withdraw(&self, destination: DestinationId, permit: Permit) {
        if let Some(tracked) = self.table().breakers.get_mut(&destination) {
            tracked.in_flight -= 1;
            tracked.breaker.withdraw(permit);
        }
    }

    /// Returns the number of circuits that are open or half open.
    pub(crate) fn open_count(&self, now: Duration) -> usize {
        self.tripped(now).into_iter().filter(|(_, circuit)| *circuit != Circuit::Closed).count()
    }

    /// Returns the current state of every circuit in the tripped set.
    fn tripped(&self, now: Duration) -> Vec<(DestinationId, Circuit)> {
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        tripped.iter().filter_map(|id| Some((*id, breakers.get_mut(id)?.breaker.circuit(now)))).collect()
    }

    /// Removes breakers that have no request in flight and no recent failure.
    fn remove_idle(&self, now: Duration) {
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        breakers.retain(|_, tracked| tracked.in_flight > 0 || !tracked.breaker.is_idle(now));
        tripped.retain(|id| breakers.contains_key(id));
    }

    fn table(&self) -> MutexGuard<'_, BreakerTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission of a circuit to send one request. Dropping it without [`record`](Self::record) withdraws it: the request
/// then counts neither as success nor as failure.
pub(crate) struct Admission {
    circuits: Arc<Circuits>,
    destination: DestinationId,
    /// None without a circuit breaker, and after the result was recorded.
    permit: Option<Permit>,
}

impl Admission {
    /// Records the result of the request. Returns true if the circuit now allows more requests than before.
    pub(crate) fn record(mut self, health: ReceiverHealth, now: Duration) -> bool {
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

/// Reports circuits to the store periodically: every circuit that is open or half open, and each one once more after it
/// has closed.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut reported: BTreeSet<DestinationId> = BTreeSet::new();
    loop {
        worker.ports.clock.sleep(REPORT_INTERVAL).await;
        let now = worker.ports.clock.monotonic();
        worker.circuits.remove_idle(now);
        let tripped: BTreeMap<DestinationId, CircuitState> =
            worker.circuits.tripped(now).into_iter().map(|(id, circuit)| (id, state(circuit))).collect();
        let closed =
            reported.iter().filter(|id| !tripped.contains_key(id)).map(|id| (*id, CircuitState::Closed));
        let reports: Vec<CircuitReport> = closed
            .chain(tripped.iter().map(|(id, state)| (*id, *state)))
            .map(|(destination, state)| CircuitReport {
                worker: worker.settings.lease_owner.clone(),
                destination,
                state,
                expires_in: REPORT_TTL,
            })
            .collect();
        if reports.is_empty() {
            continue;
        }
        match worker.ports.store.report_circuits(&reports).await {
            Ok(()) => reported = tripped.into_keys().collect(),
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

    const DESTINATION: DestinationId = DestinationId(1);

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns circuits in which `DESTINATION` has just opened for thirty seconds, after two failures in a row.
    fn open_circuit() -> Arc<Circuits> {
        let policy = BreakerPolicy::new(s(60), 1_000, 10_000, 2, s(30)).unwrap();
        let circuits = Arc::new(Circuits::new(Some(policy)));
        for _ in 0..2 {
            circuits.admit(DESTINATION, s(0)).unwrap().record(ReceiverHealth::Unhealthy, s(0));
        }
        assert_eq!(circuits.send_limits(s(29)), BTreeMap::from([(DESTINATION, 0)]));
        circuits
    }

    #[test]
    fn every_request_is_admitted_without_a_circuit_breaker() {
        let circuits = Arc::new(Circuits::new(None));
        for _ in 0..1_000 {
            let admission = circuits.admit(DESTINATION, s(0)).expect("there is no circuit to open");
            assert!(!admission.record(ReceiverHealth::Unhealthy, s(0)));
        }
        assert_eq!((circuits.send_limits(s(0)), circuits.open_count(s(0))), (BTreeMap::new(), 0));
    }

    #[test]
    fn probe_dropped_without_a_result_allows_another_probe() {
        let circuits = open_circuit();
        let probe = circuits.admit(DESTINATION, s(30)).unwrap();
        assert_eq!(circuits.send_limits(s(30)), BTreeMap::from([(DESTINATION, 0)]));
        drop(probe);
        assert_eq!(circuits.send_limits(s(30)), BTreeMap::from([(DESTINATION, 1)]));
    }

    #[test]
    fn recording_a_result_returns_whether_more_may_be_sent() {
        let circuits = open_circuit();
        let failed = circuits.admit(DESTINATION, s(30)).unwrap();
        assert!(!failed.record(ReceiverHealth::Unhealthy, s(31)), "the circuit opened again");
        let succeeded = circuits.admit(DESTINATION, s(61)).unwrap();
        assert!(succeeded.record(ReceiverHealth::Healthy, s(62)), "the circuit closed");
        assert_eq!(circuits.send_limits(s(62)), BTreeMap::new());
    }

    #[test]
    fn breaker_is_removed_when_nothing_is_in_flight_and_no_failure_is_recent() {
        let circuits = open_circuit();
        let other = circuits.admit(DestinationId(2), s(0)).unwrap();
        circuits.remove_idle(s(3_601));
        let tracked = |circuits: &Circuits| circuits.table().breakers.keys().copied().collect::<Vec<_>>();
        assert_eq!(tracked(&circuits), [DestinationId(2)], "its request is still in flight");
        assert_eq!(circuits.send_limits(s(3_601)), BTreeMap::new());
        other.record(ReceiverHealth::Healthy, s(3_601));
        circuits.remove_idle(s(3_700));
        assert_eq!(tracked(&circuits), []);
    }
}
