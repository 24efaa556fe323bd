//! Deliveries that succeed through a proxy.

use std::net::IpAddr;

use posthaste_domain::ErrorClass;
use posthaste_domain::signature::SignedHeaders;
use posthaste_engine::host_time;

use crate::receiver::{ReceivedRequest, Receiver, SECRET, keys, lease, send};
use crate::server::{
    LOGIN, PROTOCOLS, ProxyBehaviour, ProxyServer, RequestedTarget, UNREACHABLE, sender_through,
};

fn assert_signed(request: &ReceivedRequest) {
    let header = |name| request.header(name).unwrap();
    let signed = SignedHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let tolerance = std::time::Duration::from_secs(60);
    keys(&[SECRET]).verify(signed, &request.body, host_time(), tolerance).unwrap();
}

#[tokio::test]
async fn a_signed_request_arrives_through_a_proxy_that_gets_the_address() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, ProxyBehaviour::Serves).await;
        let sender = sender_through(&proxy.url(None), &["127.0.0.1"]);
        let port = receiver.address.port();
        for url in [receiver.url(), format!("http://receiver.example:{port}/hook")] {
            assert_eq!(send(&sender, &lease(&url)).await.http_status(), Some(200), "{protocol:?} {url}");
        }
        let requests = receiver.requests();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            assert_eq!(
                request.request_line, "POST /hook HTTP/1.1",
                "the request inside the tunnel has the form for a receiver"
            );
            assert_eq!(request.header("proxy-authorization"), None);
            assert_signed(request);
        }
        assert_eq!(requests[1].header("host"), Some(format!("receiver.example:{port}").as_str()));
        assert_eq!(proxy.requested(), vec![RequestedTarget::Address(receiver.address); 2]);
    }
}

#[tokio::test]
async fn a_tunnel_is_reused_for_the_next_request() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, ProxyBehaviour::Serves).await;
        let sender = sender_through(&proxy.url(None), &[]);
        for _ in 0..5 {
            assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        }
        assert_eq!((proxy.connections(), receiver.connections().opened()), (1, 1));
    }
}

#[tokio::test]
async fn a_proxy_that_requires_credentials_gets_them() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, ProxyBehaviour::RequiresLogin).await;
        let sender = sender_through(&proxy.url(Some(LOGIN)), &[]);
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200), "{protocol:?}");
        let received = format!("{:?}", receiver.requests());
        assert!(
            !received.to_lowercase().contains("proxy"),
            "the receiver learned about the proxy: {received}"
        );
    }
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_proxy_cannot_reach_one() {
    for protocol in PROTOCOLS {
        for behaviour in [ProxyBehaviour::HangsForUnreachable, ProxyBehaviour::RefusesUnreachable] {
            let receiver = Receiver::accepting().await;
            let proxy = ProxyServer::start(protocol, behaviour).await;
            let sender = sender_through(&proxy.url(None), &[UNREACHABLE, "127.0.0.1"]);
            let port = receiver.address.port();
            let outcome = send(&sender, &lease(&format!("http://receiver.example:{port}/hook"))).await;
            assert_eq!(outcome.http_status(), Some(200), "{protocol:?} {behaviour:?}: {outcome:?}");
            let expected = [UNREACHABLE, "127.0.0.1"]
                .map(|ip| RequestedTarget::Address((ip.parse::<IpAddr>().unwrap(), port).into()));
            assert_eq!(proxy.requested(), expected, "{protocol:?} {behaviour:?}");
        }
    }
}

#[tokio::test]
async fn a_proxy_that_resolves_names_gets_the_name() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, ProxyBehaviour::Serves).await;
        let sender = sender_through(&proxy.url_for_names(), &[]);
        let port = receiver.address.port();
        let outcome = send(&sender, &lease(&format!("http://receiver.example:{port}/hook"))).await;
        assert_eq!(outcome.http_status(), Some(200), "{protocol:?}");
        assert_eq!(proxy.requested(), [RequestedTarget::Name("receiver.example".to_owned(), port)]);
        assert_signed(&receiver.requests()[0]);
    }
}

#[tokio::test]
async fn a_forbidden_address_is_refused_before_the_proxy_is_dialled() {
    for protocol in PROTOCOLS {
        let proxy = ProxyServer::start(protocol, ProxyBehaviour::Serves).await;
        let by_address = sender_through(&proxy.url(None), &["127.0.0.1", "10.0.0.1"]);
        let by_name = sender_through(&proxy.url_for_names(), &[]);
        let refused = [
            (&by_address, "http://10.0.0.1/hook"),
            (&by_address, "http://[fd00::1]/hook"),
            (&by_address, "http://receiver.example/hook"),
            (&by_name, "http://169.254.169.254/latest/"),
            (&by_name, "http://[::ffff:10.0.0.1]/hook"),
        ];
        for (sender, url) in refused {
            let outcome = send(sender, &lease(url)).await;
            assert_eq!(outcome.error_class(), Some(ErrorClass::BlockedAddress), "{protocol:?} {url}");
        }
        assert_eq!(proxy.connections(), 0);
    }
}
