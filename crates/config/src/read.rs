//! Every setting, from text to a typed value.

use std::time::Duration;

use posthaste_domain::{LeaseTerms, WorkerId};
use posthaste_sender::AllowedNetworks;

use super::database::DatabaseUrl;
use super::reading::Reading;
use super::retry::retry;
use super::table::dispatch::{
    ABANDON_AFTER, CONCURRENCY, CYCLE_SECONDS, HTTP_POOL_SIZE, LEASE_SECONDS, POLL_INTERVAL_MS,
    RETRY_BATCH_SIZE, TIMEOUT_SECONDS, WORKER_ID,
};
use super::table::receivers::{ALLOW_PRIVATE_NETWORKS, CA_FILE, DNS, EGRESS_PROXY, SIGNING_SECRET};
use super::table::service::{
    API_KEYS, DATABASE_URL, IDEMPOTENCY_HOURS, LISTEN, LOG, LOG_FORMAT, OTLP_ENDPOINT, PAYLOAD_BYTES_MAX,
    RETENTION_DAYS, SHUTDOWN_SECONDS,
};
use super::typed::Config;
use super::values::{
    Dns, LogFormat, api_keys, count, http_url, is_on_loopback, listen, log, networks, one_of, path, proxy,
    seconds_within, signing_secrets, size, whole,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

pub(super) fn read(reading: &mut Reading) -> Config {
    let retry = retry(reading);
    let listen = reading.value(&LISTEN, listen);
    let database = reading.value(&DATABASE_URL, DatabaseUrl::parse);
    // Where the store is on another host, so may be those who enqueue.
    let closed_or_loopback = if is_on_loopback(listen) && database.is_here() {
        AllowedNetworks::loopback()
    } else {
        AllowedNetworks::none()
    };
    let egress_proxy = reading.optional(&EGRESS_PROXY, proxy);
    let dns = [("own", Dns::Own), ("system", Dns::System)];
    let formats = [("pretty", LogFormat::Pretty), ("json", LogFormat::Json)];
    Config {
        database,
        retention: days(reading.value(&RETENTION_DAYS, count(0..=36_500))),
        listen,
        api_keys: reading.optional(&API_KEYS, api_keys),
        payload_bytes_max: reading.value(&PAYLOAD_BYTES_MAX, size(1..=16_777_216)),
        idempotency: HOUR * reading.value(&IDEMPOTENCY_HOURS, count(1..=8_760)),
        shutdown: reading.value(&SHUTDOWN_SECONDS, seconds_within(Duration::ZERO..=HOUR)),
        retry_policy: retry.policy,
        allow_fast_retries: retry.allow_fast_retries,
        timeout: reading.value(&TIMEOUT_SECONDS, seconds_within(MILLISECOND..=DAY)),
        retry_batch: reading.value(&RETRY_BATCH_SIZE, size(1..=10_000)),
        per_destination: reading.value(&HTTP_POOL_SIZE, size(1..=10_000)),
        concurrency: reading.value(&CONCURRENCY, size(1..=100_000)),
        lease: reading.value(&LEASE_SECONDS, lease),
        poll_interval: Duration::from_millis(reading.value(&POLL_INTERVAL_MS, whole(10..=60_000))),
        abandon_after: reading.value(&ABANDON_AFTER, count(1..=1_000)),
        cycle_interval: reading.value(&CYCLE_SECONDS, seconds_within(SECOND..=DAY)),
        worker_id: reading
            .optional(&WORKER_ID, |text| WorkerId::new(text).map_err(|error| error.to_string())),
        signing_secrets: reading.optional(&SIGNING_SECRET, signing_secrets).unwrap_or_default(),
        allowed_networks: reading.value_or(
            &ALLOW_PRIVATE_NETWORKS,
            &closed_or_loopback.to_string(),
            networks,
        ),
        ca_file: reading.optional(&CA_FILE, path),
        egress_proxy,
        dns: reading.value(&DNS, |text| one_of(&dns, text)),
        log: reading.value(&LOG, log),
        log_format: reading.optional(&LOG_FORMAT, |text| one_of(&formats, text)),
        otlp_endpoint: reading.optional(&OTLP_ENDPOINT, http_url),
        settings: Vec::new(),
        warnings: Vec::new(),
    }
}

/// None keeps all.
fn days(days: u32) -> Option<Duration> {
    (days > 0).then(|| DAY * days)
}

/// A second at least: what the domain lets pass below that is for tests of the engine.
fn lease(text: &str) -> Result<LeaseTerms, String> {
    let duration = seconds_within(SECOND..=DAY)(text)?;
    LeaseTerms::new(duration).map_err(|error| error.to_string())
}
