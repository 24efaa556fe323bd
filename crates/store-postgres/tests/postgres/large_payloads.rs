//! Claims of large payloads over a link that transfers only a part of them within the time of a call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use posthaste_domain::NewEventSpec;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ClaimRequest, Store};
use posthaste_store_conformance::Harness as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::*;
use crate::support::PostgresHarness;

const LARGE: usize = 256 << 10;
/// The longest response that passes the link.
const RESPONSE_BYTES_MAX: usize = 2 << 20;

/// A proxy in front of the shared server. It cuts a connection when a response exceeds [`RESPONSE_BYTES_MAX`], as a call over
/// a slow link is given up after its time limit.
struct ShortLink {
    port: u16,
    /// All bytes that the server has sent.
    bytes: Arc<AtomicUsize>,
}

impl ShortLink {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, bytes) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let shared = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, Arc::clone(&shared)));
            }
        });
        Self { port, bytes }
    }
}

async fn forward(mut client: TcpStream, bytes: Arc<AtomicUsize>) {
    let mut server = TcpStream::connect(("127.0.0.1", PostgresServer::shared().port())).await.unwrap();
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    let mut response_bytes = 0;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                response_bytes = 0;
                if server.write_all(&from_client[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                bytes.fetch_add(length, Ordering::SeqCst);
                response_bytes += length;
                if response_bytes > RESPONSE_BYTES_MAX || client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn enqueue_sized(store: &dyn Store, url: &str, count: usize, payload_bytes: usize) {
    for _ in 0..count {
        let payload = Bytes::from(vec![b'1'; payload_bytes]);
        enqueue(store, NewEventSpec { destination_url: url.to_owned(), payload, ..spec() }).await;
    }
}

#[tokio::test]
async fn a_claim_reads_no_more_payload_bytes_than_it_requests() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = open(&format!("postgres://postgres@127.0.0.1:{}/{}", link.port, harness.database.name)).await;
    enqueue_sized(&*harness.store(), "https://large.example/", 20, LARGE).await;
    let before = link.bytes.load(Ordering::SeqCst);
    let request = ClaimRequest { payload_bytes_max: 2 * LARGE, ..claim_by("worker-a") };
    let claimed = store.claim(&request).await.unwrap();
    let read = link.bytes.load(Ordering::SeqCst) - before;
    assert_eq!((claimed.leases.len(), claimed.is_limited_by_bytes), (3, true));
    assert!(read < 4 * LARGE, "{read} bytes were read");
}

/// Without limits in bytes, every claim and every repetition would be cut, and nothing would ever be delivered.
#[tokio::test]
async fn large_events_pass_a_link_that_is_too_slow_for_all_of_them_and_small_ones_pass_beside_them() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = open(&format!("postgres://postgres@127.0.0.1:{}/{}", link.port, harness.database.name)).await;
    enqueue_sized(&*harness.store(), "https://large.example/", 20, LARGE).await;
    enqueue_sized(&*harness.store(), "https://small.example/", 5, 100).await;
    let unlimited = ClaimRequest { limit: 100, ..claim_by("worker-a") };
    for _ in 0..2 {
        let error = store.claim(&unlimited).await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }

    // The repetition asks for less, and so do the claims after it.
    let mut request = ClaimRequest { payload_bytes_max: 2 * LARGE, ..unlimited };
    let (mut keys, mut small) = (BTreeSet::new(), 0);
    for round in 0..20 {
        let claimed = store.claim(&request).await.unwrap();
        small += claimed.leases.iter().filter(|lease| lease.payload.len() == 100).count();
        keys.extend(claimed.leases.iter().map(|lease| lease.key));
        if round == 1 {
            assert_eq!(small, 5, "small events do not wait for the large ones");
        }
        if keys.len() == 25 {
            return;
        }
        request = ClaimRequest { id: claim_by("worker-a").id, ..request };
    }
    panic!("only {} of 25 events were claimed", keys.len());
}
