//! Flag over environment over file over default, for every setting of the table.

use posthaste_config::{Form, SETTINGS, Section, Setting, Source};
use posthaste_domain::WorkerId;

use crate::{Said, assert_words, env};

const SECRETS: [&str; 3] = [
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
];

/// For the file, the environment and a flag.
const VALUES: [(&str, [&str; 3]); 32] = [
    ("database_url", ["sqlite://file.db", "sqlite:///env.db", "postgres://db.example/flag"]),
    ("retention_days", ["1", "2", "3"]),
    ("listen", ["127.0.0.1:1", "127.0.0.2:2", "[::1]:3"]),
    ("api_keys", ["a:viewer:0123456789abcdef", "b:operator:0123456789abcdef", "c:producer:0123456789abcdef"]),
    ("payload_bytes_max", ["1", "2", "16777216"]),
    ("idempotency_hours", ["1", "2", "3"]),
    ("shutdown_seconds", ["1", "2.5", "0"]),
    ("retry_strategy", ["schedule", "exponential", "schedule"]),
    ("retry_base_seconds", ["30", "31.5", "32"]),
    ("retry_max_backoff_seconds", ["60", "61", "62"]),
    ("retry_jitter_bps", ["0", "1", "10000"]),
    ("retry_schedule_seconds", ["30", "31,31", "32,64,128"]),
    ("max_retry_attempts", ["0", "1", "999"]),
    ("retry_budget", ["1", "2", "3"]),
    ("allow_fast_retries", ["true", "false", "true"]),
    ("timeout_seconds", ["1", "0.5", "86400"]),
    ("retry_batch_size", ["1", "2", "10000"]),
    ("http_pool_size", ["1", "2", "3"]),
    ("concurrency", ["20", "21", "100000"]),
    ("lease_seconds", ["1", "2.5", "86400"]),
    ("poll_interval_ms", ["10", "11", "60000"]),
    ("abandon_after", ["1", "2", "3"]),
    ("cycle_seconds", ["1", "2", "3"]),
    ("worker_id", ["from-file", "from-env", "from-flag"]),
    ("signing_secret", SECRETS),
    ("allow_private_networks", ["true", "false", "10.0.0.0/8,192.168.1.7"]),
    ("ca_file", ["file.pem", "/env.pem", "flag.pem"]),
    ("egress_proxy", ["http://proxy.example:1", "socks5://proxy.example", "httph://proxy.example:3"]),
    ("dns", ["system", "own", "system"]),
    ("log", ["debug", "warn", "info,posthaste_engine=trace"]),
    ("log_format", ["json", "pretty", "json"]),
    ("otlp_endpoint", ["http://127.0.0.1:1", "http://127.0.0.1:2", "https://collector.example"]),
];

fn values_of(setting: &Setting) -> [&'static str; 3] {
    let found = VALUES.iter().find(|(name, _)| *name == setting.name);
    found.unwrap_or_else(|| panic!("give {} three values in VALUES", setting.name)).1
}

fn in_file(setting: &Setting, value: &str) -> String {
    let bare = matches!(setting.form, Form::Whole | Form::Seconds | Form::Switch);
    if bare { format!("{} = {value}\n", setting.name) } else { format!("{} = '{value}'\n", setting.name) }
}

/// Where the value comes from, and what it is as far as it is shown.
fn holds(said: &Said, setting: &Setting) -> (Source, Option<String>) {
    let config = said.load().unwrap_or_else(|errors| panic!("{}: {errors:#?}", setting.name));
    let effective = config.setting(setting.name).unwrap();
    (effective.source.clone(), effective.value.clone())
}

fn shown(setting: &Setting, value: &str) -> Option<String> {
    let secret = matches!(setting.name, "signing_secret" | "api_keys");
    Some(if secret { "***" } else { value }.to_owned())
}

#[test]
fn each_layer_goes_over_the_ones_below_it() {
    for setting in SETTINGS {
        let [file, env, flag] = values_of(setting);
        let said = Said::nothing();
        assert_eq!(holds(&said, setting).0, Source::Default);

        let said = said.file(in_file(setting, file));
        let from_file = Source::File { path: "posthaste.toml".into(), line: 1 };
        assert_eq!(holds(&said, setting), (from_file, shown(setting, file)));

        let said = match setting.env_also {
            Some(also) => {
                let said = said.env(also, env);
                assert_eq!(holds(&said, setting), (Source::Environment(also), shown(setting, env)));
                said
            }
            None => said,
        };
        let said = said.env(setting.env, env);
        assert_eq!(holds(&said, setting), (Source::Environment(setting.env), shown(setting, env)));

        let said = said.flag(setting.name, flag);
        assert_eq!(holds(&said, setting), (Source::Flag(setting.flag), shown(setting, flag)));
    }
}

/// A setting that is listed and then forgotten would pass every other test.
#[test]
fn every_setting_changes_what_is_made_of_it() {
    for setting in SETTINGS {
        let made = |said: Said| {
            // A schedule needs its strategy to be seen.
            let said = if setting.name == "retry_schedule_seconds" {
                said.env("POSTHASTE_RETRY_STRATEGY", "schedule")
            } else {
                said
            };
            let mut config = said.load().unwrap();
            config.settings.clear();
            config.warnings.clear();
            format!("{config:?}")
        };
        let [value, ..] = values_of(setting);
        assert_ne!(
            made(Said::nothing()),
            made(Said::nothing().flag(setting.name, value)),
            "{} does nothing",
            setting.name
        );
    }
}

#[test]
fn every_setting_of_a_worker_reaches_the_engine() {
    let is_of_a_worker = |setting: &Setting| match setting.section {
        // A guard leaves no trace once it is passed.
        Section::Dispatch | Section::Retries => setting.name != "allow_fast_retries",
        _ => setting.name == "retention_days",
    };
    for setting in SETTINGS.into_iter().filter(|setting| is_of_a_worker(setting)) {
        let given = |said: Said| {
            let said = match setting.name {
                "retry_schedule_seconds" => said.env("POSTHASTE_RETRY_STRATEGY", "schedule"),
                _ => said,
            };
            let config = said.load().unwrap();
            format!("{:?}", config.engine_settings(WorkerId::new("w").unwrap()))
        };
        let [value, ..] = values_of(setting);
        assert_ne!(given(Said::nothing()), given(Said::nothing().flag(setting.name, value)), "{setting:?}");
    }
}

#[test]
fn two_names_may_agree() {
    let config = env(&[("BASE_RETRY_DELAY", "90"), ("POSTHASTE_RETRY_BASE_SECONDS", " 90 ")]).load().unwrap();
    let effective = config.setting("retry_base_seconds").unwrap();
    assert_eq!(effective.source, Source::Environment("POSTHASTE_RETRY_BASE_SECONDS"));
}

#[test]
fn two_names_that_differ_are_refused_with_both_and_their_values() {
    for setting in SETTINGS {
        let Some(also) = setting.env_also else { continue };
        let [_, one, other] = values_of(setting);
        let message = env(&[(also, one), (setting.env, other)]).refusal();
        let [also, canonical] = [format!("{also}={one}"), format!("{}={other}", setting.env)];
        assert_words(&message, &[&also, &canonical, setting.name, "differ", "remove one"]);
    }
}

#[test]
fn two_names_that_differ_are_refused_even_under_a_flag() {
    let said = env(&[("HTTP_POOL_SIZE", "10"), ("POSTHASTE_HTTP_POOL_SIZE", "11")]);
    assert_words(&said.flag("http_pool_size", "12").refusal(), &["HTTP_POOL_SIZE=10", "differ"]);
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let said = env(&[("POSTHASTE_HTTP_POOL_SIZE", "  "), ("HTTP_POOL_SIZE", "10"), ("POSTHASTE_LISTEN", "")])
        .file("listen = '127.0.0.1:1'");
    let config = said.load().unwrap();
    assert_eq!(config.setting("http_pool_size").unwrap().source, Source::Environment("HTTP_POOL_SIZE"));
    assert_eq!(config.listen.port(), 1);
}

#[test]
fn names_are_told_apart_by_case_as_the_environment_does() {
    let config = env(&[("http_pool_size", "10"), ("posthaste_listen", "127.0.0.1:1")]).load().unwrap();
    assert_eq!((config.per_destination, config.listen.port()), (20, 8600));
}

#[test]
fn sources_read_as_their_users_call_them() {
    let said = Said::nothing().file("\nlog = 'warn'").env("HTTP_POOL_SIZE", "10").flag("dns", "system");
    let config = said.load().unwrap();
    let row = |name: &str| config.setting(name).unwrap().row();
    assert_eq!(row("log"), ["log", "warn", "posthaste.toml:2"]);
    assert_eq!(row("http_pool_size"), ["http_pool_size", "10", "HTTP_POOL_SIZE"]);
    assert_eq!(row("dns"), ["dns", "system", "--dns"]);
    assert_eq!(row("concurrency"), ["concurrency", "512", "default"]);
    assert_eq!(row("ca_file")[1], "(none, and the system's authorities alone are trusted)");
}
