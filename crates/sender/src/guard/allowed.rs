//! The networks that an operator opens although they are not public.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// Most networks that can be allowed: each is looked at for every new connection.
const NETWORKS_MAX: usize = 256;
/// Longest piece of a refused value that is repeated, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// What the setting `ALLOW_PRIVATE_NETWORKS` opens. Shown as the setting would be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNetworks(BTreeSet<IpNet>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    #[error(
        "{0:?} is not a network; write true or false, or networks and addresses separated by commas, \
         such as 10.0.0.0/8,fd12:3456::/32,192.168.1.7"
    )]
    Malformed(String),
    #[error("{address}/{prefix_len} names a host, not a network; write {network} or {host}")]
    HostBits { address: IpAddr, prefix_len: u8, network: IpNet, host: IpNet },
    #[error("{mapped} is an IPv4 network in the form of IPv6; write {network}")]
    Mapped { mapped: IpNet, network: IpNet },
    #[error("{0} networks are too many; allow at most {NETWORKS_MAX}, or fewer and wider ones")]
    TooMany(usize),
}

impl AllowedNetworks {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn loopback() -> Self {
        Self::of(&["127.0.0.0/8", "::1/128"])
    }

    /// Where an operator's own receivers usually are. Link-local addresses are not among them: they serve the host
    /// itself, as metadata services do.
    pub fn private() -> Self {
        let networks =
            ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"];
        Self::of(&networks).and(Self::loopback())
    }

    /// Reads `true`, `false`, or networks and addresses separated by commas.
    pub fn parse(text: &str) -> Result<Self, InvalidNetwork> {
        match text.trim() {
            "true" => Ok(Self::private()),
            "false" => Ok(Self::none()),
            list => {
                let count = list.split(',').count();
                if count > NETWORKS_MAX {
                    return Err(InvalidNetwork::TooMany(count));
                }
                list.split(',').map(|entry| network(entry.trim())).collect::<Result<_, _>>().map(Self)
            }
        }
    }

    /// What either of them opens.
    pub fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether the address itself is in the list, rather than a network around it.
    pub(super) fn names(&self, address: IpAddr) -> bool {
        self.0.contains(&IpNet::from(address))
    }

    fn of(networks: &[&str]) -> Self {
        Self(
            networks
                .iter()
                .map(|text| text.parse().expect("the networks of this file are written right"))
                .collect(),
        )
    }
}

fn network(text: &str) -> Result<IpNet, InvalidNetwork> {
    let Some(given) = read(text) else {
        return Err(InvalidNetwork::Malformed(text.chars().take(SHOWN_CHARS_MAX).collect()));
    };
    let network = given.trunc();
    if network != given {
        let (address, prefix_len) = (given.addr(), given.prefix_len());
        return Err(InvalidNetwork::HostBits { address, prefix_len, network, host: address.into() });
    }
    match unmapped(network) {
        Some(unmapped) => Err(InvalidNetwork::Mapped { mapped: network, network: unmapped }),
        None => Ok(network),
    }
}

/// The address is read by the standard library, which refuses leading zeros: elsewhere they mean octal.
fn read(text: &str) -> Option<IpNet> {
    let Some((address, prefix_len)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    IpNet::new(address.parse().ok()?, prefix_len.parse().ok()?).ok()
}

/// What an IPv4-mapped network means. All of `::ffff:0:0/96` is let through: it allows the form, and nothing inside.
fn unmapped(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(v6) = network else { return None };
    let prefix_len = v6.prefix_len().checked_sub(96).filter(|prefix_len| *prefix_len > 0)?;
    IpNet::new(v6.addr().to_ipv4_mapped()?.into(), prefix_len).ok()
}

impl fmt::Display for AllowedNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("false");
        }
        for (at, network) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{network}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        AllowedNetworks::parse(text).unwrap_err().to_string()
    }

    fn shown(text: &str) -> String {
        AllowedNetworks::parse(text).unwrap().to_string()
    }

    #[test]
    fn the_setting_is_true_false_or_a_list() {
        assert_eq!(AllowedNetworks::parse("true").unwrap(), AllowedNetworks::private());
        assert_eq!(AllowedNetworks::parse(" false ").unwrap(), AllowedNetworks::none());
        assert!(AllowedNetworks::parse("false").unwrap().is_empty());
        assert_eq!(shown("10.0.0.0/8"), "10.0.0.0/8");
        assert_eq!(shown(" ::1 , 10.0.0.0/8,10.0.0.7, 10.0.0.7/32"), "10.0.0.0/8,10.0.0.7/32,::1/128");
        assert_eq!(shown("::ffff:0:0/96"), "::ffff:0.0.0.0/96");
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_way_out() {
        for text in [
            "",
            ",",
            "10.0.0.0/8,",
            "True",
            "yes",
            "true,10.0.0.0/8",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10/8",
            "010.0.0.0/8",
            "0x7f000001",
            "10.0.0.0/8/8",
            "10.0.0.0 /8",
            "fe80::1%eth0",
            "[::1]",
            "10.0.0.0/-1",
            "receiver.example",
            "10.0.0.0-10.0.0.9",
        ] {
            let refusal = refusal(text);
            assert!(
                refusal.contains("is not a network; write true or false, or networks"),
                "{text:?}: {refusal}"
            );
        }
    }

    #[test]
    fn a_host_with_a_prefix_is_refused_with_both_things_it_could_mean() {
        assert_eq!(
            refusal("10.0.0.1/8"),
            "10.0.0.1/8 names a host, not a network; write 10.0.0.0/8 or 10.0.0.1/32"
        );
        assert_eq!(
            refusal("fd12::1/16"),
            "fd12::1/16 names a host, not a network; write fd12::/16 or fd12::1/128"
        );
    }

    #[test]
    fn an_ipv4_network_in_the_form_of_ipv6_is_refused_with_the_plain_one() {
        assert!(refusal("::ffff:10.0.0.0/104").ends_with("write 10.0.0.0/8"));
        assert!(refusal("::ffff:127.0.0.1").ends_with("write 127.0.0.1/32"));
    }

    #[test]
    fn a_long_value_is_not_repeated_and_a_long_list_not_read() {
        assert!(refusal(&"x".repeat(100_000)).len() < 250);
        let list = vec!["10.0.0.0/8"; 257].join(",");
        assert_eq!(refusal(&list), "257 networks are too many; allow at most 256, or fewer and wider ones");
    }

    #[test]
    fn a_union_opens_what_either_opens() {
        let both = AllowedNetworks::parse("10.0.0.0/8").unwrap().and(AllowedNetworks::loopback());
        for address in ["10.1.2.3", "127.0.0.1", "::1"] {
            assert!(both.contains(address.parse().unwrap()), "{address}");
        }
        assert!(!both.contains("192.168.0.1".parse().unwrap()));
    }

    #[test]
    fn a_network_does_not_name_its_hosts() {
        let allowed = AllowedNetworks::parse("10.0.0.0/8,192.168.0.1").unwrap();
        assert!(!allowed.names("10.0.0.0".parse().unwrap()));
        assert!(allowed.names("192.168.0.1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_a_few_words(text in ".{0,200}") {
            if let Err(refusal) = AllowedNetworks::parse(&text) {
                prop_assert!(refusal.to_string().len() < 1_000);
            }
        }

        #[test]
        fn text_that_looks_like_networks_is_read_or_refused(text in "[0-9a-f:./, ]{0,60}") {
            let _ = AllowedNetworks::parse(&text);
        }

        #[test]
        fn what_is_shown_is_read_back_as_the_same(
            networks in proptest::collection::vec((any::<IpAddr>(), 0_u8..=128), 0..10)
        ) {
            let network = |(address, len): (IpAddr, u8)| {
                let len = if address.is_ipv4() { len % 33 } else { len };
                IpNet::new(address, len).unwrap().trunc()
            };
            let plain = networks.into_iter().map(network).filter(|network| unmapped(*network).is_none());
            let allowed = AllowedNetworks(plain.collect());
            prop_assert_eq!(AllowedNetworks::parse(&allowed.to_string()).unwrap(), allowed);
        }
    }
}
