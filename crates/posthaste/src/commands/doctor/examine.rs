//! The checks, one function each.

use std::time::Duration;

use posthaste::Database;
use posthaste::config::{Config, Source};
use posthaste::domain::Timestamp;
use posthaste::sender::{AllowedNetworks, HttpSender, SystemClock, WallClock as _};
use posthaste::store::Vitals;

use super::finding::{Finding, Verdict};

/// Clocks that lie further apart make timestamps and ages misleading.
const SKEW_MAX: Duration = Duration::from_secs(5);
/// Receivers refuse signatures whose timestamp is further off than this.
const SKEW_BROKEN: Duration = Duration::from_secs(300);
/// A lease that is shorter is lost to any pause of the host.
const LEASE_CAREFUL: Duration = Duration::from_secs(5);
/// Files that are open beside connections to receivers: the store, the API's clients, name lookups.
const FILES_BESIDE: usize = 256;

pub(super) async fn everything(config: &Config) -> Vec<Finding> {
    let mut findings = vec![version(), configuration(config)];
    findings.extend(
        config.warnings.iter().map(|warning| Finding::new("configuration", Verdict::Careful, warning)),
    );
    findings.extend(store(config).await);
    findings.extend([
        access(config),
        guard(config),
        retries(config),
        leases(config),
        connections(config),
        tls(config),
    ]);
    findings
}

fn version() -> Finding {
    Finding::new("version", Verdict::Good, format!("posthaste {}", env!("CARGO_PKG_VERSION")))
}

fn configuration(config: &Config) -> Finding {
    let given = config.settings.iter().filter(|setting| setting.source != Source::Default).count();
    Finding::new(
        "configuration",
        Verdict::Good,
        format!("valid; {given} settings are given, the others are defaults"),
    )
}

async fn store(config: &Config) -> Vec<Finding> {
    let database = match Database::configured(config) {
        Ok(database) => database,
        Err(error) => return vec![Finding::new("store", Verdict::Broken, error.to_string())],
    };
    match database.examine().await {
        Ok(None) => vec![
            Finding::new("store", Verdict::Good, "there is no database yet; the first start creates it"),
            clock(SystemClock.now(), None),
        ],
        Ok(Some(vitals)) => {
            // An embedded store has no clock of its own.
            let other_clock = matches!(database, Database::Postgres(_)).then_some(vitals.now);
            vec![schema(&vitals), clock(SystemClock.now(), other_clock)]
        }
        Err(error) => {
            let advice = "check that it runs and that database_url is right; an empty database wants `posthaste migrate`";
            vec![Finding::new("store", Verdict::Broken, format!("{error}; {advice}"))]
        }
    }
}

fn schema(vitals: &Vitals) -> Finding {
    let Vitals { schema, schema_known, .. } = vitals;
    if schema > schema_known {
        let text = format!(
            "the schema has version {schema}, and this Posthaste knows {schema_known}: upgrade Posthaste"
        );
        Finding::new("store", Verdict::Broken, text)
    } else if schema < schema_known {
        let text = format!(
            "the schema has version {schema} of {schema_known}; the next start upgrades it, or `posthaste migrate`"
        );
        Finding::new("store", Verdict::Careful, text)
    } else {
        Finding::new("store", Verdict::Good, format!("answers, schema version {schema}"))
    }
}

/// This host's clock against the store's, or at least against the day on which this program was made.
fn clock(host: Timestamp, store: Option<Timestamp>) -> Finding {
    let made = Timestamp::from_secs(MADE_NO_EARLIER_THAN);
    if host < made {
        let text =
            "this host's clock is years behind: receivers will refuse our signatures; synchronise it (NTP)";
        return Finding::new("clock", Verdict::Broken, text);
    }
    let Some(store) = store else {
        return Finding::new(
            "clock",
            Verdict::Good,
            "this host's is plausible; no other clock is there to compare it with",
        );
    };
    let skew = host.since(store).max(store.since(host));
    let verdict = match skew {
        skew if skew >= SKEW_BROKEN => Verdict::Broken,
        skew if skew >= SKEW_MAX => Verdict::Careful,
        _ => return Finding::new("clock", Verdict::Good, "agrees with the store's"),
    };
    let text = format!(
        "this host's clock and the store's lie {skew:.1?} apart: signatures carry this host's time, and receivers refuse \
         those that are more than 5 minutes off; synchronise both (NTP)"
    );
    Finding::new("clock", verdict, text)
}

/// 1 November 2026.
const MADE_NO_EARLIER_THAN: i64 = 1_793_491_200;

/// An address that others can reach, without keys, is refused with the configuration.
fn access(config: &Config) -> Finding {
    let listen = config.listen;
    let who = if config.api_keys.is_some() {
        "asks for API keys"
    } else {
        "is open to this host alone, without keys"
    };
    Finding::new("access", Verdict::Good, format!("{listen} {who}"))
}

fn guard(config: &Config) -> Finding {
    let allowed = &config.allowed_networks;
    if allowed.is_empty() {
        return Finding::new("address guard", Verdict::Good, "only public addresses are dialled");
    }
    if allowed.to_string() == AllowedNetworks::loopback().to_string() && config.listens_on_loopback() {
        let text = "public addresses and this host are dialled; listening elsewhere than on loopback ends the latter";
        return Finding::new("address guard", Verdict::Good, text);
    }
    let text = format!(
        "switched off for {allowed}: whoever may enqueue can make this host send requests there; narrow \
         allow_private_networks to what receivers need"
    );
    Finding::new("address guard", Verdict::Careful, text)
}

fn retries(config: &Config) -> Finding {
    if config.allow_fast_retries {
        let text =
            "allow_fast_retries is on, which breaks the retry contract: it is for tests; switch it off";
        return Finding::new("retries", Verdict::Careful, text);
    }
    let attempts = config.retry_policy.max_attempts();
    Finding::new("retries", Verdict::Good, format!("{attempts} attempts at most, within the retry contract"))
}

fn leases(config: &Config) -> Finding {
    let lease = config.lease.duration();
    if lease < LEASE_CAREFUL {
        let text = format!(
            "leases of {lease:?} are lost to any pause of the host, and their events are sent twice; use 30 s"
        );
        return Finding::new("leases", Verdict::Careful, text);
    }
    let heartbeat = config.lease.heartbeat();
    Finding::new(
        "leases",
        Verdict::Good,
        format!("{lease:?}, renewed every {heartbeat:?} while a request is in flight"),
    )
}

fn connections(config: &Config) -> Finding {
    let (all, one) = (config.concurrency, config.per_destination);
    if one * 2 > all && all > 1 {
        let text = format!(
            "one slow receiver can hold {one} of {all} slots: lower http_pool_size or raise concurrency, so that it cannot \
             delay the others"
        );
        return Finding::new("connections", Verdict::Careful, text);
    }
    // In flight and idle, at worst.
    let needed = all * 2 + FILES_BESIDE;
    match open_files_max() {
        Some(limit) if limit < needed => {
            let text = format!(
                "this process may open {limit} files, and concurrency {all} can need {needed}: raise the limit \
                 (`ulimit -n`, LimitNOFILE=) or lower concurrency"
            );
            Finding::new("connections", Verdict::Careful, text)
        }
        _ => Finding::new(
            "connections",
            Verdict::Good,
            format!("{all} requests at once, {one} to one receiver"),
        ),
    }
}

/// None where the system does not tell.
fn open_files_max() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn tls(config: &Config) -> Finding {
    match HttpSender::authorities(config.ca_file.as_deref()) {
        Ok(0) => {
            let text = "no certificate authority is known, so no https receiver can be verified: install ca-certificates, or \
                        name a ca_file";
            Finding::new("certificates", Verdict::Careful, text)
        }
        Ok(count) => Finding::new("certificates", Verdict::Good, format!("{count} authorities are trusted")),
        Err(error) => Finding::new("certificates", Verdict::Broken, error.to_string()),
    }
}
