//! Missing and invalid answers of name servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use posthaste_sender::{DnsResolver, LookupError, Resolver as _};

use crate::server::{DnsServer, Family, NXDOMAIN, REFUSED, SERVFAIL, addresses, within};

const NAME: &str = "receiver.example";

async fn failure(server: &DnsServer) -> String {
    match server.lookup(NAME).await {
        Err(LookupError::Failed { name, reason }) if name == NAME => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_name_is_distinguished_from_a_failure() {
    for code in [0, NXDOMAIN] {
        let server = DnsServer::responding(move |query| vec![query.code(code)]).await;
        assert_eq!(server.lookup(NAME).await, Err(LookupError::NoAddress(NAME.to_owned())));
    }
    let server = DnsServer::responding(|query| vec![query.code(SERVFAIL)]).await;
    assert_eq!(failure(&server).await, "the name server failed");
    let server = DnsServer::responding(|query| vec![query.code(REFUSED)]).await;
    assert_eq!(failure(&server).await, "the name server refused");
}

#[tokio::test]
async fn a_failed_family_and_an_empty_one_are_a_failure() {
    let server = DnsServer::responding(|query| {
        vec![query.code(if query.family == Family::V4 { SERVFAIL } else { 0 })]
    })
    .await;
    assert_eq!(failure(&server).await, "the name server failed");
}

#[tokio::test]
async fn a_lookup_at_a_silent_server_times_out() {
    let server = DnsServer::responding(|_| Vec::new()).await;
    let reason = within(Duration::from_secs(20), failure(&server)).await;
    assert_eq!(reason, "the name servers do not answer");
}

#[tokio::test]
async fn garbage_is_a_failure() {
    const HEADER_LEN: usize = 12;
    // Nothing, noise, and compressed names that point to themselves.
    for noise in [Vec::new(), vec![0xff; 64], [0xc0, 12].repeat(32)] {
        let server =
            DnsServer::responding(move |query| vec![[&query.code(0)[..HEADER_LEN], &noise].concat()]).await;
        let reason = within(Duration::from_secs(20), failure(&server)).await;
        assert_eq!(reason, "the name server's response is invalid");
    }
}

#[tokio::test]
async fn a_truncated_answer_is_a_failure() {
    for missing in 1..=32 {
        let server = DnsServer::responding(move |query| {
            let mut packet = query.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]));
            packet.truncate(packet.len() - missing);
            vec![packet]
        })
        .await;
        assert_eq!(
            failure(&server).await,
            "the name server's response is invalid",
            "{missing} bytes are missing"
        );
    }
}

#[tokio::test]
async fn responses_to_other_queries_are_ignored() {
    let server = DnsServer::responding(|query| {
        let mut other_id = query.addresses(60, &addresses(&["198.51.100.1", "2001:db8::bad"]));
        other_id[0] ^= 1;
        let mut other_name = query.addresses(60, &addresses(&["198.51.100.2", "2001:db8::bad"]));
        other_name[13] ^= 1;
        let short = vec![0; 1];
        vec![other_id, other_name, short, query.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]))]
    })
    .await;
    assert_eq!(server.lookup(NAME).await.unwrap(), addresses(&["192.0.2.1", "2001:db8::1"]));
}

#[tokio::test]
async fn a_working_server_is_used_although_others_fail() {
    let working = DnsServer::with_addresses(60, &["192.0.2.1", "2001:db8::1"]).await;
    let silent = DnsServer::responding(|_| Vec::new()).await;
    // No server listens on this port.
    let dead = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let failing = DnsServer::responding(|query| vec![query.code(SERVFAIL)]).await;
    let refusing = DnsServer::responding(|query| vec![query.code(REFUSED)]).await;
    let invalid = DnsServer::responding(|query| vec![query.code(0)[..12].to_vec()]).await;
    for broken in [dead, silent.address, failing.address, refusing.address, invalid.address] {
        let resolver = DnsResolver::with_servers(&[broken, working.address, broken]);
        let found = within(Duration::from_secs(20), resolver.lookup(NAME)).await.unwrap();
        assert_eq!(found, addresses(&["192.0.2.1", "2001:db8::1"]));
    }
}
