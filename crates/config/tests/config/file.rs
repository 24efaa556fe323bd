//! The configuration file: how it is found, its keys and the types of its values.

use std::path::Path;

use posthaste_config::{ConfigFile, settings};
use posthaste_sender::AllowedNetworks;

use crate::{UserInput, assert_contains};

/// Returns the only error of a file with this text.
fn error(text: &str) -> String {
    UserInput::new().file(text).only_error()
}

#[test]
fn unknown_key_is_an_error_with_its_line_and_the_nearest_setting() {
    for (text, parts) in [
        ("lisen = '127.0.0.1:1'", &["line 1: lisen is not a setting", "did you mean listen?"][..]),
        ("\n\nretry_base_secs = 60", &["line 3: retry_base_secs", "did you mean retry_base_seconds?"]),
        ("LISTEN = '127.0.0.1:1'", &["LISTEN is not", "did you mean listen?"]),
        ("http-pool-size = 1", &["did you mean http_pool_size?"]),
        ("colour = true", &["colour", "`posthaste config --help` lists all settings"]),
        ("[retry]\nbase_seconds = 60", &["line 2: retry.base_seconds", "did you mean retry_base_seconds?"]),
        ("retry.jitter_bps = 0", &["line 1: retry.jitter_bps", "did you mean retry_jitter_bps?"]),
        ("[section]", &["line 1: section is not a setting, because the file has no sections"]),
        (
            "[server]\nlisten = '127.0.0.1:1'",
            &["line 2: server.listen", "no sections", "did you mean listen?"],
        ),
        ("[[listen]]", &["listen is an array", "must be text in quotes"]),
        ("POSTHASTE_LISTEN = 'x'", &["POSTHASTE_LISTEN is not a setting"]),
        ("BASE_RETRY_DELAY = 60", &["BASE_RETRY_DELAY is not a setting"]),
        ("'' = 1", &["is not a setting"]),
    ] {
        assert_contains(&error(text), &["posthaste.toml, line "]);
        assert_contains(&error(text), parts);
    }
}

#[test]
fn value_of_the_wrong_type_is_an_error_with_an_example() {
    for (text, parts) in [
        (
            "concurrency = '512'",
            &["concurrency is text", "whole number without quotes", "concurrency = 512"][..],
        ),
        ("concurrency = 1.5", &["a decimal fraction", "whole number"]),
        ("concurrency = true", &["true or false", "whole number"]),
        ("concurrency = [512]", &["an array"]),
        ("concurrency = 2026-01-01", &["a date or time"]),
        ("concurrency = {}", &["a section"]),
        ("timeout_seconds = '30'", &["text", "a number without quotes", "timeout_seconds = 30"]),
        ("allow_fast_retries = 'true'", &["text", "true or false without quotes"]),
        ("allow_fast_retries = 1", &["a whole number", "true or false"]),
        ("listen = 8600", &["a whole number", "text in quotes", "listen = \"127.0.0.1:8600\""]),
        ("log = ['info']", &["an array", "text in quotes"]),
        (
            "retry_schedule_seconds = 30",
            &["a whole number", "an array of numbers", "[30, 120, 600, 3600, 21600]"],
        ),
        ("retry_schedule_seconds = ['30']", &["an array", "an array of numbers"]),
        ("signing_secret = 5", &["a whole number", "an array of texts"]),
        ("signing_secret = [5]", &["an array of texts"]),
        ("api_keys = ['a:viewer:0123456789abcdef,b']", &["an array of texts without commas"]),
        ("allow_private_networks = 10", &["true, false, text in quotes"]),
    ] {
        assert_contains(&error(text), &["posthaste.toml, line 1: "]);
        assert_contains(&error(text), parts);
    }
}

#[test]
fn lists_may_be_arrays_or_text() {
    for text in ["retry_schedule_seconds = [30, 60.5]", "retry_schedule_seconds = '30, 60.5'"] {
        let config = UserInput::new().file(format!("retry_strategy = 'schedule'\n{text}")).parse().unwrap();
        assert_eq!(config.retry_policy.max_backoff().as_millis(), 60_500, "{text}");
    }
    let allowed = |text: &str| UserInput::new().file(text).parse().unwrap().allow_private_networks;
    let two = AllowedNetworks::parse("10.0.0.0/8,192.168.1.7").unwrap();
    assert_eq!(allowed("allow_private_networks = ['10.0.0.0/8', '192.168.1.7']"), two);
    assert_eq!(allowed("allow_private_networks = '10.0.0.0/8,192.168.1.7'"), two);
    assert_eq!(allowed("allow_private_networks = true"), AllowedNetworks::private());
    let secrets = "signing_secret = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA']";
    assert_eq!(UserInput::new().file(secrets).parse().unwrap().signing_secret.unwrap().secrets().len(), 2);
}

#[test]
fn numbers_may_use_the_syntax_of_toml() {
    let config =
        UserInput::new().file("concurrency = 1_000\nretry_batch_size = 0x10\ntimeout_seconds = 0.5").parse();
    let config = config.unwrap();
    assert_eq!(
        (config.concurrency, config.retry_batch_size, config.timeout_seconds.as_millis()),
        (1_000, 16, 500)
    );
    assert_contains(&error("concurrency = -1"), &["concurrency = -1", "whole number"]);
    assert_contains(&error("concurrency = 99999999999999999999"), &["99999999999999999999", "out of range"]);
    assert_contains(&error("timeout_seconds = inf"), &["inf", "number of seconds"]);
    assert_contains(&error("timeout_seconds = -0.5"), &["-0.5", "number of seconds"]);
}

#[test]
fn text_that_is_not_toml_is_an_error_with_its_line() {
    for (text, line) in [
        ("listen", "line 1"),
        ("\nlisten =", "line 2"),
        ("dns = 'own'\ndns = 'own'", "line 2"),
        ("[", "line 1"),
    ] {
        let messages = UserInput::new().file(text).parse().unwrap_err();
        assert_contains(&messages[0], &["posthaste.toml, ", line, "not TOML"]);
    }
}

#[test]
fn empty_value_in_the_file_is_an_error() {
    for text in ["api_keys = ''", "api_keys = []", "worker_id = '  '", "retry_schedule_seconds = []"] {
        assert_contains(&error(text), &["line 1", "is empty", "remove the line"]);
    }
}

#[test]
fn file_is_validated_even_if_other_sources_override_it() {
    let input = UserInput::new().file("concurrency = 'many'").env("POSTHASTE_CONCURRENCY", "5");
    assert_contains(&input.only_error(), &["concurrency is text"]);
}

#[test]
fn errors_of_the_file_are_sorted_by_line() {
    let messages = UserInput::new().file("zebra = 1\nlog = 1\nant = 1").parse().unwrap_err();
    let lines: Vec<_> = messages.iter().map(|message| message.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["posthaste.toml, line 1", "posthaste.toml, line 2", "posthaste.toml, line 3"]);
}

#[test]
fn named_file_must_exist_and_be_readable() {
    let missing =
        ConfigFile::find(Some(Path::new("no-such-directory/posthaste.toml"))).unwrap_err().to_string();
    assert_contains(&missing, &["no-such-directory/posthaste.toml", "--config"]);
    let directory = ConfigFile::find(Some(Path::new("."))).unwrap_err().to_string();
    assert_contains(&directory, &["cannot be used", "--config"]);
    // Cargo runs tests in the package's directory, which has no configuration file.
    assert!(ConfigFile::find(None).unwrap().is_none());
}

#[test]
fn file_is_read_whole_and_not_shown_by_debug() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let found = ConfigFile::find(Some(&manifest)).unwrap().unwrap();
    assert_eq!(found.path, manifest);
    assert!(found.text.contains("[package]"));
    assert!(!format!("{found:?}").contains("[package]"), "Debug does not show the text of a file");
}

#[test]
fn endless_file_is_rejected_at_the_size_limit() {
    let message = ConfigFile::find(Some(Path::new("/dev/zero"))).unwrap_err().to_string();
    assert_contains(&message, &["/dev/zero", "larger than 1048576 bytes"]);
}

#[test]
fn every_setting_is_a_key_of_the_file() {
    for setting in settings() {
        let text = format!("{} = 2026-01-01", setting.name);
        assert_contains(&error(&text), &[setting.name, "is a date or time"]);
    }
}
