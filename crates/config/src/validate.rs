//! Rules between settings, and rules about the files that values name.

use std::net::SocketAddr;

use posthaste::SchemaName;
use posthaste_sender::InvalidOptions;

use super::database::DatabaseUrl;
use super::retry::retry_policy;
use super::setting::Setting;
use super::settings::{Config, TABLE};
use super::values::Values;

/// Which of the files that settings name validation reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileChecks {
    None,
    /// The certificates of the database.
    Store,
    /// All files that values name.
    All,
}

/// Validates values against each other and builds the retry policy.
pub(crate) fn validate(values: &mut Values, config: &mut Config, files: FileChecks) {
    config.retry_policy = retry_policy(values, config);
    require_keys_beyond_loopback(values, config, &TABLE.listen, Some(config.listen));
    require_keys_beyond_loopback(values, config, &TABLE.probe_listen, config.probe_listen);
    refuse_schema_of_sqlite(values, config);
    warn_of_fast_retries(values, config);
    warn_of_pool_beyond_concurrency(values, config);
    warn_of_delays_beyond_expiry(values, config);
    if files == FileChecks::All {
        check_ca_file(values, config);
    }
    if files != FileChecks::None {
        check_database_certificates(values, config);
    }
}

fn require_keys_beyond_loopback(
    values: &mut Values,
    config: &Config,
    setting: &'static Setting,
    address: Option<SocketAddr>,
) {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    let is_open = address.is_some_and(|address| !is_loopback(address)) && config.api_keys.is_none();
    if is_open && values.are_comparable(&[setting, &TABLE.api_keys]) {
        let reason = format!(
            "every client that can reach this address could use the API, because there are no keys; \
             set {} ({}), or listen on a loopback address such as {}",
            TABLE.api_keys.env, TABLE.api_keys.rule, TABLE.listen.default,
        );
        values.reject_conflict(setting, reason);
    }
}

fn refuse_schema_of_sqlite(values: &mut Values, config: &Config) {
    // The default changes nothing, so it may be written down for both databases.
    let is_other = config.database_schema != SchemaName::default();
    if is_other
        && matches!(config.database_url, DatabaseUrl::Sqlite(_))
        && values.are_comparable(&[&TABLE.database_schema, &TABLE.database_url])
    {
        let reason = format!(
            "SQLite has no schemas; remove it, or set {} to a PostgreSQL database",
            TABLE.database_url.env
        );
        values.reject_conflict(&TABLE.database_schema, reason);
    }
}

fn warn_of_fast_retries(values: &mut Values, config: &Config) {
    if config.allow_fast_retries {
        let value = values.display(&TABLE.allow_fast_retries);
        values.warnings.push(format!(
            "{value}: first retry delays under 30 s are allowed, which breaks the retry contract \
             (docs/retry-contract.md); this setting is for tests, remove it elsewhere"
        ));
    }
}

fn warn_of_pool_beyond_concurrency(values: &mut Values, config: &Config) {
    let is_beyond = config.http_pool_size > config.concurrency;
    let comparable = values.are_comparable(&[&TABLE.http_pool_size, &TABLE.concurrency]);
    if is_beyond && values.is_set(&TABLE.http_pool_size) && comparable {
        let [pool, all] = [values.display(&TABLE.http_pool_size), values.display(&TABLE.concurrency)];
        values.warnings.push(format!(
            "{pool}: one destination cannot get more requests than all destinations together ({all}); \
             raise {} or lower this",
            TABLE.concurrency.name
        ));
    }
}

fn warn_of_delays_beyond_expiry(values: &mut Values, config: &Config) {
    let delays = config.retry_policy.longest_total_delay();
    if let Some(expire_after) = config.expire_after_seconds
        && delays > expire_after
        && values.are_comparable(&[&TABLE.expire_after_seconds, &TABLE.max_retry_attempts])
    {
        let expiry = values.display(&TABLE.expire_after_seconds);
        values.warnings.push(format!(
            "{expiry}: the delays between all attempts of an event can add up to {} s, so an event may expire before its last \
             retry; raise this or lower {}",
            delays.as_secs(),
            TABLE.max_retry_attempts.name
        ));
    }
}

fn check_ca_file(values: &mut Values, config: &Config) {
    if let Some(file) = &config.ca_file
        && let Err(InvalidOptions::Certificates { reason, .. }) = posthaste::check_ca_file(file)
    {
        values.reject_invalid(&TABLE.ca_file, format!("it cannot be used: {reason}"));
    }
}

fn check_database_certificates(values: &mut Values, config: &Config) {
    if let Err(error) = config.database_url.database() {
        values.reject_invalid(&TABLE.database_url, error.to_string());
    }
}
