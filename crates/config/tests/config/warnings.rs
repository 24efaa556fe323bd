//! What is not wrong, and still worth a word at every start.

use posthaste_config::{Sources, load};

use crate::{Said, assert_words, env};

fn warnings(said: &Said) -> Vec<String> {
    said.load().unwrap().warnings
}

fn warning(said: &Said) -> String {
    let mut warnings = warnings(said);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings.remove(0)
}

#[test]
fn a_variable_that_looks_like_ours_is_told_with_the_nearest() {
    let message = warning(&env(&[("POSTHASTE_LISEN", "x")]));
    assert_words(&message, &["POSTHASTE_LISEN is not a setting", "did you mean POSTHASTE_LISTEN?"]);
    let message = warning(&env(&[("POSTHASTE_COLOUR", "x")]));
    assert_words(&message, &["POSTHASTE_COLOUR", "`posthaste config --help` lists all settings"]);
}

#[test]
fn what_others_set_is_left_alone() {
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
fn what_commands_read_for_themselves_is_left_alone() {
    let said = env(&[("POSTHASTE_API_KEY", "x")]);
    assert_eq!(warnings(&said).len(), 1);
    let sources = Sources { env: &said.env, env_elsewhere: &["POSTHASTE_API_KEY"], ..Sources::NONE };
    assert!(load(&sources).unwrap().warnings.is_empty());
}

#[test]
fn a_secret_on_the_command_line_is_told() {
    let message = warning(&Said::nothing().flag("signing_secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    assert_words(&message, &["--signing-secret can be read by everyone", "POSTHASTE_SIGNING_SECRET"]);
    assert!(!message.contains("MfKQ"), "{message}");
}

#[test]
fn a_password_on_the_command_line_is_told() {
    for (name, value) in [
        ("database_url", "postgres://app:hunter2@db.example/shop"),
        ("database_url", "postgres://db.example/shop?user=app&password=hunter2"),
        ("egress_proxy", "http://token:hunter2@proxy.example:3128"),
        ("egress_proxy", "http://hunter2@proxy.example:3128"),
    ] {
        let setting = posthaste_config::setting(name).unwrap();
        let message = warning(&Said::nothing().flag(name, value));
        assert_words(&message, &[setting.flag, "can be read by everyone", setting.env]);
        assert!(!message.contains("hunter2"), "{message}");
        assert!(warnings(&Said::nothing().env(setting.env, value)).is_empty(), "elsewhere it may be");
    }
    for (name, value) in [
        ("database_url", "sqlite://posthaste.db"),
        ("database_url", "postgres://app@db.example/shop?sslmode=require"),
        ("egress_proxy", "socks5://proxy.example:1080"),
        ("otlp_endpoint", "http://127.0.0.1:4318"),
    ] {
        assert!(warnings(&Said::nothing().flag(name, value)).is_empty(), "{value}");
    }
}

#[test]
fn delays_of_the_other_strategy_are_told_to_do_nothing() {
    let message = warning(&env(&[("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30,60")]));
    assert_words(&message, &["POSTHASTE_RETRY_SCHEDULE_SECONDS=30,60", "retry_strategy = schedule"]);
    let message = warning(&env(&[("BASE_RETRY_DELAY", "60"), ("POSTHASTE_RETRY_STRATEGY", "schedule")]));
    assert_words(&message, &["BASE_RETRY_DELAY=60", "retry_strategy = exponential"]);
}

#[test]
fn a_pool_larger_than_all_requests_is_told_to_whoever_set_it() {
    let message = warning(&env(&[("HTTP_POOL_SIZE", "20"), ("POSTHASTE_CONCURRENCY", "10")]));
    assert_words(&message, &["HTTP_POOL_SIZE=20", "POSTHASTE_CONCURRENCY=10", "raise concurrency"]);
    assert!(warnings(&env(&[("POSTHASTE_CONCURRENCY", "10")])).is_empty());
}
