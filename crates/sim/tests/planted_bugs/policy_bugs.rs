//! Engines that decide under another retry policy than the scenario's.

use std::time::Duration;

use posthaste_domain::RetryPolicySpec;
use posthaste_sim::{PlantedBug, RetryRules};

/// Defines a bug in the engines' retry policy: its name, and how its settings differ from the scenario's.
macro_rules! policy_bug {
    ($(#[$doc:meta])* $name:ident; $($setting:ident: $value:expr),+) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl PlantedBug for $name {
            fn policy(&self, rules: &RetryRules) -> RetryPolicySpec {
                RetryPolicySpec { $($setting: $value,)+ ..rules.spec() }
            }
        }
    };
}

policy_bug! {
    /// Lets jitter take delays below 30 s.
    FloorIsUndercut; allow_fast_retries: true
}

policy_bug! {
    /// Waits for longer than the longest delay allowed.
    CapIsExceeded; max_backoff: Some(Duration::from_secs(7_200))
}

policy_bug! {
    /// Sends all retries of one number after the same delay.
    RetriesAreNotSpread; jitter_bps: Some(0)
}

policy_bug! {
    /// Dead-letters an event at its first 410, also where a 410 is one failure like any other.
    GoneIsAlwaysFinal; gone_is_final: Some(true)
}

policy_bug! {
    /// Waits as long as a `Retry-After` requests, also where the schedule is exact.
    RetryAfterIsAlwaysHonoured; honours_retry_after: Some(true)
}

policy_bug! {
    /// Opens circuits, also where the policy uses no circuit breaker.
    CircuitsAlwaysOpen; uses_circuit_breaker: Some(true)
}
