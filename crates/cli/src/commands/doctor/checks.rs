//! The checks, one function each; those of the store are in [`store`](super::store).

use std::time::Duration;

use posthaste::sender::{AllowedNetworks, Proxy};
use posthaste_api::{Finding, Verdict};
use posthaste_config::{Config, Source};

use super::store::check_store;
use crate::service::open_files::OpenFilesLimit;
use crate::terminal::pluralize;

/// Shortest lease that is reported as ok. A worker loses a shorter lease whenever its host pauses.
const LEASE_CAREFUL: Duration = Duration::from_secs(5);
/// Number of files reserved for uses other than connections to receivers: the store, the API's clients, name lookups.
const OTHER_FILES: usize = 256;

/// Runs all checks with a configuration. Opens its database, and changes nothing.
pub(super) async fn run_all(config: &Config) -> Vec<Finding> {
    let mut findings = of_configuration(config);
    findings.extend(database_connection(config));
    findings.extend(check_store(config).await);
    findings.extend(of_settings(config));
    findings
}

/// Reports the version, and what is wrong with the configuration as a whole.
pub(super) fn of_configuration(config: &Config) -> Vec<Finding> {
    let mut findings = vec![version(), configuration(config)];
    findings.extend(
        config.warnings.iter().map(|warning| Finding::new("configuration", Verdict::Careful, warning)),
    );
    findings
}

/// Checks what single settings mean for this host. Reads the certificates that are trusted.
pub(super) fn of_settings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![access(config)];
    findings.extend(address_guard(config));
    findings.extend([
        sealed_secrets(config),
        retries(config),
        leases(config),
        connections(config),
        certificates(config),
    ]);
    findings
}

/// Warns of a database on another machine that the connection does not verify.
pub(super) fn database_connection(config: &Config) -> Option<Finding> {
    let exposure = config.database_url.exposure()?;
    Some(Finding::new("database connection", Verdict::Careful, exposure))
}

fn version() -> Finding {
    Finding::new("version", Verdict::Ok, format!("posthaste {}", env!("CARGO_PKG_VERSION")))
}

fn configuration(config: &Config) -> Finding {
    let changed = config.settings.iter().filter(|setting| setting.source != Source::Default).count();
    let are = if changed == 1 { "is" } else { "are" };
    let changed = pluralize(changed as u64, "setting");
    Finding::new(
        "configuration",
        Verdict::Ok,
        format!("valid; {changed} {are} set, the others have their defaults"),
    )
}

/// Reports who may call the API. Always ok: without API keys, a valid configuration listens on loopback only.
fn access(config: &Config) -> Finding {
    let listen = config.listen;
    let access = if config.api_keys.is_some() {
        "requires API keys"
    } else {
        "accepts connections from this host only, without API keys"
    };
    Finding::new("access", Verdict::Ok, format!("{listen} {access}"))
}

/// Checks which addresses deliveries may dial. A proxy that resolves names bypasses the address guard, which is then not
/// reported as ok.
fn address_guard(config: &Config) -> Vec<Finding> {
    let bypass = config.egress_proxy.as_ref().is_some_and(Proxy::resolves_names).then(|| {
        let text = "the egress proxy resolves host names, so the address guard cannot check them and the proxy may \
                    connect to private networks: use http:// or socks5://, which pass checked addresses to the proxy";
        Finding::new("address guard", Verdict::Careful, text)
    });
    let networks = match allowed_networks(config) {
        Finding { verdict: Verdict::Ok, .. } if bypass.is_some() => None,
        networks => Some(networks),
    };
    bypass.into_iter().chain(networks).collect()
}

/// Checks which networks the address guard allows.
fn allowed_networks(config: &Config) -> Finding {
    let allowed = &config.allow_private_networks;
    if allowed.is_empty() {
        return Finding::new("address guard", Verdict::Ok, "only public addresses are dialled");
    }
    if allowed.to_string() == AllowedNetworks::loopback().to_string() && config.listens_on_loopback() {
        let text = "public addresses and this host are dialled; this host only while listen is loopback without api_keys";
        return Finding::new("address guard", Verdict::Ok, text);
    }
    let text = format!(
        "switched off for {allowed}: every producer can make this host send requests there; narrow \
         allow_private_networks to the networks of your receivers"
    );
    Finding::new("address guard", Verdict::Careful, text)
}

/// Checks whether the secrets of endpoints are sealed in the database.
fn sealed_secrets(config: &Config) -> Finding {
    if config.master_keys.is_some() {
        let text =
            "secrets and headers of endpoints are sealed in the database under the first of master_keys";
        return Finding::new("secrets", Verdict::Ok, text);
    }
    let text = "secrets and headers of endpoints are in the database in the clear, and so in its backups: set master_keys on \
                every process, restart each, then run `posthaste secrets reseal`";
    Finding::new("secrets", Verdict::Careful, text)
}

fn retries(config: &Config) -> Finding {
    if config.allow_fast_retries {
        let text = "allow_fast_retries is on, which violates the retry contract: it is meant for tests; switch it off";
        return Finding::new("retries", Verdict::Careful, text);
    }
    let attempts = config.retry_policy.max_attempts();
    Finding::new("retries", Verdict::Ok, format!("{attempts} attempts at most, within the retry contract"))
}

fn leases(config: &Config) -> Finding {
    let lease = config.lease_seconds.duration();
    if lease < LEASE_CAREFUL {
        let text = format!(
            "leases of {lease:?} expire during short pauses of the host, and their events are sent twice; use 30 s"
        );
        return Finding::new("leases", Verdict::Careful, text);
    }
    let heartbeat = config.lease_seconds.heartbeat();
    Finding::new(
        "leases",
        Verdict::Ok,
        format!("{lease:?}, renewed every {heartbeat:?} while a request is in flight"),
    )
}

fn connections(config: &Config) -> Finding {
    let (all, one) = (config.concurrency, config.http_pool_size);
    if one * 2 > all && all > 1 {
        let held = if one < all { format!("{one} of {all}") } else { format!("all {all}") };
        let text = format!(
            "one slow receiver can hold {held} slots: lower http_pool_size or raise concurrency, so that it cannot \
             delay the others"
        );
        return Finding::new("connections", Verdict::Careful, text);
    }
    // At worst every request in flight has an idle connection beside it.
    let needed = all * 2 + OTHER_FILES;
    match OpenFilesLimit::current() {
        OpenFilesLimit(limit) if limit < needed => {
            let text = format!(
                "this process may open {limit} files, but concurrency {all} can need {needed}: raise the limit \
                 (`ulimit -n`, LimitNOFILE=) or lower concurrency"
            );
            Finding::new("connections", Verdict::Careful, text)
        }
        _ => {
            Finding::new("connections", Verdict::Ok, format!("{all} requests at once, {one} to one receiver"))
        }
    }
}

fn certificates(config: &Config) -> Finding {
    match posthaste::count_authorities(config.ca_file.as_deref()) {
        Ok(0) => {
            let text = "no certificate authority is trusted, so deliveries to https receivers fail: install \
                        ca-certificates, or set ca_file";
            Finding::new("certificates", Verdict::Careful, text)
        }
        Ok(count) => Finding::new("certificates", Verdict::Ok, format!("{count} authorities are trusted")),
        Err(error) => Finding::new("certificates", Verdict::Broken, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use posthaste_config::{Sources, parse};

    use super::*;

    fn configured(settings: &[(&str, &str)]) -> Config {
        let flags: BTreeMap<_, _> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        parse(&Sources { flags: &flags, ..Sources::NONE }).unwrap()
    }

    #[test]
    fn a_proxy_that_resolves_names_is_not_reported_as_guarded() {
        for url in ["socks5h://proxy.example:1080", "httph://proxy.example:3128"] {
            let settings = [("egress_proxy", url), ("allow_private_networks", "false")];
            let findings = address_guard(&configured(&settings));
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            assert_eq!(finding.verdict, Verdict::Careful);
            for part in ["the address guard cannot check them", "http:// or socks5://"] {
                assert!(finding.text.contains(part), "{}", finding.text);
            }
        }
        let both = address_guard(&configured(&[
            ("egress_proxy", "socks5h://proxy.example:1080"),
            ("allow_private_networks", "10.0.0.0/8"),
        ]));
        assert_eq!(both.len(), 2, "the guard still checks literal addresses: {both:?}");
        let guarded = address_guard(&configured(&[("egress_proxy", "socks5://proxy.example:1080")]));
        assert!(guarded.iter().all(|finding| finding.verdict == Verdict::Ok), "{guarded:?}");
    }

    #[test]
    fn database_on_another_machine_must_be_verified() {
        let finding = |url: &str| database_connection(&configured(&[("database_url", url)]));
        let exposed =
            finding("postgres://app:hunter2@db.example/shop").expect("sslmode=prefer verifies nothing");
        assert_eq!(exposed.verdict, Verdict::Careful);
        assert!(
            exposed.text.contains("sslmode=verify-full") && !exposed.text.contains("hunter2"),
            "{}",
            exposed.text
        );
        assert!(finding("postgres://app@127.0.0.1/shop").is_none());
        assert!(finding("postgres://app@db.example/shop?sslmode=verify-full").is_none());
    }

    #[test]
    fn secrets_in_the_clear_are_reported_until_there_is_a_master_key() {
        let clear = sealed_secrets(&configured(&[]));
        assert_eq!(clear.verdict, Verdict::Careful);
        assert!(clear.text.contains("secrets reseal"), "{}", clear.text);
        let key = format!("k1:{}=", "A".repeat(43));
        let sealed = sealed_secrets(&configured(&[("master_keys", &key)]));
        assert_eq!(sealed.verdict, Verdict::Ok);
        assert!(!sealed.text.contains(&key), "{}", sealed.text);
    }

    #[test]
    fn the_slots_that_one_receiver_can_hold_are_capped_at_the_concurrency() {
        let text = |one: &str| connections(&configured(&[("http_pool_size", one)])).text;
        assert!(text("600").contains("hold all 512 slots"), "{}", text("600"));
        assert!(text("512").contains("hold all 512 slots"), "{}", text("512"));
        assert!(text("300").contains("hold 300 of 512 slots"), "{}", text("300"));
    }

    #[test]
    fn the_number_of_changed_settings_agrees_with_its_verb() {
        let text = |settings: &[(&str, &str)]| configuration(&configured(settings)).text;
        assert!(text(&[]).contains("; 0 settings are set"));
        assert!(text(&[("concurrency", "64")]).contains("; 1 setting is set"));
        assert!(text(&[("concurrency", "64"), ("dns", "own")]).contains("; 2 settings are set"));
    }
}
