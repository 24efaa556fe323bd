//! The retry decision: what happens to an event after an attempt. No other code makes it.

use std::time::Duration;

use crate::{Classification, FailureKind, Outcome, RandomDraw, RetryPolicy};

/// How many attempts an event has made and how many it may make, when an attempt begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Attempts recorded before this one.
    pub attempts: u32,
    /// The limit stored with the event. The retry budget of the policy may lower it.
    pub max_attempts: u32,
}

/// What happens to an event after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Delivered,
    /// The event is due again after this delay.
    Retry {
        after: Duration,
    },
    /// The event moves to the dead-letter queue.
    Failed(FailureKind),
}

/// Decides what happens to an event after an attempt with this outcome.
///
/// A `Retry-After` that the policy honours may lengthen the delay, up to `max_backoff`, and never shortens it.
pub fn decide(counts: AttemptCounts, outcome: &Outcome, policy: &RetryPolicy, draw: RandomDraw) -> Decision {
    let attempts_made = counts.attempts.saturating_add(1);
    match outcome.classify() {
        Classification::Delivered => Decision::Delivered,
        Classification::Gone if policy.gone_is_final() => Decision::Failed(FailureKind::Gone),
        Classification::Gone | Classification::Retry
            if attempts_made >= policy.effective_max_attempts(counts.max_attempts) =>
        {
            Decision::Failed(FailureKind::Exhausted)
        }
        Classification::Gone | Classification::Retry => {
            let backoff = policy.delay(counts.attempts, draw);
            Decision::Retry { after: backoff.max(policy.honoured_pause(outcome).unwrap_or_default()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorClass, RetryPolicySpec};
    use proptest::prelude::*;

    const MIDDLE: RandomDraw = RandomDraw(1 << 63);

    fn after(attempts: u32, max_attempts: u32, outcome: &Outcome, policy: &RetryPolicy) -> Decision {
        decide(AttemptCounts { attempts, max_attempts }, outcome, policy, MIDDLE)
    }

    fn policy(change: impl FnOnce(&mut RetryPolicySpec)) -> RetryPolicy {
        let mut spec = RetryPolicySpec::exponential();
        spec.jitter_bps = Some(0);
        change(&mut spec);
        RetryPolicy::new(spec).unwrap()
    }

    #[test]
    fn s0_fr003_ac1_2xx_is_delivered_on_any_attempt() {
        for attempts in [0, 5, 1_000, u32::MAX] {
            let ok = Outcome::response(204, None, b"");
            assert_eq!(after(attempts, 6, &ok, &RetryPolicy::default()), Decision::Delivered);
        }
    }

    #[test]
    fn s0_fr003_ac2_failure_under_the_limit_is_a_bounded_retry() {
        let policy = policy(|_| {});
        let down = Outcome::no_response(ErrorClass::Connect, "refused");
        for (attempts, seconds) in [(0, 60), (1, 120), (2, 240), (3, 480), (4, 960)] {
            let expected = Decision::Retry { after: Duration::from_secs(seconds) };
            assert_eq!(after(attempts, 6, &down, &policy), expected);
        }
        let expected = Decision::Retry { after: policy.max_backoff() };
        assert_eq!(after(400, 500, &down, &policy), expected);
    }

    #[test]
    fn s0_fr003_ac3_failure_at_the_limit_is_terminal() {
        let down = Outcome::response(500, None, b"");
        assert_eq!(after(5, 6, &down, &RetryPolicy::default()), Decision::Failed(FailureKind::Exhausted));
        assert_eq!(after(0, 1, &down, &RetryPolicy::default()), Decision::Failed(FailureKind::Exhausted));
    }

    #[test]
    fn s0_fr002_ac3_budget_lowers_the_limit_and_never_raises_it() {
        let down = Outcome::response(500, None, b"");
        let budget = policy(|spec| spec.budget = 2);
        assert!(matches!(after(1, 6, &down, &budget), Decision::Retry { .. }));
        assert_eq!(after(2, 6, &down, &budget), Decision::Failed(FailureKind::Exhausted));
        assert_eq!(after(1, 2, &down, &budget), Decision::Failed(FailureKind::Exhausted));
    }

    #[test]
    fn gone_dead_letters_the_event_at_once() {
        let gone = Outcome::response(410, None, b"");
        assert_eq!(after(0, 6, &gone, &RetryPolicy::default()), Decision::Failed(FailureKind::Gone));
    }

    #[test]
    fn s4_main_flow_every_response_but_2xx_is_one_failure_and_every_wait_is_the_schedules() {
        let schedule = RetryPolicy::new(RetryPolicySpec::schedule()).unwrap();
        for status in [302, 404, 410, 429, 500, 503] {
            let response = Outcome::response(status, Some(Duration::from_secs(3_000)), b"");
            for (attempts, seconds) in [(0, 30), (1, 120), (2, 600), (3, 3_600)] {
                let expected = Decision::Retry { after: Duration::from_secs(seconds) };
                assert_eq!(after(attempts, 5, &response, &schedule), expected, "{status}");
            }
            let expected = Decision::Failed(FailureKind::Exhausted);
            assert_eq!(after(4, 5, &response, &schedule), expected, "{status}");
        }
        assert!(!schedule.uses_circuit_breaker());
    }

    #[test]
    fn each_signal_of_a_receiver_is_a_setting_under_either_strategy() {
        let gone = Outcome::response(410, None, b"");
        let unavailable = Outcome::response(503, Some(Duration::from_secs(300)), b"");
        for (strategy, by_default) in
            [(RetryPolicySpec::exponential(), true), (RetryPolicySpec::schedule(), false)]
        {
            for setting in [None, Some(true), Some(false)] {
                let is_on = setting.unwrap_or(by_default);
                let mut spec = strategy.clone();
                spec.jitter_bps = Some(0);
                spec.gone_is_final = setting;
                spec.honours_retry_after = setting;
                spec.uses_circuit_breaker = setting;
                let policy = RetryPolicy::new(spec).unwrap();
                let failed = Decision::Failed(FailureKind::Gone);
                assert_eq!(after(0, 6, &gone, &policy) == failed, is_on, "{strategy:?} {setting:?}");
                let waits_300_s = Decision::Retry { after: Duration::from_secs(300) };
                assert_eq!(
                    after(0, 6, &unavailable, &policy) == waits_300_s,
                    is_on,
                    "{strategy:?} {setting:?}"
                );
                assert_eq!(policy.honoured_pause(&unavailable).is_some(), is_on, "{strategy:?} {setting:?}");
                assert_eq!(policy.uses_circuit_breaker(), is_on, "{strategy:?} {setting:?}");
            }
        }
    }

    #[test]
    fn retry_after_lengthens_the_delay_and_never_shortens_it() {
        let policy = policy(|_| {});
        let unavailable = |seconds| Outcome::response(503, Some(Duration::from_secs(seconds)), b"");
        let delay = |seconds| after(0, 6, &unavailable(seconds), &policy);
        assert_eq!(delay(5), Decision::Retry { after: Duration::from_secs(60) });
        assert_eq!(delay(300), Decision::Retry { after: Duration::from_secs(300) });
        assert_eq!(delay(1_000_000), Decision::Retry { after: policy.max_backoff() });
    }

    proptest! {
        #[test]
        fn every_retry_delay_is_bounded(
            attempts in 0_u32..2_000, code in 200_u16..600, draw in any::<u64>(), retry_after in 0_u64..100_000,
            jitter in 0_u32..=10_000,
        ) {
            let policy = policy(|spec| spec.jitter_bps = Some(jitter));
            let outcome = Outcome::response(code, Some(Duration::from_secs(retry_after)), b"");
            let counts = AttemptCounts { attempts, max_attempts: u32::MAX };
            if let Decision::Retry { after } = decide(counts, &outcome, &policy, RandomDraw(draw)) {
                prop_assert!(after >= Duration::from_secs(30));
                prop_assert!(after <= policy.max_backoff());
                prop_assert!(after >= *policy.delay_range(attempts).start());
            }
        }
    }
}
