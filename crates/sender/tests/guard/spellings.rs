//! Unusual spellings of addresses, and text that only resembles a destination.

use std::sync::Arc;

use posthaste_sender::{DnsResolver, SystemResolver};

use crate::case::{self, Case, Expected, assert_blocked};
use crate::harness::{Canaries, ScriptedResolver, send_to, sender};

/// Spellings of http://127.0.0.1:{port}.
const LOOPBACK_V4: &[&str] = &[
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "HTTP://127.0.0.1:{port}",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://127.1.:{port}/",
    "http://2130706433:{port}/",
    "http://2130706433.:{port}/",
    "http://017700000001:{port}/",
    "http://0x7f000001:{port}/",
    "http://0X7F000001:{port}/",
    "http://0x7F.1:{port}/",
    "http://0x7f.0x1:{port}/",
    "http://0x7f.0x0.0x0.0x1:{port}/",
    "http://0x0000007f.1:{port}/",
    "http://0x7f.0x000001:{port}/",
    "http://127.0x.0x.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://0177.1:{port}/",
    "http://00000177.00.00.01:{port}/",
    "http://0177.0x0.0.0x1:{port}/",
    "http://127.0.0.0x1:{port}/",
    "http://127.0.0.01:{port}/",
    "http://%31%32%37.0.0.1:{port}/",
    "http://%31%32%37%2e%30%2E%30%2e%31:{port}/",
    "http://0%787f.1:{port}/",
    "http://127%2e1:{port}/",
    "http://127%E3%80%820%E3%80%820%E3%80%821:{port}/",
    "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1:{port}/",
    "http://\u{ff11}\u{ff12}\u{ff17}\u{ff0e}\u{ff10}\u{ff0e}\u{ff10}\u{ff0e}\u{ff11}:{port}/",
    "http://127\u{3002}0\u{3002}0\u{3002}1:{port}/",
    "http://127\u{ff61}0\u{ff61}0\u{ff61}1:{port}/",
    "http://127\u{ff0e}1:{port}/",
    "http://\u{2460}\u{2461}\u{2466}.\u{24ea}.\u{24ea}.\u{2460}:{port}/",
    "http://\u{1d7cf}\u{1d7d0}\u{1d7d5}.0.0.1:{port}/",
    "http://\u{1d7d9}27.\u{1d7f6}.0.\u{1d7d9}:{port}/",
    "http://\u{b9}\u{b2}\u{2077}.0.0.1:{port}/",
    "http://\u{ff10}\u{ff58}7f.1:{port}/",
    "http://127.0.0\u{ad}.1:{port}/",
    "http://127.0.0\u{200b}.1:{port}/",
    "http://127.0.0\u{2060}.1:{port}/",
    "http://127.0\t.0.1:{port}/",
    "http://127.0.0.1\n:{port}/",
    "ht\ttp://127.0.0.1:{port}/",
    "  http://127.0.0.1:{port}/  ",
    "\u{0}http://127.0.0.1:{port}/\u{1f}",
    "http:127.0.0.1:{port}/",
    "http:/127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "http:\\\\127.0.0.1:{port}\\",
    "http:/\\127.0.0.1:{port}/",
    "http://127.0.0.1:0{port}/",
    "http://127.0.0.1:{port}\\@1.2.3.4/",
    "http://127.0.0.1:{port}/@1.2.3.4/",
    "http://127.0.0.1:{port}?@1.2.3.4/",
    "http://127.0.0.1:{port}/?next=http://receiver.example/",
    "http://127.0.0.1:{port}/../../receiver.example/",
    "http://127.0.0.1:{port}//receiver.example/",
    "http://@127.0.0.1:{port}/",
    "http://:@127.0.0.1:{port}/",
];

/// IPv4-mapped spellings, dialled as 127.0.0.1 if IPv4 loopback is allowed.
const LOOPBACK_V4_MAPPED: &[&str] = &[
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::FFFF:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::fFfF:7F00:0001]:{port}/",
    "http://[0:0:0:0:0:ffff:7f00:1]:{port}/",
    "http://[0000:0000:0000:0000:0000:ffff:7f00:0001]:{port}/",
    "http://[0:0::0:ffff:127.0.0.1]:{port}/",
];

/// Spellings of http://[::1]:{port}.
const LOOPBACK_V6: &[&str] = &[
    "http://[::1]:{port}/",
    "http://[0::1]:{port}/",
    "http://[::0.0.0.1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]:{port}/",
    "http://[0:0::0:0:1]:{port}/",
];

/// Spellings of other addresses that lead to this host or into private networks.
const OTHER_ADDRESSES: &[&str] = &[
    "http://0:{port}/",
    "http://0.0:{port}/",
    "http://0x0:{port}/",
    "http://0x:{port}/",
    "http://00000000000:{port}/",
    "http://0.0.0.0:{port}/",
    "http://[::]:{port}/",
    "http://[0:0:0:0:0:0:0:0]:{port}/",
    "http://[::ffff:0:0]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::7f00:1]:{port}/",
    "http://[::ffff:0:127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:FF9B::7F00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://2852039166:{port}/",
    "http://0xa9fea9fe:{port}/",
    "http://0xA9.0xFE.0xA9.0xFE:{port}/",
    "http://0251.0376.0251.0376:{port}/",
    "http://169.254.43518:{port}/",
    "http://169.16689662:{port}/",
    "http://169\u{3002}254\u{3002}169\u{3002}254:{port}/",
    "http://%31%36%39.254.169.254:{port}/",
    "http://[::ffff:169.254.169.254]:{port}/",
    "http://[::ffff:a9fe:a9fe]:{port}/",
    "http://[::a9fe:a9fe]:{port}/",
    "http://[FD00:EC2::254]:{port}/",
    "http://[fd00:0ec2:0:0:0:0:0:0254]:{port}/",
    "http://167772161:{port}/",
    "http://012.1:{port}/",
    "http://10.1:{port}/",
    "http://192.168.257:{port}/",
    "http://4294967295:{port}/",
    "http://0xffffffff:{port}/",
];

/// Names that the scripted resolver, like many resolvers, resolves to this host.
const NAMES: &[&str] = &[
    "http://localhost:{port}/",
    "http://localhost.:{port}/",
    "http://LOCALHOST:{port}/",
    "http://%6cocalhost:{port}/",
    "http://l\u{24de}calhost:{port}/",
    "http://\u{ff4c}\u{ff4f}\u{ff43}\u{ff41}\u{ff4c}\u{ff48}\u{ff4f}\u{ff53}\u{ff54}:{port}/",
    "http://localhost\u{3002}:{port}/",
    "http://receiver.localhost:{port}/",
    "http://receiver.example:{port}/",
    "http://receiver.example.:{port}/",
    "http://RECEIVER.Example:{port}/",
    "http://b\u{fc}cher.example:{port}/",
    "http://127.0.0.1.example:{port}/",
    "http://127.0.0.1.receiver.example.:{port}/",
    "http://0x7f000001.example:{port}/",
    "http://1.2.3.4.example:{port}/",
    "https://localhost:{port}/",
    "https://receiver.example:{port}/",
];

/// Text that is not a valid destination.
const INVALID_URLS: &[&str] = &[
    "http://receiver.example@127.0.0.1:{port}/",
    "http://receiver.example:80@127.0.0.1:{port}/",
    "http://receiver.example%40@127.0.0.1:{port}/",
    "http://1.2.3.4@127.0.0.1:{port}/",
    "http://1.2.3.4:80@127.0.0.1:{port}/",
    "http://@1.2.3.4@127.0.0.1:{port}/",
    "http://u:p@[::1]:{port}/",
    "http://:p@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}@receiver.example/",
    "http:u@127.0.0.1:{port}/",
    "http:/\\u@127.0.0.1:{port}/",
    "http://receiver.example#@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}/#receiver.example",
    "http://127.0.0.1:{port}#@1.2.3.4",
    "http://[fe80::1%25lo]:{port}/",
    "http://[fe80::1%lo]:{port}/",
    "http://[::1%lo]:{port}/",
    "http://[::1%251]:{port}/",
    "http://[127.0.0.1]:{port}/",
    "http://[0x7f.1]:{port}/",
    "http://[::ffff:127.1]:{port}/",
    "http://[::ffff:0x7f.0.0.1]:{port}/",
    "http://[::ffff:0177.0.0.1]:{port}/",
    "http://[::1:{port}/",
    "http://::1:{port}/",
    "http://[]:{port}/",
    "http://[:::1]:{port}/",
    "http://[0:0:0:0:0:0:0:0:1]:{port}/",
    "http://[::00001]:{port}/",
    "http://127.0.0.256:{port}/",
    "http://127.0.0.0.1:{port}/",
    "http://4294967296:{port}/",
    "http://0x1ffffffff:{port}/",
    "http://127.0.0.08:{port}/",
    "http://127.0.0.1 :{port}/",
    "http://127.0.0.1%00:{port}/",
    "http://127.0.0.1%20:{port}/",
    "http://127.0.0.1%0d%0a:{port}/",
    "http://127.0.0.1%2f:{port}/",
    "http://127.0.0.1%23:{port}/",
    "http://127.0.0.1%40receiver.example:{port}/",
    "http://127.0.0.1:{port}:80/",
    "http://127.0.0.1:+{port}/",
    "http://127.0.0.1:0x50/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:-1/",
    "http://",
    "http:///",
    "http://?@127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "127.0.0.1:{port}/",
    "localhost:{port}/",
    "ftp://127.0.0.1:{port}/",
    "file://127.0.0.1:{port}/",
    "file:///proc/self/environ",
    "gopher://127.0.0.1:{port}/_POST",
    "ws://127.0.0.1:{port}/",
    "unix:/run/receiver.sock",
    "http+unix://%2Frun%2Freceiver.sock/",
    "data:text/plain,receiver",
    "javascript:127.0.0.1:{port}",
    "blob:http://127.0.0.1:{port}/",
    "view-source:http://127.0.0.1:{port}/",
];

fn blocked() -> impl Iterator<Item = &'static str> {
    [LOOPBACK_V4, LOOPBACK_V4_MAPPED, LOOPBACK_V6, OTHER_ADDRESSES, NAMES].into_iter().flatten().copied()
}

/// Returns each spelling twice: as accepted, and as written to the store by another program.
pub(crate) fn all() -> Vec<Case> {
    let invalid = |url: &&str| Case { expected: Expected::InvalidUrl, ..Case::blocked(*url) };
    let cases = blocked().map(Case::blocked).chain(INVALID_URLS.iter().map(invalid));
    cases.flat_map(|case| [case.clone(), case.stored()]).collect()
}

#[tokio::test]
async fn no_spelling_bypasses_the_guard() {
    case::run_all(all()).await;
}

#[tokio::test]
async fn every_spelling_of_loopback_is_dialled_if_allowed() {
    let canaries = Canaries::listen().await;
    let of_v6 = if canaries.has_ipv6() { LOOPBACK_V6 } else { &[] };
    let receiver = canaries.respond(false);
    let sender = sender("127.0.0.0/8,::1", Arc::new(ScriptedResolver::default()));
    let spellings = [LOOPBACK_V4, LOOPBACK_V4_MAPPED, of_v6].concat();
    for spelling in &spellings {
        let outcome = send_to(&sender, &spelling.replace("{port}", &receiver.port.to_string())).await;
        assert_eq!(outcome.http_status(), Some(204), "{spelling:?}: {outcome:?}");
    }
    assert_eq!(receiver.connections(), spellings.len());
}

#[tokio::test]
async fn names_that_resolve_to_loopback_are_dialled_if_allowed() {
    let receiver = Canaries::listen().await.respond(false);
    let sender = sender("true", Arc::new(ScriptedResolver::default()));
    let plain: Vec<_> = NAMES.iter().filter(|name| name.starts_with("http:")).collect();
    for name in &plain {
        let outcome = send_to(&sender, &name.replace("{port}", &receiver.port.to_string())).await;
        assert_eq!(outcome.http_status(), Some(204), "{name:?}: {outcome:?}");
    }
    assert_eq!(receiver.connections(), plain.len());
}

/// Shows that the unspecified address is as dangerous as loopback.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_unspecified_address_reaches_this_host_if_allowed_explicitly() {
    let receiver = Canaries::listen().await.respond(false);
    let sender = sender("0.0.0.0", Arc::new(ScriptedResolver::default()));
    for url in ["http://0:{port}/", "http://0.0.0.0:{port}/", "http://[::ffff:0:0]:{port}/"] {
        let outcome = send_to(&sender, &url.replace("{port}", &receiver.port.to_string())).await;
        assert_eq!(outcome.http_status(), Some(204), "{url}: {outcome:?}");
    }
    assert_eq!(receiver.connections(), 3);
}

#[tokio::test]
async fn localhost_is_blocked_with_both_real_resolvers() {
    let canaries = Canaries::listen().await;
    let senders =
        [sender("false", Arc::new(DnsResolver::new())), sender("false", Arc::new(SystemResolver::new()))];
    for sender in &senders {
        for name in ["localhost", "localhost.", "LOCALHOST"] {
            let outcome = send_to(sender, &format!("http://{name}:{}/", canaries.port)).await;
            assert_blocked(&outcome, &name);
        }
    }
    assert_eq!(canaries.connections().await, 0);
}
