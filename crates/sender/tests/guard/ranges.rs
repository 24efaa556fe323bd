//! Every non-public range, as a literal in the URL and as the address of a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::case::{self, Case};
use crate::harness::{addresses, url_host};

/// IANA's special-purpose registries row by row, the multicast ranges, and the unallocated ranges of IPv6.
const FORBIDDEN: &str = "
    0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
    192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/31
    192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.88.99.2/32 192.168.0.0/16 192.175.48.0/24
    198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
    ::/128 ::1/128 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64
    2001::/23 2001::/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48
    2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16
    fc00::/7 fd00::/8 fe80::/10 fec0::/10 ff00::/8
    ::/3 200::/7 400::/6 800::/5 1000::/4 4000::/3 6000::/3 8000::/3 a000::/3 c000::/3 e000::/4 f000::/5 f800::/6
    fe00::/9";

/// Metadata services, where clouds hand out credentials.
const METADATA: &str = "
    169.254.169.254 169.254.170.2 169.254.170.23 169.254.42.42 169.254.0.23 168.63.129.16 100.100.100.200
    192.0.0.192 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1
    fd00:100::100:200 fe80::a9fe:a9fe";

/// Public addresses. No case dials them.
const PUBLIC: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(1, 2, 3, 4)), IpAddr::V6(Ipv6Addr::new(0x2a00, 0, 0, 0, 0, 0, 0, 1))];

fn metadata() -> impl Iterator<Item = IpAddr> {
    METADATA.split_whitespace().map(|text| text.parse().unwrap())
}

fn networks() -> impl Iterator<Item = IpNet> {
    FORBIDDEN.split_whitespace().map(|text| text.parse().unwrap())
}

/// Returns the first, a middle and the last address of every range, without duplicates.
fn edges() -> Vec<IpAddr> {
    let of_each = networks().flat_map(|network| [network.network(), middle(network), network.broadcast()]);
    let mut edges: Vec<_> = of_each.chain(metadata()).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn middle(network: IpNet) -> IpAddr {
    match network {
        IpNet::V4(network) => {
            Ipv4Addr::from_bits(network.network().to_bits() | (network.hostmask().to_bits() / 3)).into()
        }
        IpNet::V6(network) => {
            Ipv6Addr::from_bits(network.network().to_bits() | (network.hostmask().to_bits() / 3)).into()
        }
    }
}

/// Returns the IPv6 addresses that embed an IPv4 address, in every form that hosts and networks use.
fn embeddings_of(address: Ipv4Addr) -> Vec<IpAddr> {
    let ipv4 = u128::from(address.to_bits());
    let forms = [
        ipv4,
        0xffff << 32 | ipv4,
        0xffff << 48 | ipv4,
        0x64_ff9b << 96 | ipv4,
        0x64_ff9b_0001 << 80 | ipv4,
        0x2002 << 112 | ipv4 << 80,
        0x2001 << 112 | ipv4 << 64 | (!ipv4 & 0xffff_ffff),
    ];
    forms.map(|bits| Ipv6Addr::from_bits(bits).into()).to_vec()
}

pub(crate) fn literals() -> Vec<Case> {
    let literal =
        |address| ["http", "https"].map(|scheme| format!("{scheme}://{}:{{port}}/", url_host(address)));
    edges().into_iter().flat_map(literal).map(Case::blocked).collect()
}

pub(crate) fn embedded() -> Vec<Case> {
    let ipv4 = metadata().chain(networks().map(middle)).filter_map(|address| match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    });
    let embedding = ipv4.flat_map(embeddings_of).enumerate();
    // As addresses of names, because the literals of many are cases above. The setting allows all of IPv6, so that only
    // the embedded address is forbidden.
    let case = |(n, embedding)| {
        Case::blocked_name(&format!("embedding-{n}.example"), vec![embedding]).with_allowed("::/0")
    };
    embedding.map(case).collect()
}

pub(crate) fn answers() -> Vec<Case> {
    let [public, public_v6] = PUBLIC;
    let mixes = edges().into_iter().flat_map(|forbidden| {
        [
            vec![forbidden],
            vec![forbidden, public],
            vec![public, forbidden],
            vec![public_v6, public, forbidden, public],
        ]
    });
    let case = |(n, mix): (usize, Vec<IpAddr>)| Case::blocked_name(&format!("mix-{n}.example"), mix);
    mixes.enumerate().map(case).collect()
}

/// Values of the setting that allow something, and addresses that they do not allow.
pub(crate) fn allow_lists() -> Vec<Case> {
    let all_metadata: Vec<_> = METADATA.split_whitespace().collect();
    let lists: [(&str, &[&str]); 11] = [
        ("true", &all_metadata),
        ("0.0.0.0/0,::/0", &all_metadata),
        ("169.254.0.0/16,168.63.129.0/24,100.64.0.0/10,192.0.0.0/24,fc00::/7,fe80::/10", &all_metadata),
        ("true", &["0.0.0.0", "::", "169.254.1.1", "fe80::1", "224.0.0.1", "ff02::1", "255.255.255.255"]),
        (
            "true",
            &["::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::10.0.0.1", "2002:7f00:1::", "::ffff:0.0.0.0"],
        ),
        ("0.0.0.0/0,::/0", &["0.0.0.0", "::", "255.255.255.255", "::1", "::ffff:0.0.0.0"]),
        ("0.0.0.0/8", &["0.0.0.0", "::ffff:0.0.0.0"]),
        ("127.0.0.1", &["127.0.0.2", "127.0.0.0", "::1", "::ffff:127.0.0.2", "::127.0.0.1"]),
        ("::1", &["127.0.0.1", "::ffff:127.0.0.1", "::", "::2"]),
        ("::ffff:0:0/96", &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "127.0.0.1"]),
        ("64:ff9b::/96,64:ff9b:1::/48", &["64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::10.0.0.1"]),
    ];
    let cases = lists.iter().flat_map(|(allowed, forbidden)| {
        let literal =
            |address| Case::blocked(format!("http://{}:{{port}}/", url_host(address))).with_allowed(allowed);
        addresses(forbidden).into_iter().map(literal).collect::<Vec<_>>()
    });
    cases.collect()
}

#[tokio::test]
async fn ip_literals_of_forbidden_ranges_are_never_dialled() {
    case::run_all(literals()).await;
}

#[tokio::test]
async fn ipv6_addresses_that_embed_a_forbidden_ipv4_address_are_never_dialled() {
    case::run_all(embedded()).await;
}

#[tokio::test]
async fn a_name_with_one_forbidden_address_is_never_dialled() {
    case::run_all(answers()).await;
}

#[tokio::test]
async fn no_setting_allows_more_than_it_lists() {
    case::run_all(allow_lists()).await;
}
