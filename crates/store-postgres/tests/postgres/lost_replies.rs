//! Connections that are cut between a commit and its confirmation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ActionRequest, Store as _};
use posthaste_store_conformance::Harness as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// The actor of the actions whose confirmations are lost.
const ACTOR: &[u8] = b"unlucky operator";

/// A proxy in front of the shared server. It cuts a connection when the server confirms the commit of an action by
/// [`ACTOR`], without passing the confirmation on.
struct CuttingProxy {
    port: u16,
    /// Confirmations still to be lost.
    cuts: Arc<AtomicUsize>,
}

impl CuttingProxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, cuts) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let shared = Arc::clone(&cuts);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, Arc::clone(&shared)));
            }
        });
        Self { port, cuts }
    }

    fn lose_confirmations(&self, count: usize) {
        self.cuts.store(count, Ordering::SeqCst);
    }
}

/// Forwards bytes in both directions until a side closes, or a confirmation is to be lost.
async fn forward(mut client: TcpStream, cuts: Arc<AtomicUsize>) {
    let mut server = TcpStream::connect(("127.0.0.1", PostgresServer::shared().port())).await.unwrap();
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    let mut withheld: Option<Vec<u8>> = None;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = &from_client[..length];
                if contains(bytes, ACTOR) && cuts.load(Ordering::SeqCst) > 0 {
                    withheld.get_or_insert_default();
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = &from_server[..length];
                if let Some(withheld) = &mut withheld {
                    withheld.extend_from_slice(bytes);
                    if contains(withheld, b"COMMIT\0") {
                        cuts.fetch_sub(1, Ordering::SeqCst);
                        return;
                    }
                } else if client.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn an_action_whose_commit_was_not_confirmed_succeeds_and_is_applied_once() {
    let harness = PostgresHarness::start().await;
    let proxy = CuttingProxy::start().await;
    let url = format!("postgres://postgres@127.0.0.1:{}/{}", proxy.port, harness.database.name);
    let store = open(&url).await;
    let event_id = enqueue_and_attempt(&*harness.store(), spec(), 410).await;
    let actor = std::str::from_utf8(ACTOR).unwrap();
    let audited = async || harness.store().event(&event_id).await.unwrap().audit.len();

    // The store repeats the action under a key of its own.
    proxy.lose_confirmations(1);
    let requeued = store.requeue(&event_id, actor.into()).await.expect("the requeue was applied");
    assert_eq!((requeued.status, audited().await), (DeliveryStatus::Pending, 1));
    assert_eq!(proxy.cuts.load(Ordering::SeqCst), 0);
    proxy.lose_confirmations(1);
    let cancelled = store.cancel(&event_id, actor.into(), Some("why")).await.expect("the cancel was applied");
    assert_eq!((cancelled.status, audited().await), (DeliveryStatus::Failed, 2));

    // The caller repeats the action when the store could not find out.
    let request = ActionRequest { actor, key: Some("repair-1") };
    proxy.lose_confirmations(2);
    let unknown = store.requeue(&event_id, request).await.unwrap_err();
    assert!(unknown.is_transient(), "{unknown:?}");
    let requeued = store.requeue(&event_id, request).await.expect("the first call was applied");
    assert_eq!((requeued.status, audited().await), (DeliveryStatus::Pending, 3));
}
