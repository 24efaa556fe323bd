//! Behind an egress proxy the guard holds as well, before the proxy hears of the destination.

use std::sync::Arc;

use posthaste_sender::Proxy;

use crate::case::assert_blocked;
use crate::stage::{Canaries, Script, send_to, sender_with};

#[tokio::test]
async fn a_proxy_is_not_asked_for_a_forbidden_address() {
    let canaries = Canaries::listen().await;
    for scheme in ["http", "socks5", "httph", "socks5h"] {
        let proxy = Proxy::parse(&format!("{scheme}://127.0.0.1:{}", canaries.port)).unwrap();
        let sender = sender_with("false", Arc::new(Script::default()), |options| options.proxy = Some(proxy));
        for host in ["127.0.0.1", "0x7f.1", "[::1]", "[::ffff:7f00:1]", "169.254.169.254", "10.0.0.1", "0"] {
            assert_blocked(
                &send_to(&sender, &format!("http://{host}/")).await,
                &format!("{host} by {scheme}"),
            );
        }
    }
    assert_eq!(canaries.connections().await, 0);
}

#[tokio::test]
async fn a_proxy_that_takes_addresses_is_not_asked_for_a_name_that_is_forbidden() {
    let canaries = Canaries::listen().await;
    for scheme in ["http", "socks5"] {
        let proxy = Proxy::parse(&format!("{scheme}://127.0.0.1:{}", canaries.port)).unwrap();
        let sender = sender_with("false", Arc::new(Script::default()), |options| options.proxy = Some(proxy));
        for host in ["localhost", "receiver.example", "receiver.example."] {
            assert_blocked(
                &send_to(&sender, &format!("https://{host}/")).await,
                &format!("{host} by {scheme}"),
            );
        }
    }
    assert_eq!(canaries.connections().await, 0);
}
