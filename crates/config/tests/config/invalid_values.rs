//! Invalid values and their messages.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use posthaste_config::{Secrecy, Setting, ValueType, setting};

use crate::{UserInput, assert_contains, env};

/// A setting, an invalid value, and the parts that the message must contain beside the name, the value and the rule.
const INVALID: &[(&str, &str, &[&str])] = &[
    ("database_url", "posthaste.db", &["SQLite or PostgreSQL"]),
    ("database_url", "mysql://db.example/shop", &["SQLite or PostgreSQL"]),
    ("database_url", "Postgres://db.example/shop", &["SQLite or PostgreSQL"]),
    ("database_url", "sqlite::memory:", &["memory", "loses every event", "name a file"]),
    ("database_url", "sqlite://:memory:", &["loses every event"]),
    ("database_url", "sqlite://x.db?mode=memory", &["loses every event"]),
    ("database_url", "sqlite:posthaste.db", &["two slashes are missing"]),
    ("database_url", "sqlite://", &["names no file"]),
    ("database_url", "sqlite:///var/lib/", &["names no file"]),
    ("database_url", "sqlite://x.db?mode=ro", &["parameters are not supported"]),
    ("database_url", "sqlite://~/x.db", &["~ is not expanded"]),
    ("database_url", "postgres://", &["names no host"]),
    ("database_url", "postgres://db.example/my shop", &["percent-encoded"]),
    ("database_url", "postgres://db.example:notaport/shop", &["invalid value for option `port`"]),
    (
        "database_url",
        "postgres://app:hunter2@db.example/shop?foo=bar",
        &["parameter 1 after the ? is not known"],
    ),
    ("database_url", "postgres://app:hunter2@/shop", &["names no host"]),
    ("database_url", "postgres://db.example/shop?sslmode=maybe", &["sslmode", "verify-full"]),
    ("database_url", "postgres://db.example/shop?sslrootcert=/ca.pem", &["verifies nothing"]),
    ("database_schema", "Billing", &["lower-case"]),
    ("database_schema", "my-app", &["letters, digits and underscores"]),
    ("database_schema", "x\"; DROP SCHEMA app; --", &["letters, digits and underscores"]),
    ("database_schema", "a_name_that_is_longer_than_any_channel_of_it_may", &["1 to 46"]),
    ("database_schema", "pg_catalog", &["PostgreSQL reserves pg_"]),
    ("database_schema", "information_schema", &["PostgreSQL reserves"]),
    ("database_schema", "public", &["other roles", "owner's rights"]),
    ("retention_days", "-1", &["whole number"]),
    ("retention_days", "30d", &["whole number"]),
    ("retention_days", "36501", &["out of range"]),
    ("dead_letter_retention_days", "-1", &["whole number"]),
    ("dead_letter_retention_days", "36501", &["out of range"]),
    ("master_keys", "hunter2", &["master key 1 is not of the form id:base64"]),
    ("master_keys", "k1:hunter2", &["master key 1 must be the base64 of 32 bytes", "openssl rand"]),
    ("jwt_secret", "hunter2", &["at least 32 bytes", "has 7"]),
    ("portal_frame_origins", "shop.example", &["\"shop.example\" is not an origin"]),
    (
        "portal_frame_origins",
        "http://shop.example",
        &["\"http://shop.example\" is not encrypted", "use https"],
    ),
    (
        "portal_frame_origins",
        "https://shop.example/account",
        &["not written as an origin", "write https://shop.example"],
    ),
    ("portal_frame_origins", "https://a:b@shop.example", &["not written as an origin"]),
    ("portal_frame_origins", "https://*.shop.example", &["not an origin of a web page"]),
    ("portal_frame_origins", "https://shop.example;script-src", &["not an origin of a web page"]),
    ("portal_frame_origins", "https://shop.example,", &["is not an origin"]),
    ("portal_frame_origins", "data:text/html", &["not an origin of a web page"]),
    ("operation_rate_per_second", "0", &["out of range"]),
    ("operation_rate_per_second", "10001", &["out of range"]),
    ("endpoint_disable_after_days", "366", &["out of range"]),
    ("endpoint_disable_after_days", "5d", &["whole number"]),
    ("compat_headers", "Svix", &["not one of the valid values"]),
    ("listen", "8600", &["not an address and a port"]),
    ("listen", ":8600", &["not an address and a port"]),
    ("listen", "127.0.0.1", &["not an address and a port"]),
    ("listen", "127.0.0.1:65536", &["not an address and a port"]),
    ("listen", "localhost:8600", &["host names are not resolved"]),
    ("listen", "::1:8600:x", &["not an address and a port"]),
    ("listen", "http://127.0.0.1:8600", &["the host is not an IP address"]),
    ("api_keys", "hunter2", &["key 1 is not of the form name:role:key"]),
    ("api_keys", "ops:operator:hunter2", &["key 1 has 7 characters", "16 to 512"]),
    ("api_keys", "MfKQ9r8GKYqrTwjU:operator:ops", &["key 1 has 3 characters"]),
    ("api_keys", "ops:root:0123456789abcdef", &["key 1 has the unknown role \"root\""]),
    ("api_keys", "ops:viewer:0123456789abcdef,", &["key 2 is empty"]),
    ("api_keys", ":viewer:0123456789abcdef", &["key 1 has a name that is empty"]),
    ("api_keys", "a:viewer:0123456789abcdef,a:viewer:0123456789abcdeg", &["key 2 has the name of key 1"]),
    ("api_keys", "a:viewer:0123456789abcdef,b:viewer:0123456789abcdef", &["key 2 is the same as key 1"]),
    ("payload_bytes_max", "0", &["out of range"]),
    ("payload_bytes_max", "16777217", &["out of range"]),
    ("payload_bytes_max", "256k", &["whole number"]),
    ("idempotency_hours", "0", &["out of range"]),
    ("idempotency_hours", "8761", &["out of range"]),
    ("shutdown_seconds", "3600.001", &["out of range"]),
    ("shutdown_seconds", "-1", &["number of seconds"]),
    ("shutdown_delay_seconds", "3600.001", &["out of range"]),
    ("shutdown_delay_seconds", "-1", &["number of seconds"]),
    ("retry_strategy", "linear", &["not one of the valid values"]),
    ("retry_strategy", "Exponential", &["not one of the valid values"]),
    ("retry_base_seconds", "1m", &["number of seconds, such as 60 or 0.5"]),
    ("retry_base_seconds", "60.", &["number of seconds"]),
    ("retry_base_seconds", ".5", &["number of seconds"]),
    ("retry_base_seconds", "60.1234", &["number of seconds"]),
    ("retry_base_seconds", "1e3", &["number of seconds"]),
    ("retry_base_seconds", "inf", &["number of seconds"]),
    ("retry_base_seconds", "-60", &["number of seconds"]),
    ("retry_base_seconds", "99999999999999999999", &["out of range"]),
    ("retry_max_backoff_seconds", "1h", &["number of seconds"]),
    ("retry_jitter_bps", "10001", &["out of range"]),
    ("retry_jitter_bps", "20%", &["whole number"]),
    ("retry_jitter_bps", "0x10", &["whole number"]),
    ("retry_schedule_seconds", "30,two", &["step 2", "number of seconds"]),
    ("retry_schedule_seconds", "30,,60", &["step 2"]),
    ("retry_schedule_seconds", "30;60", &["step 1"]),
    ("retry_schedule_seconds", "30 60", &["step 1"]),
    ("max_retry_attempts", "-1", &["whole number"]),
    ("max_retry_attempts", "1000", &["out of range"]),
    ("max_retry_attempts", "five", &["whole number"]),
    ("retry_budget", "-1", &["whole number"]),
    ("retry_budget", "4294967296", &["out of range"]),
    ("expire_after_seconds", "-1", &["whole number"]),
    ("expire_after_seconds", "1d", &["whole number"]),
    ("expire_after_seconds", "31536001", &["out of range"]),
    ("gone_is_final", "true", &["not one of the valid values"]),
    ("honour_retry_after", "yes", &["not one of the valid values"]),
    ("circuit_breaker", "Off", &["not one of the valid values"]),
    ("producer_excerpts", "yes", &["not one of the valid values"]),
    ("allow_fast_retries", "yes", &["not one of the valid values"]),
    ("allow_fast_retries", "1", &["not one of the valid values"]),
    ("allow_fast_retries", "True", &["not one of the valid values"]),
    ("timeout_seconds", "0", &["out of range"]),
    ("timeout_seconds", "0.000", &["out of range"]),
    ("timeout_seconds", "86401", &["out of range"]),
    ("timeout_seconds", "30s", &["number of seconds"]),
    ("retry_batch_size", "0", &["out of range"]),
    ("retry_batch_size", "10001", &["out of range"]),
    ("http_pool_size", "0", &["out of range"]),
    ("http_pool_size", "10001", &["out of range"]),
    ("concurrency", "0", &["out of range"]),
    ("concurrency", "100001", &["out of range"]),
    ("concurrency", "1_000", &["whole number"]),
    ("concurrency", "+5", &["whole number"]),
    ("concurrency", "٣", &["whole number"]),
    ("in_flight_bytes_max", "1048575", &["out of range"]),
    ("in_flight_bytes_max", "64 MiB", &["whole number"]),
    ("lease_seconds", "0", &["out of range"]),
    ("lease_seconds", "0.999", &["out of range"]),
    ("lease_seconds", "86401", &["out of range"]),
    ("poll_interval_ms", "9", &["out of range"]),
    ("poll_interval_ms", "60001", &["out of range"]),
    ("poll_interval_ms", "1s", &["whole number"]),
    ("abandon_after", "0", &["out of range"]),
    ("abandon_after", "1001", &["out of range"]),
    ("cycle_seconds", "0", &["out of range"]),
    ("cycle_seconds", "86401", &["out of range"]),
    ("worker_id", "two words", &["not usable"]),
    ("worker_id", "bücher", &["not usable"]),
    ("signing_secret", "hunter2", &["must start with \"whsec_\""]),
    ("signing_secret", "whsec_hunter2!", &["base64"]),
    ("signing_secret", "whsec_aHVudGVyMg==", &["24 to 64 bytes", "holds 7"]),
    ("signing_secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw,", &["secret 2 of 2", "start with"]),
    (
        "signing_secret",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        &["the same secret twice"],
    ),
    ("allow_private_networks", "yes", &["is not a network"]),
    ("allow_private_networks", "10.0.0.1/8", &["names a host", "write 10.0.0.0/8 or 10.0.0.1/32"]),
    ("allow_private_networks", "true,10.0.0.0/8", &["is not a network"]),
    ("allow_private_networks", "receiver.example", &["is not a network"]),
    ("probe_listen", "localhost:8601", &["the host is not an IP address"]),
    ("deny_networks", "true", &["is not a network"]),
    ("deny_networks", "10.0.0.1/8", &["names a host"]),
    ("https_only", "yes", &["not one of the valid values"]),
    ("ca_file", "~/authority.pem", &["~ is not expanded"]),
    ("egress_proxy", "proxy.example:3128", &["http://host:port"]),
    ("egress_proxy", "https://proxy.example:3128", &["TLS to the proxy"]),
    ("egress_proxy", "http://proxy.example", &["no port"]),
    ("egress_proxy", "http://proxy.example:3128/path", &["after the port"]),
    ("dns", "1.1.1.1", &["not one of the valid values"]),
    ("log", "verbose", &["not a level"]),
    ("log", "info,posthaste_engine", &["not a level"]),
    ("log", "posthaste_engine=loud", &["not a level"]),
    ("log", "=info", &["not a level"]),
    ("log", "info,", &["not a level"]),
    ("log_format", "text", &["not one of the valid values"]),
    ("log_format", "JSON", &["not one of the valid values"]),
    ("otlp_endpoint", "collector.example:4318", &["http://"]),
    ("otlp_endpoint", "grpc://collector.example:4317", &["http://"]),
    ("otlp_endpoint", "http://", &["not a URL"]),
    ("otlp_endpoint", "http://user:hunter2@collector.example", &["not sent", "up to the @"]),
    ("otlp_endpoint", "http://collector.example?token=hunter2", &["not sent", "from the ?"]),
];

/// Checks the message of a value that breaks the rule of its setting.
fn assert_message(message: &str, written: &str, setting: &Setting, value: &str, parts: &[&str]) {
    assert_contains(message, &[written, setting.name, &setting.rule, &setting.default.to_string()]);
    assert_contains(message, parts);
    match setting.secrecy {
        Secrecy::Public => assert_contains(message, &[value]),
        Secrecy::Secret => assert_contains(message, &["***"]),
        Secrecy::Credentials => {}
    }
    assert!(!message.contains("hunter2") && !message.contains("MfKQ9r8G"), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

/// Returns a value as TOML, or none if its type alone would be rejected.
fn toml_value(setting: &Setting, value: &str) -> Option<String> {
    match setting.value_type {
        ValueType::Integer if value.starts_with('+') => None,
        ValueType::Integer => value.parse::<i64>().ok().map(|number| number.to_string()),
        ValueType::Seconds if value.starts_with(|c: char| c.is_ascii_digit()) && !value.ends_with('.') => {
            value.parse::<f64>().ok().map(|_| value.to_owned())
        }
        ValueType::Seconds | ValueType::Boolean => None,
        _ => Some(format!("'{value}'")),
    }
}

#[test]
fn at_least_80_invalid_values_cover_every_setting() {
    assert!(INVALID.len() >= 80, "{}", INVALID.len());
    let missing = posthaste_config::settings()
        .filter(|setting| !INVALID.iter().any(|(name, ..)| *name == setting.name))
        .map(|setting| setting.name);
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn invalid_value_in_the_environment_is_an_error_that_names_its_variable() {
    for (name, value, parts) in INVALID {
        let setting = setting(name).unwrap();
        for variable in [Some(setting.env.as_str()), setting.env_alias].into_iter().flatten() {
            let message = env(&[(variable, value)]).only_error();
            assert_message(&message, &format!("{variable}="), setting, value, parts);
        }
    }
}

#[test]
fn invalid_value_of_a_flag_is_an_error_that_names_the_flag() {
    for (name, value, parts) in INVALID {
        let setting = setting(name).unwrap();
        let message = UserInput::new().flag(name, value).only_error();
        assert_message(&message, &format!("{} ", setting.flag), setting, value, parts);
    }
}

#[test]
fn invalid_value_in_the_file_is_an_error_with_its_key_and_line() {
    let mut tried = 0;
    for (name, value, parts) in INVALID {
        let setting = setting(name).unwrap();
        let Some(text) = toml_value(setting, value) else { continue };
        let message = UserInput::new().file(format!("# first line\n\n{name} = {text}\n")).only_error();
        assert_message(&message, &format!("posthaste.toml, line 3: {name} = "), setting, value, parts);
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn all_errors_are_reported_at_once() {
    let input = env(&[("POSTHASTE_CONCURRENCY", "0"), ("HTTP_POOL_SIZE", "none"), ("BASE_RETRY_DELAY", "5")])
        .file("lisen = 1\ndns = 2")
        .flag("log", "loud")
        .flag("colour", "always");
    let messages = input.parse().unwrap_err();
    assert_eq!(messages.len(), 7, "{messages:#?}");
    let all = messages.join("\n");
    assert_contains(
        &all,
        &["POSTHASTE_CONCURRENCY", "HTTP_POOL_SIZE", "BASE_RETRY_DELAY", "lisen", "dns", "--log", "colour"],
    );
}

#[test]
fn variable_that_is_not_utf8_is_an_error_without_its_bytes() {
    let input = UserInput::new().env("POSTHASTE_SIGNING_SECRET", OsString::from_vec(b"whsec_\xff".to_vec()));
    assert_contains(
        &input.only_error(),
        &["POSTHASTE_SIGNING_SECRET is not UTF-8 text", "whsec_ and the base64"],
    );
}

#[test]
fn empty_flag_is_an_error() {
    let message = UserInput::new().flag("egress_proxy", " ").only_error();
    assert_contains(&message, &["--egress-proxy is empty", "none; receivers are dialled directly"]);
}

#[test]
fn long_value_is_shortened_in_its_message() {
    let message = env(&[("POSTHASTE_LOG", &"x".repeat(100_000))]).only_error();
    assert!(message.len() < 500, "{}", message.len());
}
