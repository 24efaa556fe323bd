use super::*;
use proptest::prelude::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn breaker() -> Breaker {
    Breaker::new(BreakerPolicy::new(s(60), 10, 5_000, 5, s(30)).unwrap(), s(0))
}

fn report(breaker: &mut Breaker, health: Health, now: Duration) {
    let permit = breaker.admit(now).expect("admitted");
    breaker.record(permit, health, now);
}

fn opened() -> Breaker {
    let mut breaker = breaker();
    for _ in 0..5 {
        report(&mut breaker, Health::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(1)), Circuit::Open { remaining: s(30) });
    breaker
}

#[test]
fn opens_on_consecutive_failures_and_a_success_breaks_the_run() {
    let mut breaker = breaker();
    for _ in 0..4 {
        report(&mut breaker, Health::Unhealthy, s(1));
    }
    report(&mut breaker, Health::Healthy, s(1));
    for _ in 0..4 {
        report(&mut breaker, Health::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(1)), Circuit::Closed, "nine samples are below the minimum");
    report(&mut breaker, Health::Unhealthy, s(1));
    assert!(matches!(breaker.circuit(s(1)), Circuit::Open { .. }));
}

#[test]
fn opens_on_the_ratio_once_there_are_enough_samples() {
    let mut breaker = breaker();
    for _ in 0..5 {
        report(&mut breaker, Health::Healthy, s(1));
    }
    for _ in 0..4 {
        report(&mut breaker, Health::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(1)), Circuit::Closed);
    report(&mut breaker, Health::Unhealthy, s(1));
    assert!(matches!(breaker.circuit(s(1)), Circuit::Open { .. }), "5 of 10 is the ratio");
}

#[test]
fn a_window_that_is_over_counts_no_more_but_the_run_goes_on() {
    let mut breaker = breaker();
    for _ in 0..4 {
        report(&mut breaker, Health::Unhealthy, s(1));
    }
    assert_eq!(breaker.circuit(s(61)), Circuit::Closed);
    report(&mut breaker, Health::Unhealthy, s(61));
    assert!(matches!(breaker.circuit(s(61)), Circuit::Open { .. }));
}

#[test]
fn an_open_circuit_admits_nothing_until_it_has_cooled_down() {
    let mut breaker = opened();
    assert_eq!(breaker.admit(s(30)), None);
    assert_eq!(breaker.circuit(s(31)), Circuit::HalfOpen { probe_out: false });
}

#[test]
fn half_open_admits_a_single_probe() {
    let mut breaker = opened();
    assert!(breaker.admit(s(31)).is_some());
    assert_eq!(breaker.admit(s(31)), None);
    assert_eq!(breaker.circuit(s(900)), Circuit::HalfOpen { probe_out: true });
}

#[test]
fn a_probe_that_succeeds_closes_and_one_that_fails_opens_again() {
    let mut breaker = opened();
    let probe = breaker.admit(s(31)).unwrap();
    breaker.record(probe, Health::Unhealthy, s(40));
    assert_eq!(breaker.circuit(s(40)), Circuit::Open { remaining: s(30) });
    let probe = breaker.admit(s(70)).unwrap();
    breaker.record(probe, Health::Healthy, s(71));
    assert_eq!(breaker.circuit(s(71)), Circuit::Closed);
    assert!(breaker.is_idle(s(71)), "it starts afresh");
}

#[test]
fn a_probe_that_tells_nothing_makes_room_for_another() {
    let mut breaker = opened();
    let probe = breaker.admit(s(31)).unwrap();
    breaker.record(probe, Health::Unknown, s(32));
    assert!(breaker.admit(s(32)).is_some());
}

#[test]
fn late_results_of_sends_from_before_change_nothing() {
    let mut breaker = breaker();
    let [first, second, third] = std::array::from_fn(|_| breaker.admit(s(0)).unwrap());
    for _ in 0..5 {
        report(&mut breaker, Health::Unhealthy, s(1));
    }
    breaker.record(first, Health::Healthy, s(2));
    assert!(matches!(breaker.circuit(s(2)), Circuit::Open { .. }));
    let probe = breaker.admit(s(31)).unwrap();
    breaker.record(second, Health::Healthy, s(32));
    breaker.record(third, Health::Unhealthy, s(32));
    assert_eq!(breaker.circuit(s(32)), Circuit::HalfOpen { probe_out: true });
    breaker.record(probe, Health::Healthy, s(33));
    assert_eq!(breaker.circuit(s(33)), Circuit::Closed);
}

#[test]
fn what_is_remembered_is_forgotten_in_the_end() {
    let mut failed_once = breaker();
    report(&mut failed_once, Health::Unhealthy, s(1));
    assert!(!failed_once.is_idle(s(3_600)));
    assert!(failed_once.is_idle(s(3_601)));
    let mut opened = opened();
    assert!(!opened.is_idle(s(30)), "an open circuit is never forgotten");
    assert!(opened.is_idle(s(3_601)), "half-open, and nothing was due for an hour");
    let mut probing = self::opened();
    probing.admit(s(31)).unwrap();
    assert!(!probing.is_idle(s(10_000)), "its probe is still out");
}

#[test]
fn a_policy_without_evidence_is_refused() {
    assert_eq!(BreakerPolicy::new(s(0), 1, 1, 1, s(1)), Err(BreakerPolicyError::Zero));
    assert_eq!(BreakerPolicy::new(s(1), 1, 0, 1, s(1)), Err(BreakerPolicyError::Ratio(0)));
    assert_eq!(BreakerPolicy::new(s(1), 1, 10_001, 1, s(1)), Err(BreakerPolicyError::Ratio(10_001)));
    assert_eq!(BreakerPolicy::new(s(1), 0, 1, 1, s(1)), Err(BreakerPolicyError::NoEvidence));
}

proptest! {
    /// Whatever is reported in whatever order, at most one send is out in half-open and an open circuit heals.
    #[test]
    fn half_open_never_has_two_probes_out(steps in proptest::collection::vec((0_u8..4, 0_u64..20), 1..300)) {
        let mut breaker = breaker();
        let mut out: Vec<(Permit, bool)> = Vec::new();
        let mut now = s(0);
        for (step, pause) in steps {
            now += s(pause);
            let half_open = matches!(breaker.circuit(now), Circuit::HalfOpen { .. });
            match (step, out.pop()) {
                (0, popped) => {
                    out.extend(popped);
                    if let Some(permit) = breaker.admit(now) {
                        out.push((permit, half_open));
                    }
                }
                (_, Some((permit, _))) => {
                    let health = [Health::Healthy, Health::Unhealthy, Health::Unknown][usize::from(step) - 1];
                    breaker.record(permit, health, now);
                }
                (_, None) => {}
            }
            if matches!(breaker.circuit(now), Circuit::HalfOpen { .. }) {
                let since = breaker.since();
                let probes = out.iter().filter(|(permit, probe)| *probe && permit.admitted_at >= since).count();
                prop_assert!(probes <= 1, "{probes} probes out");
            }
        }
        if let Circuit::Open { remaining } = breaker.circuit(now) {
            prop_assert!(remaining <= s(30));
            prop_assert_eq!(breaker.circuit(now + remaining), Circuit::HalfOpen { probe_out: false });
        }
    }
}
