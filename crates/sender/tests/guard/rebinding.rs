//! DNS rebinding: the guard checks the addresses of the lookup that a connection is made from.

use std::net::IpAddr;
use std::sync::Arc;

use posthaste_domain::ErrorClass;

use crate::case::assert_blocked;
use crate::harness::{Canaries, ScriptedResolver, addresses, send_to, sender};

/// The address of the receiver, which the setting allows.
const GOOD: &str = "127.0.0.1";

/// Forbidden answers that a name may change to.
const BAD: &[&[&str]] = &[
    &["127.0.0.2"],
    &["::1"],
    &["0.0.0.0"],
    &["::"],
    &["::127.0.0.1"],
    &["::ffff:127.0.0.2"],
    &["10.0.0.1"],
    &["169.254.169.254"],
    &["fd00:ec2::254"],
    &["64:ff9b::7f00:1"],
    &["127.0.0.1", "127.0.0.2"],
    &["127.0.0.2", "127.0.0.1"],
    &["127.0.0.1", "::1"],
    &["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "10.0.0.1"],
    &["127.0.0.1", "10.0.0.1", "127.0.0.1"],
];

fn good() -> Vec<IpAddr> {
    addresses(&[GOOD])
}

#[tokio::test]
async fn every_new_connection_is_checked_by_its_own_lookup() {
    let receiver = Canaries::listen().await.respond(false);
    for bad in BAD {
        let resolver = Arc::new(ScriptedResolver::default());
        let sender = sender(GOOD, resolver.clone());
        let url = format!("http://rebinding.example:{}/", receiver.port);
        resolver.set_answers(
            "rebinding.example",
            [good(), addresses(bad), good(), addresses(bad), addresses(bad), good()],
        );
        let before = receiver.connections();
        for expected in [true, false, true, false, false, true] {
            let outcome = send_to(&sender, &url).await;
            if expected {
                assert_eq!(outcome.http_status(), Some(204), "{bad:?}: {outcome:?}");
            } else {
                assert_blocked(&outcome, &format!("{bad:?}"));
            }
        }
        assert_eq!(resolver.lookups(), 6, "{bad:?}");
        assert_eq!(receiver.connections() - before, 3, "{bad:?}");
    }
}

#[tokio::test]
async fn a_pooled_connection_keeps_the_address_that_was_checked() {
    let receiver = Canaries::listen().await.respond(true);
    let resolver = Arc::new(ScriptedResolver::default());
    let sender = sender(GOOD, resolver.clone());
    resolver.set_answers("idle.example", [good(), addresses(&["::1"])]);
    for _ in 0..3 {
        let outcome = send_to(&sender, &format!("http://idle.example:{}/", receiver.port)).await;
        assert_eq!(outcome.http_status(), Some(204), "{outcome:?}");
    }
    assert_eq!((resolver.lookups(), receiver.connections()), (1, 1));
}

#[tokio::test]
async fn a_pooled_connection_is_not_used_for_another_name_or_literal() {
    let receiver = Canaries::listen().await.respond(true);
    let resolver = Arc::new(ScriptedResolver::default());
    let sender = sender(GOOD, resolver.clone());
    resolver.set_answers("good.example", [good()]);
    let good = send_to(&sender, &format!("http://good.example:{}/", receiver.port)).await;
    assert_eq!(good.http_status(), Some(204), "{good:?}");
    for name in ["localhost", "other.example", "good.example.example"] {
        resolver.set_answers(name, [addresses(&["::1"])]);
    }
    for other in ["localhost", "other.example", "good.example.example", "[::1]", "127.0.0.2"] {
        assert_blocked(&send_to(&sender, &format!("http://{other}:{}/", receiver.port)).await, &other);
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_name_without_addresses_is_a_failed_lookup() {
    let canaries = Canaries::listen().await;
    let resolver = Arc::new(ScriptedResolver::default());
    resolver.set_answers("empty.example", [vec![]]);
    let outcome =
        send_to(&sender("true", resolver), &format!("http://empty.example:{}/", canaries.port)).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Dns), "{outcome:?}");
    assert_eq!(canaries.connections().await, 0);
}
