//! The retry policy. The domain validates the retry settings together; this module decides which setting an error names.

use std::time::Duration;

use posthaste_domain::{RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy};

use super::parse::{RetryStrategy, seconds_text};
use super::setting::Setting;
use super::settings::{Config, TABLE};
use super::values::Values;

/// Longest delay that the domain accepts.
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Returns the longest delay of the schedule strategy, or none under the exponential strategy.
pub(crate) fn longest_step(config: &Config) -> Option<String> {
    let steps = &config.retry_schedule_seconds;
    (config.retry_strategy == RetryStrategy::Schedule)
        .then(|| seconds_text(steps.last().copied().unwrap_or_default()))
}

/// Builds the retry policy. Reports every delay and every combination that the domain rejects.
pub(crate) fn retry_policy(values: &mut Values, config: &Config) -> RetryPolicy {
    let exponential = Strategy::Exponential { base: config.retry_base_seconds };
    let schedule = Strategy::Schedule { steps: config.retry_schedule_seconds.clone() };
    // The delays of the strategy that is not selected are checked too: switching strategies must not reveal an error.
    check_delays(values, &TABLE.retry_base_seconds, exponential.clone(), config);
    check_delays(values, &TABLE.retry_schedule_seconds, schedule.clone(), config);

    let (delays, strategy): (&'static Setting, _) = match config.retry_strategy {
        RetryStrategy::Exponential => (&TABLE.retry_base_seconds, exponential),
        RetryStrategy::Schedule => (&TABLE.retry_schedule_seconds, schedule),
    };
    let spec = RetryPolicySpec {
        jitter_bps: Some(config.retry_jitter_bps),
        max_backoff: Some(config.retry_max_backoff_seconds),
        max_retries: Some(config.max_retry_attempts),
        budget: config.retry_budget,
        gone_is_final: config.gone_is_final,
        honours_retry_after: config.honour_retry_after,
        uses_circuit_breaker: config.circuit_breaker,
        disable_endpoints_after: config.endpoint_disable_after_days,
        allow_fast_retries: config.allow_fast_retries,
        ..RetryPolicySpec::for_strategy(strategy)
    };
    warn_of_unused_delays(values, config.retry_strategy);
    RetryPolicy::new(spec).unwrap_or_else(|error| {
        reject_backoff(values, delays, &error);
        RetryPolicy::default()
    })
}

/// Validates the delays of one strategy, apart from `retry_max_backoff_seconds`.
fn check_delays(values: &mut Values, delays: &'static Setting, strategy: Strategy, config: &Config) {
    if !values.are_comparable(&[&TABLE.allow_fast_retries, delays]) {
        return;
    }
    let spec = RetryPolicySpec {
        allow_fast_retries: config.allow_fast_retries,
        max_backoff: Some(DELAY_MAX),
        ..RetryPolicySpec::for_strategy(strategy)
    };
    match RetryPolicy::new(spec) {
        Ok(_) => {}
        Err(RetryPolicyError::BackoffTooShort { .. }) => {
            values.reject_conflict(delays, "a delay must not exceed a year; shorten it");
        }
        Err(error) => values.reject_conflict(delays, error.to_string()),
    }
}

/// Reports a `retry_max_backoff_seconds` that does not fit the delays. The message names the setting that is set, and
/// then the other one.
fn reject_backoff(values: &mut Values, delays: &'static Setting, error: &RetryPolicyError) {
    let max_backoff: &'static Setting = &TABLE.retry_max_backoff_seconds;
    if !values.are_comparable(&[&TABLE.retry_strategy, &TABLE.allow_fast_retries, max_backoff, delays]) {
        return;
    }
    let (named, other) =
        if values.is_set(max_backoff) { (max_backoff, delays) } else { (delays, max_backoff) };
    values.reject_conflict(named, format!("{error} ({})", values.display(other)));
}

fn warn_of_unused_delays(values: &mut Values, strategy: RetryStrategy) {
    let (unused, needed): (&'static Setting, _) = match strategy {
        RetryStrategy::Exponential => (&TABLE.retry_schedule_seconds, "schedule"),
        RetryStrategy::Schedule => (&TABLE.retry_base_seconds, "exponential"),
    };
    if values.is_set(unused) {
        let unused = values.display(unused);
        let strategy = TABLE.retry_strategy.name;
        values.warnings.push(format!("{unused}: it has no effect unless {strategy} = {needed}"));
    }
}
