//! What gets through.

use std::net::IpAddr;

use posthaste_domain::ErrorClass;
use posthaste_domain::signature::SignedHeaders;
use posthaste_sender::{SystemClock, WallClock as _};

use crate::receiver::{Received, Receiver, SECRET, keys, lease, send};
use crate::server::{Conduct, LOGIN, PROTOCOLS, ProxyServer, UNREACHABLE, Wanted, sending_through};

fn assert_signed(request: &Received) {
    let header = |name| request.header(name).unwrap();
    let signed = SignedHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let tolerance = std::time::Duration::from_secs(60);
    keys(&[SECRET]).verify(signed, &request.body, SystemClock.now(), tolerance).unwrap();
}

#[tokio::test]
async fn a_signed_request_gets_through_and_the_proxy_is_asked_for_the_address() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, Conduct::Serves).await;
        let sender = sending_through(&proxy.url(None), &["127.0.0.1"]);
        let port = receiver.address.port();
        for url in [receiver.url(), format!("http://receiver.example:{port}/hook")] {
            assert_eq!(send(&sender, &lease(&url)).await.http_status(), Some(200), "{protocol:?} {url}");
        }
        let requests = receiver.requests();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            assert_eq!(request.request_line, "POST /hook HTTP/1.1", "what is sent is no proxy's form");
            assert_eq!(request.header("proxy-authorization"), None);
            assert_signed(request);
        }
        assert_eq!(requests[1].header("host"), Some(format!("receiver.example:{port}").as_str()));
        assert_eq!(proxy.wanted(), vec![Wanted::Address(receiver.address); 2]);
    }
}

#[tokio::test]
async fn a_tunnel_is_kept_for_the_next_request() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, Conduct::Serves).await;
        let sender = sending_through(&proxy.url(None), &[]);
        for _ in 0..5 {
            assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        }
        assert_eq!((proxy.connections(), receiver.connections().opened()), (1, 1));
    }
}

#[tokio::test]
async fn a_proxy_that_wants_a_login_gets_it() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, Conduct::WantsLogin).await;
        let sender = sending_through(&proxy.url(Some(LOGIN)), &[]);
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200), "{protocol:?}");
        let told = format!("{:?}", receiver.requests());
        assert!(!told.to_lowercase().contains("proxy"), "the receiver learns nothing of it: {told}");
    }
}

#[tokio::test]
async fn an_address_that_the_proxy_does_not_get_to_does_not_hide_another() {
    for protocol in PROTOCOLS {
        for conduct in [Conduct::HangsForOne, Conduct::RefusesOne] {
            let receiver = Receiver::accepting().await;
            let proxy = ProxyServer::start(protocol, conduct).await;
            let sender = sending_through(&proxy.url(None), &[UNREACHABLE, "127.0.0.1"]);
            let port = receiver.address.port();
            let outcome = send(&sender, &lease(&format!("http://receiver.example:{port}/hook"))).await;
            assert_eq!(outcome.http_status(), Some(200), "{protocol:?} {conduct:?}: {outcome:?}");
            let wanted = [UNREACHABLE, "127.0.0.1"]
                .map(|ip| Wanted::Address((ip.parse::<IpAddr>().unwrap(), port).into()));
            assert_eq!(proxy.wanted(), wanted, "{protocol:?} {conduct:?}");
        }
    }
}

#[tokio::test]
async fn names_are_left_to_a_proxy_that_was_chosen_for_it() {
    for protocol in PROTOCOLS {
        let receiver = Receiver::accepting().await;
        let proxy = ProxyServer::start(protocol, Conduct::Serves).await;
        let sender = sending_through(&proxy.url_for_names(), &[]);
        let port = receiver.address.port();
        let outcome = send(&sender, &lease(&format!("http://receiver.example:{port}/hook"))).await;
        assert_eq!(outcome.http_status(), Some(200), "{protocol:?}");
        assert_eq!(proxy.wanted(), [Wanted::Name("receiver.example".to_owned(), port)]);
        assert_signed(&receiver.requests()[0]);
    }
}

#[tokio::test]
async fn the_address_is_judged_before_the_proxy_hears_of_it() {
    for protocol in PROTOCOLS {
        let proxy = ProxyServer::start(protocol, Conduct::Serves).await;
        let by_address = sending_through(&proxy.url(None), &["127.0.0.1", "10.0.0.1"]);
        let by_name = sending_through(&proxy.url_for_names(), &[]);
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
