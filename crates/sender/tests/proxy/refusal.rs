//! Deliveries that fail at the proxy.

use std::time::Duration;

use posthaste_domain::{ErrorClass, Outcome};
use posthaste_engine::{Sender as _, host_time};

use crate::receiver::{Receiver, lease, send};
use crate::server::{LOGIN, PROTOCOLS, Protocol, ProxyBehaviour, ProxyServer, sender_through, within};

async fn refusal_detail(protocol: Protocol, behaviour: ProxyBehaviour, login: Option<&str>) -> String {
    let receiver = Receiver::accepting().await;
    let proxy = ProxyServer::start(protocol, behaviour).await;
    let sender = sender_through(&proxy.url(login), &[]);
    let outcome = send(&sender, &lease(&receiver.url())).await;
    assert_eq!(receiver.connections().opened(), 0, "the sender bypassed the proxy");
    detail(&outcome)
}

fn detail(outcome: &Outcome) -> String {
    assert_eq!(outcome.error_class(), Some(ErrorClass::Connect), "{outcome:?}");
    outcome.excerpt().as_str().to_owned()
}

#[tokio::test]
async fn a_refusal_names_the_reason() {
    let refusals = [
        (Protocol::Connect, "the egress proxy responded 403 to CONNECT"),
        (Protocol::Socks5, "the egress proxy refused: its rules do not allow the connection"),
    ];
    for (protocol, words) in refusals {
        assert_eq!(refusal_detail(protocol, ProxyBehaviour::Refuses, None).await, words);
    }
}

#[tokio::test]
async fn missing_and_wrong_credentials_are_distinguished_and_never_repeated() {
    for protocol in PROTOCOLS {
        let missing = refusal_detail(protocol, ProxyBehaviour::RequiresLogin, None).await;
        assert_eq!(missing, "the egress proxy requires credentials");
        let wrong = refusal_detail(protocol, ProxyBehaviour::RequiresLogin, Some("user:hunt")).await;
        assert_eq!(wrong, "the egress proxy does not accept the credentials");
    }
}

/// A second login attempt could lock the account, but the refusal of one address does not concern the next.
#[tokio::test]
async fn a_proxy_failure_is_not_retried_and_a_target_failure_is_retried_for_three_addresses() {
    let receiver = Receiver::accepting().await;
    let url = format!("http://receiver.example:{}/hook", receiver.address.port());
    let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];
    for protocol in PROTOCOLS {
        for (behaviour, login, connections) in [
            (ProxyBehaviour::RequiresLogin, None, 1),
            (ProxyBehaviour::RequiresLogin, Some("user:hunt"), 1),
            (ProxyBehaviour::Refuses, None, 3),
        ] {
            let proxy = ProxyServer::start(protocol, behaviour).await;
            let outcome = send(&sender_through(&proxy.url(login), &addresses), &lease(&url)).await;
            detail(&outcome);
            assert_eq!(proxy.connections(), connections, "{protocol:?} {behaviour:?}: {outcome:?}");
        }
    }
    assert_eq!(receiver.connections().opened(), 0);
}

#[tokio::test]
async fn a_proxy_that_closes_the_connection_is_a_failure_to_connect() {
    for protocol in PROTOCOLS {
        let detail = refusal_detail(protocol, ProxyBehaviour::Closes, Some(LOGIN)).await;
        assert_eq!(detail, "the egress proxy closed the connection before it responded", "{protocol:?}");
    }
}

#[tokio::test]
async fn an_attempt_at_a_silent_proxy_ends_at_its_deadline() {
    for protocol in PROTOCOLS {
        let proxy = ProxyServer::start(protocol, ProxyBehaviour::Silent).await;
        let (sender, lease) = (sender_through(&proxy.url(None), &[]), lease("http://127.0.0.1:9/hook"));
        let sending = sender.send(&lease, host_time(), Duration::from_millis(300));
        let outcome = within(Duration::from_secs(10), sending).await.expect("this host lacks nothing");
        assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout));
        assert!(outcome.excerpt().as_str().contains("waiting for the egress proxy"), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_unreachable_proxy_is_not_bypassed() {
    let receiver = Receiver::accepting().await;
    let sender = sender_through("http://127.0.0.1:1", &[]);
    let detail = detail(&send(&sender, &lease(&receiver.url())).await);
    assert!(detail.contains("egress proxy"), "{detail}");
    assert_eq!(receiver.connections().opened(), 0);
}
