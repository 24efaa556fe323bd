//! The IPv4 addresses inside an IPv6 address, where something on the way may take them out and dial them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Every IPv4 address that a translator or tunnel could find in this one.
pub(super) fn carried(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    match address.segments() {
        // The unspecified address and loopback would read as IPv4-compatible.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => vec![],
        // IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![v4(high, low)],
        [0x64, 0xff9b, 1, ..] => carried_by_local_nat64(address),
        // 6to4.
        [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo: the server, and the client with its bits flipped.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            vec![v4(server_high, server_low), v4(!high, !low)]
        }
        _ => vec![],
    }
}

/// RFC 8215 leaves the length of the prefix to the network, and RFC 6052 has the place of the IPv4 address follow
/// from it: 48, 56 or 64 bits (around the octet at bit 64, which is left out) or 96. All four are looked at.
fn carried_by_local_nat64(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let o = address.octets();
    let short_prefixes = [[o[6], o[7], o[9], o[10]], [o[7], o[9], o[10], o[11]], [o[9], o[10], o[11], o[12]]]
        .map(Ipv4Addr::from);
    // The zeros that fill a longer prefix are no address inside a shorter one.
    let mut found: Vec<_> = short_prefixes.into_iter().filter(|inside| inside.octets()[0] != 0).collect();
    found.push(Ipv4Addr::new(o[12], o[13], o[14], o[15]));
    found
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str) -> Vec<String> {
        carried(text.parse().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_transition_form_gives_up_what_it_carries() {
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
            assert!(inside(form).contains(&"10.1.2.3".to_owned()), "{form} carries {:?}", inside(form));
        }
        assert!(inside("64:ff9b:1:0:a:102:300::").contains(&"10.1.2.3".to_owned()));
        assert_eq!(inside("2001:0:a01:203:8000:1234:f5fe:fdfc"), ["10.1.2.3", "10.1.2.3"]);
    }

    #[test]
    fn a_usual_local_nat64_prefix_carries_one_public_address_and_zeros() {
        assert_eq!(inside("64:ff9b:1::1.2.3.4"), ["1.2.3.4"]);
    }

    #[test]
    fn other_addresses_carry_nothing() {
        for plain in ["::", "::1", "2a00::1", "2001:1::a01:203", "64:ff9b:0:1::a01:203", "fd00::a01:203"] {
            assert_eq!(inside(plain), [] as [&str; 0], "{plain}");
        }
    }
}
