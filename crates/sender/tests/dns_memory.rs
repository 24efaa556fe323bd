//! Memory of the DNS cache. A separate test binary, because the test measures the whole process.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[expect(dead_code, reason = "this test needs only a part of the server")]
#[path = "dns/server.rs"]
mod server;

use std::net::{IpAddr, Ipv4Addr};

use peak_alloc::PeakAlloc;
use posthaste_sender::Resolver as _;

use crate::server::DnsServer;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Addresses per name, as many as fit into one response for such short names.
const ADDRESSES: u32 = 3_000;
const NAMES: usize = 40;
/// Upper bound of cached bytes. All addresses would need four times as much, all responses sixty times.
const KEPT_MAX: usize = 512 * 1_024;

#[tokio::test]
async fn answers_with_thousands_of_addresses_are_not_cached() {
    let many: Vec<IpAddr> = (0..ADDRESSES).map(|host| Ipv4Addr::from(0x0a00_0000 + host).into()).collect();
    let server = DnsServer::responding(move |query| {
        vec![if query.over_tcp { query.addresses(300, &many) } else { query.truncated() }]
    })
    .await;
    let resolver = server.resolver();
    let lookup = async |number: usize| resolver.lookup(&format!("a{number:02}.x")).await.unwrap().len();
    assert_eq!(lookup(99).await, ADDRESSES as usize, "the guard must see all addresses");
    let before = HEAP.current_usage();
    for number in 0..NAMES {
        assert_eq!(lookup(number).await, ADDRESSES as usize);
    }
    let kept = HEAP.current_usage().saturating_sub(before);
    assert!(kept < KEPT_MAX, "{kept} bytes are cached for {NAMES} names");
}
