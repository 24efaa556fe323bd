//! Whether the values agree with each other.

use super::reading::Reading;
use super::table::dispatch::{CONCURRENCY, HTTP_POOL_SIZE};
use super::table::retries::ALLOW_FAST_RETRIES;
use super::table::service::{API_KEYS, LISTEN};
use super::typed::Config;

pub(super) fn check(reading: &mut Reading, config: &Config) {
    refuse_open_door(reading, config);
    warn_of_fast_retries(reading, config);
    warn_of_pool_beyond_concurrency(reading, config);
}

fn refuse_open_door(reading: &mut Reading, config: &Config) {
    let is_open = !config.listens_on_loopback() && config.api_keys.is_none();
    if is_open && reading.are_sound(&[&LISTEN, &API_KEYS]) {
        reading.refuse(
            &LISTEN,
            format!(
                "everyone who can reach this address could use the API, because there are no keys; \
                 set {} ({}), or listen on a loopback address such as {}",
                API_KEYS.env, API_KEYS.rule, LISTEN.default,
            ),
        );
    }
}

fn warn_of_fast_retries(reading: &mut Reading, config: &Config) {
    if config.allow_fast_retries {
        let written = reading.written(&ALLOW_FAST_RETRIES);
        reading.warnings.push(format!(
            "{written}: first retry delays under 30 s are let through, which breaks the retry contract \
             (docs/retry-contract.md); it is meant for tests, remove it elsewhere"
        ));
    }
}

fn warn_of_pool_beyond_concurrency(reading: &mut Reading, config: &Config) {
    let beyond = config.per_destination > config.concurrency;
    if beyond && reading.is_given(&HTTP_POOL_SIZE) && reading.are_sound(&[&HTTP_POOL_SIZE, &CONCURRENCY]) {
        let (pool, all) = (reading.written(&HTTP_POOL_SIZE), reading.written(&CONCURRENCY));
        reading.warnings.push(format!(
            "{pool}: one destination cannot get more than all of them do ({all}); raise {} or lower this",
            CONCURRENCY.name
        ));
    }
}
