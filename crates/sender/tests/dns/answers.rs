//! What becomes of answers that arrive.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use posthaste_sender::{LookupError, Resolve as _};

use crate::server::{DnsServer, Family, SERVFAIL, addresses, within};

#[tokio::test]
async fn a_name_has_the_addresses_of_both_families() {
    let server = DnsServer::with_addresses(60, &["192.0.2.1", "2001:db8::1", "192.0.2.2"]).await;
    let found = server.lookup("receiver.example").await.unwrap();
    assert_eq!(found, addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]));
}

#[tokio::test]
async fn one_family_is_enough() {
    for address in ["192.0.2.1", "2001:db8::1"] {
        let server = DnsServer::with_addresses(60, &[address]).await;
        assert_eq!(server.lookup("receiver.example").await.unwrap(), addresses(&[address]));
    }
}

#[tokio::test]
async fn a_family_that_fails_does_not_lose_the_addresses_of_the_other() {
    for (failing, left) in [(Family::V4, "2001:db8::1"), (Family::V6, "192.0.2.1")] {
        let server = DnsServer::answering(move |question| {
            let packet = question.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]));
            vec![if question.family == failing { question.code(SERVFAIL) } else { packet }]
        })
        .await;
        assert_eq!(server.lookup("receiver.example").await.unwrap(), addresses(&[left]));
    }
}

#[tokio::test]
async fn a_silent_family_holds_the_other_up_for_a_moment_only() {
    for (silent, left) in [(Family::V4, "2001:db8::1"), (Family::V6, "192.0.2.1")] {
        let server = DnsServer::answering(move |question| {
            let packet = question.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]));
            if question.family == silent { Vec::new() } else { vec![packet] }
        })
        .await;
        let found = within(Duration::from_secs(3), server.lookup("receiver.example")).await;
        assert_eq!(found.unwrap(), addresses(&[left]));
    }
}

#[tokio::test]
async fn only_the_name_itself_is_asked_for() {
    let server = DnsServer::with_addresses(60, &[]).await;
    for name in ["receiver.example", "receiver"] {
        let before = server.asked();
        assert_eq!(server.lookup(name).await, Err(LookupError::NoAddress(name.to_owned())));
        let questions = server.questions().split_off(before);
        assert_eq!(questions.len(), 2, "{questions:?}");
        assert!(questions.iter().all(|question| question.name == name), "{questions:?}");
    }
}

#[tokio::test]
async fn what_is_no_name_is_asked_of_nobody() {
    let server = DnsServer::with_addresses(60, &["192.0.2.1"]).await;
    for name in ["", "a..example", "127.1", "192.0.2.1", "a b.example", "a\0.example", &"a".repeat(254)] {
        assert_eq!(server.lookup(name).await, Err(LookupError::InvalidName(name.to_owned())));
    }
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn an_alias_is_followed() {
    let server = DnsServer::answering(|question| match question.name.as_str() {
        "receiver.example" => vec![question.alias(60, "host.example", &[])],
        "short.example" => {
            vec![question.alias(60, "host.example", &addresses(&["192.0.2.1", "2001:db8::1"]))]
        }
        _ => vec![question.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]))],
    })
    .await;
    for name in ["receiver.example", "short.example"] {
        assert_eq!(server.lookup(name).await.unwrap(), addresses(&["192.0.2.1", "2001:db8::1"]), "{name}");
    }
}

#[tokio::test]
async fn aliases_without_end_end() {
    let server =
        DnsServer::answering(|question| vec![question.alias(60, &format!("a{}", question.name), &[])]).await;
    let error = server.lookup("a.example").await.unwrap_err();
    assert_eq!(error, LookupError::NoAddress("a.example".to_owned()));
    assert!(server.asked() <= 2 * 8, "{} questions", server.asked());

    let server = DnsServer::answering(|question| vec![question.alias(60, &question.name, &[])]).await;
    assert!(server.lookup("a.example").await.is_err());
    assert!(server.asked() <= 2 * 8, "{} questions", server.asked());
}

#[tokio::test]
async fn all_of_many_addresses_arrive() {
    let many: Vec<IpAddr> = (0..30).map(|host| Ipv4Addr::new(192, 0, 2, host).into()).collect();
    let answer = many.clone();
    let server = DnsServer::answering(move |question| vec![question.addresses(60, &answer)]).await;
    assert_eq!(server.lookup("receiver.example").await.unwrap(), many);
}

#[tokio::test]
async fn an_answer_too_long_for_udp_is_asked_for_over_tcp() {
    let many: Vec<IpAddr> = (0..1_000_u32).map(|host| Ipv4Addr::from(0x0a00_0000 + host).into()).collect();
    let answer = many.clone();
    let server = DnsServer::answering(move |question| {
        vec![if question.over_tcp { question.addresses(60, &answer) } else { question.truncated() }]
    })
    .await;
    assert_eq!(server.lookup("receiver.example").await.unwrap(), many);
}

#[tokio::test]
async fn hundreds_of_names_are_looked_up_at_once_and_a_silent_one_delays_none() {
    let server = DnsServer::answering(|question| match question.name.as_str() {
        "silent.example" => Vec::new(),
        _ => vec![question.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]))],
    })
    .await;
    let resolver = server.resolver();
    let names: Vec<_> = (0..400).map(|number| format!("receiver-{number}.example")).collect();
    let others = futures_util::future::join_all(names.iter().map(|name| resolver.lookup(name)));
    tokio::select! {
        _ = resolver.lookup("silent.example") => panic!("nobody answered that"),
        found = others => for found in found {
            assert_eq!(found.unwrap(), addresses(&["192.0.2.1", "2001:db8::1"]));
        },
    }
}
