//! The checks, one function each.

use std::time::Duration;

use posthaste::sender::{AllowedNetworks, Proxy};
use posthaste_config::{Config, Source};

use super::finding::{Finding, Verdict};
use super::store::store;
use crate::terminal::counted;

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
    findings.push(access(config));
    findings.extend(guard(config));
    findings.extend([retries(config), leases(config), connections(config), tls(config)]);
    findings
}

fn version() -> Finding {
    Finding::new("version", Verdict::Good, format!("posthaste {}", env!("CARGO_PKG_VERSION")))
}

fn configuration(config: &Config) -> Finding {
    let given = config.settings.iter().filter(|setting| setting.source != Source::Default).count();
    let are = if given == 1 { "is" } else { "are" };
    let given = counted(given as u64, "setting");
    Finding::new(
        "configuration",
        Verdict::Good,
        format!("valid; {given} {are} given, the others are defaults"),
    )
}

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

fn guard(config: &Config) -> Vec<Finding> {
    let unjudged = config.egress_proxy.as_ref().is_some_and(Proxy::resolves_names).then(|| {
        let text = "names go to the egress proxy unjudged, and it alone decides where they lead, into this network \
                    included: use http:// or socks5://, which ask it for addresses that the guard has judged";
        Finding::new("address guard", Verdict::Careful, text)
    });
    let judged = match networks(config) {
        Finding { verdict: Verdict::Good, .. } if unjudged.is_some() => None,
        judged => Some(judged),
    };
    unjudged.into_iter().chain(judged).collect()
}

/// What may be dialled of what is judged.
fn networks(config: &Config) -> Finding {
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
        let held = if one < all { format!("{one} of {all}") } else { format!("all {all}") };
        let text = format!(
            "one slow receiver can hold {held} slots: lower http_pool_size or raise concurrency, so that it cannot \
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
    match posthaste::count_authorities(config.ca_file.as_deref()) {
        Ok(0) => {
            let text = "no certificate authority is known, so no https receiver can be verified: install ca-certificates, or \
                        name a ca_file";
            Finding::new("certificates", Verdict::Careful, text)
        }
        Ok(count) => Finding::new("certificates", Verdict::Good, format!("{count} authorities are trusted")),
        Err(error) => Finding::new("certificates", Verdict::Broken, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use posthaste_config::{Sources, judge};

    use super::*;

    fn configured(settings: &[(&str, &str)]) -> Config {
        let flags: BTreeMap<_, _> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        judge(&Sources { flags: &flags, ..Sources::NONE }).unwrap()
    }

    #[test]
    fn a_proxy_that_looks_names_up_is_not_said_to_be_guarded() {
        for url in ["socks5h://proxy.example:1080", "httph://proxy.example:3128"] {
            let found = guard(&configured(&[("egress_proxy", url), ("allow_private_networks", "false")]));
            let [finding] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(finding.verdict, Verdict::Careful);
            for told in ["alone decides where they lead", "http:// or socks5://"] {
                assert!(finding.text.contains(told), "{}", finding.text);
            }
        }
        let both = guard(&configured(&[
            ("egress_proxy", "socks5h://proxy.example:1080"),
            ("allow_private_networks", "10.0.0.0/8"),
        ]));
        assert_eq!(both.len(), 2, "addresses that are written as such are judged: {both:?}");
        let judged = guard(&configured(&[("egress_proxy", "socks5://proxy.example:1080")]));
        assert!(judged.iter().all(|finding| finding.verdict == Verdict::Good), "{judged:?}");
    }

    #[test]
    fn no_receiver_holds_more_slots_than_there_are() {
        let told = |one: &str| connections(&configured(&[("http_pool_size", one)])).text;
        assert!(told("600").contains("hold all 512 slots"), "{}", told("600"));
        assert!(told("512").contains("hold all 512 slots"), "{}", told("512"));
        assert!(told("300").contains("hold 300 of 512 slots"), "{}", told("300"));
    }

    #[test]
    fn what_is_given_is_counted_in_proper_words() {
        let told = |settings: &[(&str, &str)]| configuration(&configured(settings)).text;
        assert!(told(&[]).contains("; 0 settings are given"));
        assert!(told(&[("concurrency", "64")]).contains("; 1 setting is given"));
        assert!(told(&[("concurrency", "64"), ("dns", "own")]).contains("; 2 settings are given"));
    }
}
