//! Deliveries to names: how lookups determine the outcome.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_domain::{ErrorClass, Outcome};
use posthaste_engine::{Sender as _, host_time};
use posthaste_sender::HttpSender;

use crate::receiver::{Receiver, SECRET, lease, send, sender};
use crate::server::{DnsServer, Family, NXDOMAIN, SERVFAIL, addresses, within};

/// Creates a sender that resolves names at this server and keeps no connections.
fn sender_with_resolver(server: &DnsServer) -> HttpSender {
    sender(&[SECRET], |options| {
        options.resolver = Arc::new(server.resolver());
        options.pool_size = 0;
    })
}

async fn send_to_name(receiver: &Receiver, sender: &HttpSender) -> Outcome {
    send(sender, &lease(&format!("http://receiver.example:{}/hook", receiver.address.port()))).await
}

#[tokio::test]
async fn a_delivery_to_a_name_reaches_its_address() {
    let receiver = Receiver::accepting().await;
    let server = DnsServer::with_addresses(60, &["127.0.0.1"]).await;
    assert_eq!(send_to_name(&receiver, &sender_with_resolver(&server)).await.http_status(), Some(200));
    let host = format!("receiver.example:{}", receiver.address.port());
    assert_eq!(receiver.requests()[0].header("host"), Some(host.as_str()));
}

#[tokio::test]
async fn a_missing_name_and_a_failed_lookup_are_dns_failures() {
    let receiver = Receiver::accepting().await;
    for (code, words) in
        [(NXDOMAIN, "does not exist, or has no address"), (SERVFAIL, "the name server failed")]
    {
        let server = DnsServer::responding(move |query| vec![query.code(code)]).await;
        let outcome = send_to_name(&receiver, &sender_with_resolver(&server)).await;
        assert_eq!(outcome.error_class(), Some(ErrorClass::Dns));
        assert!(outcome.excerpt().as_str().contains(words), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_attempt_with_a_silent_name_server_ends_at_its_deadline() {
    let server = DnsServer::responding(|_| Vec::new()).await;
    let (sender, lease) = (sender_with_resolver(&server), lease("http://receiver.example/hook"));
    let sending = sender.send(&lease, host_time(), Duration::from_millis(300));
    let outcome = within(Duration::from_secs(30), sending).await.expect("this host lacks nothing");
    assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout));
    assert!(outcome.excerpt().as_str().contains("while the name was looked up"), "{outcome:?}");
}

#[tokio::test]
async fn one_forbidden_address_blocks_the_attempt_even_if_the_other_family_fails() {
    let receiver = Receiver::accepting().await;
    for forbidden in ["10.0.0.1", "fd00::1"] {
        let forbidden: IpAddr = forbidden.parse().unwrap();
        for other_fails in [false, true] {
            let server = DnsServer::responding(move |query| {
                let is_forbidden = (query.family == Family::V4) == forbidden.is_ipv4();
                let other = query.addresses(60, &addresses(&["127.0.0.1", "::1"]));
                vec![match (is_forbidden, other_fails) {
                    (true, _) => query.addresses(60, &[forbidden]),
                    (false, true) => query.code(SERVFAIL),
                    (false, false) => other,
                }]
            })
            .await;
            let outcome = send_to_name(&receiver, &sender_with_resolver(&server)).await;
            assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{outcome:?}");
        }
    }
    assert_eq!(receiver.connections().opened(), 0);
}

#[tokio::test]
async fn one_forbidden_address_among_very_many_blocks_every_attempt() {
    let receiver = Receiver::accepting().await;
    for count in [6, 7, 64, 65, 1_000] {
        let mut many = addresses(&["127.0.0.1"]).repeat(count);
        many[count - 1] = IpAddr::from([10, 0, 0, 1]);
        let server = DnsServer::responding(move |query| {
            vec![if query.over_tcp { query.addresses(60, &many) } else { query.truncated() }]
        })
        .await;
        let sender = sender_with_resolver(&server);
        for _ in 0..2 {
            let outcome = send_to_name(&receiver, &sender).await;
            assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{count}: {outcome:?}");
        }
    }
    assert_eq!(receiver.connections().opened(), 0);
}

#[tokio::test]
async fn a_changed_answer_is_checked_again() {
    let receiver = Receiver::accepting().await;
    let moved = Arc::new(AtomicBool::new(false));
    let has_moved = Arc::clone(&moved);
    let server = DnsServer::responding(move |query| {
        let address = if has_moved.load(Ordering::SeqCst) { "169.254.169.254" } else { "127.0.0.1" };
        vec![query.addresses(0, &addresses(&[address]))]
    })
    .await;
    let sender = sender_with_resolver(&server);
    assert_eq!(send_to_name(&receiver, &sender).await.http_status(), Some(200));
    moved.store(true, Ordering::SeqCst);
    assert_eq!(send_to_name(&receiver, &sender).await.error_class(), Some(ErrorClass::BlockedAddress));
    assert_eq!(receiver.connections().opened(), 1);
}
