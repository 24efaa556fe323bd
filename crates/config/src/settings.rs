//! The declaration of every setting: name, type, help, valid values and default.
//!
//! The environment variable, the flag, the key in the file, the field of [`Config`], the validation, the example file and
//! the reference all derive from it. To add a setting, declare it here and use its field.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use posthaste::SchemaName;
use posthaste_api::{KeyRing, TokenSecret};
use posthaste_domain::seal::MasterKeys;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{FAST_RETRY_FLOOR, JITTER_BPS_MAX, LeaseTerms, RetryPolicy, Throttle, WorkerId};
use posthaste_sender::{AllowedNetworks, CompatHeaders, DeniedNetworks, Proxy};
use tracing_subscriber::filter::Targets;
use url::Url;

use super::database::DatabaseUrl;
use super::declaration::{TypedSetting, ValueParser, auto_on_off, boolean, choice, seconds_within, whole};
use super::declare::declare_settings;
use super::effective::EffectiveSetting;
use super::parse::{
    Dns, LogFormat, RetryStrategy, api_keys, denied_networks, frame_origins, http_url, listen_address,
    log_targets, master_keys, networks, path, proxy, schema_name, seconds, seconds_list, signing_keys,
    token_secret, worker_id,
};
use super::retry::longest_step;
use super::setting::{Section, Setting};
use super::value_type::ValueType;
use super::values::Values;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

declare_settings! {
    Storage {
        /// Where events are stored: a SQLite file, or PostgreSQL for many workers.
        database_url: DatabaseUrl =
            text("sqlite://PATH or postgres://user:password@host:port/database", DatabaseUrl::parse)
                .default("sqlite://posthaste.db")
                .url_with_credentials();

        /// PostgreSQL schema that holds Posthaste's tables and functions, created at the first start; it must not be in use by
        /// another application.
        database_schema: SchemaName =
            text(SchemaName::RULE, schema_name).remark("for PostgreSQL only").default("app");

        /// How long delivered events and attempts are kept.
        retention_days: Option<Duration> =
            whole(0..=36_500).remark("0 keeps them forever").map(days).default("30");

        /// How long dead letters are kept after their last change, cancelled events too.
        dead_letter_retention_days: Option<Duration> =
            whole(0..=36_500).remark("0 keeps them forever").map(days).default("0");

        /// Keys under which the secrets and custom headers of endpoints are sealed in the database: the first one seals, and all
        /// of them open.
        master_keys: Option<Arc<MasterKeys>> =
            text_list("id:base64 of 32 bytes, several separated by commas", master_keys)
                .remark("make one with `openssl rand -base64 32`, and put a new one first")
                .unset("none; secrets of endpoints are stored in the clear", "key-1:REPLACE_ME")
                .secret();
    }

    Service {
        /// Address of the API and the dashboard; without api_keys it must be a loopback address.
        listen: SocketAddr =
            text("an address and a port, such as 127.0.0.1:8600 or [::1]:8600", listen_address)
                .remark("port 0 selects a free port")
                .default("127.0.0.1:8600");

        /// Second address for health probes and metrics, so that no client of the API can delay them.
        probe_listen: Option<SocketAddr> =
            text("an address and a port, such as 127.0.0.1:8601 or 0.0.0.0:8601", listen_address)
                .unset("none; probes and metrics are served at listen only", "127.0.0.1:8601");

        /// API keys of clients, each with a name and a role.
        api_keys: Option<KeyRing> =
            text_list("name:role:key, several separated by commas", api_keys)
                .remark(
                    "a key has 16 characters or more, a role is producer, operator, viewer or app:ID, which is bound to one \
                     application",
                )
                .unset("none; every client that can connect has full access", "name:role:key")
                .secret();

        /// Secret under which the tokens of organisations and applications are signed, for the API under /api/v1.
        jwt_secret: Option<Arc<TokenSecret>> =
            text("32 bytes or more", token_secret)
                .unset("none; only API keys are accepted", "REPLACE_ME")
                .secret();

        /// Origins whose pages may show the customers' page /portal in a frame; the operators' page is never framed.
        portal_frame_origins: Option<Vec<String>> =
            text_list("an https origin such as https://shop.example, or an http origin of this machine", frame_origins)
                .remark("several separated by commas")
                .unset("none; no page may frame it", "https://shop.example");

        /// Events per second that a background operation, such as the recovery of an endpoint, reopens or adds.
        operation_rate_per_second: Throttle = whole(1..=10_000).map(throttle).default("100");

        /// Shows producers excerpts of the responses to their events; a producer chooses the destination, so it may read private
        /// services through them.
        producer_excerpts: bool = boolean().default("false");

        /// Largest payload that the API accepts, in bytes.
        payload_bytes_max: usize = whole(1..=16_777_216).default("262144");

        /// How long an Idempotency-Key is remembered.
        idempotency_hours: Duration = whole(1..=8_760).map(|hours: u32| HOUR * hours).default("24");

        /// How long requests in flight may take to finish after a stop signal.
        shutdown_seconds: Duration = seconds_within(Duration::ZERO..=HOUR).default("30");

        /// How long a stopping server refuses requests with status 503 before it closes its port, so that load balancers notice.
        shutdown_delay_seconds: Duration =
            seconds_within(Duration::ZERO..=HOUR).remark("0 closes it at once").default("0");
    }

    Retries {
        /// How retry delays grow: exponential doubles retry_base_seconds, schedule takes the steps of
        /// retry_schedule_seconds.
        retry_strategy: RetryStrategy =
            choice([("exponential", RetryStrategy::Exponential), ("schedule", RetryStrategy::Schedule)])
                .default("exponential");

        /// Delay before the first retry under the exponential strategy; every further delay is twice as long.
        retry_base_seconds: Duration =
            ValueParser::new(ValueType::Seconds, floor_rule("a number of seconds, "), seconds)
                .default("60")
                .env_alias("BASE_RETRY_DELAY");

        /// Delays of the schedule strategy, one per retry; the last one repeats.
        retry_schedule_seconds: Vec<Duration> =
            ValueParser::new(
                ValueType::SecondsList,
                floor_rule("1 to 100 numbers of seconds, separated by commas, ascending, the first "),
                seconds_list,
            )
            .default("30,120,600,3600,21600");

        /// Longest delay between two attempts, and longest pause of a destination that a Retry-After causes.
        retry_max_backoff_seconds: Duration =
            ValueParser::new(
                ValueType::Seconds,
                "a number of seconds, not below the base delay or any step, and at most a year",
                seconds,
            )
            .computed_default("3600", "the largest step if retry_strategy is schedule", longest_step);

        /// Random share of each delay, up or down, in basis points: 2000 is ± 20 %, 0 is none; no delay falls below 30 s or
        /// exceeds retry_max_backoff_seconds.
        retry_jitter_bps: u32 =
            whole(0..=JITTER_BPS_MAX)
                .default_by_strategy("2000", "0")
                .env_alias("PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS");

        /// Retries of an event whose producer sets no limit; the event is attempted at most once more than that.
        max_retry_attempts: u32 =
            whole(0..=999).default_by_strategy("5", "4").env_alias("MAX_RETRY_ATTEMPTS");

        /// Upper limit for the retries of every event, which applies even if a higher limit is stored with the event.
        retry_budget: u32 =
            whole(0..=u32::MAX)
                .remark("0 is off")
                .default("0")
                .env_alias("PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET");

        /// Whether a response with status 410 dead-letters the event at once; otherwise it is one failure like any other.
        gone_is_final: Option<bool> = auto_on_off().default("auto");

        /// Whether a Retry-After of a response with status 429 or 503 lengthens the delay and pauses the destination.
        honour_retry_after: Option<bool> = auto_on_off().default("auto");

        /// Whether repeated failures of a destination open its circuit, which defers its events without using attempts.
        circuit_breaker: Option<bool> = auto_on_off().default("auto");

        /// How long after it was first due or last requeued an event that is still pending is dead-lettered as expired, even if
        /// an open circuit or a pause holds it.
        expire_after_seconds: Option<Duration> =
            whole(0..=31_536_000).remark("0 never expires events").map(seconds_or_never).default("86400");

        /// How long an endpoint may fail, without a single success, before it is disabled and its events are held.
        endpoint_disable_after_days: Option<Duration> =
            whole(0..=365).remark("0 never disables one for that").map(days).default("5");

        /// Allows a first retry delay below 30 s, which breaks the retry contract; for tests only.
        allow_fast_retries: bool = boolean().default("false");
    }

    Dispatch {
        /// Time limit of one request as a whole, from the name lookup to the last byte of the response.
        timeout_seconds: Duration =
            seconds_within(MILLISECOND..=DAY).default("30").env_alias("WEBHOOK_TIMEOUT_SECONDS");

        /// Maximum number of retries in flight in one worker, so that retries never crowd out first attempts.
        retry_batch_size: usize = whole(1..=10_000).default("100").env_alias("RETRY_BATCH_SIZE");

        /// Maximum number of connections, and so of requests in flight, per destination in one worker.
        http_pool_size: usize = whole(1..=10_000).default("20").env_alias("HTTP_POOL_SIZE");

        /// Maximum number of requests in flight in one worker, and a quarter more while receivers that have stopped answering
        /// hold most of them.
        concurrency: usize = whole(1..=100_000).default("512");

        /// Maximum size of all payloads in flight in one worker together, in bytes, apart from one event and from small payloads:
        /// in all requests together those have at most an eighth of it, which is 16 KiB each by default.
        in_flight_bytes_max: usize = whole(1_048_576..=1_073_741_824).default("67108864");

        /// Duration of a lease, which is how long an event waits if its worker dies; workers renew after a third of it.
        lease_seconds: LeaseTerms = seconds_within(SECOND..=DAY).map(lease_terms).default("30");

        /// How often a worker polls the store, in milliseconds, if nothing wakes it earlier.
        poll_interval_ms: Duration =
            whole(10..=60_000).map(|millis: u32| MILLISECOND * millis).default("1000");

        /// How many leases in a row an event may lose before it is dead-lettered as abandoned.
        abandon_after: u32 = whole(1..=1_000).default("5");

        /// How often a worker logs a report of its deliveries.
        cycle_seconds: Duration = seconds_within(SECOND..=DAY).default("60");

        /// Name of this worker in reports, histories and logs; its leases add a part that differs at every start.
        worker_id: Option<WorkerId> =
            text("1 to 256 visible ASCII characters without spaces", worker_id)
                .unset("the host's name and a part that differs at every start", "worker-1");
    }

    Receivers {
        /// Secrets that sign requests; with several, receivers accept any of them while secrets are rotated.
        signing_secret: Option<SigningKeys> =
            text_list("whsec_ and the base64 of 24 to 64 bytes", signing_keys)
                .remark("up to 16 of them separated by commas, newest first")
                .unset("generated at the first start and kept in the store", "whsec_REPLACE_ME")
                .secret();

        /// Names under which the id, the timestamp and the signature of a request are sent a second time: svix adds svix-id,
        /// svix-timestamp and svix-signature.
        compat_headers: CompatHeaders =
            choice([("none", CompatHeaders::None), ("svix", CompatHeaders::Svix)]).default("none");

        /// Networks that are not public and may receive events; a value replaces the default, so false also closes loopback.
        allow_private_networks: AllowedNetworks =
            ValueParser::new(
                ValueType::BooleanOrTextList,
                "true, false, or networks and addresses separated by commas, such as 10.0.0.0/8,192.168.1.7",
                networks,
            )
            .computed_default(
                "127.0.0.0/8,::1/128",
                "false if listen is not a loopback address, there are api_keys, or the database is on another host",
                |config| (!config.only_this_host_can_enqueue()).then(|| "false".to_owned()),
            );

        /// Networks that never receive events, also if they are public or allowed.
        deny_networks: Option<DeniedNetworks> =
            text_list("a network or an address, such as 203.0.113.0/24", denied_networks)
                .remark("several separated by commas")
                .unset("none", "203.0.113.0/24");

        /// Sends to https destinations only; events to others are refused.
        https_only: bool = boolean().default("false");

        /// Certificate authorities that are trusted in addition to the system's.
        ca_file: Option<PathBuf> =
            text("the path of a PEM file", path)
                .unset("none; only the system's authorities are trusted", "/etc/ssl/own-authority.pem");

        /// Proxy for all requests to receivers; with httph and socks5h, the proxy resolves host names.
        egress_proxy: Option<Proxy> =
            text("http://host:port or socks5://host:port, with user:password@ if the proxy requires it", proxy)
                .unset("none; receivers are dialled directly", "http://proxy.example:3128")
                .url_with_credentials();

        /// Resolver of host names: own is Posthaste's resolver, system is the operating system's.
        dns: Dns = choice([("own", Dns::Own), ("system", Dns::System)]).default("own");
    }

    Observability {
        /// Level of the log, or one level per target.
        log: Targets =
            text("off, error, warn, info, debug or trace, or such as info,posthaste_engine=debug", log_targets)
                .default("info");

        /// Format of log lines.
        log_format: Option<LogFormat> =
            choice([("pretty", LogFormat::Pretty), ("json", LogFormat::Json)])
                .unset("pretty on a terminal, json elsewhere", "json");

        /// Collector that traces are sent to, as OTLP over HTTP.
        otlp_endpoint: Option<Url> =
            text("a URL such as http://127.0.0.1:4318", http_url)
                .unset("none; no traces are sent", "http://127.0.0.1:4318")
                .url_with_credentials();
    }
}

/// Returns every setting in the order of declaration, which groups them by section.
pub fn settings() -> impl ExactSizeIterator<Item = &'static Setting> + Clone {
    SETTINGS.iter().copied()
}

/// Returns the setting with this name, or None if there is none.
pub fn setting(name: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.name == name)
}

/// Returns a parser of a string. `rule` says in words what `parse` accepts.
fn text<T: 'static>(rule: &str, parse: fn(&str) -> Result<T, String>) -> ValueParser<T> {
    ValueParser::new(ValueType::Text, rule, parse)
}

/// Returns a parser of a list of strings, separated by commas. `rule` says in words what `parse` accepts.
fn text_list<T: 'static>(rule: &str, parse: fn(&str) -> Result<T, String>) -> ValueParser<T> {
    ValueParser::new(ValueType::TextList, rule, parse)
}

/// Appends the shortest first retry delay to the start of a rule. The retry policy enforces it, unless fast retries are
/// allowed.
fn floor_rule(start: &str) -> String {
    format!("{start}{} or more", FAST_RETRY_FLOOR.as_secs())
}

/// Converts a number of days to a duration. 0 is None, which means no limit.
fn days(days: u32) -> Option<Duration> {
    (days > 0).then(|| DAY * days)
}

/// Converts a number of seconds to a duration. 0 is None, which means never.
fn seconds_or_never(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| SECOND * seconds)
}

fn throttle(per_second: u32) -> Throttle {
    Throttle::new(per_second.into()).expect("the range of the setting is within that of a throttle")
}

fn lease_terms(duration: Duration) -> LeaseTerms {
    LeaseTerms::new(duration).expect("a lease of a second to a day is valid")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn variable_and_flag_derive_from_the_name() {
        for setting in settings() {
            assert_eq!(setting.env, format!("POSTHASTE_{}", setting.name.to_ascii_uppercase()));
            assert_eq!(setting.flag, format!("--{}", setting.name.replace('_', "-")));
        }
    }

    #[test]
    fn no_two_settings_share_a_name() {
        let names: Vec<_> = settings().map(|setting| setting.name).collect();
        let variables = settings().flat_map(|setting| [Some(setting.env.as_str()), setting.env_alias]);
        for names in [names, variables.flatten().collect()] {
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn every_setting_has_help_and_a_rule_of_one_line() {
        for setting in settings() {
            assert!(!setting.help.is_empty() && !setting.rule.is_empty(), "{}", setting.name);
            assert!(!setting.help.contains('\n') && !setting.rule.contains('\n'), "{}", setting.name);
        }
    }

    #[test]
    fn settings_are_declared_by_section() {
        let mut sections: Vec<_> = settings().map(|setting| setting.section).collect();
        sections.dedup();
        assert_eq!(sections.len(), 6, "{sections:?}");
    }
}
