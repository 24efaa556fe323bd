//! What holds when nobody says anything.

use std::path::Path;
use std::time::Duration;

use posthaste_config::{DatabaseUrl, Dns, LogFormat, SETTINGS, Source};
use posthaste_domain::{RetryPolicy, RetryPolicySpec, WorkerId};
use posthaste_engine::Settings;
use posthaste_sender::AllowedNetworks;

use crate::{Said, env};

#[test]
fn the_defaults_are_those_of_the_engine() {
    let worker = WorkerId::new("w").unwrap();
    let ours = Said::nothing().load().unwrap().engine_settings(worker.clone());
    assert_eq!(format!("{ours:?}"), format!("{:?}", Settings::new(worker)));
}

#[test]
fn the_other_defaults_are_those_of_the_contract() {
    let config = Said::nothing().load().unwrap();
    assert_eq!(config.database, DatabaseUrl::Sqlite("posthaste.db".into()));
    assert_eq!(config.listen.to_string(), "127.0.0.1:8600");
    assert_eq!(config.retention, Some(Duration::from_secs(30 * 24 * 3_600)));
    assert_eq!(config.payload_bytes_max, 262_144);
    assert_eq!(config.idempotency, Duration::from_secs(24 * 3_600));
    assert_eq!(config.shutdown, Duration::from_secs(30));
    assert_eq!(config.dns, Dns::Own);
    assert_eq!(config.payload_bytes_max, posthaste::PAYLOAD_BYTES_MAX_DEFAULT, "as for those who embed it");
    assert_eq!(config.allowed_networks, AllowedNetworks::loopback());
    assert_eq!(config.log.to_string(), "info");
    assert_eq!((config.log_format, config.allow_fast_retries), (None, false));
    assert!(config.signing_secrets.is_empty() && config.api_keys.is_none() && config.worker_id.is_none());
    assert!(config.ca_file.is_none() && config.egress_proxy.is_none() && config.otlp_endpoint.is_none());
    assert!(config.warnings.is_empty());
}

#[test]
fn every_setting_is_listed_with_the_default_of_the_table() {
    let config = Said::nothing().load().unwrap();
    assert_eq!(config.settings.len(), SETTINGS.len());
    for (effective, setting) in config.settings.iter().zip(SETTINGS) {
        assert_eq!(effective.setting, setting);
        assert_eq!(effective.source, Source::Default);
        assert_eq!(effective.value.as_deref(), setting.default.usual(), "{}", setting.name);
    }
}

#[test]
fn a_schedule_has_defaults_of_its_own() {
    let config = env(&[("POSTHASTE_RETRY_STRATEGY", "schedule")]).load().unwrap();
    assert_eq!(config.retry_policy, RetryPolicy::new(RetryPolicySpec::schedule()).unwrap());
    for (name, value) in
        [("retry_max_backoff_seconds", "21600"), ("retry_jitter_bps", "0"), ("max_retry_attempts", "4")]
    {
        assert_eq!(config.setting(name).unwrap().value.as_deref(), Some(value), "{name}");
        assert_eq!(config.setting(name).unwrap().source, Source::Default);
    }
}

#[test]
fn the_longest_step_of_a_schedule_is_its_longest_delay() {
    let config = env(&[
        ("POSTHASTE_RETRY_STRATEGY", "schedule"),
        ("POSTHASTE_RETRY_SCHEDULE_SECONDS", "30, 45.5,100000"),
    ])
    .load()
    .unwrap();
    assert_eq!(config.retry_policy.max_backoff(), Duration::from_secs(100_000));
    assert_eq!(
        config.retry_policy.delay_range(1),
        Duration::from_millis(45_500)..=Duration::from_millis(45_500)
    );
}

#[test]
fn values_arrive_as_they_are_meant() {
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
    .load()
    .unwrap();
    assert_eq!(config.database, DatabaseUrl::Sqlite(Path::new("/var/lib/posthaste/events.db").into()));
    assert_eq!(config.listen.to_string(), "[::1]:0");
    assert_eq!((config.retention, config.timeout), (None, Duration::from_millis(250)));
    assert_eq!(config.lease.heartbeat(), Duration::from_millis(500));
    assert_eq!((config.poll_interval, config.shutdown), (Duration::from_millis(10), Duration::ZERO));
    assert_eq!(config.log.to_string(), "posthaste_engine=trace,warn");
    assert_eq!((config.log_format, config.dns), (Some(LogFormat::Json), Dns::System));
    assert_eq!(config.otlp_endpoint.unwrap().as_str(), "http://127.0.0.1:4318/v1/traces");
}

#[test]
fn a_postgres_url_is_kept_whole_for_the_driver() {
    for url in [
        "postgres://app:hunter2@one:5432,two:5433/shop?target_session_attrs=read-write",
        "postgresql:///shop?host=/run/postgresql",
    ] {
        let config = env(&[("POSTHASTE_DATABASE_URL", url)]).load().unwrap();
        let DatabaseUrl::Postgres(kept) = config.database else { panic!("{url} is PostgreSQL's") };
        assert_eq!(kept.reveal(), url);
    }
}

#[test]
fn a_long_value_is_listed_whole_and_without_its_secrets() {
    let log = (0..40).map(|number| format!("target_{number}=debug")).collect::<Vec<_>>().join(",");
    let path = "x".repeat(200);
    let url = format!("postgres://app:hunter2@{}.example/shop", "host.".repeat(40));
    let said =
        env(&[("POSTHASTE_LOG", &log), ("POSTHASTE_CA_FILE", &path), ("POSTHASTE_DATABASE_URL", &url)]);
    let config = said.load().unwrap();
    for (name, whole) in [("log", &log), ("ca_file", &path), ("database_url", &url.replace("hunter2", "***"))]
    {
        let effective = config.setting(name).unwrap();
        assert_eq!(effective.value.as_deref(), Some(whole.as_str()));
        assert_eq!(&effective.row()[1], whole);
        assert_eq!(effective.to_json()["value"], whole.as_str());
    }
}

#[test]
fn a_proxy_that_takes_names_is_known_as_such() {
    let resolves_names = |url: &str| {
        let config = env(&[("POSTHASTE_EGRESS_PROXY", url)]).load().unwrap();
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
    assert!(Said::nothing().load().unwrap().egress_proxy.is_none());
}
