//! IPv4 addresses embedded in IPv6 addresses. A translator or tunnel on the network path may extract and dial them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns every IPv4 address that a translator or tunnel could extract from an IPv6 address.
pub(super) fn embedded_ipv4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    match address.segments() {
        // The unspecified address and loopback have the form of an IPv4-compatible address.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => vec![],
        // IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![v4(high, low)],
        [0x64, 0xff9b, 1, ..] => embedded_in_local_nat64(address),
        // 6to4.
        [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo: the server, and the client with its bits flipped.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            vec![v4(server_high, server_low), v4(!high, !low)]
        }
        _ => vec![],
    }
}

/// Returns the addresses embedded under the local NAT64 prefix of RFC 8215. The network chooses the length of its prefix,
/// which determines the position of the IPv4 address (RFC 6052): after 48, 56 or 64 bits, skipping the octet at bit 64,
/// or after 96 bits. This returns the addresses at all four positions.
fn embedded_in_local_nat64(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let o = address.octets();
    let short_prefixes = [[o[6], o[7], o[9], o[10]], [o[7], o[9], o[10], o[11]], [o[9], o[10], o[11], o[12]]]
        .map(Ipv4Addr::from);
    // The zeros that fill a longer prefix are not an address under a shorter one.
    let mut found: Vec<_> = short_prefixes.into_iter().filter(|embedded| embedded.octets()[0] != 0).collect();
    found.push(Ipv4Addr::new(o[12], o[13], o[14], o[15]));
    found
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded_in(text: &str) -> Vec<String> {
        embedded_ipv4(text.parse().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_ipv4_address_is_found_in_every_transition_form() {
        for form in [
            "::10.1.2.3",
            "::ffff:10.1.2.3",
            "::ffff:0:10.1.2.3",
            "64:ff9b::10.1.2.3",
            "64:ff9b:1::10.1.2.3",
            "64:ff9b:1:a01:2:300::",
            "64:ff9b:1:a:1:203::",
            "2002:a01:203::1",
        ] {
            assert!(
                embedded_in(form).contains(&"10.1.2.3".to_owned()),
                "{form} embeds {:?}",
                embedded_in(form)
            );
        }
        assert!(embedded_in("64:ff9b:1:0:a:102:300::").contains(&"10.1.2.3".to_owned()));
        assert_eq!(embedded_in("2001:0:a01:203:8000:1234:f5fe:fdfc"), ["10.1.2.3", "10.1.2.3"]);
    }

    #[test]
    fn zeros_of_a_local_nat64_prefix_are_not_an_address() {
        assert_eq!(embedded_in("64:ff9b:1::1.2.3.4"), ["1.2.3.4"]);
    }

    #[test]
    fn other_addresses_embed_no_ipv4_address() {
        for plain in ["::", "::1", "2a00::1", "2001:1::a01:203", "64:ff9b:0:1::a01:203", "fd00::a01:203"] {
            assert_eq!(embedded_in(plain), [] as [&str; 0], "{plain}");
        }
    }
}
