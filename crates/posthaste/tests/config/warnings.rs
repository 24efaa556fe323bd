//! What is not wrong, and still worth a word at every start.

use posthaste::config::{Sources, load};

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
