//! How long answers are believed.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_sender::{LookupError, OwnResolver, Resolve as _};

use crate::server::{DnsServer, Family, NXDOMAIN, SERVFAIL, addresses};

const BOTH: &[&str] = &["192.0.2.1", "2001:db8::1"];
/// One for each family.
const LOOKUP: usize = 2;

/// So much later.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn an_answer_is_not_asked_for_again_while_it_is_valid() {
    let server = DnsServer::with_addresses(60, BOTH).await;
    let resolver = server.resolver();
    for name in ["receiver.example", "receiver.example", "RECEIVER.example", "receiver.example."] {
        assert_eq!(resolver.lookup(name).await.unwrap().len(), 2);
    }
    assert_eq!(server.asked(), LOOKUP);
}

#[tokio::test]
async fn an_answer_that_is_valid_for_no_time_is_asked_for_each_time() {
    let server = DnsServer::with_addresses(0, BOTH).await;
    let resolver = server.resolver();
    for lookups in 1..=50 {
        resolver.lookup("receiver.example").await.unwrap();
        assert_eq!(server.asked(), lookups * LOOKUP);
    }
}

#[tokio::test]
async fn an_answer_is_asked_for_again_when_its_time_is_over() {
    let server = DnsServer::with_addresses(60, BOTH).await;
    let resolver = server.resolver();
    for (later, lookups) in [(0, 1), (58, 1), (2, 2), (58, 2), (2, 3)] {
        pass(Duration::from_secs(later)).await;
        assert_eq!(resolver.lookup("receiver.example").await.unwrap(), addresses(BOTH));
        assert_eq!(server.asked(), lookups * LOOKUP);
    }
}

#[tokio::test]
async fn no_answer_is_believed_for_more_than_five_minutes_whatever_its_zone_says() {
    for ttl in [301, 86_400, u32::MAX] {
        let server = DnsServer::with_addresses(ttl, BOTH).await;
        let resolver = server.resolver();
        for (later, lookups) in [(0, 1), (298, 1), (2, 2)] {
            pass(Duration::from_secs(later)).await;
            resolver.lookup("receiver.example").await.unwrap();
            assert_eq!(server.asked(), lookups * LOOKUP, "ttl {ttl}");
        }
    }
}

#[tokio::test]
async fn an_answer_with_very_many_addresses_is_asked_for_each_time() {
    for (count, lookups) in [(64, 1), (65, 3)] {
        let many: Vec<IpAddr> = (0..count).map(|host| Ipv4Addr::new(192, 0, 2, host).into()).collect();
        let answer = many.clone();
        let server = DnsServer::answering(move |question| match question.family {
            Family::V4 if question.over_tcp => vec![question.addresses(60, &answer)],
            Family::V4 => vec![question.truncated()],
            Family::V6 => vec![question.nothing(0, 60)],
        })
        .await;
        let resolver = server.resolver();
        for _ in 0..3 {
            assert_eq!(resolver.lookup("receiver.example").await.unwrap(), many);
        }
        let asked = server.questions().iter().filter(|question| question.over_tcp).count();
        assert_eq!(asked, lookups, "{count} addresses");
    }
}

#[tokio::test]
async fn what_one_server_knew_is_not_asked_for_again_although_the_other_fails() {
    let failing = DnsServer::answering(|question| vec![question.code(SERVFAIL)]).await;
    let knowing = DnsServer::with_addresses(60, BOTH).await;
    let resolver = OwnResolver::with_servers(&[failing.address, knowing.address]);
    resolver.lookup("receiver.example").await.unwrap();
    let before = (failing.asked(), knowing.asked());
    assert_eq!(resolver.lookup("receiver.example").await.unwrap(), addresses(BOTH));
    assert_eq!((failing.asked(), knowing.asked()), before);
}

#[tokio::test]
async fn an_alias_is_believed_no_longer_than_it_says() {
    let server = DnsServer::answering(|question| match question.name.as_str() {
        "host.example" => vec![question.addresses(60, &addresses(BOTH))],
        _ => vec![question.alias(0, "host.example", &[])],
    })
    .await;
    let resolver = server.resolver();
    resolver.lookup("receiver.example").await.unwrap();
    let before = server.asked();
    resolver.lookup("receiver.example").await.unwrap();
    let asked = server.questions().split_off(before);
    assert!(asked.iter().any(|question| question.name == "receiver.example"), "{asked:?}");
}

#[tokio::test]
async fn that_there_is_no_address_is_believed_for_as_long_as_the_zone_says() {
    for (ttl, asked) in [(60, LOOKUP), (0, 3 * LOOKUP)] {
        let server = DnsServer::answering(move |question| vec![question.nothing(NXDOMAIN, ttl)]).await;
        let resolver = server.resolver();
        for _ in 0..3 {
            let error = resolver.lookup("receiver.example").await.unwrap_err();
            assert_eq!(error, LookupError::NoAddress("receiver.example".to_owned()));
        }
        assert_eq!(server.asked(), asked, "ttl {ttl}");
    }
}

#[tokio::test]
async fn that_there_is_no_address_is_believed_for_ten_seconds_at_most() {
    let server = DnsServer::answering(|question| vec![question.nothing(NXDOMAIN, 3_600)]).await;
    let resolver = server.resolver();
    for (later, lookups) in [(0, 1), (8, 1), (2, 2)] {
        pass(Duration::from_secs(later)).await;
        resolver.lookup("receiver.example").await.unwrap_err();
        assert_eq!(server.asked(), lookups * LOOKUP);
    }
}

#[tokio::test]
async fn a_failure_is_not_remembered() {
    let server = DnsServer::answering(|question| vec![question.code(SERVFAIL)]).await;
    let resolver = server.resolver();
    resolver.lookup("receiver.example").await.unwrap_err();
    let before = server.asked();
    resolver.lookup("receiver.example").await.unwrap_err();
    assert!(server.asked() > before);
}

#[tokio::test]
async fn lookups_of_one_name_at_once_share_their_questions() {
    let server = DnsServer::with_addresses(0, BOTH).await;
    let resolver = server.resolver();
    for found in join_all((0..100).map(|_| resolver.lookup("receiver.example"))).await {
        assert_eq!(found.unwrap().len(), 2);
    }
    assert_eq!(server.asked(), LOOKUP);
}
