//! Values that are right by themselves and wrong together.

use posthaste_sender::AllowedNetworks;

use crate::{assert_words, env};

const KEYS: (&str, &str) = ("POSTHASTE_API_KEYS", "ops:operator:0123456789abcdef");

#[test]
fn an_address_that_others_can_reach_needs_keys() {
    for listen in ["0.0.0.0:8600", "[::]:8600", "10.1.2.3:80", "[::ffff:10.1.2.3]:80"] {
        let message = env(&[("POSTHASTE_LISTEN", listen)]).refusal();
        let written = format!("POSTHASTE_LISTEN={listen}: ");
        assert_words(
            &message,
            &[&written, "there are no keys", "set POSTHASTE_API_KEYS", "name:role:key", "127.0.0.1:8600"],
        );
        assert!(env(&[("POSTHASTE_LISTEN", listen), KEYS]).load().is_ok());
    }
    for listen in ["127.0.0.1:8600", "127.9.9.9:1", "[::1]:8600", "[::ffff:127.0.0.1]:80"] {
        assert!(env(&[("POSTHASTE_LISTEN", listen)]).load().unwrap().listens_on_loopback(), "{listen}");
    }
}

#[test]
fn loopback_receivers_are_allowed_while_the_api_is_on_loopback() {
    let allowed = |pairs: &[(&str, &str)]| env(pairs).load().unwrap().allowed_networks;
    assert_eq!(allowed(&[]), AllowedNetworks::loopback());
    assert_eq!(allowed(&[("POSTHASTE_LISTEN", "[::1]:0")]), AllowedNetworks::loopback());
    assert_eq!(allowed(&[("POSTHASTE_LISTEN", "0.0.0.0:8600"), KEYS]), AllowedNetworks::none());
    // Where others reach the store, others may enqueue: what is on this host is then not theirs to call.
    let elsewhere = [("POSTHASTE_DATABASE_URL", "postgres://db.example/posthaste")];
    assert_eq!(allowed(&elsewhere), AllowedNetworks::none());
}

#[test]
fn networks_that_are_set_are_exactly_those_that_are_open() {
    let allowed =
        |value: &str| env(&[("POSTHASTE_ALLOW_PRIVATE_NETWORKS", value)]).load().unwrap().allowed_networks;
    assert_eq!(allowed("false"), AllowedNetworks::none());
    assert_eq!(allowed("true"), AllowedNetworks::private());
    assert_eq!(allowed("10.0.0.0/8"), AllowedNetworks::parse("10.0.0.0/8").unwrap());
}

#[test]
fn a_longest_delay_below_the_base_is_refused_with_both() {
    let message = env(&[("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "59")]).refusal();
    assert_words(
        &message,
        &["POSTHASTE_RETRY_MAX_BACKOFF_SECONDS=59: ", "59s", "60s", "retry_base_seconds = 60, the default"],
    );
    let message = env(&[("BASE_RETRY_DELAY", "7200")]).refusal();
    assert_words(
        &message,
        &["BASE_RETRY_DELAY=7200: ", "3600s", "7200s", "retry_max_backoff_seconds = 3600, the default"],
    );
    assert!(env(&[("BASE_RETRY_DELAY", "3600")]).load().is_ok());
}

#[test]
fn a_longest_delay_below_a_step_is_refused_with_both() {
    let schedule = ("POSTHASTE_RETRY_STRATEGY", "schedule");
    let message = env(&[schedule, ("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "21599")]).refusal();
    assert_words(&message, &["21599s", "21600s", "retry_schedule_seconds = 30,120,600,3600,21600"]);
    // Without the strategy the steps are not used, and an hour is enough.
    assert!(env(&[("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "21599")]).load().is_ok());
    // And the base is not used with it.
    assert!(env(&[schedule, ("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30")]).load().is_ok());
}

#[test]
fn a_longest_delay_of_more_than_a_year_is_refused() {
    let message = env(&[("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "31536001")]).refusal();
    assert_words(&message, &["31536001", "at most 31536000s"]);
    let message = env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30,31536001")]).refusal();
    assert_words(&message, &["30,31536001", "a year", "shorten it"]);
}

#[test]
fn a_schedule_that_goes_down_or_is_too_long_is_refused() {
    let message = env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "60,120,90")]).refusal();
    assert_words(&message, &["60,120,90", "down from 120s to 90s"]);
    let steps = vec!["30"; 101].join(",");
    assert_words(
        &env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", &steps)]).refusal(),
        &["1 to 100 steps, got 101"],
    );
    assert_words(&env(&[("POSTHASTE_RETRY_BASE_SECONDS", "0")]).refusal(), &["longer than zero"]);
}

#[test]
fn a_value_that_is_refused_is_not_compared_with_others() {
    let message =
        env(&[("BASE_RETRY_DELAY", "soon"), ("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "45")]).refusal();
    assert_words(&message, &["BASE_RETRY_DELAY=soon"]);
    let message = env(&[("BASE_RETRY_DELAY", "5"), ("POSTHASTE_ALLOW_FAST_RETRIES", "yes")]).refusal();
    assert_words(&message, &["POSTHASTE_ALLOW_FAST_RETRIES=yes"]);
    let message = env(&[("POSTHASTE_LISTEN", "0.0.0.0:8600")]).file("api_keys = 5").refusal();
    assert_words(&message, &["api_keys is a whole number"]);
    let message = env(&[("POSTHASTE_LISTEN", "0.0.0.0:8600")]).file("api_keys = '").refusal();
    assert_words(&message, &["line 1", "not TOML"]);
}

#[test]
fn a_timeout_may_be_longer_than_a_lease_because_heartbeats_cover_it() {
    assert!(env(&[("POSTHASTE_LEASE_SECONDS", "1"), ("WEBHOOK_TIMEOUT_SECONDS", "60")]).load().is_ok());
}
