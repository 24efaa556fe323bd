//! The retry settings become a policy. The rules are the domain's; what is decided here is which setting is to blame.

use std::time::Duration;

use posthaste_domain::{JITTER_BPS_MAX, RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy};

use super::reading::Reading;
use super::table::retries::{
    ALLOW_FAST_RETRIES, MAX_RETRY_ATTEMPTS, RETRY_BASE_SECONDS, RETRY_BUDGET, RETRY_JITTER_BPS,
    RETRY_MAX_BACKOFF_SECONDS, RETRY_SCHEDULE_SECONDS, RETRY_STRATEGY,
};
use super::table::{Fallback, Setting};
use super::values::{count, one_of, seconds, seconds_list, switch};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Exponential,
    Schedule,
}

pub(super) struct Retry {
    pub(super) policy: RetryPolicy,
    pub(super) allow_fast_retries: bool,
}

pub(super) fn retry(reading: &mut Reading) -> Retry {
    let shapes = [("exponential", Shape::Exponential), ("schedule", Shape::Schedule)];
    let shape = reading.value(&RETRY_STRATEGY, |text| one_of(&shapes, text));
    let allow_fast_retries = reading.value(&ALLOW_FAST_RETRIES, switch);
    let base = reading.value(&RETRY_BASE_SECONDS, seconds);
    let steps = reading.value(&RETRY_SCHEDULE_SECONDS, seconds_list);
    // Both, whichever is used: a value that is waiting to be switched on should be found out today.
    guard(reading, &RETRY_BASE_SECONDS, Strategy::Exponential { base }, allow_fast_retries);
    guard(reading, &RETRY_SCHEDULE_SECONDS, Strategy::Schedule { steps: steps.clone() }, allow_fast_retries);

    let (delays, strategy) = match shape {
        Shape::Exponential => (&RETRY_BASE_SECONDS, Strategy::Exponential { base }),
        Shape::Schedule => (&RETRY_SCHEDULE_SECONDS, Strategy::Schedule { steps: steps.clone() }),
    };
    let longest = steps.last().copied().unwrap_or_default();
    let max_backoff = match shape {
        Shape::Exponential => reading.value(&RETRY_MAX_BACKOFF_SECONDS, seconds),
        Shape::Schedule => reading.value_or(&RETRY_MAX_BACKOFF_SECONDS, &in_seconds(longest), seconds),
    };
    let jitter = default_of(&RETRY_JITTER_BPS, shape);
    let retries = default_of(&MAX_RETRY_ATTEMPTS, shape);
    let spec = RetryPolicySpec {
        jitter_bps: Some(reading.value_or(&RETRY_JITTER_BPS, jitter, count(0..=JITTER_BPS_MAX))),
        max_backoff: Some(max_backoff),
        max_retries: Some(reading.value_or(&MAX_RETRY_ATTEMPTS, retries, count(0..=999))),
        budget: reading.value(&RETRY_BUDGET, count(0..=u32::MAX)),
        allow_fast_retries,
        strategy,
    };
    warn_of_unused(reading, shape);
    Retry { policy: policy(reading, delays, spec), allow_fast_retries }
}

/// Judges the delays of one setting by themselves.
fn guard(reading: &mut Reading, setting: &'static Setting, strategy: Strategy, allow_fast_retries: bool) {
    if !reading.are_sound(&[&ALLOW_FAST_RETRIES, setting]) {
        return;
    }
    let longest_allowed = Some(Duration::from_secs(365 * 24 * 3_600));
    let spec = RetryPolicySpec {
        allow_fast_retries,
        max_backoff: longest_allowed,
        ..RetryPolicySpec::for_strategy(strategy)
    };
    match RetryPolicy::new(spec) {
        Ok(_) => {}
        Err(RetryPolicyError::BackoffTooShort { .. }) => {
            reading.refuse(setting, "a delay of more than a year is no delay; shorten it");
        }
        Err(error) => reading.refuse(setting, error.to_string()),
    }
}

fn policy(reading: &mut Reading, delays: &'static Setting, spec: RetryPolicySpec) -> RetryPolicy {
    RetryPolicy::new(spec).unwrap_or_else(|error| {
        if reading.are_sound(&[&RETRY_STRATEGY, &ALLOW_FAST_RETRIES, &RETRY_MAX_BACKOFF_SECONDS, delays]) {
            // Whoever wrote one of the two is told of the other.
            let (blamed, other) = match reading.is_given(&RETRY_MAX_BACKOFF_SECONDS) {
                true => (&RETRY_MAX_BACKOFF_SECONDS, delays),
                false => (delays, &RETRY_MAX_BACKOFF_SECONDS),
            };
            reading.refuse(blamed, format!("{error} ({})", reading.written(other)));
        }
        RetryPolicy::default()
    })
}

fn warn_of_unused(reading: &mut Reading, shape: Shape) {
    let (unused, needed) = match shape {
        Shape::Exponential => (&RETRY_SCHEDULE_SECONDS, "schedule"),
        Shape::Schedule => (&RETRY_BASE_SECONDS, "exponential"),
    };
    if reading.is_given(unused) {
        let unused = reading.written(unused);
        reading.warnings.push(format!("{unused}: it does nothing unless {} = {needed}", RETRY_STRATEGY.name));
    }
}

fn default_of(setting: &'static Setting, shape: Shape) -> &'static str {
    match (setting.default, shape) {
        (Fallback::ByStrategy { schedule, .. }, Shape::Schedule) => schedule,
        (default, _) => default.usual().expect("retry settings have defaults"),
    }
}

fn in_seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => duration.as_secs().to_string(),
        millis => format!("{}.{millis:03}", duration.as_secs()),
    }
}
