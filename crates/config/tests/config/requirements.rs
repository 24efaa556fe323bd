//! Requirements of the configuration, by their ids in docs/requirements.md.

use std::time::Duration;

use posthaste_config::{reference, settings};
use posthaste_domain::{RandomDraw, RetryPolicy, RetryPolicySpec, WorkerId};

use crate::{UserInput, assert_contains, env};

const JITTER: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS";
const BUDGET: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET";

#[test]
fn s0_fr001_ac1_jitter_is_set_by_its_environment_name_from_0_to_10000() {
    for bps in [0, 1, 2_000, 10_000] {
        let policy = env(&[(JITTER, &bps.to_string())]).parse().unwrap().retry_policy;
        let spec = RetryPolicySpec { jitter_bps: Some(bps), ..RetryPolicySpec::exponential() };
        assert_eq!(policy, RetryPolicy::new(spec).unwrap());
    }
    for invalid in ["-1", "10001", "20%", "0.2", "many"] {
        let message = env(&[(JITTER, invalid)]).only_error();
        assert_contains(&message, &[JITTER, invalid, "0 to 10000"]);
    }
}

#[test]
fn s0_fr002_ac1_budget_is_a_non_negative_integer_under_its_environment_name() {
    for (budget, effective) in [("0", 50), ("1", 2), ("3", 4), ("4294967295", 50)] {
        let policy = env(&[(BUDGET, budget)]).parse().unwrap().retry_policy;
        assert_eq!(policy.effective_max_attempts(50), effective, "{budget}");
    }
    for invalid in ["-1", "1.5", "three", "4294967296", "99999999999999999999"] {
        let message = env(&[(BUDGET, invalid)]).only_error();
        assert_contains(&message, &[BUDGET, invalid, "a whole number from 0"]);
    }
}

#[test]
fn s0_fr004_ac1_jitter_and_budget_reach_the_settings_of_the_dispatcher() {
    let config = env(&[(JITTER, "10000"), (BUDGET, "2")]).parse().unwrap();
    let settings = config.engine_settings(WorkerId::new("w").unwrap());
    assert_eq!(settings.policy.effective_max_attempts(6), 3);
    assert_eq!(settings.policy.delay(0, RandomDraw(0)), Duration::from_secs(30));
    assert_eq!(settings.policy.delay(0, RandomDraw(u64::MAX)), Duration::from_secs(120));
}

#[test]
fn s0_fr004_ac1_without_jitter_and_budget_the_default_policy_applies() {
    let settings = UserInput::new().parse().unwrap().engine_settings(WorkerId::new("w").unwrap());
    assert_eq!(settings.policy, RetryPolicy::default());
}

#[test]
fn s0_fr004_ac2_reference_lists_jitter_and_budget_with_both_names_and_help() {
    let reference = reference();
    for (env, name) in [(JITTER, "retry_jitter_bps"), (BUDGET, "retry_budget")] {
        let row = reference.lines().find(|line| line.contains(env)).expect("the table has a row for it");
        let setting = settings().find(|setting| setting.name == name).unwrap();
        assert_contains(
            row,
            &[name, &setting.env, &setting.help, &setting.rule, &setting.default.to_string()],
        );
    }
}

#[test]
fn s1_3_2_the_four_defaults_hold_under_their_exact_environment_names() {
    let four = |input: UserInput| {
        let config = input.parse().unwrap();
        let retries = config.retry_policy.max_attempts() - 1;
        (config.timeout_seconds.as_secs(), retries, config.retry_batch_size, config.http_pool_size)
    };
    assert_eq!(four(UserInput::new()), (30, 5, 100, 20));
    assert_eq!(four(env(&[("WEBHOOK_TIMEOUT_SECONDS", "10")])), (10, 5, 100, 20));
    assert_eq!(four(env(&[("MAX_RETRY_ATTEMPTS", "8")])), (30, 8, 100, 20));
    assert_eq!(four(env(&[("RETRY_BATCH_SIZE", "500")])), (30, 5, 500, 20));
    assert_eq!(four(env(&[("HTTP_POOL_SIZE", "50")])), (30, 5, 100, 50));
}

#[test]
fn s1_3_2_the_base_delay_is_60_s_under_its_exact_environment_name() {
    let first = |input: UserInput| input.parse().unwrap().retry_policy.delay_range(0);
    assert_eq!(first(UserInput::new()), Duration::from_secs(48)..=Duration::from_secs(72));
    assert_eq!(
        first(env(&[("BASE_RETRY_DELAY", "100")])),
        Duration::from_secs(80)..=Duration::from_secs(120)
    );
}

#[test]
fn s1_3_4_a_first_delay_under_30_s_stops_the_start_with_value_floor_and_contract() {
    for (name, value, shown) in [
        ("BASE_RETRY_DELAY", "5", "5s"),
        ("BASE_RETRY_DELAY", "29.999", "29.999s"),
        ("POSTHASTE_RETRY_BASE_SECONDS", "29", "29s"),
        ("POSTHASTE_RETRY_SCHEDULE_SECONDS", "5,120", "5s"),
    ] {
        for strategy in ["exponential", "schedule"] {
            let message = env(&[(name, value), ("POSTHASTE_RETRY_STRATEGY", strategy)]).only_error();
            let written = format!("{name}={value}");
            assert_contains(
                &message,
                &[
                    &written,
                    shown,
                    "30s",
                    "the retry contract (docs/retry-contract.md)",
                    "or set allow_fast_retries",
                ],
            );
        }
    }
    assert!(env(&[("BASE_RETRY_DELAY", "30")]).parse().is_ok());
    assert!(env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30")]).parse().is_ok());
}

#[test]
fn s1_3_4_fast_retries_pass_only_when_allowed_and_are_warned_of_at_every_start() {
    let allowed =
        env(&[("BASE_RETRY_DELAY", "5"), ("POSTHASTE_ALLOW_FAST_RETRIES", "true")]).parse().unwrap();
    assert!(allowed.retry_policy.violates_retry_contract() && allowed.allow_fast_retries);
    assert_eq!(allowed.warnings.len(), 1, "{:?}", allowed.warnings);
    assert_contains(
        &allowed.warnings[0],
        &["POSTHASTE_ALLOW_FAST_RETRIES=true", "30 s", "retry contract", "tests"],
    );

    let fast = &[("BASE_RETRY_DELAY", "5"), ("POSTHASTE_ALLOW_FAST_RETRIES", "false")];
    assert_contains(&env(fast).only_error(), &["dangerously low"]);
    assert!(UserInput::new().parse().unwrap().warnings.is_empty());
}
