//! What lookups mean for a delivery.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_domain::{ErrorClass, Outcome};
use posthaste_engine::Sender as _;
use posthaste_sender::HttpSender;

use crate::receiver::{Receiver, SECRET, lease, send, sender};
use crate::server::{DnsServer, Family, NXDOMAIN, SERVFAIL, addresses, within};

fn asking(server: &DnsServer) -> HttpSender {
    sender(&[SECRET], |options| {
        options.resolver = Arc::new(server.resolver());
        options.pool_size = 0;
    })
}

async fn delivered_to(receiver: &Receiver, sender: &HttpSender) -> Outcome {
    send(sender, &lease(&format!("http://receiver.example:{}/hook", receiver.address.port()))).await
}

#[tokio::test]
async fn a_name_is_delivered_to_at_its_address() {
    let receiver = Receiver::accepting().await;
    let server = DnsServer::with_addresses(60, &["127.0.0.1"]).await;
    assert_eq!(delivered_to(&receiver, &asking(&server)).await.http_status(), Some(200));
    let host = format!("receiver.example:{}", receiver.address.port());
    assert_eq!(receiver.requests()[0].header("host"), Some(host.as_str()));
}

#[tokio::test]
async fn a_name_without_an_address_and_a_failed_lookup_are_failures_of_dns() {
    let receiver = Receiver::accepting().await;
    for (code, words) in
        [(NXDOMAIN, "does not exist, or has no address"), (SERVFAIL, "the name server failed")]
    {
        let server = DnsServer::answering(move |question| vec![question.code(code)]).await;
        let outcome = delivered_to(&receiver, &asking(&server)).await;
        assert_eq!(outcome.error_class(), Some(ErrorClass::Dns));
        assert!(outcome.excerpt().as_str().contains(words), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_silent_name_server_costs_no_more_than_the_deadline() {
    let server = DnsServer::answering(|_| Vec::new()).await;
    let (sender, lease) = (asking(&server), lease("http://receiver.example/hook"));
    let sending = sender.send(&lease, Duration::from_millis(300));
    let outcome = within(Duration::from_secs(3), sending).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout));
    assert!(outcome.excerpt().as_str().contains("while the name was looked up"), "{outcome:?}");
}

#[tokio::test]
async fn one_forbidden_address_is_enough_to_be_refused_whatever_becomes_of_the_other_family() {
    let receiver = Receiver::accepting().await;
    for forbidden in ["10.0.0.1", "fd00::1"] {
        let forbidden: IpAddr = forbidden.parse().unwrap();
        for other_fails in [false, true] {
            let server = DnsServer::answering(move |question| {
                let is_forbidden = (question.family == Family::V4) == forbidden.is_ipv4();
                let other = question.addresses(60, &addresses(&["127.0.0.1", "::1"]));
                vec![match (is_forbidden, other_fails) {
                    (true, _) => question.addresses(60, &[forbidden]),
                    (false, true) => question.code(SERVFAIL),
                    (false, false) => other,
                }]
            })
            .await;
            let outcome = delivered_to(&receiver, &asking(&server)).await;
            assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{outcome:?}");
        }
    }
    assert_eq!(receiver.connections().opened(), 0);
}

#[tokio::test]
async fn one_forbidden_address_among_very_many_is_found_each_time() {
    let receiver = Receiver::accepting().await;
    for count in [6, 7, 64, 65, 1_000] {
        let mut many = addresses(&["127.0.0.1"]).repeat(count);
        many[count - 1] = IpAddr::from([10, 0, 0, 1]);
        let server = DnsServer::answering(move |question| {
            vec![if question.over_tcp { question.addresses(60, &many) } else { question.truncated() }]
        })
        .await;
        let sender = asking(&server);
        for _ in 0..2 {
            let outcome = delivered_to(&receiver, &sender).await;
            assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{count}: {outcome:?}");
        }
    }
    assert_eq!(receiver.connections().opened(), 0);
}

#[tokio::test]
async fn an_answer_that_changes_is_judged_anew() {
    let receiver = Receiver::accepting().await;
    let moved = Arc::new(AtomicBool::new(false));
    let has_moved = Arc::clone(&moved);
    let server = DnsServer::answering(move |question| {
        let address = if has_moved.load(Ordering::SeqCst) { "169.254.169.254" } else { "127.0.0.1" };
        vec![question.addresses(0, &addresses(&[address]))]
    })
    .await;
    let sender = asking(&server);
    assert_eq!(delivered_to(&receiver, &sender).await.http_status(), Some(200));
    moved.store(true, Ordering::SeqCst);
    assert_eq!(delivered_to(&receiver, &sender).await.error_class(), Some(ErrorClass::BlockedAddress));
    assert_eq!(receiver.connections().opened(), 1);
}
