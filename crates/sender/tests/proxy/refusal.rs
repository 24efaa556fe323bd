//! What does not get through.

use std::time::Duration;

use posthaste_domain::{ErrorClass, Outcome};
use posthaste_engine::Sender as _;

use crate::receiver::{Receiver, lease, send};
use crate::server::{Conduct, LOGIN, PROTOCOLS, Protocol, ProxyServer, sending_through, within};

async fn refused(protocol: Protocol, conduct: Conduct, login: Option<&str>) -> String {
    let receiver = Receiver::accepting().await;
    let proxy = ProxyServer::start(protocol, conduct).await;
    let sender = sending_through(&proxy.url(login), &[]);
    let outcome = send(&sender, &lease(&receiver.url())).await;
    assert_eq!(receiver.connections().opened(), 0, "the proxy is not gone around");
    detail(&outcome)
}

fn detail(outcome: &Outcome) -> String {
    assert_eq!(outcome.error_class(), Some(ErrorClass::Connect), "{outcome:?}");
    outcome.excerpt().as_str().to_owned()
}

#[tokio::test]
async fn a_refusal_says_why() {
    let refusals = [
        (Protocol::Connect, "the egress proxy answered 403 to CONNECT"),
        (Protocol::Socks5, "the egress proxy refused: its rules do not allow the connection"),
    ];
    for (protocol, words) in refusals {
        assert_eq!(refused(protocol, Conduct::Refuses, None).await, words);
    }
}

#[tokio::test]
async fn a_missing_login_and_a_wrong_one_are_told_apart_and_not_repeated() {
    for protocol in PROTOCOLS {
        let missing = refused(protocol, Conduct::WantsLogin, None).await;
        assert_eq!(missing, "the egress proxy asks for credentials");
        let wrong = refused(protocol, Conduct::WantsLogin, Some("user:hunt")).await;
        assert_eq!(wrong, "the egress proxy does not accept the credentials");
    }
}

/// To ask again could lock the login out; a refusal of one address says nothing about the next.
#[tokio::test]
async fn a_proxy_that_refuses_us_is_asked_once_and_one_that_refuses_an_address_for_three() {
    let receiver = Receiver::accepting().await;
    let url = format!("http://receiver.example:{}/hook", receiver.address.port());
    let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];
    for protocol in PROTOCOLS {
        for (conduct, login, asked) in [
            (Conduct::WantsLogin, None, 1),
            (Conduct::WantsLogin, Some("user:hunt"), 1),
            (Conduct::Refuses, None, 3),
        ] {
            let proxy = ProxyServer::start(protocol, conduct).await;
            let outcome = send(&sending_through(&proxy.url(login), &addresses), &lease(&url)).await;
            detail(&outcome);
            assert_eq!(proxy.connections(), asked, "{protocol:?} {conduct:?}: {outcome:?}");
        }
    }
    assert_eq!(receiver.connections().opened(), 0);
}

#[tokio::test]
async fn a_proxy_that_hangs_up_is_a_failure_to_connect() {
    for protocol in PROTOCOLS {
        let detail = refused(protocol, Conduct::HangsUp, Some(LOGIN)).await;
        assert_eq!(detail, "the egress proxy closed the connection before it answered", "{protocol:?}");
    }
}

#[tokio::test]
async fn a_silent_proxy_costs_no_more_than_the_deadline() {
    for protocol in PROTOCOLS {
        let proxy = ProxyServer::start(protocol, Conduct::Silent).await;
        let (sender, lease) = (sending_through(&proxy.url(None), &[]), lease("http://127.0.0.1:9/hook"));
        let sending = sender.send(&lease, Duration::from_millis(300));
        let outcome = within(Duration::from_secs(10), sending).await;
        assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout));
        assert!(outcome.excerpt().as_str().contains("waiting for the egress proxy"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_not_gone_around() {
    let receiver = Receiver::accepting().await;
    let sender = sending_through("http://127.0.0.1:1", &[]);
    let detail = detail(&send(&sender, &lease(&receiver.url())).await);
    assert!(detail.contains("egress proxy"), "{detail}");
    assert_eq!(receiver.connections().opened(), 0);
}
