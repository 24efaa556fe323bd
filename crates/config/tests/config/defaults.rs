//! Defaults, and the typed values of settings.

use std::path::Path;
use std::time::Duration;

use posthaste::tokio_postgres::config::TargetSessionAttrs;
use posthaste_config::{DatabaseUrl, Dns, LogFormat, Source, settings};
use posthaste_domain::{Outcome, RetryPolicy, RetryPolicySpec, WorkerId};
use posthaste_engine::Settings;
use posthaste_sender::{AllowedNetworks, CompatHeaders};

use crate::{UserInput, env};

#[test]
fn defaults_of_a_worker_are_those_of_the_engine() {
    let worker = WorkerId::new("w").unwrap();
    let ours = UserInput::new().parse().unwrap().engine_settings(worker.clone());
    assert_eq!(format!("{ours:?}"), format!("{:?}", Settings::new(worker)));
}

#[test]
fn other_defaults_are_those_of_the_contract() {
    let config = UserInput::new().parse().unwrap();
    assert_eq!(config.database_url, DatabaseUrl::Sqlite("posthaste.db".into()));
    assert_eq!(config.database_schema.as_str(), "app");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8600");
    assert_eq!(config.retention_days, Some(Duration::from_secs(30 * 24 * 3_600)));
    assert_eq!(config.dead_letter_retention_days, None);
    assert_eq!(config.expire_after_seconds, Some(Duration::from_secs(24 * 3_600)));
    assert_eq!(config.payload_bytes_max, 262_144);
    assert_eq!(config.idempotency_hours, Duration::from_secs(24 * 3_600));
    assert_eq!(
        (config.shutdown_seconds, config.shutdown_delay_seconds),
        (Duration::from_secs(30), Duration::ZERO)
    );
    assert_eq!(config.dns, Dns::Own);
    assert_eq!(
        config.payload_bytes_max,
        posthaste::PAYLOAD_BYTES_MAX_DEFAULT,
        "the same default as in the library"
    );
    assert_eq!(config.allow_private_networks, AllowedNetworks::loopback());
    assert_eq!(config.probe_listen, None);
    assert_eq!((config.deny_networks, config.https_only), (None, false));
    assert_eq!(config.log.to_string(), "info");
    assert_eq!((config.log_format, config.allow_fast_retries), (None, false));
    assert!(!config.producer_excerpts);
    assert!(config.master_keys.is_none() && config.jwt_secret.is_none());
    assert_eq!(config.compat_headers, CompatHeaders::None);
    assert_eq!(config.endpoint_disable_after_days, Some(Duration::from_secs(5 * 24 * 3_600)));
    assert_eq!(config.operation_rate_per_second.per_second(), 100);
    assert!(config.signing_secret.is_none() && config.api_keys.is_none() && config.worker_id.is_none());
    assert!(config.ca_file.is_none() && config.egress_proxy.is_none() && config.otlp_endpoint.is_none());
    assert!(config.warnings.is_empty());
}

#[test]
fn every_setting_is_listed_with_its_default() {
    let config = UserInput::new().parse().unwrap();
    assert_eq!(config.settings.len(), settings().len());
    for (effective, setting) in config.settings.iter().zip(settings()) {
        assert_eq!(effective.setting, setting);
        assert_eq!(effective.source, Source::Default);
        assert_eq!(effective.value.as_deref(), setting.default.usual(), "{}", setting.name);
    }
}

#[test]
fn schedule_strategy_has_its_own_defaults() {
    let config = env(&[("POSTHASTE_RETRY_STRATEGY", "schedule")]).parse().unwrap();
    assert_eq!(config.retry_policy, RetryPolicy::new(RetryPolicySpec::schedule()).unwrap());
    for (name, value) in
        [("retry_max_backoff_seconds", "21600"), ("retry_jitter_bps", "0"), ("max_retry_attempts", "4")]
    {
        assert_eq!(config.setting(name).unwrap().value.as_deref(), Some(value), "{name}");
        assert_eq!(config.setting(name).unwrap().source, Source::Default);
    }
}

#[test]
fn signals_of_receivers_have_an_effect_by_default_only_under_the_exponential_strategy() {
    const NAMES: [&str; 3] = ["gone_is_final", "honour_retry_after", "circuit_breaker"];
    let unavailable = Outcome::response(503, Some(Duration::from_secs(60)), b"");
    let effects = |strategy: &str, value: Option<&str>| {
        let input = UserInput::new().env("POSTHASTE_RETRY_STRATEGY", strategy);
        let set = |input: UserInput, name: &&str| match value {
            Some(value) => input.flag(name, value),
            None => input,
        };
        let policy = NAMES.iter().fold(input, set).parse().unwrap().retry_policy;
        [policy.gone_is_final(), policy.honoured_pause(&unavailable).is_some(), policy.uses_circuit_breaker()]
    };
    for (strategy, by_default) in [("exponential", true), ("schedule", false)] {
        assert_eq!(effects(strategy, None), [by_default; 3], "{strategy}");
        assert_eq!(effects(strategy, Some("auto")), [by_default; 3], "{strategy}");
        assert_eq!(effects(strategy, Some("on")), [true; 3], "{strategy}");
        assert_eq!(effects(strategy, Some("off")), [false; 3], "{strategy}");
    }
}

#[test]
fn max_backoff_defaults_to_the_longest_step() {
    let config = env(&[
        ("POSTHASTE_RETRY_STRATEGY", "schedule"),
        ("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30, 45.5,100000"),
    ])
    .parse()
    .unwrap();
    assert_eq!(config.retry_policy.max_backoff(), Duration::from_secs(100_000));
    assert_eq!(
        config.retry_policy.delay_range(1),
        Duration::from_millis(45_500)..=Duration::from_millis(45_500)
    );
}

#[test]
fn values_are_parsed_into_their_types() {
    let config = env(&[
        ("POSTHASTE_DATABASE_URL", "sqlite:///var/lib/posthaste/events.db"),
        ("POSTHASTE_LISTEN", " [::1]:0\n"),
        ("POSTHASTE_RETENTION_DAYS", "0"),
        ("POSTHASTE_TIMEOUT_SECONDS", "0.25"),
        ("POSTHASTE_LEASE_SECONDS", "1.5"),
        ("POSTHASTE_POLL_INTERVAL_MS", "10"),
        ("POSTHASTE_LOG", "warn, posthaste_engine=trace"),
        ("POSTHASTE_LOG_FORMAT", "json"),
        ("POSTHASTE_DNS", "system"),
        ("POSTHASTE_SHUTDOWN_SECONDS", "0"),
        ("POSTHASTE_OTLP_ENDPOINT", "http://127.0.0.1:4318/v1/traces"),
    ])
    .parse()
    .unwrap();
    assert_eq!(config.database_url, DatabaseUrl::Sqlite(Path::new("/var/lib/posthaste/events.db").into()));
    assert_eq!(config.listen.to_string(), "[::1]:0");
    assert_eq!((config.retention_days, config.timeout_seconds), (None, Duration::from_millis(250)));
    assert_eq!(config.lease_seconds.heartbeat(), Duration::from_millis(500));
    assert_eq!(
        (config.poll_interval_ms, config.shutdown_seconds),
        (Duration::from_millis(10), Duration::ZERO)
    );
    assert_eq!(config.log.to_string(), "posthaste_engine=trace,warn");
    assert_eq!((config.log_format, config.dns), (Some(LogFormat::Json), Dns::System));
    assert_eq!(config.otlp_endpoint.unwrap().as_str(), "http://127.0.0.1:4318/v1/traces");
}

#[test]
fn settings_of_endpoints_reach_the_instance() {
    let key = format!("k2:{}=", "A".repeat(43));
    let config = env(&[
        ("POSTHASTE_MASTER_KEYS", &format!("{key},k1:{}=", "B".repeat(42) + "A")),
        ("POSTHASTE_JWT_SECRET", &"s".repeat(32)),
        ("POSTHASTE_COMPAT_HEADERS", "svix"),
        ("POSTHASTE_ENDPOINT_DISABLE_AFTER_DAYS", "0"),
        ("POSTHASTE_OPERATION_RATE_PER_SECOND", "7"),
    ])
    .parse()
    .unwrap();
    let options = config.options().unwrap();
    assert_eq!(format!("{:?}", options.master_keys), r#"["k2", "k1"]"#);
    assert_eq!(options.sender.compat_headers, CompatHeaders::Svix);
    assert_eq!(options.settings.policy.disable_endpoints_after(), None);
    assert_eq!(config.operation_rate_per_second.per_second(), 7);
    assert!(config.jwt_secret.is_some());
}

#[test]
fn every_part_of_a_postgres_url_reaches_the_driver() {
    let driver = |url: &str| {
        let config = env(&[("POSTHASTE_DATABASE_URL", url)]).parse().unwrap();
        let DatabaseUrl::Postgres(parsed) = config.database_url else { panic!("{url} names PostgreSQL") };
        parsed.driver_config().clone()
    };
    let several = driver("postgres://app:hunter2@one:5432,two:5433/shop?target_session_attrs=read-write");
    assert_eq!((several.get_hosts().len(), several.get_ports()), (2, &[5432, 5433][..]));
    assert_eq!((several.get_user(), several.get_password()), (Some("app"), Some(&b"hunter2"[..])));
    assert_eq!(several.get_dbname(), Some("shop"));
    assert_eq!(several.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    let socket = driver("postgresql:///shop?host=/run/postgresql");
    assert_eq!((socket.get_hosts().len(), socket.get_dbname()), (1, Some("shop")));
}

#[test]
fn long_value_is_listed_whole_and_without_its_secrets() {
    let log = (0..40).map(|number| format!("target_{number}=debug")).collect::<Vec<_>>().join(",");
    let path = "x".repeat(200);
    let url = format!("postgres://app:hunter2@{}.example/shop", "host.".repeat(40));
    let input =
        env(&[("POSTHASTE_LOG", &log), ("POSTHASTE_CA_FILE", &path), ("POSTHASTE_DATABASE_URL", &url)]);
    let config = input.parse().unwrap();
    for (name, whole) in [("log", &log), ("ca_file", &path), ("database_url", &url.replace("hunter2", "***"))]
    {
        let effective = config.setting(name).unwrap();
        assert_eq!(effective.value.as_deref(), Some(whole.as_str()));
        assert_eq!(&effective.row()[1], whole);
        assert_eq!(effective.to_json()["value"], whole.as_str());
    }
}

#[test]
fn proxy_that_resolves_names_is_recognised() {
    let resolves_names = |url: &str| {
        let config = env(&[("POSTHASTE_EGRESS_PROXY", url)]).parse().unwrap();
        config.egress_proxy.is_some_and(|proxy| proxy.resolves_names())
    };
    for url in
        ["httph://proxy.example:3128", "socks5h://proxy.example:1080", "SOCKS5H://a:b@proxy.example:1080"]
    {
        assert!(resolves_names(url), "{url}");
    }
    for url in ["http://proxy.example:3128", "socks5://httph.example:1080"] {
        assert!(!resolves_names(url), "{url}");
    }
    assert!(UserInput::new().parse().unwrap().egress_proxy.is_none());
}
