//! Generated URLs: each one that is accepted as a destination is blocked by the guard or cannot be sent.

use std::cell::Cell;
use std::sync::Arc;

use posthaste_domain::{DestinationUrl, ErrorClass};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use url::Host;

use crate::harness::{Canaries, ScriptedResolver, send, sender};

/// Returns whether the URL has no IP literal that might be public. Tests must not connect to other hosts.
fn is_local(destination: &DestinationUrl) -> bool {
    match destination.to_url().unwrap().host() {
        Some(Host::Ipv4(v4)) => {
            v4.is_loopback()
                || v4.is_unspecified()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_multicast()
        }
        Some(Host::Ipv6(v6)) => v6.to_ipv4().is_some() || v6.is_unique_local() || v6.is_unicast_link_local(),
        Some(Host::Domain(_)) | None => true,
    }
}

/// Sends to every accepted URL of a strategy under the setting `false`, and asserts that none is dialled.
fn assert_never_dialled(texts: impl Strategy<Value = String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (canaries, sender) = runtime.block_on(async {
        (Canaries::listen().await, sender("false", Arc::new(ScriptedResolver::default())))
    });
    let port = canaries.port.to_string();
    let blocked = Cell::new(0);
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&texts, |text| {
        let accepted = DestinationUrl::parse(&text.replace("{port}", &port));
        let Ok(url) = accepted else { return Ok(()) };
        if !is_local(&url) {
            return Ok(());
        }
        let outcome = runtime.block_on(send(&sender, url));
        match outcome.error_class() {
            Some(ErrorClass::BlockedAddress) => {
                blocked.set(blocked.get() + 1);
                Ok(())
            }
            // For example `http://"/`: valid by the URL standard, but not as a `host` header.
            Some(ErrorClass::Unsendable) => Ok(()),
            _ => Err(TestCaseError::fail(format!("{outcome:?}"))),
        }
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(blocked.get() > 50, "the guard checked only {} of the URLs", blocked.get());
    assert_eq!(runtime.block_on(canaries.connections()), 0, "a canary was dialled");
}

#[test]
fn hosts_made_of_address_parts_are_never_dialled() {
    let part = "(0x|0|)[0-9a-fA-F]{0,4}|127|0177|0x7f|169|254|::|:|ffff|\\.|%2e|\u{3002}|\u{ff0e}";
    let parts = proptest::collection::vec(part, 1..10).prop_map(|parts| parts.concat());
    let hosts = prop_oneof![parts.clone(), parts.prop_map(|inside| format!("[{inside}]"))];
    assert_never_dialled(
        (hosts, "(:\\{port\\}|:80|)(/.{0,8}|)").prop_map(|(host, rest)| format!("http://{host}{rest}")),
    );
}

#[test]
fn text_that_resembles_a_url_is_never_dialled() {
    let host = "[a-z0-9.\\t\u{3002}\u{ff10}-\u{ff19}\u{e0}-\u{f6}-]{1,20}";
    let text = format!("https?:[/\\\\]{{0,3}}{host}(:\\{{port\\}})?[/\\\\?][^#]{{0,20}}");
    assert_never_dialled(proptest::string::string_regex(&text).unwrap());
}

#[test]
fn names_are_never_dialled() {
    let label = "[a-zA-Z0-9_\u{ff21}-\u{ff3a}]{1,20}";
    let text = format!("https?://({label}\\.){{0,4}}{label}\\.?:\\{{port\\}}/[ -\"$-~]{{0,30}}");
    assert_never_dialled(proptest::string::string_regex(&text).unwrap());
}
