//! Metrics that Posthaste exposes, read from the source that registers them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::files::files_at;

/// Source files that register metrics with `registry.register("webhook_…", …)`, a closure around it, or a collector.
const SOURCES: [&str; 2] = ["crates/api/src/metrics.rs", "crates/api/src/metrics"];

/// Metrics of the contract, under the names they are registered with. The exposition appends `_total` to counters.
pub(crate) const CONTRACT: [&str; 11] = [
    "webhook_retry_queue_depth",
    "webhook_retry_delay",
    "webhook_delivery_latency",
    "webhook_delivery_lag",
    "webhook_deliveries",
    "webhook_dead_letters",
    "webhook_leases_lost",
    "webhook_stale_writes",
    "webhook_in_flight",
    "webhook_oldest_pending_age",
    "webhook_circuit_open",
];
const HISTOGRAMS: [&str; 4] = [
    "webhook_retry_delay",
    "webhook_delivery_latency",
    "webhook_delivery_lag",
    "webhook_api_request_duration",
];
/// The first parts of the names of metrics.
const PREFIXES: [&str; 3] = ["webhook_", "process_", "posthaste_"];
const COUNTERS: [&str; 9] = [
    "webhook_deliveries",
    "webhook_application_deliveries",
    "webhook_dead_letters",
    "webhook_endpoints_disabled",
    "webhook_leases_lost",
    "webhook_local_shortages",
    "webhook_stale_writes",
    "webhook_api_requests",
    "process_cpu_seconds",
];

/// Upper bound of the histogram bucket for delays that the retry contract forbids. The contract allows 30 s itself, so the
/// bucket ends just below it.
pub(crate) const BUCKET_BELOW_FLOOR: &str = "29.999";

/// Names of the registered metrics, and the bucket bounds of `webhook_retry_delay`.
pub(crate) struct Metrics {
    registered: BTreeSet<String>,
    retry_delay_bounds: Vec<f64>,
}

pub(crate) fn read_exposed() -> Metrics {
    let source: String = SOURCES.into_iter().flat_map(files_at).map(|file| file.text).collect();
    let metrics = parse(&source);
    let missing: Vec<_> = CONTRACT.iter().filter(|name| !metrics.registered.contains(**name)).collect();
    assert!(
        missing.is_empty(),
        "{} does not register {missing:?}; if metrics are registered in another form now, change `parse` in this file",
        SOURCES.join(" and ")
    );
    metrics
}

fn parse(source: &str) -> Metrics {
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let literals = code.split('"').skip(1).step_by(2);
    let is_name = |text: &&str| {
        let has_prefix = PREFIXES.iter().any(|prefix| text.starts_with(prefix));
        has_prefix && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let bounds = code
        .split("const RETRY_DELAY_SECONDS")
        .nth(1)
        .and_then(|rest| rest.split_once("= [")?.1.split(']').next());
    let bounds =
        bounds.unwrap_or_default().split(',').filter_map(|bound| bound.trim().replace('_', "").parse().ok());
    Metrics {
        registered: literals.filter(is_name).map(str::to_owned).collect(),
        retry_delay_bounds: bounds.collect(),
    }
}

impl Metrics {
    /// Returns whether `/metrics` has a series of this name.
    pub(crate) fn has_series(&self, series: &str) -> bool {
        let suffixes: BTreeMap<&str, &[&str]> = HISTOGRAMS
            .iter()
            .map(|name| (*name, ["_bucket", "_count", "_sum"].as_slice()))
            .chain(COUNTERS.iter().map(|name| (*name, ["_total"].as_slice())))
            .collect();
        let exposes = |name: &String| match suffixes.get(name.as_str()) {
            Some(suffixes) => suffixes.iter().any(|suffix| series.strip_suffix(suffix) == Some(name)),
            None => series == name,
        };
        self.registered.iter().any(exposes)
    }

    /// Returns whether the retry delays have a bucket that ends just below 30 s, followed by one that ends at 30 s.
    pub(crate) fn has_bucket_below_floor(&self) -> bool {
        self.retry_delay_bounds.windows(2).any(|bounds| bounds == [29.999, 30.0])
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.registered.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    }
}

#[test]
fn names_and_bounds_are_read_from_code_and_not_from_comments() {
    let metrics = parse(
        "// \"webhook_old\"\nconst RETRY_DELAY_SECONDS: [f64; 3] = [\n    29.999, 30.0,\n    1_800.0,\n];\n\
         registry.register(\"webhook_retry_delay\", \"webhook words\", x);\n",
    );
    assert_eq!(metrics.to_string(), "webhook_retry_delay");
    assert!(metrics.has_bucket_below_floor());
    assert!(metrics.has_series("webhook_retry_delay_bucket") && !metrics.has_series("webhook_retry_delay"));
    assert!(!parse("const RETRY_DELAY_SECONDS: [f64; 2] = [20.0, 30.0];").has_bucket_below_floor());
}
