//! Address ranges that contain no receiver on the public internet.
//!
//! The table contains IANA's special-purpose registries (RFC 6890 and its updates), multicast, the unallocated parts of
//! IPv6, and the metadata services of clouds, which hand credentials to any client inside the cloud. It also contains
//! ranges that are public by their registry but serve one protocol (AS112, AMT, the anycast relays): no receivers use
//! them, and an anycast address may be answered inside the operator's own network.

use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;

/// A range of addresses that the guard forbids by default.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReservedRange {
    pub(super) network: IpNet,
    pub(super) kind: &'static str,
}

const METADATA: &str = "cloud metadata service";
const PRIVATE: &str = "private network";
const LOOPBACK: &str = "loopback";
const UNSPECIFIED: &str = "unspecified address, which is the local host";
const LINK_LOCAL: &str = "link-local";
const PROTOCOL: &str = "protocol assignments";
const DOCUMENTATION: &str = "documentation";
const BENCHMARKING: &str = "benchmarking";
const AS112: &str = "AS112 name servers";
const MULTICAST: &str = "multicast";
const RESERVED: &str = "reserved";
const UNALLOCATED: &str = "not public IPv6";

/// The reserved ranges. The first row that contains an address applies, so hosts precede networks, and narrow networks
/// precede wide ones.
const TABLE: &[(&str, &str)] = &[
    // AWS, Azure, Google, Oracle and most others; AWS containers and pods; Scaleway; Tencent.
    ("169.254.169.254/32", METADATA),
    ("169.254.170.2/32", METADATA),
    ("169.254.170.23/32", METADATA),
    ("169.254.42.42/32", METADATA),
    ("169.254.0.23/32", METADATA),
    // Azure, whose service has a public address; Alibaba; older Oracle clouds.
    ("168.63.129.16/32", METADATA),
    ("100.100.100.200/32", METADATA),
    ("192.0.0.192/32", METADATA),
    // AWS, its pods, Google, Oracle, Scaleway, Linode, Alibaba, OpenStack.
    ("fd00:ec2::254/128", METADATA),
    ("fd00:ec2::23/128", METADATA),
    ("fd20:ce::254/128", METADATA),
    ("fd00:c1::a9fe:a9fe/128", METADATA),
    ("fd00:42::42/128", METADATA),
    ("fd00:a9fe:a9fe::1/128", METADATA),
    ("fd00:100::100:200/128", METADATA),
    ("fe80::a9fe:a9fe/128", METADATA),
    // IPv4.
    ("0.0.0.0/32", UNSPECIFIED),
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", PRIVATE),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", LOOPBACK),
    ("169.254.0.0/16", LINK_LOCAL),
    ("172.16.0.0/12", PRIVATE),
    ("192.0.0.0/24", PROTOCOL),
    ("192.0.2.0/24", DOCUMENTATION),
    ("192.31.196.0/24", AS112),
    ("192.52.193.0/24", "multicast tunnelling"),
    ("192.88.99.0/24", "6to4 relays"),
    ("192.168.0.0/16", PRIVATE),
    ("192.175.48.0/24", AS112),
    ("198.18.0.0/15", BENCHMARKING),
    ("198.51.100.0/24", DOCUMENTATION),
    ("203.0.113.0/24", DOCUMENTATION),
    ("224.0.0.0/4", MULTICAST),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", RESERVED),
    // IPv6 below 2000::/3: mostly embedded IPv4 addresses.
    ("::/128", UNSPECIFIED),
    ("::1/128", LOOPBACK),
    ("::/96", "IPv4-compatible addresses"),
    ("::ffff:0:0/96", "IPv4-mapped addresses"),
    ("::ffff:0:0:0/96", "IPv4-translated addresses"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "discard only"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("::/3", UNALLOCATED),
    // IPv6 within 2000::/3, the allocated space.
    ("2001::/32", "Teredo tunnels"),
    ("2001:2::/48", BENCHMARKING),
    ("2001:3::/32", "multicast tunnelling"),
    ("2001:4:112::/48", AS112),
    ("2001:10::/28", "ORCHID identifiers"),
    ("2001:20::/28", "ORCHID identifiers"),
    ("2001:30::/28", "drone identifiers"),
    ("2001::/23", PROTOCOL),
    ("2001:db8::/32", DOCUMENTATION),
    ("2002::/16", "6to4 tunnels"),
    ("2620:4f:8000::/48", AS112),
    ("3fff::/20", DOCUMENTATION),
    // IPv6 above 2000::/3.
    ("5f00::/16", "segment routing"),
    ("4000::/2", UNALLOCATED),
    ("fc00::/7", "unique-local network"),
    ("fe80::/10", LINK_LOCAL),
    ("fec0::/10", "site-local network"),
    ("ff00::/8", MULTICAST),
    ("8000::/1", UNALLOCATED),
];

static RANGES: LazyLock<Vec<ReservedRange>> = LazyLock::new(|| {
    let network = |text: &str| text.parse().expect("the table contains valid networks");
    TABLE.iter().map(|(text, kind)| ReservedRange { network: network(text), kind }).collect()
});

impl ReservedRange {
    /// Returns the range that contains an address, or `None` for a public address.
    pub(super) fn containing(address: IpAddr) -> Option<&'static Self> {
        Self::all().iter().find(|range| range.network.contains(&address))
    }

    pub(super) fn all() -> &'static [Self] {
        &RANGES
    }

    /// Returns whether the range is a single address.
    pub(super) fn is_host(&self) -> bool {
        self.network.prefix_len() == self.network.max_prefix_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_network_without_host_bits() {
        for range in ReservedRange::all() {
            assert_eq!(range.network, range.network.trunc(), "{} has host bits", range.network);
        }
    }

    #[test]
    fn no_row_is_shadowed_by_an_earlier_one() {
        for (index, range) in ReservedRange::all().iter().enumerate() {
            for earlier in &ReservedRange::all()[..index] {
                assert!(
                    !earlier.network.contains(&range.network),
                    "{} shadows {}",
                    earlier.network,
                    range.network
                );
            }
        }
    }

    #[test]
    fn public_addresses_are_in_no_range() {
        const PUBLIC: &str = "1.2.3.4 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
            168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 \
            192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 \
            2000:: 2001:200::1 2001:db7:: 2001:db9:: 2003::1 2a00::1 3ffe:: 3fff:1000:: 3fff:ffff::1";
        for public in PUBLIC.split_whitespace() {
            assert_eq!(ReservedRange::containing(public.parse().unwrap()), None, "{public}");
        }
    }
}
