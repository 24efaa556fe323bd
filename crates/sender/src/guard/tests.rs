use std::net::{Ipv4Addr, SocketAddrV6};

use proptest::prelude::*;

use ipnet::IpNet;
use posthaste_domain::DestinationUrl;

use super::*;

fn guard(allowed: &str) -> AddressGuard {
    allowing(AllowedNetworks::parse(allowed).unwrap())
}

fn allowing(allowed_networks: AllowedNetworks) -> AddressGuard {
    AddressGuard::new(&SenderOptions { allowed_networks, ..SenderOptions::new() })
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn permits(allowed: &str, address: &str) -> bool {
    guard(allowed).permit(SocketAddr::new(ip(address), 443)).is_ok()
}

fn refusal_text(allowed: &str, address: &str) -> String {
    guard(allowed).permit(SocketAddr::new(ip(address), 443)).unwrap_err().to_string()
}

#[test]
fn denied_networks_are_forbidden_even_if_they_are_public_or_allowed() {
    let guard = AddressGuard::new(&SenderOptions {
        allowed_networks: AllowedNetworks::parse("10.0.0.0/8").unwrap(),
        denied_networks: DeniedNetworks::parse("10.1.0.0/16, 1.2.3.4, 2a00::/16").unwrap(),
        ..SenderOptions::new()
    });
    let refusal = |address: &str| guard.permit(SocketAddr::new(ip(address), 443)).err();
    for address in ["10.1.2.3", "1.2.3.4", "2a00::1", "::ffff:10.1.2.3", "64:ff9b::1.2.3.4"] {
        assert!(refusal(address).is_some(), "{address}");
    }
    assert!(refusal("1.2.3.4").unwrap().to_string().contains("deny_networks"));
    for address in ["10.2.0.1", "1.2.3.5", "2400::1"] {
        assert_eq!(refusal(address), None, "{address}");
    }
}

#[test]
fn own_listener_is_forbidden_even_if_its_network_is_allowed() {
    let guard = AddressGuard::new(&SenderOptions {
        allowed_networks: AllowedNetworks::loopback(),
        own_listeners: vec!["127.0.0.1:8600".parse().unwrap()],
        ..SenderOptions::new()
    });
    assert!(guard.permit("127.0.0.1:8601".parse().unwrap()).is_ok());
    for own in ["127.0.0.1:8600", "[::ffff:127.0.0.1]:8600"] {
        let refusal = guard.permit(own.parse().unwrap()).unwrap_err().to_string();
        assert!(refusal.contains("Posthaste itself listens"), "{own}: {refusal}");
    }
}

#[test]
fn destination_is_checked_by_its_scheme_and_its_literal_address() {
    let guard = AddressGuard::new(&SenderOptions { https_only: true, ..SenderOptions::new() });
    let check = |url: &str| guard.check_destination(&DestinationUrl::parse(url).unwrap());
    assert_eq!(check("http://receiver.example/"), Err(ForbiddenDestination::NotHttps));
    for refused in
        ["https://192.168.1.5/", "https://0x7f.1/", "https://[fd12::1]:8443/", "https://[::ffff:10.0.0.1]/"]
    {
        assert!(matches!(check(refused), Err(ForbiddenDestination::Address(_))), "{refused}");
    }
    for accepted in ["https://receiver.example/", "https://1.2.3.4/", "https://[2a00::1]/"] {
        assert_eq!(check(accepted), Ok(()), "{accepted}");
    }
}

#[test]
fn public_addresses_are_permitted_as_they_are() {
    for address in ["1.2.3.4:80", "5.6.7.8:443", "[2a00::1]:443", "[2400::1]:8443"] {
        let address: SocketAddr = address.parse().unwrap();
        assert_eq!(guard("false").permit(address), Ok(PermittedAddress(address)));
    }
}

#[test]
fn first_and_last_address_of_every_range_are_forbidden_by_default() {
    for range in ReservedRange::all() {
        for end in [range.network.network(), range.network.broadcast()] {
            assert!(!permits("false", &end.to_string()), "{end}");
        }
    }
}

#[test]
fn true_allows_private_networks_and_nothing_else() {
    for open in ["127.0.0.1", "127.255.255.255", "10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "::1"]
    {
        assert!(permits("true", open), "{open}");
    }
    for open in ["fd12::1", "fc00::1", "fec0::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1"] {
        assert!(permits("true", open), "{open}");
    }
    for closed in [
        "0.0.0.0",
        "0.0.0.1",
        "169.254.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "ff02::1",
        "::127.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "2002:a00:1::",
        "2001:db8::1",
        "::ffff:169.254.169.254",
        "::ffff:1.2.3.4",
    ] {
        assert!(!permits("true", closed), "{closed}");
    }
}

#[test]
fn a_reserved_host_is_allowed_only_by_its_exact_address() {
    let hosts: Vec<_> = ReservedRange::all().iter().filter(|range| range.is_host()).collect();
    assert!(hosts.len() > 15);
    for host in hosts {
        let address = host.network.addr().to_string();
        for wide in
            ["true", "0.0.0.0/0,::/0", "169.254.0.0/16,fc00::/7", "169.254.169.254/31,fd00:ec2::254/127"]
        {
            assert!(host.kind == "loopback" || !permits(wide, &address), "{wide} allows {address}");
        }
        assert!(permits(&address, &address), "{address}");
        assert!(permits(&host.network.to_string(), &address), "{address}");
    }
}

#[test]
fn a_metadata_service_is_forbidden_in_every_ipv6_form() {
    let everything = "0.0.0.0/0,::/0";
    for form in [
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::fefd:fcfb",
    ] {
        assert!(!permits(everything, form), "{form}");
        assert!(permits("0.0.0.0/0,::/0,169.254.169.254", form), "{form}");
    }
}

#[test]
fn an_ipv4_mapped_address_is_dialled_as_its_ipv4_address() {
    let mapped: SocketAddr = "[::ffff:10.0.0.1]:8080".parse().unwrap();
    let plain = "10.0.0.1:8080".parse().unwrap();
    assert_eq!(guard("10.0.0.0/8").permit(mapped).unwrap().address(), plain);
    assert!(guard("::ffff:0:0/96").permit(mapped).is_err());
}

#[test]
fn an_ipv4_mapped_public_address_needs_its_form_or_its_ipv4_address_allowed() {
    assert!(!permits("false", "::ffff:1.2.3.4"));
    assert!(permits("1.2.3.4", "::ffff:1.2.3.4"));
    assert!(permits("::ffff:0:0/96", "::ffff:1.2.3.4"));
}

#[test]
fn allowing_nat64_allows_public_embedded_addresses_and_no_private_ones() {
    assert!(permits("64:ff9b::/96", "64:ff9b::1.2.3.4"));
    assert!(!permits("64:ff9b::/96", "64:ff9b::10.0.0.1"));
    assert!(permits("64:ff9b::/96,10.0.0.0/8", "64:ff9b::10.0.0.1"));
    assert!(!permits("10.0.0.0/8", "64:ff9b::10.0.0.1"));
    assert!(permits("64:ff9b:1::/96", "64:ff9b:1::1.2.3.4"));
    assert!(!permits("64:ff9b:1::/48", "64:ff9b:1:a00:0:100::"));
}

#[test]
fn scope_and_flow_are_ignored_and_not_dialled() {
    let scoped = |text: &str| SocketAddr::from(SocketAddrV6::new(text.parse().unwrap(), 443, 7, 3));
    for address in ["fe80::1", "fd12::1", "::1", "::ffff:127.0.0.1", "fe80::a9fe:a9fe"] {
        assert!(guard("false").permit(scoped(address)).is_err(), "{address}");
    }
    let plain = "[fd12::1]:443".parse().unwrap();
    assert_eq!(guard("fd12::/16").permit(scoped("fd12::1")).unwrap().address(), plain);
}

#[test]
fn one_forbidden_address_forbids_the_whole_list() {
    let public: SocketAddr = "1.2.3.4:443".parse().unwrap();
    let private = "10.0.0.1:443".parse().unwrap();
    let guard = guard("false");
    assert_eq!(guard.permit_all([]), Ok(vec![]));
    assert_eq!(guard.permit_all([public, public]), Ok(vec![PermittedAddress(public); 2]));
    for mixed in [[private, public, public], [public, private, public], [public, public, private]] {
        assert!(guard.permit_all(mixed).unwrap_err().to_string().contains("(private network)"));
    }
}

#[test]
fn a_refusal_names_the_network_and_the_setting_but_never_the_address() {
    assert_eq!(
        refusal_text("false", "10.20.30.40"),
        "the destination's address lies in 10.0.0.0/8 (private network); allow_private_networks can allow it"
    );
    assert_eq!(
        refusal_text("true", "169.254.169.254"),
        "the destination's address is a reserved host (cloud metadata service); \
         allow_private_networks can allow it only by listing that exact address"
    );
    assert!(refusal_text("64:ff9b::/96", "64:ff9b::10.0.0.1").contains("lies in 10.0.0.0/8"));
}

#[test]
fn every_refusal_fits_into_an_excerpt() {
    for range in ReservedRange::all() {
        let refusal_text = ForbiddenAddress(Reason::Reserved(range)).to_string();
        assert!(refusal_text.chars().count() < 200, "{refusal_text}");
    }
}

fn embed(embedded: Ipv4Addr, form: usize) -> Ipv6Addr {
    let embedded = u128::from(embedded.to_bits());
    let bits = match form {
        0 => embedded,
        1 => 0xffff << 32 | embedded,
        2 => 0xffff << 48 | embedded,
        3 => 0x64_ff9b << 96 | embedded,
        4 => 0x64_ff9b_0001 << 80 | embedded,
        5 => 0x2002 << 112 | embedded << 80 | 1,
        _ => 0x2001 << 112 | embedded << 64 | u128::from(!0x0102_0304_u32),
    };
    Ipv6Addr::from_bits(bits)
}

fn forbidden_v4() -> impl Strategy<Value = Ipv4Addr> {
    (any::<prop::sample::Selector>(), any::<u32>()).prop_map(|(row, bits)| {
        let network = row.select(ReservedRange::all().iter().filter_map(|range| match range.network {
            IpNet::V4(network) => Some(network),
            IpNet::V6(_) => None,
        }));
        Ipv4Addr::from_bits(network.addr().to_bits() | bits & network.hostmask().to_bits())
    })
}

/// Returns whether the standard library classifies an address as non-public.
fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_documentation()
                || v4.is_unspecified()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.to_ipv4().is_some()
                || v6.segments()[0] & 0xe000 != 0x2000
        }
    }
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<IpAddr>(), forbidden_v4().prop_map(IpAddr::from)]
}

proptest! {
    #[test]
    fn addresses_that_the_standard_library_calls_special_are_forbidden(address in any_address()) {
        let permitted = AddressGuard::default().permit(SocketAddr::new(address, 80)).is_ok();
        prop_assert!(!(permitted && is_special(address)), "{address}");
    }

    #[test]
    fn every_permitted_address_is_public_or_allowed(
        address in any_address(), network in any_address(), len in 0_u8..=32
    ) {
        let allowed = AllowedNetworks::parse(&IpNet::new(network, len).unwrap().trunc().to_string()).unwrap();
        if let Ok(permitted) = allowing(allowed.clone()).permit(SocketAddr::new(address, 80)) {
            let dialled = permitted.address().ip();
            prop_assert!(ReservedRange::containing(dialled).is_none() || allowed.contains(dialled), "{address}, {allowed}");
        }
    }

    #[test]
    fn no_ipv6_form_permits_a_forbidden_ipv4_address(
        embedded in forbidden_v4(), form in 0_usize..7, wide in 0_u8..=16
    ) {
        let outside = embed(embedded, form);
        prop_assume!(!outside.is_loopback());
        let allowed = IpNet::new(outside.into(), wide).unwrap().trunc().to_string();
        let address = SocketAddr::new(outside.into(), 80);
        prop_assert!(guard("false").permit(address).is_err());
        prop_assert!(guard(&allowed).permit(address).is_err(), "{outside} embeds {embedded}");
        let both = guard(&format!("{allowed},{embedded}"));
        prop_assert!(outside.is_unspecified() || both.permit(address).is_ok(), "{outside} embeds {embedded}");
    }

    #[test]
    fn an_address_in_the_allow_list_is_permitted(address in any_address()) {
        let Ok(allowed) = AllowedNetworks::parse(&address.to_string()) else { return Ok(()) };
        let embedded: Vec<_> = match address {
            IpAddr::V6(v6) => embedded_ipv4(v6),
            IpAddr::V4(_) => vec![],
        };
        let embeds_forbidden = embedded.into_iter().any(|embedded| ReservedRange::containing(embedded.into()).is_some());
        let permitted = allowing(allowed).permit(SocketAddr::new(address, 80)).is_ok();
        prop_assert!(permitted || embeds_forbidden, "{address}");
    }
}
