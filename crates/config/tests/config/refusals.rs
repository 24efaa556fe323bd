//! Values that cannot be used, and what their users are told.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use posthaste_config::{Form, Secrecy, Setting, setting};

use crate::{Said, assert_words, env};

/// A setting, a value that it cannot have, and words that the message must hold beside the name, the value and the rule.
const REFUSED: &[(&str, &str, &[&str])] = &[
    ("database_url", "posthaste.db", &["SQLite or PostgreSQL"]),
    ("database_url", "mysql://db.example/shop", &["SQLite or PostgreSQL"]),
    ("database_url", "Postgres://db.example/shop", &["SQLite or PostgreSQL"]),
    ("database_url", "sqlite::memory:", &["memory", "loses every event", "name a file"]),
    ("database_url", "sqlite://:memory:", &["loses every event"]),
    ("database_url", "sqlite://x.db?mode=memory", &["loses every event"]),
    ("database_url", "sqlite:posthaste.db", &["two slashes are missing"]),
    ("database_url", "sqlite://", &["names no file"]),
    ("database_url", "sqlite:///var/lib/", &["names no file"]),
    ("database_url", "sqlite://x.db?mode=ro", &["parameters are not taken"]),
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
    ("retention_days", "-1", &["whole number"]),
    ("retention_days", "30d", &["whole number"]),
    ("retention_days", "36501", &["out of range"]),
    ("listen", "8600", &["not an address and a port"]),
    ("listen", ":8600", &["not an address and a port"]),
    ("listen", "127.0.0.1", &["not an address and a port"]),
    ("listen", "127.0.0.1:65536", &["not an address and a port"]),
    ("listen", "localhost:8600", &["names are not looked up"]),
    ("listen", "::1:8600:x", &["not an address and a port"]),
    ("listen", "http://127.0.0.1:8600", &["the host is not an address"]),
    ("api_keys", "hunter2", &["key 1 is not of the form name:role:key"]),
    ("api_keys", "ops:operator:hunter2", &["key 1 has 7 characters", "16 to 512"]),
    ("api_keys", "MfKQ9r8GKYqrTwjU:operator:ops", &["key 1 has 3 characters"]),
    ("api_keys", "ops:root:0123456789abcdef", &["key 1 has an unknown role"]),
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
    ("retry_strategy", "linear", &["none of the words"]),
    ("retry_strategy", "Exponential", &["none of the words"]),
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
    ("allow_fast_retries", "yes", &["neither"]),
    ("allow_fast_retries", "1", &["neither"]),
    ("allow_fast_retries", "True", &["neither"]),
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
        &["the same secret is there twice"],
    ),
    ("allow_private_networks", "yes", &["is not a network"]),
    ("allow_private_networks", "10.0.0.1/8", &["names a host", "write 10.0.0.0/8 or 10.0.0.1/32"]),
    ("allow_private_networks", "true,10.0.0.0/8", &["is not a network"]),
    ("allow_private_networks", "receiver.example", &["is not a network"]),
    ("ca_file", "~/authority.pem", &["~ is not expanded"]),
    ("egress_proxy", "proxy.example:3128", &["http://host:port"]),
    ("egress_proxy", "https://proxy.example:3128", &["TLS to the proxy"]),
    ("egress_proxy", "http://proxy.example", &["no port"]),
    ("egress_proxy", "http://proxy.example:3128/path", &["after the port"]),
    ("dns", "1.1.1.1", &["none of the words"]),
    ("log", "verbose", &["not a level"]),
    ("log", "info,posthaste_engine", &["not a level"]),
    ("log", "posthaste_engine=loud", &["not a level"]),
    ("log", "=info", &["not a level"]),
    ("log", "info,", &["not a level"]),
    ("log_format", "text", &["none of the words"]),
    ("log_format", "JSON", &["none of the words"]),
    ("otlp_endpoint", "collector.example:4318", &["http://"]),
    ("otlp_endpoint", "grpc://collector.example:4317", &["http://"]),
    ("otlp_endpoint", "http://", &["not a URL"]),
    ("otlp_endpoint", "http://user:hunter2@collector.example", &["not sent", "up to the @"]),
    ("otlp_endpoint", "http://collector.example?token=hunter2", &["not sent", "from the ?"]),
];

/// Everything that is wrong with a value by itself is told with the default; what is wrong beside others is not here.
fn assert_told(message: &str, written: &str, setting: &Setting, value: &str, words: &[&str]) {
    assert_words(message, &[written, setting.name, setting.rule, &setting.default.to_string()]);
    assert_words(message, words);
    match setting.secrecy {
        Secrecy::Open => assert_words(message, &[value]),
        Secrecy::Secret => assert_words(message, &["***"]),
        Secrecy::Credentials => {}
    }
    assert!(!message.contains("hunter2") && !message.contains("MfKQ9r8G"), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

/// As it would be written in the file, where its type alone does not refuse it.
fn in_file(setting: &Setting, value: &str) -> Option<String> {
    match setting.form {
        Form::Whole if value.starts_with('+') => None,
        Form::Whole => value.parse::<i64>().ok().map(|number| number.to_string()),
        Form::Seconds if value.starts_with(|c: char| c.is_ascii_digit()) && !value.ends_with('.') => {
            value.parse::<f64>().ok().map(|_| value.to_owned())
        }
        Form::Seconds | Form::Switch => None,
        _ => Some(format!("'{value}'")),
    }
}

#[test]
fn the_table_has_at_least_80_rows_and_every_setting() {
    assert!(REFUSED.len() >= 80, "{}", REFUSED.len());
    let missing = posthaste_config::SETTINGS
        .into_iter()
        .filter(|setting| !REFUSED.iter().any(|(name, ..)| *name == setting.name))
        .map(|setting| setting.name);
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_value_in_the_environment_is_refused_under_the_name_of_its_variable() {
    for (name, value, words) in REFUSED {
        let setting = setting(name).unwrap();
        let names = [Some(setting.env), setting.env_also];
        for variable in names.into_iter().flatten() {
            let message = env(&[(variable, value)]).refusal();
            assert_told(&message, &format!("{variable}="), setting, value, words);
        }
    }
}

#[test]
fn a_value_of_a_flag_is_refused_under_the_name_of_the_flag() {
    for (name, value, words) in REFUSED {
        let setting = setting(name).unwrap();
        let message = Said::nothing().flag(name, value).refusal();
        assert_told(&message, &format!("{} ", setting.flag), setting, value, words);
    }
}

#[test]
fn a_value_in_the_file_is_refused_with_its_key_and_line() {
    let mut tried = 0;
    for (name, value, words) in REFUSED {
        let setting = setting(name).unwrap();
        let Some(text) = in_file(setting, value) else { continue };
        let message = Said::nothing().file(format!("# first line\n\n{name} = {text}\n")).refusal();
        assert_told(&message, &format!("posthaste.toml, line 3: {name} = "), setting, value, words);
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn all_problems_are_told_at_once() {
    let said = env(&[("POSTHASTE_CONCURRENCY", "0"), ("HTTP_POOL_SIZE", "none"), ("BASE_RETRY_DELAY", "5")])
        .file("lisen = 1\ndns = 2")
        .flag("log", "loud")
        .flag("colour", "always");
    let messages = said.load().unwrap_err();
    assert_eq!(messages.len(), 7, "{messages:#?}");
    let all = messages.join("\n");
    assert_words(
        &all,
        &["POSTHASTE_CONCURRENCY", "HTTP_POOL_SIZE", "BASE_RETRY_DELAY", "lisen", "dns", "--log", "colour"],
    );
}

#[test]
fn a_variable_that_is_not_text_is_refused_without_its_bytes() {
    let said = Said::nothing().env("POSTHASTE_SIGNING_SECRET", OsString::from_vec(b"whsec_\xff".to_vec()));
    assert_words(&said.refusal(), &["POSTHASTE_SIGNING_SECRET is not UTF-8 text", "whsec_ and the base64"]);
}

#[test]
fn an_empty_flag_is_refused() {
    let message = Said::nothing().flag("egress_proxy", " ").refusal();
    assert_words(&message, &["--egress-proxy is empty", "none, and receivers are dialled directly"]);
}

#[test]
fn a_long_value_is_not_repeated_whole() {
    let message = env(&[("POSTHASTE_LOG", &"x".repeat(100_000))]).refusal();
    assert!(message.len() < 500, "{}", message.len());
}
