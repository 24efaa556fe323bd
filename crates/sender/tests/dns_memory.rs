//! What a zone can make us remember, counted in bytes: by itself in this process, since the count is the process's.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

#[expect(dead_code, reason = "not every kind of answer matters here")]
#[path = "dns/server.rs"]
mod server;

use std::net::{IpAddr, Ipv4Addr};

use peak_alloc::PeakAlloc;
use posthaste_sender::Resolve as _;

use crate::server::DnsServer;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// As many as fit into one answer, under names as short as these.
const ADDRESSES: u32 = 3_000;
const NAMES: usize = 40;
/// The addresses alone would be four times as much, the answers that they came in sixty times.
const KEPT_MAX: usize = 512 * 1_024;

#[tokio::test]
async fn a_zone_with_thousands_of_addresses_is_not_kept_in_memory() {
    let many: Vec<IpAddr> = (0..ADDRESSES).map(|host| Ipv4Addr::from(0x0a00_0000 + host).into()).collect();
    let server = DnsServer::answering(move |question| {
        vec![if question.over_tcp { question.addresses(300, &many) } else { question.truncated() }]
    })
    .await;
    let resolver = server.resolver();
    let lookup = async |number: usize| resolver.lookup(&format!("a{number:02}.x")).await.unwrap().len();
    assert_eq!(lookup(99).await, ADDRESSES as usize, "all of them are there to be judged");
    let before = HEAP.current_usage();
    for number in 0..NAMES {
        assert_eq!(lookup(number).await, ADDRESSES as usize);
    }
    let kept = HEAP.current_usage().saturating_sub(before);
    assert!(kept < KEPT_MAX, "{kept} bytes are kept of {NAMES} names");
}
