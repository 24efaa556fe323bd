//! The guard also applies behind an egress proxy, before the sender connects to the proxy.

use std::sync::Arc;

use posthaste_sender::Proxy;

use crate::case::assert_blocked;
use crate::harness::{Canaries, ScriptedResolver, send_to, sender_with_options};

#[tokio::test]
async fn a_forbidden_address_is_not_requested_from_a_proxy() {
    let canaries = Canaries::listen().await;
    for scheme in ["http", "socks5", "httph", "socks5h"] {
        let proxy = Proxy::parse(&format!("{scheme}://127.0.0.1:{}", canaries.port)).unwrap();
        let sender = sender_with_options("false", Arc::new(ScriptedResolver::default()), |options| {
            options.proxy = Some(proxy);
        });
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
async fn a_name_with_a_forbidden_address_is_not_requested_from_a_proxy_for_addresses() {
    let canaries = Canaries::listen().await;
    for scheme in ["http", "socks5"] {
        let proxy = Proxy::parse(&format!("{scheme}://127.0.0.1:{}", canaries.port)).unwrap();
        let sender = sender_with_options("false", Arc::new(ScriptedResolver::default()), |options| {
            options.proxy = Some(proxy);
        });
        for host in ["localhost", "receiver.example", "receiver.example."] {
            assert_blocked(
                &send_to(&sender, &format!("https://{host}/")).await,
                &format!("{host} by {scheme}"),
            );
        }
    }
    assert_eq!(canaries.connections().await, 0);
}
