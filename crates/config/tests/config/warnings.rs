//! Warnings: valid configurations with a likely mistake.

use posthaste_config::{Sources, load};

use crate::{UserInput, assert_contains, env};

fn warnings(input: &UserInput) -> Vec<String> {
    input.parse().unwrap().warnings
}

fn warning(input: &UserInput) -> String {
    let mut warnings = warnings(input);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings.remove(0)
}

#[test]
fn unknown_variable_with_our_prefix_is_warned_of_with_the_nearest_setting() {
    let message = warning(&env(&[("POSTHASTE_LISEN", "x")]));
    assert_contains(&message, &["POSTHASTE_LISEN is not a setting", "did you mean POSTHASTE_LISTEN?"]);
    let message = warning(&env(&[("POSTHASTE_COLOUR", "x")]));
    assert_contains(&message, &["POSTHASTE_COLOUR", "`posthaste config --help` lists all settings"]);
}

#[test]
fn variables_of_kubernetes_and_other_programs_are_ignored() {
    let others = [
        ("POSTHASTE_SERVICE_HOST", "10.0.0.1"),
        ("POSTHASTE_PORT", "tcp://10.0.0.1:8600"),
        ("POSTHASTE_PORT_8600_TCP_ADDR", "10.0.0.1"),
        ("PATH", "/bin"),
        ("LISTEN", "x"),
    ];
    assert!(warnings(&env(&others)).is_empty());
}

#[test]
fn variables_that_commands_read_are_ignored() {
    let input = env(&[("POSTHASTE_API_KEY", "x")]);
    assert_eq!(warnings(&input).len(), 1);
    let sources = Sources { env: &input.env, command_variables: &["POSTHASTE_API_KEY"], ..Sources::NONE };
    assert!(load(&sources).unwrap().warnings.is_empty());
}

#[test]
fn secret_on_the_command_line_is_warned_of() {
    let message = warning(&UserInput::new().flag("signing_secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    assert_contains(
        &message,
        &["every user of this host can read --signing-secret", "POSTHASTE_SIGNING_SECRET"],
    );
    assert!(!message.contains("MfKQ"), "{message}");
}

#[test]
fn password_on_the_command_line_is_warned_of() {
    for (name, value) in [
        ("database_url", "postgres://app:hunter2@db.example/shop"),
        ("database_url", "postgres://db.example/shop?user=app&password=hunter2"),
        ("egress_proxy", "http://token:hunter2@proxy.example:3128"),
        ("egress_proxy", "http://hunter2@proxy.example:3128"),
    ] {
        let setting = posthaste_config::setting(name).unwrap();
        let message = warning(&UserInput::new().flag(name, value));
        assert_contains(&message, &[&setting.flag, "every user of this host can read", &setting.env]);
        assert!(!message.contains("hunter2"), "{message}");
        assert!(
            warnings(&UserInput::new().env(&setting.env, value)).is_empty(),
            "the environment may hold it"
        );
    }
    for (name, value) in [
        ("database_url", "sqlite://posthaste.db"),
        ("database_url", "postgres://app@db.example/shop?sslmode=require"),
        ("egress_proxy", "socks5://proxy.example:1080"),
        ("otlp_endpoint", "http://127.0.0.1:4318"),
    ] {
        assert!(warnings(&UserInput::new().flag(name, value)).is_empty(), "{value}");
    }
}

#[test]
fn delays_of_the_unused_strategy_are_warned_of() {
    let message = warning(&env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30,60")]));
    assert_contains(&message, &["POSTHASTE_RETRY_SCHEDULE_SECONDS=30,60", "retry_strategy = schedule"]);
    let message = warning(&env(&[("BASE_RETRY_DELAY", "60"), ("POSTHASTE_RETRY_STRATEGY", "schedule")]));
    assert_contains(&message, &["BASE_RETRY_DELAY=60", "retry_strategy = exponential"]);
}

#[test]
fn pool_beyond_concurrency_is_warned_of_if_it_is_set() {
    let message = warning(&env(&[("HTTP_POOL_SIZE", "20"), ("POSTHASTE_CONCURRENCY", "10")]));
    assert_contains(&message, &["HTTP_POOL_SIZE=20", "POSTHASTE_CONCURRENCY=10", "raise concurrency"]);
    assert!(warnings(&env(&[("POSTHASTE_CONCURRENCY", "10")])).is_empty());
}

#[test]
fn delays_that_add_up_to_more_than_the_expiry_are_warned_of() {
    let message = warning(&env(&[("POSTHASTE_EXPIRE_AFTER_SECONDS", "1800")]));
    assert_contains(
        &message,
        &["POSTHASTE_EXPIRE_AFTER_SECONDS=1800", "add up to 2232 s", "lower max_retry_attempts"],
    );
    let message = warning(&env(&[("MAX_RETRY_ATTEMPTS", "40")]));
    assert_contains(&message, &["expire_after_seconds", "86400"]);
    assert!(warnings(&env(&[("POSTHASTE_EXPIRE_AFTER_SECONDS", "2232")])).is_empty());
    assert!(
        warnings(&env(&[("MAX_RETRY_ATTEMPTS", "40"), ("POSTHASTE_EXPIRE_AFTER_SECONDS", "0")])).is_empty()
    );
}
