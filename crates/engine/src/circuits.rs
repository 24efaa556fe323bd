//! The circuit breakers of one worker, and the loop that reports them to the store for operators.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{
    BreakerPolicy, Circuit, CircuitBreaker, DestinationId, Outcome, Permit, ReceiverHealth, Timestamp,
};
use posthaste_store::{CircuitReport, OpenCircuitReport, RequestedProbe, ResumedDestination};

use crate::supervise::catch_store_panic;
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
    /// When the circuit opened after it was last closed. None while it is closed.
    opened_at: Option<Duration>,
    /// The failure that opened the circuit, or a later one.
    last_error: Option<String>,
    /// When the operator asked for the last probe that the circuit has allowed, by the store's clock. It names the request.
    allowed_probe: Option<Timestamp>,
}

/// How the result of a request has changed the circuit of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CircuitChange {
    /// The circuit allows no more requests than before.
    None,
    /// The circuit opened after this many failures.
    Opened { failures: u32, next_probe_in: Duration },
    /// The circuit allows a probe again.
    AllowsProbe,
    /// The circuit closed after this time.
    Closed { open_for: Duration },
}

/// A circuit that is open or half open.
struct TrippedCircuit {
    destination: DestinationId,
    circuit: Circuit,
    open_for: Duration,
    last_error: Option<String>,
}

impl Circuits {
    pub(crate) fn new(policy: Option<BreakerPolicy>) -> Self {
        Self { policy, table: Mutex::default() }
    }

    /// Returns how many requests may be sent to a destination whose circuit is not closed: one probe or none. `None` if the
    /// circuit is closed.
    pub(crate) fn send_limit(&self, destination: DestinationId, now: Duration) -> Option<usize> {
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        if !tripped.contains(&destination) {
            return None;
        }
        match breakers.get_mut(&destination)?.breaker.circuit(now) {
            Circuit::Closed => None,
            Circuit::HalfOpen { probe_in_flight: false } => Some(1),
            Circuit::HalfOpen { probe_in_flight: true } | Circuit::Open { .. } => Some(0),
        }
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
        let new_breaker = || TrackedBreaker {
            breaker: CircuitBreaker::new(policy, now),
            in_flight: 0,
            opened_at: None,
            last_error: None,
            allowed_probe: None,
        };
        let tracked = table.breakers.entry(destination).or_insert_with(new_breaker);
        let permit = tracked.breaker.admit(now)?;
        tracked.in_flight += 1;
        Some(permit)
    }

    /// Records the result of an admitted request.
    fn record(
        &self,
        destination: DestinationId,
        permit: Permit,
        outcome: &Outcome,
        now: Duration,
    ) -> CircuitChange {
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        let Some(tracked) = breakers.get_mut(&destination) else { return CircuitChange::None };
        tracked.in_flight -= 1;
        let before = tracked.breaker.circuit(now);
        tracked.breaker.record(permit, outcome.health(), now);
        let after = tracked.breaker.circuit(now);
        if after == Circuit::Closed {
            tripped.remove(&destination);
        } else {
            tripped.insert(destination);
        }
        tracked.record_change(before, after, outcome, now)
    }

    /// Takes back an admission whose request has no result.
    fn withdraw(&self, destination: DestinationId, permit: Permit) {
        if let Some(tracked) = self.table().breakers.get_mut(&destination) {
            tracked.in_flight -= 1;
            tracked.breaker.withdraw(permit);
        }
    }

    /// Closes the circuits that opened before an operator resumed their destinations. Returns each with the time for which
    /// it was open.
    ///
    /// The time of a resume is known only up to the duration of the call that returned it. A circuit that opened during
    /// that time is closed too: if the receiver still fails, it opens again.
    pub(crate) fn close_resumed(
        &self,
        resumed: &[ResumedDestination],
        now: Duration,
    ) -> Vec<(DestinationId, Duration)> {
        if resumed.is_empty() {
            return Vec::new();
        }
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        let mut closed = Vec::new();
        for ResumedDestination { destination, ago } in resumed {
            // A resume before this worker started closes nothing.
            let Some(resumed_at) = now.checked_sub(*ago) else { continue };
            if let Some(tracked) = breakers.get_mut(destination)
                && let Some(opened_at) = tracked.opened_at.take_if(|opened_at| *opened_at < resumed_at)
            {
                tracked.breaker.close(now);
                tripped.remove(destination);
                closed.push((*destination, now.saturating_sub(opened_at)));
            }
        }
        closed
    }

    /// Allows one probe to each destination with an open circuit for which an operator has asked for a probe. Returns the
    /// destinations. `now` is the time of the worker's clock at the store's time `store_now`.
    ///
    /// Several claims return the same request, which allows one probe. A circuit that opened after the request keeps its cool-down.
    pub(crate) fn allow_probes(
        &self,
        requested: &[RequestedProbe],
        store_now: Timestamp,
        now: Duration,
    ) -> Vec<DestinationId> {
        let mut allowed = Vec::new();
        if requested.is_empty() {
            return allowed;
        }
        let mut table = self.table();
        for RequestedProbe { destination, requested_at } in requested {
            let Some(tracked) = table.breakers.get_mut(destination) else { continue };
            let asked_at = now.saturating_sub(store_now.since(*requested_at));
            let is_new = tracked.allowed_probe != Some(*requested_at);
            if is_new && tracked.opened_at.is_some_and(|opened_at| opened_at < asked_at) {
                tracked.allowed_probe = Some(*requested_at);
                if tracked.breaker.allow_probe(now) {
                    allowed.push(*destination);
                }
            }
        }
        allowed
    }

    /// Returns the number of circuits that are open or half open.
    pub(crate) fn open_count(&self, now: Duration) -> usize {
        self.tripped(now).len()
    }

    /// Returns every circuit that is open or half open.
    fn tripped(&self, now: Duration) -> Vec<TrippedCircuit> {
        let mut table = self.table();
        let circuits = table.tripped(now).into_iter().filter(|(_, circuit)| *circuit != Circuit::Closed);
        circuits
            .map(|(destination, circuit)| {
                let tracked = &table.breakers[&destination];
                TrippedCircuit {
                    destination,
                    circuit,
                    open_for: now.saturating_sub(tracked.opened_at.unwrap_or(now)),
                    last_error: tracked.last_error.clone(),
                }
            })
            .collect()
    }

    /// Removes breakers that have no request in flight and no recent failure. Returns those whose circuit was not closed:
    /// no event has been sent for a long time.
    fn remove_idle(&self, now: Duration) -> Vec<DestinationId> {
        let mut table = self.table();
        let BreakerTable { breakers, tripped } = &mut *table;
        breakers.retain(|_, tracked| tracked.in_flight > 0 || !tracked.breaker.is_idle(now));
        let removed = tripped.iter().filter(|id| !breakers.contains_key(id)).copied().collect();
        tripped.retain(|id| breakers.contains_key(id));
        removed
    }

    fn table(&self) -> MutexGuard<'_, BreakerTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakerTable {
    /// Returns the current state of every circuit in the tripped set.
    fn tripped(&mut self, now: Duration) -> Vec<(DestinationId, Circuit)> {
        let Self { breakers, tripped } = self;
        tripped.iter().filter_map(|id| Some((*id, breakers.get_mut(id)?.breaker.circuit(now)))).collect()
    }
}

impl TrackedBreaker {
    /// Updates the time of opening and the last error after a result.
    fn record_change(
        &mut self,
        before: Circuit,
        after: Circuit,
        outcome: &Outcome,
        now: Duration,
    ) -> CircuitChange {
        if after != Circuit::Closed && outcome.health() == ReceiverHealth::Unhealthy {
            self.last_error = outcome.last_error();
        }
        match (after, self.opened_at) {
            (Circuit::Closed, None) => CircuitChange::None,
            (Circuit::Closed, Some(opened_at)) => {
                (self.opened_at, self.last_error) = (None, None);
                CircuitChange::Closed { open_for: now.saturating_sub(opened_at) }
            }
            (after, None) => {
                self.opened_at = Some(now);
                CircuitChange::Opened {
                    failures: self.breaker.failures(),
                    next_probe_in: time_to_probe(after),
                }
            }
            (Circuit::HalfOpen { probe_in_flight: false }, Some(_)) if before != after => {
                CircuitChange::AllowsProbe
            }
            (_, Some(_)) => CircuitChange::None,
        }
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
    /// Records the result of the request.
    pub(crate) fn record(mut self, outcome: &Outcome, now: Duration) -> CircuitChange {
        let record = |permit| self.circuits.record(self.destination, permit, outcome, now);
        self.permit.take().map_or(CircuitChange::None, record)
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
        for destination in worker.circuits.remove_idle(now) {
            tracing::info!(destination_id = destination.0, worker_id = %worker.settings.worker_id,
                "circuit closed: no event has been sent to the destination for a long time");
        }
        let tripped = worker.circuits.tripped(now);
        let open: BTreeSet<DestinationId> = tripped.iter().map(|circuit| circuit.destination).collect();
        let report = |destination, open| {
            let worker = worker.settings.lease_owner.clone();
            CircuitReport { worker, destination, open }
        };
        let closed = reported.difference(&open).map(|destination| report(*destination, None));
        let still_open = tripped.into_iter().map(|it| report(it.destination, Some(open_report(it))));
        let reports: Vec<CircuitReport> = closed.chain(still_open).collect();
        if reports.is_empty() {
            continue;
        }
        match catch_store_panic(worker.ports.store.report_circuits(&reports)).await {
            Ok(()) => reported = open,
            Err(error) => tracing::warn!(code = error.code(), %error, "circuits were not reported"),
        }
    }
}

fn open_report(tripped: TrippedCircuit) -> OpenCircuitReport {
    OpenCircuitReport {
        open_for: tripped.open_for,
        next_probe_in: time_to_probe(tripped.circuit),
        last_error: tripped.last_error,
        expires_in: REPORT_TTL,
    }
}

/// Returns the time until the circuit allows a probe.
fn time_to_probe(circuit: Circuit) -> Duration {
    match circuit {
        Circuit::Open { remaining } => remaining,
        Circuit::Closed | Circuit::HalfOpen { .. } => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESTINATION: DestinationId = DestinationId(1);

    fn failure() -> Outcome {
        Outcome::response(500, None, b"")
    }

    fn success() -> Outcome {
        Outcome::response(200, None, b"")
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns circuits in which `DESTINATION` has just opened for thirty seconds, after two failures in a row.
    fn open_circuit() -> Arc<Circuits> {
        let policy = BreakerPolicy::new(s(60), 1_000, 10_000, 2, s(30)).unwrap();
        let circuits = Arc::new(Circuits::new(Some(policy)));
        let fail = || circuits.admit(DESTINATION, s(0)).unwrap().record(&failure(), s(0));
        assert_eq!(fail(), CircuitChange::None);
        assert_eq!(fail(), CircuitChange::Opened { failures: 2, next_probe_in: s(30) });
        assert_eq!(circuits.send_limit(DESTINATION, s(29)), Some(0));
        circuits
    }

    #[test]
    fn a_requested_probe_lets_one_request_through_and_its_result_decides() {
        let circuits = open_circuit();
        let (store_now, asked_at) = (Timestamp::from_secs(1_000), Timestamp::from_secs(999));
        let request = |requested_at| [RequestedProbe { destination: DESTINATION, requested_at }];
        assert_eq!(circuits.allow_probes(&request(asked_at), store_now, s(10)), [DESTINATION]);
        assert_eq!(circuits.send_limit(DESTINATION, s(10)), Some(1));
        let probe = circuits.admit(DESTINATION, s(10)).unwrap();
        assert!(circuits.admit(DESTINATION, s(10)).is_none(), "one request and no more");
        assert_eq!(probe.record(&failure(), s(11)), CircuitChange::None);
        assert_eq!(circuits.send_limit(DESTINATION, s(12)), Some(0), "the circuit is open again");
        assert_eq!(circuits.allow_probes(&request(asked_at), store_now, s(12)), [], "the same request");
        let earlier = Timestamp::from_secs(980);
        assert_eq!(circuits.allow_probes(&request(earlier), store_now, s(12)), [], "before it opened");
        let later = Timestamp::from_secs(1_000);
        assert_eq!(circuits.allow_probes(&request(later), store_now, s(12)), [DESTINATION]);
        let probe = circuits.admit(DESTINATION, s(12)).unwrap();
        assert_eq!(probe.record(&success(), s(13)), CircuitChange::Closed { open_for: s(13) });
        assert_eq!(circuits.allow_probes(&request(later), store_now, s(13)), [], "the circuit is closed");
    }

    #[test]
    fn every_request_is_admitted_without_a_circuit_breaker() {
        let circuits = Arc::new(Circuits::new(None));
        for _ in 0..1_000 {
            let admission = circuits.admit(DESTINATION, s(0)).expect("there is no circuit to open");
            assert_eq!(admission.record(&failure(), s(0)), CircuitChange::None);
        }
        assert_eq!((circuits.send_limit(DESTINATION, s(0)), circuits.open_count(s(0))), (None, 0));
    }

    #[test]
    fn probe_dropped_without_a_result_allows_another_probe() {
        let circuits = open_circuit();
        let probe = circuits.admit(DESTINATION, s(30)).unwrap();
        assert_eq!(circuits.send_limit(DESTINATION, s(30)), Some(0));
        drop(probe);
        assert_eq!(circuits.send_limit(DESTINATION, s(30)), Some(1));
    }

    #[test]
    fn recording_a_result_returns_how_the_circuit_changed() {
        let circuits = open_circuit();
        let failed = circuits.admit(DESTINATION, s(30)).unwrap();
        assert_eq!(failed.record(&failure(), s(31)), CircuitChange::None, "the circuit opened again");
        let unclear = circuits.admit(DESTINATION, s(61)).unwrap();
        let panicked = Outcome::no_response(posthaste_domain::ErrorClass::Panic, "");
        assert_eq!(unclear.record(&panicked, s(61)), CircuitChange::AllowsProbe);
        let succeeded = circuits.admit(DESTINATION, s(61)).unwrap();
        assert_eq!(succeeded.record(&success(), s(62)), CircuitChange::Closed { open_for: s(62) });
        assert_eq!(circuits.send_limit(DESTINATION, s(62)), None);
    }

    #[test]
    fn open_circuit_is_described_since_it_first_opened() {
        let circuits = open_circuit();
        let probe = circuits.admit(DESTINATION, s(30)).unwrap();
        probe.record(&Outcome::response(503, None, b"later"), s(40));
        let tripped = circuits.tripped(s(50)).remove(0);
        assert_eq!(tripped.open_for, s(50));
        assert_eq!(time_to_probe(tripped.circuit), s(20));
        assert_eq!(tripped.last_error.as_deref(), Some("HTTP 503: later"));
    }

    #[test]
    fn resume_closes_a_circuit_that_opened_before_it() {
        let circuits = open_circuit();
        let resumed = |seconds| [ResumedDestination { destination: DESTINATION, ago: s(seconds) }];
        assert_eq!(circuits.close_resumed(&resumed(11), s(10)), [], "the circuit opened after this resume");
        assert_eq!(circuits.close_resumed(&resumed(5), s(10)), [(DESTINATION, s(10))]);
        assert_eq!((circuits.send_limit(DESTINATION, s(10)), circuits.open_count(s(10))), (None, 0));
        assert_eq!(circuits.close_resumed(&resumed(6), s(11)), [], "it is closed already");
        // The failures before the resume are forgotten.
        assert_eq!(
            circuits.admit(DESTINATION, s(11)).unwrap().record(&failure(), s(11)),
            CircuitChange::None
        );
    }

    #[test]
    fn breaker_is_removed_when_nothing_is_in_flight_and_no_failure_is_recent() {
        let circuits = open_circuit();
        let other = circuits.admit(DestinationId(2), s(0)).unwrap();
        assert_eq!(circuits.remove_idle(s(3_601)), [DESTINATION]);
        let tracked = |circuits: &Circuits| circuits.table().breakers.keys().copied().collect::<Vec<_>>();
        assert_eq!(tracked(&circuits), [DestinationId(2)], "its request is still in flight");
        assert_eq!(circuits.send_limit(DESTINATION, s(3_601)), None);
        other.record(&success(), s(3_601));
        circuits.remove_idle(s(3_700));
        assert_eq!(tracked(&circuits), []);
    }
}
