//! Valid answers of name servers.

use std::net::{IpAddr, Ipv4Addr};

use posthaste_sender::{LookupError, Resolver as _};

use crate::server::{DnsServer, Family, SERVFAIL, addresses};

#[tokio::test]
async fn a_name_has_the_addresses_of_both_families() {
    let server = DnsServer::with_addresses(60, &["192.0.2.1", "2001:db8::1", "192.0.2.2"]).await;
    let found = server.lookup("receiver.example").await.unwrap();
    assert_eq!(found, addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]));
}

#[tokio::test]
async fn addresses_of_one_family_are_enough() {
    for address in ["192.0.2.1", "2001:db8::1"] {
        let server = DnsServer::with_addresses(60, &[address]).await;
        assert_eq!(server.lookup("receiver.example").await.unwrap(), addresses(&[address]));
    }
}

#[tokio::test]
async fn a_failure_of_one_family_leaves_the_addresses_of_the_other() {
    for (failing, left) in [(Family::V4, "2001:db8::1"), (Family::V6, "192.0.2.1")] {
        let server = DnsServer::responding(move |query| {
            let packet = query.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]));
            vec![if query.family == failing { query.code(SERVFAIL) } else { packet }]
        })
        .await;
        assert_eq!(server.lookup("receiver.example").await.unwrap(), addresses(&[left]));
    }
}

#[tokio::test]
async fn a_silent_family_delays_the_other_only_briefly() {
    for (silent, left) in [(Family::V4, "2001:db8::1"), (Family::V6, "192.0.2.1")] {
        let server = DnsServer::responding(move |query| {
            let packet = query.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]));
            if query.family == silent { Vec::new() } else { vec![packet] }
        })
        .await;
        // The measure is a lookup that gets no answer at all. It begins when the queries of the other one have arrived.
        let silent_server = DnsServer::responding(|_| Vec::new()).await;
        let silent_lookup = async {
            server.wait_for_queries(2).await;
            silent_server.lookup("receiver.example").await
        };
        tokio::select! {
            biased;
            found = server.lookup("receiver.example") => assert_eq!(found.unwrap(), addresses(&[left])),
            ended = silent_lookup => panic!("a lookup without any answer ended first: {ended:?}"),
        }
    }
}

#[tokio::test]
async fn only_the_exact_name_is_queried() {
    let server = DnsServer::with_addresses(60, &[]).await;
    for name in ["receiver.example", "receiver"] {
        let before = server.query_count();
        assert_eq!(server.lookup(name).await, Err(LookupError::NoAddress(name.to_owned())));
        let queries = server.queries().split_off(before);
        assert_eq!(queries.len(), 2, "{queries:?}");
        assert!(queries.iter().all(|query| query.name == name), "{queries:?}");
    }
}

#[tokio::test]
async fn an_invalid_name_is_never_queried() {
    let server = DnsServer::with_addresses(60, &["192.0.2.1"]).await;
    for name in ["", "a..example", "127.1", "192.0.2.1", "a b.example", "a\0.example", &"a".repeat(254)] {
        assert_eq!(server.lookup(name).await, Err(LookupError::InvalidName(name.to_owned())));
    }
    assert_eq!(server.query_count(), 0);
}

#[tokio::test]
async fn an_alias_is_followed() {
    let server = DnsServer::responding(|query| match query.name.as_str() {
        "receiver.example" => vec![query.alias(60, "host.example", &[])],
        "short.example" => {
            vec![query.alias(60, "host.example", &addresses(&["192.0.2.1", "2001:db8::1"]))]
        }
        _ => vec![query.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]))],
    })
    .await;
    for name in ["receiver.example", "short.example"] {
        assert_eq!(server.lookup(name).await.unwrap(), addresses(&["192.0.2.1", "2001:db8::1"]), "{name}");
    }
}

#[tokio::test]
async fn endless_aliases_are_not_followed_for_ever() {
    let server = DnsServer::responding(|query| vec![query.alias(60, &format!("a{}", query.name), &[])]).await;
    let error = server.lookup("a.example").await.unwrap_err();
    assert_eq!(error, LookupError::NoAddress("a.example".to_owned()));
    assert!(server.query_count() <= 2 * 8, "{} queries", server.query_count());

    let server = DnsServer::responding(|query| vec![query.alias(60, &query.name, &[])]).await;
    assert!(server.lookup("a.example").await.is_err());
    assert!(server.query_count() <= 2 * 8, "{} queries", server.query_count());
}

#[tokio::test]
async fn all_of_many_addresses_are_returned() {
    let many: Vec<IpAddr> = (0..30).map(|host| Ipv4Addr::new(192, 0, 2, host).into()).collect();
    let answer = many.clone();
    let server = DnsServer::responding(move |query| vec![query.addresses(60, &answer)]).await;
    assert_eq!(server.lookup("receiver.example").await.unwrap(), many);
}

#[tokio::test]
async fn an_answer_too_long_for_udp_is_queried_over_tcp() {
    let many: Vec<IpAddr> = (0..1_000_u32).map(|host| Ipv4Addr::from(0x0a00_0000 + host).into()).collect();
    let answer = many.clone();
    let server = DnsServer::responding(move |query| {
        vec![if query.over_tcp { query.addresses(60, &answer) } else { query.truncated() }]
    })
    .await;
    assert_eq!(server.lookup("receiver.example").await.unwrap(), many);
}

#[tokio::test]
async fn concurrent_lookups_of_hundreds_of_names_are_not_delayed_by_a_silent_one() {
    let server = DnsServer::responding(|query| match query.name.as_str() {
        "silent.example" => Vec::new(),
        _ => vec![query.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]))],
    })
    .await;
    let resolver = server.resolver();
    let names: Vec<_> = (0..400).map(|number| format!("receiver-{number}.example")).collect();
    let others = futures_util::future::join_all(names.iter().map(|name| resolver.lookup(name)));
    tokio::select! {
        _ = resolver.lookup("silent.example") => panic!("the lookup of the silent name ended"),
        found = others => for found in found {
            assert_eq!(found.unwrap(), addresses(&["192.0.2.1", "2001:db8::1"]));
        },
    }
}
