//! Large payloads over a link that transfers only a part of them within the time of a call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use posthaste_domain::{LeasePayload, NewEvent, NewEventSpec};
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ClaimRequest, EnqueueRequest, FixedSlots, LeaseRef, Store};
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::PostgresStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::fixture::*;
use crate::support::PostgresHarness;

const LARGE: usize = 256 << 10;
/// The longest response that passes the link.
const RESPONSE_BYTES_MAX: usize = 2 << 20;

/// The longest part of a response that passes a stuck link.
const STUCK_AFTER_BYTES: usize = 64 << 10;

/// A proxy in front of the shared server. It cuts a connection when a response exceeds a limit, [`RESPONSE_BYTES_MAX`] at
/// first, as a call over a slow link is given up after its time limit.
struct ShortLink {
    port: u16,
    /// All bytes that the server has sent.
    bytes: Arc<AtomicUsize>,
    /// Passes of responses that exceed [`STUCK_AFTER_BYTES`].
    passes: Arc<Semaphore>,
    /// The longest response that passes.
    response_bytes_max: Arc<AtomicUsize>,
}

impl ShortLink {
    async fn start() -> Self {
        let link = Self::start_stuck().await;
        link.passes.add_permits(1_000);
        link
    }

    /// Starts a link in which a long response gets stuck until it has a pass.
    async fn start_stuck() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, bytes) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let passes = Arc::new(Semaphore::new(0));
        let response_bytes_max = Arc::new(AtomicUsize::new(RESPONSE_BYTES_MAX));
        let shared = (Arc::clone(&bytes), Arc::clone(&passes), Arc::clone(&response_bytes_max));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (bytes, passes, bytes_max) = shared.clone();
                tokio::spawn(forward(client, bytes, passes, bytes_max));
            }
        });
        Self { port, bytes, passes, response_bytes_max }
    }

    /// Opens the harness's database through the link.
    async fn open(&self, harness: &PostgresHarness) -> Arc<PostgresStore> {
        let url = format!("postgres://postgres@127.0.0.1:{}/{}", self.port, harness.database.name);
        Arc::new(open(&url).await)
    }
}

async fn forward(
    mut client: TcpStream,
    bytes: Arc<AtomicUsize>,
    passes: Arc<Semaphore>,
    response_bytes_max: Arc<AtomicUsize>,
) {
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
                if response_bytes <= STUCK_AFTER_BYTES && response_bytes + length > STUCK_AFTER_BYTES {
                    passes.acquire().await.unwrap().forget();
                }
                response_bytes += length;
                let is_cut = response_bytes > response_bytes_max.load(Ordering::SeqCst);
                if is_cut || client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn enqueue_sized(store: &dyn Store, url: &str, count: usize, payload_bytes: usize) {
    for _ in 0..count {
        let payload = Bytes::from(vec![b'1'; payload_bytes]);
        let spec = NewEventSpec { destination_url: url.to_owned(), payload, ..spec() };
        let event = NewEvent::accept(spec, usize::MAX, 5).expect("a valid event");
        store.enqueue(EnqueueRequest::new(vec![event])).await.expect("the store is up");
    }
}

#[tokio::test]
async fn a_claim_reads_no_more_payload_bytes_than_it_requests() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = link.open(&harness).await;
    enqueue_sized(&*harness.store(), "https://large.example/", 20, LARGE).await;
    let before = link.bytes.load(Ordering::SeqCst);
    let request = ClaimRequest { payload_bytes_max: 2 * LARGE, ..claim_by("worker-a") };
    let claimed = store.claim(&request).await.unwrap();
    let read = link.bytes.load(Ordering::SeqCst) - before;
    assert_eq!((claimed.leases.len(), claimed.is_limited_by_bytes), (3, true));
    assert!(read < 4 * LARGE, "{read} bytes were read");
}

#[tokio::test]
async fn a_claim_reads_no_payload_that_is_not_inline() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = link.open(&harness).await;
    enqueue_sized(&*harness.store(), "https://large.example/", 20, LARGE).await;
    let before = link.bytes.load(Ordering::SeqCst);
    let request = ClaimRequest { inline_payload_bytes_max: 16 << 10, ..claim_by("worker-a") };
    for _ in 0..2 {
        let claimed = store.claim(&request).await.unwrap();
        assert!(claimed.leases.iter().all(|lease| lease.payload == LeasePayload::Stored { bytes: LARGE }));
        assert_eq!(claimed.leases.len(), 20, "also when it is repeated");
    }
    let read = link.bytes.load(Ordering::SeqCst) - before;
    assert!(read < LARGE / 4, "{read} bytes were read");
}

/// New events of all other destinations may then be sent without a claim.
#[tokio::test]
async fn claims_soon_name_all_destinations_whose_payloads_they_leave() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    for destination in 0..30 {
        enqueue_sized(&*store, &format!("https://large.example/{destination}"), 2, 20 << 10).await;
    }
    // A round of a claim requests events of three destinations.
    let slots = FixedSlots { per_host: 3, ..FixedSlots::per_destination(1) };
    let small = || ClaimRequest {
        slots: slots.clone().share(),
        event_payload_bytes_max: Some(16 << 10),
        ..claim_by("a")
    };
    let mut named = Vec::new();
    for _ in 0..4 {
        let claimed = store.claim(&small()).await.unwrap();
        assert_eq!((claimed.leases.len(), claimed.is_limited_by_bytes), (0, true));
        named.push(claimed.kept_back.len());
    }
    assert_eq!(named[3], 30, "{named:?}");
    let large = ClaimRequest { slots: slots.share(), ..claim_by("a") };
    assert_eq!(store.claim(&large).await.unwrap().leases.len(), 3, "they are claimed when they fit");
}

/// A payload that takes long to arrive keeps no other call waiting.
#[tokio::test]
async fn every_other_call_passes_beside_a_payload_that_is_stuck_in_the_link() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start_stuck().await;
    let store = link.open(&harness).await;
    enqueue_sized(&*store, "https://large.example/", 3, LARGE).await;
    let request = || ClaimRequest { inline_payload_bytes_max: 16 << 10, ..claim_by("worker-a") };
    let leases = store.claim(&request()).await.unwrap().leases;
    let held: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
    let reads: Vec<_> = held
        .iter()
        .map(|held| {
            let (store, held) = (Arc::clone(&store), *held);
            tokio::spawn(async move { store.read_payload(held).await })
        })
        .collect();
    enqueue_sized(&*store, "https://small.example/", 30, 100).await;
    let small = store.claim(&request()).await.unwrap().leases;
    assert_eq!(small.len(), 30);
    assert_eq!(store.renew(&held, LEASE).await, Ok(vec![]));
    settle(&*store, &small, 200).await;
    store.overview().await.unwrap();
    assert!(
        reads.iter().all(|read| !read.is_finished()),
        "the first payload is stuck, and the others behind it"
    );
    link.passes.add_permits(100);
    for read in reads {
        let payload = read.await.unwrap().unwrap().expect("the lease is held");
        assert!(payload.len() == LARGE && payload.iter().all(|byte| *byte == b'1'));
    }
}

/// Enqueues an event with this payload through another connection, and claims it.
async fn claim_large(harness: &PostgresHarness, store: &PostgresStore, payload: &Bytes) -> LeaseRef {
    let spec = NewEventSpec { payload: payload.clone(), ..spec() };
    let event = NewEvent::accept(spec, usize::MAX, 5).expect("a valid event");
    harness.store().enqueue(EnqueueRequest::new(vec![event])).await.expect("the store is up");
    let request = ClaimRequest { inline_payload_bytes_max: 0, ..claim_by("worker-a") };
    LeaseRef::from(&store.claim(&request).await.unwrap().leases[0])
}

/// Returns a payload of which no two pieces are equal.
fn numbered_payload(bytes: usize) -> Bytes {
    (0..bytes.div_ceil(8)).flat_map(|number| format!("{number:08}").into_bytes()).take(bytes).collect()
}

#[tokio::test]
async fn a_payload_that_is_longer_than_any_response_on_the_link_arrives_in_pieces() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = link.open(&harness).await;
    let payload = numbered_payload(RESPONSE_BYTES_MAX + LARGE + 3);
    let lease = claim_large(&harness, &store, &payload).await;
    assert!(store.read_payload(lease).await.unwrap().expect("the lease is held") == payload);
}

#[tokio::test]
async fn a_read_goes_on_where_the_link_has_cut_it() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = link.open(&harness).await;
    let payload = numbered_payload(1 << 20);
    let lease = claim_large(&harness, &store, &payload).await;
    // Pieces grow on this fast link. One of them is cut, and requested again with half its size.
    link.response_bytes_max.store(160 << 10, Ordering::SeqCst);
    let before = link.bytes.load(Ordering::SeqCst);
    assert!(store.read_payload(lease).await.unwrap().expect("the lease is held") == payload);
    let read = link.bytes.load(Ordering::SeqCst) - before;
    assert!(((1 << 20)..(2 << 20)).contains(&read), "{read} bytes were read");
}

#[tokio::test]
async fn a_read_that_is_cut_again_and_again_fails_as_unavailable_and_the_next_one_connects_again() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = link.open(&harness).await;
    let payload = numbered_payload(LARGE);
    let lease = claim_large(&harness, &store, &payload).await;
    link.response_bytes_max.store(12 << 10, Ordering::SeqCst);
    assert!(store.read_payload(lease).await.unwrap_err().is_transient());
    link.response_bytes_max.store(RESPONSE_BYTES_MAX, Ordering::SeqCst);
    assert!(store.read_payload(lease).await.unwrap().expect("the lease is held") == payload);
}

/// Without limits in bytes, every claim and every repetition would be cut, and nothing would ever be delivered.
#[tokio::test]
async fn large_events_pass_a_link_that_is_too_slow_for_all_of_them_and_small_ones_pass_beside_them() {
    let harness = PostgresHarness::start().await;
    let link = ShortLink::start().await;
    let store = link.open(&harness).await;
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
