//! What becomes of answers that do not arrive, or are none.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use posthaste_sender::{LookupError, OwnResolver, Resolve as _};

use crate::server::{DnsServer, Family, NXDOMAIN, REFUSED, SERVFAIL, addresses, within};

const NAME: &str = "receiver.example";

async fn failure(server: &DnsServer) -> String {
    match server.lookup(NAME).await {
        Err(LookupError::Failed { name, reason }) if name == NAME => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_name_that_does_not_exist_or_has_no_address_is_told_from_a_failure() {
    for code in [0, NXDOMAIN] {
        let server = DnsServer::answering(move |question| vec![question.code(code)]).await;
        assert_eq!(server.lookup(NAME).await, Err(LookupError::NoAddress(NAME.to_owned())));
    }
    let server = DnsServer::answering(|question| vec![question.code(SERVFAIL)]).await;
    assert_eq!(failure(&server).await, "the name server failed");
    let server = DnsServer::answering(|question| vec![question.code(REFUSED)]).await;
    assert_eq!(failure(&server).await, "the name server refused");
}

#[tokio::test]
async fn one_family_that_fails_and_one_without_addresses_is_a_failure() {
    let server = DnsServer::answering(|question| {
        vec![question.code(if question.family == Family::V4 { SERVFAIL } else { 0 })]
    })
    .await;
    assert_eq!(failure(&server).await, "the name server failed");
}

#[tokio::test]
async fn silence_ends_by_itself() {
    let server = DnsServer::answering(|_| Vec::new()).await;
    let reason = within(Duration::from_secs(20), failure(&server)).await;
    assert_eq!(reason, "the name servers do not answer");
}

#[tokio::test]
async fn garbage_is_a_failure_at_once() {
    const HEADER_LEN: usize = 12;
    // Nothing, noise, and names that point at themselves.
    for noise in [Vec::new(), vec![0xff; 64], [0xc0, 12].repeat(32)] {
        let server =
            DnsServer::answering(move |question| vec![[&question.code(0)[..HEADER_LEN], &noise].concat()])
                .await;
        let reason = within(Duration::from_secs(20), failure(&server)).await;
        assert_eq!(reason, "the name server's answer cannot be used");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure_wherever_it_breaks_off() {
    for lacking in 1..=32 {
        let server = DnsServer::answering(move |question| {
            let mut packet = question.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]));
            packet.truncate(packet.len() - lacking);
            vec![packet]
        })
        .await;
        assert_eq!(
            failure(&server).await,
            "the name server's answer cannot be used",
            "{lacking} bytes are missing"
        );
    }
}

#[tokio::test]
async fn what_does_not_answer_the_question_is_ignored() {
    let server = DnsServer::answering(|question| {
        let mut other_id = question.addresses(60, &addresses(&["198.51.100.1", "2001:db8::bad"]));
        other_id[0] ^= 1;
        let mut other_name = question.addresses(60, &addresses(&["198.51.100.2", "2001:db8::bad"]));
        other_name[13] ^= 1;
        let short = vec![0; 1];
        vec![other_id, other_name, short, question.addresses(60, &addresses(&["192.0.2.1", "2001:db8::1"]))]
    })
    .await;
    assert_eq!(server.lookup(NAME).await.unwrap(), addresses(&["192.0.2.1", "2001:db8::1"]));
}

#[tokio::test]
async fn a_broken_server_does_not_hide_one_that_answers() {
    let living = DnsServer::with_addresses(60, &["192.0.2.1", "2001:db8::1"]).await;
    let silent = DnsServer::answering(|_| Vec::new()).await;
    // Nobody can be listening there.
    let dead = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let failing = DnsServer::answering(|question| vec![question.code(SERVFAIL)]).await;
    let refusing = DnsServer::answering(|question| vec![question.code(REFUSED)]).await;
    let confused = DnsServer::answering(|question| vec![question.code(0)[..12].to_vec()]).await;
    for broken in [dead, silent.address, failing.address, refusing.address, confused.address] {
        let resolver = OwnResolver::with_servers(&[broken, living.address, broken]);
        let found = within(Duration::from_secs(20), resolver.lookup(NAME)).await.unwrap();
        assert_eq!(found, addresses(&["192.0.2.1", "2001:db8::1"]));
    }
}
