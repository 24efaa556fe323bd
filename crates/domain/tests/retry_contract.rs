//! The retry contract with receivers: 60 s · 2ⁿ ± 20 %. A guardrail test fails if one of these tests is renamed,
//! ignored or removed.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_domain::{RandomDraw, RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy};
use proptest::prelude::*;

/// Draws spread evenly over the whole range, both ends included.
fn draws() -> impl Iterator<Item = RandomDraw> {
    (0..=100_u64).map(|step| RandomDraw(u64::MAX / 100 * step))
}

fn delays(n: u32) -> Vec<f64> {
    let policy = RetryPolicy::default();
    draws().map(|draw| policy.delay(n, draw).as_secs_f64()).collect()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn spec(change: impl FnOnce(&mut RetryPolicySpec)) -> Result<RetryPolicy, RetryPolicyError> {
    let mut spec = RetryPolicySpec::exponential();
    change(&mut spec);
    RetryPolicy::new(spec)
}

#[test]
fn test_first_retry_around_60s() {
    assert!(delays(0).iter().all(|delay| (48.0..=72.0).contains(delay)));
}

#[test]
fn test_second_retry_around_120s() {
    assert!(delays(1).iter().all(|delay| (96.0..=144.0).contains(delay)));
}

#[test]
fn test_backoff_is_exponential() {
    let policy = RetryPolicy::default();
    for draw in draws() {
        for n in 0..4 {
            let ratio = policy.delay(n + 1, draw).as_secs_f64() / policy.delay(n, draw).as_secs_f64();
            assert!((ratio - 2.0).abs() < 0.001, "retry {n} with {draw:?}: ratio {ratio}");
        }
    }
}

#[test]
fn test_delay_never_negative() {
    let widest = spec(|spec| spec.jitter_bps = Some(10_000)).unwrap();
    for n in (0..200).chain([u32::MAX]) {
        for draw in draws() {
            assert!(widest.delay(n, draw) >= secs(1), "retry {n} with {draw:?}");
        }
    }
}

#[test]
fn test_jitter_produces_variance() {
    let delays = delays(0);
    let distinct: BTreeSet<u64> = delays.iter().map(|delay| delay.to_bits()).collect();
    assert!(distinct.len() > 90, "only {} distinct delays", distinct.len());
    assert!(delays.iter().all(|delay| (48.0..=72.0).contains(delay)));
}

#[test]
fn s1_3_1_the_default_table_takes_31_minutes() {
    let policy = spec(|spec| spec.jitter_bps = Some(0)).unwrap();
    let table: Vec<u64> =
        (0..policy.max_attempts() - 1).map(|n| policy.delay(n, RandomDraw(7)).as_secs()).collect();
    assert_eq!(table, [60, 120, 240, 480, 960]);
    assert_eq!(table.iter().sum::<u64>(), 31 * 60);
}

#[test]
fn s1_3_4_a_first_delay_under_30_s_is_refused_with_value_floor_and_contract() {
    let by_base = spec(|spec| spec.strategy = Strategy::Exponential { base: secs(5) });
    let by_step = spec(|spec| spec.strategy = Strategy::Schedule { steps: vec![secs(5), secs(60)] });
    for error in [by_base.unwrap_err(), by_step.unwrap_err()] {
        assert_eq!(error, RetryPolicyError::TooFast { first: secs(5) });
        let message = error.to_string();
        for part in ["5s", "30s", "contract", "allow_fast_retries"] {
            assert!(message.contains(part), "{part:?} is missing from {message:?}");
        }
    }
    assert!(spec(|spec| spec.strategy = Strategy::Exponential { base: secs(30) }).is_ok());
}

#[test]
fn s1_3_4_the_guard_opens_only_when_fast_retries_are_allowed_and_then_says_so() {
    let fast = spec(|spec| {
        spec.strategy = Strategy::Exponential { base: secs(1) };
        spec.allow_fast_retries = true;
    });
    assert!(fast.unwrap().violates_retry_contract());
    let allowed_but_unused = spec(|spec| spec.allow_fast_retries = true).unwrap();
    assert!(!allowed_but_unused.violates_retry_contract());
    let fast_by_jitter = spec(|spec| {
        spec.strategy = Strategy::Exponential { base: secs(30) };
        spec.allow_fast_retries = true;
    });
    assert!(fast_by_jitter.unwrap().violates_retry_contract(), "30 s ± 20 % goes down to 24 s");
}

#[test]
fn s0_fr001_ac1_jitter_is_valid_from_0_to_10000() {
    for valid in [0, 1, 2_000, 10_000] {
        assert!(spec(|spec| spec.jitter_bps = Some(valid)).is_ok(), "{valid}");
    }
    for invalid in [10_001, u32::MAX] {
        let error = spec(|spec| spec.jitter_bps = Some(invalid)).unwrap_err();
        assert_eq!(error, RetryPolicyError::Jitter(invalid));
        assert!(error.to_string().contains(&invalid.to_string()), "{error}");
    }
}

#[test]
fn s0_fr001_ac2_zero_jitter_is_exactly_deterministic() {
    let exponential = spec(|spec| spec.jitter_bps = Some(0)).unwrap();
    let schedule = RetryPolicy::new(RetryPolicySpec::schedule()).unwrap();
    for policy in [exponential, schedule] {
        for n in 0..10 {
            let distinct: BTreeSet<Duration> = draws().map(|draw| policy.delay(n, draw)).collect();
            assert_eq!(distinct.len(), 1, "retry {n}");
        }
    }
}

proptest! {
    #[test]
    fn s0_fr001_ac3_jittered_delay_stays_in_its_window_and_bounds(
        base in 30_u64..100_000, bps in 0_u32..=10_000, n in 0_u32..=200, draw in any::<u64>(), headroom in 0_u64..1_000_000,
    ) {
        let max_backoff = secs(base + headroom);
        let policy = spec(|spec| {
            spec.strategy = Strategy::Exponential { base: secs(base) };
            spec.jitter_bps = Some(bps);
            spec.max_backoff = Some(max_backoff);
        }).unwrap();
        let delay = policy.delay(n, RandomDraw(draw));
        prop_assert!(delay >= secs(30) && delay <= max_backoff);
        prop_assert!(policy.delay_range(n).contains(&delay));
        // The range by its definition, computed independently in floating point.
        let cap = max_backoff.as_secs_f64();
        let nominal = (base as f64 * 2_f64.powi(i32::try_from(n).unwrap())).min(cap);
        let spread = nominal * f64::from(bps) / 10_000.0;
        let (low, high) = ((nominal - spread).max(30.0), (nominal + spread).min(cap));
        prop_assert!((low - 0.001..=high + 0.001).contains(&delay.as_secs_f64()), "{low} {delay:?} {high}");
        // The draw selects its share of the window, so delays are even over all of it, also at the floor and at the cap.
        let even = low + (high - low) * (draw as f64 / u64::MAX as f64);
        prop_assert!((delay.as_secs_f64() - even).abs() < 0.001, "{delay:?} instead of {even}");
    }
}

#[test]
fn s0_fr001_ac3_full_jitter_never_undercuts_the_floor_of_the_contract() {
    let policy = spec(|spec| {
        spec.strategy = Strategy::Exponential { base: secs(30) };
        spec.jitter_bps = Some(10_000);
    });
    assert_eq!(policy.unwrap().delay_range(0), secs(30)..=secs(60));
    let schedule =
        RetryPolicy::new(RetryPolicySpec { jitter_bps: Some(10_000), ..RetryPolicySpec::schedule() });
    assert_eq!(schedule.unwrap().delay_range(0), secs(30)..=secs(60));
    let fast = spec(|spec| {
        spec.strategy = Strategy::Exponential { base: secs(30) };
        spec.jitter_bps = Some(10_000);
        spec.allow_fast_retries = true;
    });
    assert_eq!(fast.unwrap().delay_range(0), secs(1)..=secs(60));
}

#[test]
fn s0_nfr002_retries_at_the_cap_are_still_spread() {
    let policy = spec(|spec| spec.max_backoff = Some(secs(100))).unwrap();
    for n in [1, 2, 50, u32::MAX] {
        assert_eq!(policy.delay_range(n), secs(80)..=secs(100));
        let distinct: BTreeSet<Duration> = draws().map(|draw| policy.delay(n, draw)).collect();
        assert!(distinct.len() > 90, "retry {n}: only {} distinct delays", distinct.len());
    }
}

#[test]
fn s0_fr002_ac2_budget_zero_leaves_the_stored_limit_alone() {
    let off = RetryPolicy::default();
    for stored in [1, 6, 1_000, u32::MAX] {
        assert_eq!(off.effective_max_attempts(stored), stored);
    }
}

#[test]
fn s0_fr002_ac3_effective_limit_is_the_smaller_of_stored_and_budget_plus_one() {
    let budget = |budget| spec(|spec| spec.budget = budget).unwrap();
    assert_eq!(budget(3).effective_max_attempts(6), 4);
    assert_eq!(budget(3).effective_max_attempts(2), 2);
    assert_eq!(budget(u32::MAX).effective_max_attempts(u32::MAX), u32::MAX);
}

#[test]
fn s4_main_flow_schedule_is_exactly_30_120_600_3600_21600() {
    let policy = RetryPolicy::new(RetryPolicySpec::schedule()).unwrap();
    let steps: Vec<u64> = (0..6).map(|n| policy.delay(n, RandomDraw(0)).as_secs()).collect();
    assert_eq!(steps, [30, 120, 600, 3_600, 21_600, 21_600]);
    assert_eq!(policy.max_attempts(), 5, "the fifth failure is terminal");
}

#[test]
fn impossible_policies_are_refused_by_name() {
    let schedule = |steps: &[u64]| {
        let steps = steps.iter().copied().map(secs).collect();
        RetryPolicy::new(RetryPolicySpec::for_strategy(Strategy::Schedule { steps }))
    };
    assert_eq!(schedule(&[]).unwrap_err(), RetryPolicyError::Steps(0));
    assert_eq!(schedule(&[60; 101]).unwrap_err(), RetryPolicyError::Steps(101));
    let down = RetryPolicyError::Descending { from: secs(120), to: secs(60) };
    assert_eq!(schedule(&[60, 120, 60]).unwrap_err(), down);
    assert!(schedule(&[60, 60, 60]).is_ok(), "a steady pace is fine");

    let short = spec(|spec| spec.max_backoff = Some(secs(59))).unwrap_err();
    assert_eq!(short, RetryPolicyError::BackoffTooShort { max_backoff: secs(59), delay: secs(60) });
    let zero = spec(|spec| {
        spec.strategy = Strategy::Exponential { base: Duration::ZERO };
        spec.allow_fast_retries = true;
    });
    assert_eq!(zero.unwrap_err(), RetryPolicyError::Zero);
    assert!(matches!(
        spec(|s| s.max_backoff = Some(Duration::MAX)),
        Err(RetryPolicyError::BackoffTooLong(_))
    ));
    assert!(matches!(spec(|s| s.max_retries = Some(1_000)), Err(RetryPolicyError::TooManyRetries(1_000))));
    assert_eq!(spec(|spec| spec.max_retries = Some(0)).unwrap().max_attempts(), 1);
}
