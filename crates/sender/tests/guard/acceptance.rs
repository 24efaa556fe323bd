//! Whatever text is accepted as a destination: the guard sees it where it can be sent at all, and it is dialled nowhere.

use std::cell::Cell;
use std::sync::Arc;

use posthaste_domain::{DestinationUrl, ErrorClass};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use url::Host;

use crate::stage::{Canaries, Script, send, sender};

/// Whether an address in the URL is surely not public. Others might be dialled, and nothing here may leave this host.
fn stays_here(destination: &DestinationUrl) -> bool {
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

/// Sends everything of the strategy that is accepted, under the setting `false`.
fn no_text_is_dialled(texts: impl Strategy<Value = String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (canaries, sender) =
        runtime.block_on(async { (Canaries::listen().await, sender("false", Arc::new(Script::default()))) });
    let port = canaries.port.to_string();
    let judged = Cell::new(0);
    let config = Config { cases: 1_000, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&texts, |text| {
        let accepted = DestinationUrl::parse(&text.replace("{port}", &port));
        let Ok(url) = accepted else { return Ok(()) };
        if !stays_here(&url) {
            return Ok(());
        }
        let outcome = runtime.block_on(send(&sender, url));
        match outcome.error_class() {
            Some(ErrorClass::BlockedAddress) => {
                judged.set(judged.get() + 1);
                Ok(())
            }
            // Such as `http://"/`: a host by the URL standard, which no request can name.
            Some(ErrorClass::Unsendable) => Ok(()),
            _ => Err(TestCaseError::fail(format!("{outcome:?}"))),
        }
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(judged.get() > 50, "only {} of the texts came before the guard", judged.get());
    assert_eq!(runtime.block_on(canaries.connections()), 0, "a canary was dialled");
}

#[test]
fn no_host_that_is_made_of_address_parts_is_dialled() {
    let part = "(0x|0|)[0-9a-fA-F]{0,4}|127|0177|0x7f|169|254|::|:|ffff|\\.|%2e|\u{3002}|\u{ff0e}";
    let parts = proptest::collection::vec(part, 1..10).prop_map(|parts| parts.concat());
    let hosts = prop_oneof![parts.clone(), parts.prop_map(|inside| format!("[{inside}]"))];
    no_text_is_dialled(
        (hosts, "(:\\{port\\}|:80|)(/.{0,8}|)").prop_map(|(host, rest)| format!("http://{host}{rest}")),
    );
}

#[test]
fn no_text_in_the_form_of_a_url_is_dialled() {
    let host = "[a-z0-9.\\t\u{3002}\u{ff10}-\u{ff19}\u{e0}-\u{f6}-]{1,20}";
    let text = format!("https?:[/\\\\]{{0,3}}{host}(:\\{{port\\}})?[/\\\\?][^#]{{0,20}}");
    no_text_is_dialled(proptest::string::string_regex(&text).unwrap());
}

#[test]
fn no_name_is_dialled() {
    let label = "[a-zA-Z0-9_\u{ff21}-\u{ff3a}]{1,20}";
    let text = format!("https?://({label}\\.){{0,4}}{label}\\.?:\\{{port\\}}/[ -\"$-~]{{0,30}}");
    no_text_is_dialled(proptest::string::string_regex(&text).unwrap());
}
