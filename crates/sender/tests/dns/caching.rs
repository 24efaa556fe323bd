//! How long answers are cached.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_sender::{DnsResolver, LookupError, Resolver as _};

use crate::server::{DnsServer, Family, NXDOMAIN, SERVFAIL, addresses};

const BOTH: &[&str] = &["192.0.2.1", "2001:db8::1"];
/// Queries of one lookup: one for each address family.
const QUERIES_PER_LOOKUP: usize = 2;

/// Advances time. Real time passes too, so an answer is still valid only well before its end.
async fn advance(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_valid_answer_is_not_queried_again() {
    let server = DnsServer::with_addresses(60, BOTH).await;
    let resolver = server.resolver();
    for name in ["receiver.example", "receiver.example", "RECEIVER.example", "receiver.example."] {
        assert_eq!(resolver.lookup(name).await.unwrap().len(), 2);
    }
    assert_eq!(server.query_count(), QUERIES_PER_LOOKUP);
}

#[tokio::test]
async fn an_answer_with_zero_ttl_is_queried_each_time() {
    let server = DnsServer::with_addresses(0, BOTH).await;
    let resolver = server.resolver();
    for lookups in 1..=50 {
        resolver.lookup("receiver.example").await.unwrap();
        assert_eq!(server.query_count(), lookups * QUERIES_PER_LOOKUP);
    }
}

#[tokio::test]
async fn an_expired_answer_is_queried_again() {
    let server = DnsServer::with_addresses(60, BOTH).await;
    let resolver = server.resolver();
    for (later, lookups) in [(0, 1), (30, 1), (30, 2), (30, 2), (30, 3)] {
        advance(Duration::from_secs(later)).await;
        assert_eq!(resolver.lookup("receiver.example").await.unwrap(), addresses(BOTH));
        assert_eq!(server.query_count(), lookups * QUERIES_PER_LOOKUP);
    }
}

#[tokio::test]
async fn no_answer_is_cached_for_more_than_five_minutes() {
    for ttl in [301, 86_400, u32::MAX] {
        let server = DnsServer::with_addresses(ttl, BOTH).await;
        let resolver = server.resolver();
        for (later, lookups) in [(0, 1), (150, 1), (150, 2)] {
            advance(Duration::from_secs(later)).await;
            resolver.lookup("receiver.example").await.unwrap();
            assert_eq!(server.query_count(), lookups * QUERIES_PER_LOOKUP, "ttl {ttl}");
        }
    }
}

#[tokio::test]
async fn an_answer_with_very_many_addresses_is_queried_each_time() {
    for (count, lookups) in [(64, 1), (65, 3)] {
        let many: Vec<IpAddr> = (0..count).map(|host| Ipv4Addr::new(192, 0, 2, host).into()).collect();
        let answer = many.clone();
        let server = DnsServer::responding(move |query| match query.family {
            Family::V4 if query.over_tcp => vec![query.addresses(60, &answer)],
            Family::V4 => vec![query.truncated()],
            Family::V6 => vec![query.no_records(0, 60)],
        })
        .await;
        let resolver = server.resolver();
        for _ in 0..3 {
            assert_eq!(resolver.lookup("receiver.example").await.unwrap(), many);
        }
        let tcp_queries = server.queries().iter().filter(|query| query.over_tcp).count();
        assert_eq!(tcp_queries, lookups, "{count} addresses");
    }
}

#[tokio::test]
async fn an_answer_of_one_server_is_cached_although_the_other_fails() {
    let failing = DnsServer::responding(|query| vec![query.code(SERVFAIL)]).await;
    let working = DnsServer::with_addresses(60, BOTH).await;
    let resolver = DnsResolver::with_servers(&[failing.address, working.address]);
    resolver.lookup("receiver.example").await.unwrap();
    let before = (failing.query_count(), working.query_count());
    assert_eq!(resolver.lookup("receiver.example").await.unwrap(), addresses(BOTH));
    assert_eq!((failing.query_count(), working.query_count()), before);
}

#[tokio::test]
async fn an_answer_is_cached_no_longer_than_the_ttl_of_its_alias() {
    let server = DnsServer::responding(|query| match query.name.as_str() {
        "host.example" => vec![query.addresses(60, &addresses(BOTH))],
        _ => vec![query.alias(0, "host.example", &[])],
    })
    .await;
    let resolver = server.resolver();
    resolver.lookup("receiver.example").await.unwrap();
    let before = server.query_count();
    resolver.lookup("receiver.example").await.unwrap();
    let queries = server.queries().split_off(before);
    assert!(queries.iter().any(|query| query.name == "receiver.example"), "{queries:?}");
}

#[tokio::test]
async fn a_negative_answer_is_cached_for_the_ttl_of_its_zone() {
    for (ttl, queries) in [(60, QUERIES_PER_LOOKUP), (0, 3 * QUERIES_PER_LOOKUP)] {
        let server = DnsServer::responding(move |query| vec![query.no_records(NXDOMAIN, ttl)]).await;
        let resolver = server.resolver();
        for _ in 0..3 {
            let error = resolver.lookup("receiver.example").await.unwrap_err();
            assert_eq!(error, LookupError::NoAddress("receiver.example".to_owned()));
        }
        assert_eq!(server.query_count(), queries, "ttl {ttl}");
    }
}

#[tokio::test]
async fn a_negative_answer_is_cached_for_ten_seconds_at_most() {
    let server = DnsServer::responding(|query| vec![query.no_records(NXDOMAIN, 3_600)]).await;
    let resolver = server.resolver();
    for (later, lookups) in [(0, 1), (5, 1), (5, 2)] {
        advance(Duration::from_secs(later)).await;
        resolver.lookup("receiver.example").await.unwrap_err();
        assert_eq!(server.query_count(), lookups * QUERIES_PER_LOOKUP);
    }
}

#[tokio::test]
async fn a_failure_is_not_cached() {
    let server = DnsServer::responding(|query| vec![query.code(SERVFAIL)]).await;
    let resolver = server.resolver();
    resolver.lookup("receiver.example").await.unwrap_err();
    let before = server.query_count();
    resolver.lookup("receiver.example").await.unwrap_err();
    assert!(server.query_count() > before);
}

#[tokio::test]
async fn concurrent_lookups_of_one_name_share_their_queries() {
    let server = DnsServer::with_addresses(0, BOTH).await;
    let resolver = server.resolver();
    for found in join_all((0..100).map(|_| resolver.lookup("receiver.example"))).await {
        assert_eq!(found.unwrap().len(), 2);
    }
    assert_eq!(server.query_count(), QUERIES_PER_LOOKUP);
}
