//! Conflicts between values that are valid alone.

use posthaste_sender::AllowedNetworks;

use crate::{assert_contains, env};

const KEYS: (&str, &str) = ("POSTHASTE_API_KEYS", "ops:operator:0123456789abcdef");

#[test]
fn address_beyond_loopback_requires_api_keys() {
    for listen in ["0.0.0.0:8600", "[::]:8600", "10.1.2.3:80", "[::ffff:10.1.2.3]:80"] {
        assert!(
            env(&[("POSTHASTE_PROBE_LISTEN", listen)]).only_error().contains("there are no keys"),
            "{listen}"
        );
        assert!(env(&[("POSTHASTE_PROBE_LISTEN", listen), KEYS]).parse().is_ok(), "{listen}");
        let message = env(&[("POSTHASTE_LISTEN", listen)]).only_error();
        let written = format!("POSTHASTE_LISTEN={listen}: ");
        assert_contains(
            &message,
            &[&written, "there are no keys", "set POSTHASTE_API_KEYS", "name:role:key", "127.0.0.1:8600"],
        );
        assert!(env(&[("POSTHASTE_LISTEN", listen), KEYS]).parse().is_ok());
    }
    for listen in ["127.0.0.1:8600", "127.9.9.9:1", "[::1]:8600", "[::ffff:127.0.0.1]:80"] {
        assert!(env(&[("POSTHASTE_LISTEN", listen)]).parse().unwrap().listens_on_loopback(), "{listen}");
    }
}

#[test]
fn schema_of_a_sqlite_file_is_an_error() {
    let schema = ("POSTHASTE_DATABASE_SCHEMA", "billing");
    for sqlite in [&[schema][..], &[schema, ("POSTHASTE_DATABASE_URL", "sqlite://x.db")]] {
        let message = env(sqlite).only_error();
        assert_contains(
            &message,
            &[
                "POSTHASTE_DATABASE_SCHEMA=billing: ",
                "SQLite has no schemas",
                "remove it",
                "POSTHASTE_DATABASE_URL",
            ],
        );
    }
    assert!(env(&[("POSTHASTE_DATABASE_SCHEMA", "app")]).parse().is_ok(), "the default changes nothing");
    let config = env(&[schema, ("POSTHASTE_DATABASE_URL", "postgres://127.0.0.1/p")]).parse().unwrap();
    assert_eq!(config.database_schema.as_str(), "billing");
}

#[test]
fn loopback_receivers_are_allowed_if_only_this_host_can_enqueue() {
    let allowed = |pairs: &[(&str, &str)]| env(pairs).parse().unwrap().allow_private_networks;
    assert_eq!(allowed(&[]), AllowedNetworks::loopback());
    assert_eq!(allowed(&[("POSTHASTE_LISTEN", "[::1]:0")]), AllowedNetworks::loopback());
    assert_eq!(allowed(&[("POSTHASTE_LISTEN", "0.0.0.0:8600"), KEYS]), AllowedNetworks::none());
    // Keys mean that others call the API, for instance through a reverse proxy on this host.
    assert_eq!(allowed(&[KEYS]), AllowedNetworks::none());
    // Other hosts that reach the database can enqueue, and must not reach services on this host.
    let remote = [("POSTHASTE_DATABASE_URL", "postgres://db.example/posthaste")];
    assert_eq!(allowed(&remote), AllowedNetworks::none());
}

#[test]
fn allowed_networks_that_are_set_replace_the_default() {
    let allowed = |value: &str| {
        env(&[("POSTHASTE_ALLOW_PRIVATE_NETWORKS", value)]).parse().unwrap().allow_private_networks
    };
    assert_eq!(allowed("false"), AllowedNetworks::none());
    assert_eq!(allowed("true"), AllowedNetworks::private());
    assert_eq!(allowed("10.0.0.0/8"), AllowedNetworks::parse("10.0.0.0/8").unwrap());
}

#[test]
fn max_backoff_below_the_base_is_an_error_with_both_values() {
    let message = env(&[("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "59")]).only_error();
    assert_contains(
        &message,
        &["POSTHASTE_RETRY_MAX_BACKOFF_SECONDS=59: ", "59s", "60s", "retry_base_seconds = 60, the default"],
    );
    let message = env(&[("BASE_RETRY_DELAY", "7200")]).only_error();
    assert_contains(
        &message,
        &["BASE_RETRY_DELAY=7200: ", "3600s", "7200s", "retry_max_backoff_seconds = 3600, the default"],
    );
    assert!(env(&[("BASE_RETRY_DELAY", "3600")]).parse().is_ok());
}

#[test]
fn max_backoff_below_a_step_is_an_error_with_both_values() {
    let schedule = ("POSTHASTE_RETRY_STRATEGY", "schedule");
    let message = env(&[schedule, ("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "21599")]).only_error();
    assert_contains(&message, &["21599s", "21600s", "retry_schedule_seconds = 30,120,600,3600,21600"]);
    // The exponential strategy does not use the steps.
    assert!(env(&[("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "21599")]).parse().is_ok());
    // The schedule strategy does not use the base.
    assert!(env(&[schedule, ("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30")]).parse().is_ok());
}

#[test]
fn delay_of_more_than_a_year_is_an_error() {
    let message = env(&[("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "31536001")]).only_error();
    assert_contains(&message, &["31536001", "at most 31536000s"]);
    let message = env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30,31536001")]).only_error();
    assert_contains(&message, &["30,31536001", "a year", "shorten it"]);
}

#[test]
fn schedule_that_descends_or_is_too_long_is_an_error() {
    let message = env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "60,120,90")]).only_error();
    assert_contains(&message, &["60,120,90", "down from 120s to 90s"]);
    let steps = vec!["30"; 101].join(",");
    assert_contains(
        &env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", &steps)]).only_error(),
        &["1 to 100 steps, got 101"],
    );
    assert_contains(&env(&[("POSTHASTE_RETRY_BASE_SECONDS", "0")]).only_error(), &["longer than zero"]);
}

#[test]
fn invalid_value_is_not_compared_with_others() {
    let message =
        env(&[("BASE_RETRY_DELAY", "soon"), ("POSTHASTE_RETRY_MAX_BACKOFF_SECONDS", "45")]).only_error();
    assert_contains(&message, &["BASE_RETRY_DELAY=soon"]);
    let message = env(&[("BASE_RETRY_DELAY", "5"), ("POSTHASTE_ALLOW_FAST_RETRIES", "yes")]).only_error();
    assert_contains(&message, &["POSTHASTE_ALLOW_FAST_RETRIES=yes"]);
    let message = env(&[("POSTHASTE_LISTEN", "0.0.0.0:8600")]).file("api_keys = 5").only_error();
    assert_contains(&message, &["api_keys is a whole number"]);
    let message = env(&[("POSTHASTE_LISTEN", "0.0.0.0:8600")]).file("api_keys = '").only_error();
    assert_contains(&message, &["line 1", "not TOML"]);
}

#[test]
fn timeout_may_be_longer_than_a_lease_because_leases_are_renewed() {
    assert!(env(&[("POSTHASTE_LEASE_SECONDS", "1"), ("WEBHOOK_TIMEOUT_SECONDS", "60")]).parse().is_ok());
}
