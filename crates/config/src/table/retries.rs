//! Settings of the retry contract: how long a receiver is left alone, and how often it is tried.

use super::{Fallback, Form, PLAIN, Section, Setting};

pub(crate) static RETRY_STRATEGY: Setting = Setting {
    name: "retry_strategy",
    env: "POSTHASTE_RETRY_STRATEGY",
    flag: "--retry-strategy",
    section: Section::Retries,
    default: Fallback::Text("exponential"),
    rule: "exponential or schedule",
    help: "The shape of retry delays: base · 2ⁿ, or exactly the steps of retry_schedule_seconds",
    ..PLAIN
};

pub(crate) static RETRY_BASE_SECONDS: Setting = Setting {
    name: "retry_base_seconds",
    env: "POSTHASTE_RETRY_BASE_SECONDS",
    env_also: Some("BASE_RETRY_DELAY"),
    flag: "--retry-base-seconds",
    section: Section::Retries,
    form: Form::Seconds,
    default: Fallback::Text("60"),
    rule: "a number of seconds, 30 or more",
    help: "Delay before the first retry; it doubles with each one after",
    ..PLAIN
};

pub(crate) static RETRY_MAX_BACKOFF_SECONDS: Setting = Setting {
    name: "retry_max_backoff_seconds",
    env: "POSTHASTE_RETRY_MAX_BACKOFF_SECONDS",
    flag: "--retry-max-backoff-seconds",
    section: Section::Retries,
    form: Form::Seconds,
    default: Fallback::Computed {
        usual: "3600",
        otherwise: "the largest step if retry_strategy is schedule",
    },
    rule: "a number of seconds, not below the base or any step, and a year at most",
    help: "No delay is longer",
    ..PLAIN
};

pub(crate) static RETRY_JITTER_BPS: Setting = Setting {
    name: "retry_jitter_bps",
    env: "POSTHASTE_RETRY_JITTER_BPS",
    env_also: Some("PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS"),
    flag: "--retry-jitter-bps",
    section: Section::Retries,
    form: Form::Whole,
    default: Fallback::ByStrategy { exponential: "2000", schedule: "0" },
    rule: "a whole number from 0 to 10000",
    help: "Random share of each delay, up or down, in basis points: 2000 is ± 20 %, 0 is exact",
    ..PLAIN
};

pub(crate) static RETRY_SCHEDULE_SECONDS: Setting = Setting {
    name: "retry_schedule_seconds",
    env: "POSTHASTE_RETRY_SCHEDULE_SECONDS",
    flag: "--retry-schedule-seconds",
    section: Section::Retries,
    form: Form::SecondsList,
    default: Fallback::Text("30,120,600,3600,21600"),
    rule: "1 to 100 numbers of seconds, separated by commas, ascending, the first 30 or more",
    help: "The delays of the schedule strategy; the last one repeats",
    ..PLAIN
};

pub(crate) static MAX_RETRY_ATTEMPTS: Setting = Setting {
    name: "max_retry_attempts",
    env: "POSTHASTE_MAX_RETRY_ATTEMPTS",
    env_also: Some("MAX_RETRY_ATTEMPTS"),
    flag: "--max-retry-attempts",
    section: Section::Retries,
    form: Form::Whole,
    default: Fallback::ByStrategy { exponential: "5", schedule: "4" },
    rule: "a whole number from 0 to 999",
    help: "Retries of an event whose producer asks for nothing else; it is sent once more than that at most",
    ..PLAIN
};

pub(crate) static RETRY_BUDGET: Setting = Setting {
    name: "retry_budget",
    env: "POSTHASTE_RETRY_BUDGET",
    env_also: Some("PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET"),
    flag: "--retry-budget",
    section: Section::Retries,
    form: Form::Whole,
    default: Fallback::Text("0"),
    rule: "a whole number from 0 to 4294967295; 0 is off",
    help: "Caps the retries of every event at run time, whatever is stored with it",
    ..PLAIN
};

pub(crate) static ALLOW_FAST_RETRIES: Setting = Setting {
    name: "allow_fast_retries",
    env: "POSTHASTE_ALLOW_FAST_RETRIES",
    flag: "--allow-fast-retries",
    section: Section::Retries,
    form: Form::Switch,
    default: Fallback::Text("false"),
    rule: "true or false",
    help: "Lets a first retry delay be under 30 s. For tests: it breaks the retry contract",
    ..PLAIN
};
