//! Non-public networks that the operator allows the sender to dial.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// Upper bound of allowed networks. The guard compares every new connection's addresses with each of them.
const NETWORKS_MAX: usize = 256;
/// Upper bound of characters of a refused value in an error message.
const ECHOED_CHARS_MAX: usize = 60;

/// The networks of the setting `ALLOW_PRIVATE_NETWORKS`. `Display` writes them in the syntax of the setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNetworks(BTreeSet<IpNet>);

/// Why a value of `ALLOW_PRIVATE_NETWORKS` or `DENY_NETWORKS` is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    /// An entry is neither a network nor an address.
    #[error(
        "{0:?} is not a network; write networks and addresses separated by commas, such as \
         10.0.0.0/8,fd12:3456::/32,192.168.1.7"
    )]
    Malformed(String),
    /// An entry has bits set beyond its prefix, so that it may mean a network or a host.
    #[error("{address}/{prefix_len} names a host, not a network; write {network} or {host}")]
    HostBits { address: IpAddr, prefix_len: u8, network: IpNet, host: IpNet },
    /// An entry is an IPv4-mapped IPv6 network.
    #[error("{mapped} is an IPv4 network in the form of IPv6; write {network}")]
    Mapped { mapped: IpNet, network: IpNet },
    /// The list has more entries than allowed.
    #[error("{0} networks are too many; list at most {NETWORKS_MAX}, and use wider ones if needed")]
    TooMany(usize),
}

impl AllowedNetworks {
    /// Allows no network: the sender connects to public addresses only.
    pub fn none() -> Self {
        Self::default()
    }

    /// Allows the loopback addresses, `127.0.0.0/8` and `::1`.
    pub fn loopback() -> Self {
        Self::from_literals(&["127.0.0.0/8", "::1/128"])
    }

    /// Allows the networks in which an operator's own receivers usually run, including loopback. Link-local addresses
    /// are excluded, because they serve the host itself, as metadata services do.
    pub fn private() -> Self {
        let networks =
            ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"];
        Self::from_literals(&networks).union(Self::loopback())
    }

    /// Parses the setting: `true` (private networks), `false` (none), or networks and addresses separated by commas.
    pub fn parse(text: &str) -> Result<Self, InvalidNetwork> {
        match text.trim() {
            "true" => Ok(Self::private()),
            "false" => Ok(Self::none()),
            list => parse_networks(list).map(Self),
        }
    }

    /// Returns the networks of both lists.
    fn union(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// Returns true if no network is allowed, so that the sender connects to public addresses only.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns whether the address itself is in the list; a network that contains it does not count.
    pub(super) fn lists_address(&self, address: IpAddr) -> bool {
        self.0.contains(&IpNet::from(address))
    }

    fn from_literals(networks: &[&str]) -> Self {
        Self(
            networks
                .iter()
                .map(|text| text.parse().expect("the literals in this file are valid networks"))
                .collect(),
        )
    }
}

/// Parses networks and addresses separated by commas.
pub(super) fn parse_networks(list: &str) -> Result<BTreeSet<IpNet>, InvalidNetwork> {
    let count = list.split(',').count();
    if count > NETWORKS_MAX {
        return Err(InvalidNetwork::TooMany(count));
    }
    list.split(',').map(|entry| parse_network(entry.trim())).collect()
}

/// Writes networks separated by commas.
pub(super) fn write_networks(f: &mut fmt::Formatter<'_>, networks: &BTreeSet<IpNet>) -> fmt::Result {
    for (index, network) in networks.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{network}")?;
    }
    Ok(())
}

fn parse_network(text: &str) -> Result<IpNet, InvalidNetwork> {
    let Some(parsed) = parse_ipnet(text) else {
        return Err(InvalidNetwork::Malformed(text.chars().take(ECHOED_CHARS_MAX).collect()));
    };
    let network = parsed.trunc();
    if network != parsed {
        let (address, prefix_len) = (parsed.addr(), parsed.prefix_len());
        return Err(InvalidNetwork::HostBits { address, prefix_len, network, host: address.into() });
    }
    match to_ipv4_network(network) {
        Some(ipv4) => Err(InvalidNetwork::Mapped { mapped: network, network: ipv4 }),
        None => Ok(network),
    }
}

/// Parses an address or a network. The standard library parses the address and refuses leading zeros, which other
/// programs read as octal.
fn parse_ipnet(text: &str) -> Option<IpNet> {
    let Some((address, prefix_len)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(IpNet::from);
    };
    IpNet::new(address.parse().ok()?, prefix_len.parse().ok()?).ok()
}

/// Converts an IPv4-mapped network to the IPv4 network that it stands for. Returns `None` for other networks, and for
/// all of `::ffff:0:0/96`, which allows the mapped form but none of the embedded addresses.
fn to_ipv4_network(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(v6) = network else { return None };
    let prefix_len = v6.prefix_len().checked_sub(96).filter(|prefix_len| *prefix_len > 0)?;
    IpNet::new(v6.addr().to_ipv4_mapped()?.into(), prefix_len).ok()
}

impl fmt::Display for AllowedNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("false");
        }
        write_networks(f, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error_text(text: &str) -> String {
        AllowedNetworks::parse(text).unwrap_err().to_string()
    }

    fn normalized(text: &str) -> String {
        AllowedNetworks::parse(text).unwrap().to_string()
    }

    #[test]
    fn the_setting_is_true_false_or_a_list() {
        assert_eq!(AllowedNetworks::parse("true").unwrap(), AllowedNetworks::private());
        assert_eq!(AllowedNetworks::parse(" false ").unwrap(), AllowedNetworks::none());
        assert!(AllowedNetworks::parse("false").unwrap().is_empty());
        assert_eq!(normalized("10.0.0.0/8"), "10.0.0.0/8");
        assert_eq!(normalized(" ::1 , 10.0.0.0/8,10.0.0.7, 10.0.0.7/32"), "10.0.0.0/8,10.0.0.7/32,::1/128");
        assert_eq!(normalized("::ffff:0:0/96"), "::ffff:0.0.0.0/96");
    }

    #[test]
    fn malformed_networks_are_refused_with_examples() {
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
            let error_text = error_text(text);
            assert!(
                error_text.contains("is not a network; write networks and addresses"),
                "{text:?}: {error_text}"
            );
        }
    }

    #[test]
    fn a_network_with_host_bits_is_refused_with_both_possible_corrections() {
        assert_eq!(
            error_text("10.0.0.1/8"),
            "10.0.0.1/8 names a host, not a network; write 10.0.0.0/8 or 10.0.0.1/32"
        );
        assert_eq!(
            error_text("fd12::1/16"),
            "fd12::1/16 names a host, not a network; write fd12::/16 or fd12::1/128"
        );
    }

    #[test]
    fn an_ipv4_mapped_network_is_refused_with_the_ipv4_network() {
        assert!(error_text("::ffff:10.0.0.0/104").ends_with("write 10.0.0.0/8"));
        assert!(error_text("::ffff:127.0.0.1").ends_with("write 127.0.0.1/32"));
    }

    #[test]
    fn long_values_are_not_echoed_and_long_lists_not_parsed() {
        assert!(error_text(&"x".repeat(100_000)).len() < 250);
        let list = vec!["10.0.0.0/8"; 257].join(",");
        assert_eq!(
            error_text(&list),
            "257 networks are too many; list at most 256, and use wider ones if needed"
        );
    }

    #[test]
    fn a_union_contains_both_lists() {
        let both = AllowedNetworks::parse("10.0.0.0/8").unwrap().union(AllowedNetworks::loopback());
        for address in ["10.1.2.3", "127.0.0.1", "::1"] {
            assert!(both.contains(address.parse().unwrap()), "{address}");
        }
        assert!(!both.contains("192.168.0.1".parse().unwrap()));
    }

    #[test]
    fn a_network_does_not_list_its_addresses() {
        let allowed = AllowedNetworks::parse("10.0.0.0/8,192.168.0.1").unwrap();
        assert!(!allowed.lists_address("10.0.0.0".parse().unwrap()));
        assert!(allowed.lists_address("192.168.0.1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_with_a_short_message(text in ".{0,200}") {
            if let Err(error_text) = AllowedNetworks::parse(&text) {
                prop_assert!(error_text.to_string().len() < 1_000);
            }
        }

        #[test]
        fn text_that_resembles_networks_never_panics(text in "[0-9a-f:./, ]{0,60}") {
            let _ = AllowedNetworks::parse(&text);
        }

        #[test]
        fn displayed_networks_parse_to_the_same_value(
            networks in proptest::collection::vec((any::<IpAddr>(), 0_u8..=128), 0..10)
        ) {
            let network = |(address, len): (IpAddr, u8)| {
                let len = if address.is_ipv4() { len % 33 } else { len };
                IpNet::new(address, len).unwrap().trunc()
            };
            let plain = networks.into_iter().map(network).filter(|network| to_ipv4_network(*network).is_none());
            let allowed = AllowedNetworks(plain.collect());
            prop_assert_eq!(AllowedNetworks::parse(&allowed.to_string()).unwrap(), allowed);
        }
    }
}
