use super::*;
use proptest::prelude::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn breaker() -> CircuitBreaker {
    CircuitBreaker::new(BreakerPolicy::new(s(60), 10, 5_000, 5, s(30)).unwrap(), s(0))
}

fn send(breaker: &mut CircuitBreaker, health: ReceiverHealth, now: Duration) {
    let permit = breaker.admit(now).expect("the circuit admits the send");
    breaker.record(permit, health, now);
}

fn open_breaker() -> CircuitBreaker {
    let mut breaker = breaker();
    for _ in 0..5 {
        send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(1)), Circuit::Open { remaining: s(30) });
    breaker
}

#[test]
fn consecutive_failures_open_the_circuit_and_a_success_resets_them() {
    let mut breaker = breaker();
    for _ in 0..4 {
        send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    }
    send(&mut breaker, ReceiverHealth::Healthy, s(1));
    for _ in 0..4 {
        send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(1)), Circuit::Closed, "nine samples are below the minimum");
    send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    assert!(matches!(breaker.circuit(s(1)), Circuit::Open { .. }));
}

#[test]
fn failure_ratio_opens_the_circuit_once_there_are_enough_samples() {
    let mut breaker = breaker();
    for _ in 0..5 {
        send(&mut breaker, ReceiverHealth::Healthy, s(1));
    }
    for _ in 0..4 {
        send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(1)), Circuit::Closed);
    send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    assert!(matches!(breaker.circuit(s(1)), Circuit::Open { .. }), "5 of 10 is the ratio");
}

#[test]
fn consecutive_failures_survive_the_end_of_a_window() {
    let mut breaker = breaker();
    for _ in 0..4 {
        send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(61)), Circuit::Closed);
    send(&mut breaker, ReceiverHealth::Unhealthy, s(61));
    assert!(matches!(breaker.circuit(s(61)), Circuit::Open { .. }));
}

#[test]
fn open_circuit_admits_nothing_until_it_has_cooled_down() {
    let mut breaker = open_breaker();
    assert_eq!(breaker.admit(s(30)), None);
    assert_eq!(breaker.circuit(s(31)), Circuit::HalfOpen { probe_in_flight: false });
}

#[test]
fn half_open_circuit_admits_a_single_probe() {
    let mut breaker = open_breaker();
    assert!(breaker.admit(s(31)).is_some());
    assert_eq!(breaker.admit(s(31)), None);
    assert_eq!(breaker.circuit(s(900)), Circuit::HalfOpen { probe_in_flight: true });
}

#[test]
fn successful_probe_closes_the_circuit_and_failed_probe_opens_it_again() {
    let mut breaker = open_breaker();
    let probe = breaker.admit(s(31)).unwrap();
    breaker.record(probe, ReceiverHealth::Unhealthy, s(40));
    assert_eq!(breaker.circuit(s(40)), Circuit::Open { remaining: s(30) });
    let probe = breaker.admit(s(70)).unwrap();
    breaker.record(probe, ReceiverHealth::Healthy, s(71));
    assert_eq!(breaker.circuit(s(71)), Circuit::Closed);
    assert!(breaker.is_idle(s(71)), "all counts are reset");
}

#[test]
fn probe_of_unknown_health_allows_another_probe() {
    let mut breaker = open_breaker();
    let probe = breaker.admit(s(31)).unwrap();
    breaker.record(probe, ReceiverHealth::Unknown, s(32));
    assert!(breaker.admit(s(32)).is_some());
}

#[test]
fn late_results_of_earlier_sends_change_nothing() {
    let mut breaker = breaker();
    let [first, second, third] = std::array::from_fn(|_| breaker.admit(s(0)).unwrap());
    for _ in 0..5 {
        send(&mut breaker, ReceiverHealth::Unhealthy, s(1));
    }
    breaker.record(first, ReceiverHealth::Healthy, s(2));
    assert!(matches!(breaker.circuit(s(2)), Circuit::Open { .. }));
    let probe = breaker.admit(s(31)).unwrap();
    breaker.record(second, ReceiverHealth::Healthy, s(32));
    breaker.record(third, ReceiverHealth::Unhealthy, s(32));
    assert_eq!(breaker.circuit(s(32)), Circuit::HalfOpen { probe_in_flight: true });
    breaker.record(probe, ReceiverHealth::Healthy, s(33));
    assert_eq!(breaker.circuit(s(33)), Circuit::Closed);
}

#[test]
fn breaker_becomes_idle_sixty_windows_after_its_last_result() {
    let mut failed_once = breaker();
    send(&mut failed_once, ReceiverHealth::Unhealthy, s(1));
    assert!(!failed_once.is_idle(s(3_600)));
    assert!(failed_once.is_idle(s(3_601)));
    let mut opened = open_breaker();
    assert!(!opened.is_idle(s(30)), "an open circuit is never idle");
    assert!(opened.is_idle(s(3_601)), "half-open, and no result for an hour");
    let mut probing = open_breaker();
    probing.admit(s(31)).unwrap();
    assert!(!probing.is_idle(s(10_000)), "its probe is still in flight");
}

#[test]
fn invalid_policy_is_refused() {
    assert_eq!(BreakerPolicy::new(s(0), 1, 1, 1, s(1)), Err(BreakerPolicyError::Zero));
    assert_eq!(BreakerPolicy::new(s(1), 1, 0, 1, s(1)), Err(BreakerPolicyError::Ratio(0)));
    assert_eq!(BreakerPolicy::new(s(1), 1, 10_001, 1, s(1)), Err(BreakerPolicyError::Ratio(10_001)));
    assert_eq!(BreakerPolicy::new(s(1), 0, 1, 1, s(1)), Err(BreakerPolicyError::NoEvidence));
}

#[test]
fn an_operator_ends_the_cool_down_of_an_open_circuit_for_one_probe() {
    let mut breaker = open_breaker();
    assert!(breaker.allow_probe(s(5)));
    let probe = breaker.admit(s(5)).expect("one probe");
    assert!(!breaker.allow_probe(s(5)) && breaker.admit(s(5)).is_none(), "and no more while it is in flight");
    breaker.record(probe, ReceiverHealth::Unhealthy, s(6));
    assert_eq!(breaker.circuit(s(6)), Circuit::Open { remaining: s(30) }, "it cools down again");
    assert!(breaker.allow_probe(s(7)));
    send(&mut breaker, ReceiverHealth::Healthy, s(7));
    assert_eq!(breaker.circuit(s(7)), Circuit::Closed);
    assert!(!breaker.allow_probe(s(8)), "a closed circuit needs none");
}

proptest! {
    /// For any sequence of results and of probes for which an operator asks, a half-open circuit has at most one probe in flight, and
    /// an open circuit becomes half-open.
    #[test]
    fn half_open_circuit_never_has_two_probes_in_flight(steps in proptest::collection::vec((0_u8..5, 0_u64..20), 1..300)) {
        let mut breaker = breaker();
        let mut in_flight: Vec<(Permit, bool)> = Vec::new();
        let mut now = s(0);
        for (step, pause) in steps {
            now += s(pause);
            let half_open = matches!(breaker.circuit(now), Circuit::HalfOpen { .. });
            match (step, in_flight.pop()) {
                (0, popped) => {
                    in_flight.extend(popped);
                    if let Some(permit) = breaker.admit(now) {
                        in_flight.push((permit, half_open));
                    }
                }
                (4, popped) => {
                    in_flight.extend(popped);
                    breaker.allow_probe(now);
                }
                (_, Some((permit, _))) => {
                    let health = [ReceiverHealth::Healthy, ReceiverHealth::Unhealthy, ReceiverHealth::Unknown][usize::from(step) - 1];
                    breaker.record(permit, health, now);
                }
                (_, None) => {}
            }
            if matches!(breaker.circuit(now), Circuit::HalfOpen { .. }) {
                let since = breaker.since();
                let probes = in_flight.iter().filter(|(permit, probe)| *probe && permit.admitted_at >= since).count();
                prop_assert!(probes <= 1, "{probes} probes in flight");
            }
        }
        if let Circuit::Open { remaining } = breaker.circuit(now) {
            prop_assert!(remaining <= s(30));
            prop_assert_eq!(breaker.circuit(now + remaining), Circuit::HalfOpen { probe_in_flight: false });
        }
    }
}
