//! What Posthaste exposes, read out of the source that registers it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::files::below;

/// Where metrics are registered: `registry.register("webhook_…", …)`, and closures that do so by name.
const SOURCE: [&str; 2] = ["crates/api/src/metrics.rs", "crates/api/src/metrics"];

/// The metrics of the contract, with underscores, as they are registered. Counters get `_total` on the way out.
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
const COUNTERS: [&str; 5] = [
    "webhook_deliveries",
    "webhook_dead_letters",
    "webhook_leases_lost",
    "webhook_stale_writes",
    "webhook_api_requests",
];

/// The retry contract's floor is 30 s, which itself is allowed. So what breaks it is counted by the last bucket below.
pub(crate) const BELOW_THE_FLOOR: &str = "29.999";

/// Every metric by the name that it is registered under, and the bounds of the retry delays.
pub(crate) struct Metrics {
    registered: BTreeSet<String>,
    retry_delays: Vec<f64>,
}

pub(crate) fn exposed() -> Metrics {
    let source: String = SOURCE.into_iter().flat_map(below).map(|file| file.text).collect();
    let metrics = parse(&source);
    let missing: Vec<_> = CONTRACT.iter().filter(|name| !metrics.registered.contains(**name)).collect();
    assert!(
        missing.is_empty(),
        "{} registers no {missing:?}; if metrics are registered otherwise now, teach this test to read them",
        SOURCE.join(" and ")
    );
    metrics
}

fn parse(source: &str) -> Metrics {
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let literals = code.split('"').skip(1).step_by(2);
    let is_name = |text: &&str| {
        text.starts_with("webhook_") && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let bounds = code
        .split("const RETRY_DELAY_SECONDS")
        .nth(1)
        .and_then(|rest| rest.split_once("= [")?.1.split(']').next());
    let bounds =
        bounds.unwrap_or_default().split(',').filter_map(|bound| bound.trim().replace('_', "").parse().ok());
    Metrics {
        registered: literals.filter(is_name).map(str::to_owned).collect(),
        retry_delays: bounds.collect(),
    }
}

impl Metrics {
    /// Whether a series of this name is scraped.
    pub(crate) fn expose(&self, series: &str) -> bool {
        let suffixes: BTreeMap<&str, &[&str]> = HISTOGRAMS
            .iter()
            .map(|name| (*name, ["_bucket", "_count", "_sum"].as_slice()))
            .chain(COUNTERS.iter().map(|name| (*name, ["_total"].as_slice())))
            .collect();
        let has = |name: &String| match suffixes.get(name.as_str()) {
            Some(suffixes) => suffixes.iter().any(|suffix| series.strip_suffix(suffix) == Some(name)),
            None => series == name,
        };
        self.registered.iter().any(has)
    }

    /// Whether 29 is the last bound below the floor, and the floor is one too.
    pub(crate) fn has_bucket_below_the_floor(&self) -> bool {
        self.retry_delays.windows(2).any(|bounds| bounds == [29.999, 30.0])
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.registered.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    }
}

#[test]
fn names_and_bounds_are_found_in_the_source_and_comments_are_not() {
    let metrics = parse(
        "// \"webhook_old\"\nconst RETRY_DELAY_SECONDS: [f64; 3] = [\n    29.999, 30.0,\n    1_800.0,\n];\n\
         registry.register(\"webhook_retry_delay\", \"webhook words\", x);\n",
    );
    assert_eq!(metrics.to_string(), "webhook_retry_delay");
    assert!(metrics.has_bucket_below_the_floor());
    assert!(metrics.expose("webhook_retry_delay_bucket") && !metrics.expose("webhook_retry_delay"));
    assert!(!parse("const RETRY_DELAY_SECONDS: [f64; 2] = [20.0, 30.0];").has_bucket_below_the_floor());
}
