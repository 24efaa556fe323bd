//! Precedence of flag, environment, file and default, for every setting.

use posthaste_config::{Section, Setting, Source, ValueType, settings};
use posthaste_domain::WorkerId;

use crate::{UserInput, assert_contains, env};

const SECRETS: [&str; 3] = [
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
];

const MASTER_KEYS: [&str; 3] = [
    "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "k2:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "k3:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
];

const TOKEN_SECRETS: [&str; 3] = [
    "a-secret-of-tokens-from-the-file",
    "a-secret-of-tokens-from-env-vars",
    "a-secret-of-tokens-from-the-flag",
];

/// Per setting, a value for the file, for the environment and for the flag.
const VALUES: &[(&str, [&str; 3])] = &[
    ("database_url", ["sqlite://file.db", "sqlite:///env.db", "postgres://db.example/flag"]),
    ("database_schema", ["from_file", "from_env", "from_flag"]),
    ("retention_days", ["1", "2", "3"]),
    ("dead_letter_retention_days", ["1", "2", "3"]),
    ("master_keys", MASTER_KEYS),
    ("jwt_secret", TOKEN_SECRETS),
    (
        "portal_frame_origins",
        [
            "https://a.example",
            "http://localhost:8080",
            "https://b.example:8443,http://127.0.0.1:81,http://[::1]:82",
        ],
    ),
    ("operation_rate_per_second", ["1", "2", "10000"]),
    ("endpoint_disable_after_days", ["1", "2", "0"]),
    ("compat_headers", ["svix", "none", "svix"]),
    ("listen", ["127.0.0.1:1", "127.0.0.2:2", "[::1]:3"]),
    ("api_keys", ["a:viewer:0123456789abcdef", "b:operator:0123456789abcdef", "c:producer:0123456789abcdef"]),
    ("payload_bytes_max", ["1", "2", "16777216"]),
    ("idempotency_hours", ["1", "2", "3"]),
    ("shutdown_seconds", ["1", "2.5", "0"]),
    ("shutdown_delay_seconds", ["1", "2.5", "3"]),
    ("retry_strategy", ["schedule", "exponential", "schedule"]),
    ("retry_base_seconds", ["30", "31.5", "32"]),
    ("retry_max_backoff_seconds", ["60", "61", "62"]),
    ("retry_jitter_bps", ["0", "1", "10000"]),
    ("retry_schedule_seconds", ["30", "31,31", "32,64,128"]),
    ("max_retry_attempts", ["0", "1", "999"]),
    ("retry_budget", ["1", "2", "3"]),
    ("expire_after_seconds", ["90000", "100000", "0"]),
    ("gone_is_final", ["off", "on", "auto"]),
    ("honour_retry_after", ["off", "on", "auto"]),
    ("circuit_breaker", ["off", "on", "auto"]),
    ("allow_fast_retries", ["true", "false", "true"]),
    ("producer_excerpts", ["true", "false", "true"]),
    ("timeout_seconds", ["1", "0.5", "86400"]),
    ("retry_batch_size", ["1", "2", "10000"]),
    ("http_pool_size", ["1", "2", "3"]),
    ("concurrency", ["20", "21", "100000"]),
    ("in_flight_bytes_max", ["1048576", "2000000", "1073741824"]),
    ("lease_seconds", ["1", "2.5", "86400"]),
    ("poll_interval_ms", ["10", "11", "60000"]),
    ("abandon_after", ["1", "2", "3"]),
    ("cycle_seconds", ["1", "2", "3"]),
    ("worker_id", ["from-file", "from-env", "from-flag"]),
    ("signing_secret", SECRETS),
    ("allow_private_networks", ["true", "false", "10.0.0.0/8,192.168.1.7"]),
    ("probe_listen", ["127.0.0.1:1", "127.0.0.2:2", "[::1]:3"]),
    ("deny_networks", ["203.0.113.0/24", "198.51.100.7/32", "203.0.113.0/24,2001:db8::/32"]),
    ("https_only", ["true", "false", "true"]),
    ("ca_file", ["file.pem", "/env.pem", "flag.pem"]),
    ("egress_proxy", ["http://proxy.example:1", "socks5://proxy.example", "httph://proxy.example:3"]),
    ("dns", ["system", "own", "system"]),
    ("log", ["debug", "warn", "info,posthaste_engine=trace"]),
    ("log_format", ["json", "pretty", "json"]),
    ("otlp_endpoint", ["http://127.0.0.1:1", "http://127.0.0.1:2", "https://collector.example"]),
];

fn values_of(setting: &Setting) -> [&'static str; 3] {
    let found = VALUES.iter().find(|(name, _)| *name == setting.name);
    found.unwrap_or_else(|| panic!("add three values of {} to VALUES", setting.name)).1
}

/// Returns a line of the file that sets the value.
fn file_line(setting: &Setting, value: &str) -> String {
    let bare = matches!(setting.value_type, ValueType::Integer | ValueType::Seconds | ValueType::Boolean);
    if bare { format!("{} = {value}\n", setting.name) } else { format!("{} = '{value}'\n", setting.name) }
}

/// Returns the source and the masked value of a setting.
fn effective(input: &UserInput, setting: &Setting) -> (Source, Option<String>) {
    let config = input.parse().unwrap_or_else(|errors| panic!("{}: {errors:#?}", setting.name));
    let found = config.setting(setting.name).unwrap();
    (found.source.clone(), found.value.clone())
}

/// Returns the value as it is shown.
fn shown(setting: &Setting, value: &str) -> Option<String> {
    let secret = matches!(setting.name, "signing_secret" | "api_keys" | "master_keys" | "jwt_secret");
    Some(if secret { "***" } else { value }.to_owned())
}

/// Returns the input without which a value of the setting has no effect, or is an error.
fn input_for(setting: &Setting) -> UserInput {
    match setting.name {
        "retry_schedule_seconds" => env(&[("POSTHASTE_RETRY_STRATEGY", "schedule")]),
        "database_schema" => env(&[("POSTHASTE_DATABASE_URL", "postgres://db.example/posthaste")]),
        _ => UserInput::new(),
    }
}

#[test]
fn each_source_overrides_the_weaker_ones() {
    for setting in settings() {
        let [file, env, flag] = values_of(setting);
        let input = input_for(setting);
        assert_eq!(effective(&input, setting).0, Source::Default);

        let input = input.file(file_line(setting, file));
        let from_file = Source::File { path: "posthaste.toml".into(), line: 1 };
        assert_eq!(effective(&input, setting), (from_file, shown(setting, file)));

        let input = match setting.env_alias {
            Some(alias) => {
                let input = input.env(alias, env);
                assert_eq!(effective(&input, setting), (Source::Environment(alias), shown(setting, env)));
                input
            }
            None => input,
        };
        let input = input.env(&setting.env, env);
        assert_eq!(effective(&input, setting), (Source::Environment(&setting.env), shown(setting, env)));

        let input = input.flag(setting.name, flag);
        assert_eq!(effective(&input, setting), (Source::Flag(&setting.flag), shown(setting, flag)));
    }
}

/// A setting whose value is never stored would pass every other test.
#[test]
fn every_setting_changes_the_configuration() {
    for setting in settings() {
        let debug_output = |input: UserInput| {
            let mut config = input.parse().unwrap();
            config.settings.clear();
            config.warnings.clear();
            format!("{config:?}")
        };
        let [value, ..] = values_of(setting);
        assert_ne!(
            debug_output(input_for(setting)),
            debug_output(input_for(setting).flag(setting.name, value)),
            "{} does nothing",
            setting.name
        );
    }
}

#[test]
fn every_setting_of_a_worker_reaches_the_engine() {
    let is_of_a_worker = |setting: &Setting| match setting.section {
        // This one only permits other values.
        Section::Dispatch | Section::Retries => setting.name != "allow_fast_retries",
        _ => ["retention_days", "dead_letter_retention_days"].contains(&setting.name),
    };
    for setting in settings().filter(|setting| is_of_a_worker(setting)) {
        let engine_settings = |input: UserInput| {
            let config = input.parse().unwrap();
            format!("{:?}", config.engine_settings(WorkerId::new("w").unwrap()))
        };
        let [value, ..] = values_of(setting);
        assert_ne!(
            engine_settings(input_for(setting)),
            engine_settings(input_for(setting).flag(setting.name, value)),
            "{setting:?}"
        );
    }
}

#[test]
fn two_variables_of_a_setting_may_agree() {
    let config =
        env(&[("BASE_RETRY_DELAY", "90"), ("POSTHASTE_RETRY_BASE_SECONDS", " 90 ")]).parse().unwrap();
    let effective = config.setting("retry_base_seconds").unwrap();
    assert_eq!(effective.source, Source::Environment("POSTHASTE_RETRY_BASE_SECONDS"));
}

#[test]
fn two_variables_that_differ_are_an_error_with_both_values() {
    for setting in settings() {
        let Some(alias) = setting.env_alias else { continue };
        let [_, one, other] = values_of(setting);
        let message = env(&[(alias, one), (&setting.env, other)]).only_error();
        let [alias, canonical] = [format!("{alias}={one}"), format!("{}={other}", setting.env)];
        assert_contains(&message, &[&alias, &canonical, setting.name, "differ", "remove one"]);
    }
}

#[test]
fn two_variables_that_differ_are_an_error_even_if_a_flag_overrides_them() {
    let input = env(&[("HTTP_POOL_SIZE", "10"), ("POSTHASTE_HTTP_POOL_SIZE", "11")]);
    assert_contains(&input.flag("http_pool_size", "12").only_error(), &["HTTP_POOL_SIZE=10", "differ"]);
}

#[test]
fn empty_variable_counts_as_not_set() {
    let input =
        env(&[("POSTHASTE_HTTP_POOL_SIZE", "  "), ("HTTP_POOL_SIZE", "10"), ("POSTHASTE_LISTEN", "")])
            .file("listen = '127.0.0.1:1'");
    let config = input.parse().unwrap();
    assert_eq!(config.setting("http_pool_size").unwrap().source, Source::Environment("HTTP_POOL_SIZE"));
    assert_eq!(config.listen.port(), 1);
}

#[test]
fn names_of_variables_are_case_sensitive() {
    let config = env(&[("http_pool_size", "10"), ("posthaste_listen", "127.0.0.1:1")]).parse().unwrap();
    assert_eq!((config.http_pool_size, config.listen.port()), (20, 8600));
}

#[test]
fn sources_are_shown_as_the_user_wrote_them() {
    let input = UserInput::new().file("\nlog = 'warn'").env("HTTP_POOL_SIZE", "10").flag("dns", "system");
    let config = input.parse().unwrap();
    let row = |name: &str| config.setting(name).unwrap().row();
    assert_eq!(row("log"), ["log", "warn", "posthaste.toml:2"]);
    assert_eq!(row("http_pool_size"), ["http_pool_size", "10", "HTTP_POOL_SIZE"]);
    assert_eq!(row("dns"), ["dns", "system", "--dns"]);
    assert_eq!(row("concurrency"), ["concurrency", "512", "default"]);
    assert_eq!(row("ca_file")[1], "(none; only the system's authorities are trusted)");
}
