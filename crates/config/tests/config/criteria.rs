//! What the requirement documents ask of the configuration, by their ids.

use std::time::Duration;

use posthaste_config::{SETTINGS, reference};
use posthaste_domain::{RandomDraw, RetryPolicy, RetryPolicySpec, WorkerId};

use crate::{Said, assert_words, env};

const JITTER: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS";
const BUDGET: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET";

#[test]
fn s0_fr001_ac1_jitter_is_set_by_its_environment_name_from_0_to_10000() {
    for bps in [0, 1, 2_000, 10_000] {
        let policy = env(&[(JITTER, &bps.to_string())]).load().unwrap().retry_policy;
        let spec = RetryPolicySpec { jitter_bps: Some(bps), ..RetryPolicySpec::exponential() };
        assert_eq!(policy, RetryPolicy::new(spec).unwrap());
    }
    for refused in ["-1", "10001", "20%", "0.2", "many"] {
        let message = env(&[(JITTER, refused)]).refusal();
        assert_words(&message, &[JITTER, refused, "0 to 10000"]);
    }
}

#[test]
fn s0_fr002_ac1_budget_is_a_non_negative_integer_under_its_environment_name() {
    for (budget, effective) in [("0", 50), ("1", 2), ("3", 4), ("4294967295", 50)] {
        let policy = env(&[(BUDGET, budget)]).load().unwrap().retry_policy;
        assert_eq!(policy.effective_max_attempts(50), effective, "{budget}");
    }
    for refused in ["-1", "1.5", "three", "4294967296", "99999999999999999999"] {
        let message = env(&[(BUDGET, refused)]).refusal();
        assert_words(&message, &[BUDGET, refused, "a whole number from 0"]);
    }
}

#[test]
fn s0_fr004_ac1_jitter_and_budget_reach_the_settings_of_the_dispatcher() {
    let config = env(&[(JITTER, "10000"), (BUDGET, "2")]).load().unwrap();
    let settings = config.engine_settings(WorkerId::new("w").unwrap());
    assert_eq!(settings.policy.effective_max_attempts(6), 3);
    assert_eq!(settings.policy.delay(0, RandomDraw(0)), Duration::from_secs(1));
    assert_eq!(settings.policy.delay(0, RandomDraw(u64::MAX)), Duration::from_secs(120));
}

#[test]
fn s0_fr004_ac1_what_is_not_configured_leaves_the_dispatcher_as_it_was() {
    let settings = Said::nothing().load().unwrap().engine_settings(WorkerId::new("w").unwrap());
    assert_eq!(settings.policy, RetryPolicy::default());
}

#[test]
fn s0_fr004_ac2_the_configuration_table_has_both_names_and_what_they_do() {
    let reference = reference();
    for (env, name) in [(JITTER, "retry_jitter_bps"), (BUDGET, "retry_budget")] {
        let row = reference.lines().find(|line| line.contains(env)).expect("the table has a row for it");
        let setting = SETTINGS.into_iter().find(|setting| setting.name == name).unwrap();
        assert_words(row, &[name, setting.env, setting.help, setting.rule, &setting.default.to_string()]);
    }
}

#[test]
fn s1_3_2_the_four_defaults_hold_under_their_exact_environment_names() {
    let four = |said: Said| {
        let config = said.load().unwrap();
        let retries = config.retry_policy.max_attempts() - 1;
        (config.timeout.as_secs(), retries, config.retry_batch, config.per_destination)
    };
    assert_eq!(four(Said::nothing()), (30, 5, 100, 20));
    assert_eq!(four(env(&[("WEBHOOK_TIMEOUT_SECONDS", "10")])), (10, 5, 100, 20));
    assert_eq!(four(env(&[("MAX_RETRY_ATTEMPTS", "8")])), (30, 8, 100, 20));
    assert_eq!(four(env(&[("RETRY_BATCH_SIZE", "500")])), (30, 5, 500, 20));
    assert_eq!(four(env(&[("HTTP_POOL_SIZE", "50")])), (30, 5, 100, 50));
}

#[test]
fn s1_3_2_the_base_delay_is_60_s_under_its_exact_environment_name() {
    let first = |said: Said| said.load().unwrap().retry_policy.delay_range(0);
    assert_eq!(first(Said::nothing()), Duration::from_secs(48)..=Duration::from_secs(72));
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
            let message = env(&[(name, value), ("POSTHASTE_RETRY_STRATEGY", strategy)]).refusal();
            let written = format!("{name}={value}");
            assert_words(
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
    assert!(env(&[("BASE_RETRY_DELAY", "30")]).load().is_ok());
    assert!(env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30")]).load().is_ok());
}

#[test]
fn s1_3_4_fast_retries_pass_only_when_allowed_and_are_warned_of_at_every_start() {
    let allowed = env(&[("BASE_RETRY_DELAY", "5"), ("POSTHASTE_ALLOW_FAST_RETRIES", "true")]).load().unwrap();
    assert!(allowed.retry_policy.violates_retry_contract() && allowed.allow_fast_retries);
    assert_eq!(allowed.warnings.len(), 1, "{:?}", allowed.warnings);
    assert_words(
        &allowed.warnings[0],
        &["POSTHASTE_ALLOW_FAST_RETRIES=true", "30 s", "retry contract", "tests"],
    );

    let fast = &[("BASE_RETRY_DELAY", "5"), ("POSTHASTE_ALLOW_FAST_RETRIES", "false")];
    assert_words(&env(fast).refusal(), &["dangerously low"]);
    assert!(Said::nothing().load().unwrap().warnings.is_empty());
}
