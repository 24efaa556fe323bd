//! The fixture of a test: one sender, and the certificates of its receivers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, EventId, Lease, Outcome};
use posthaste_engine::{Sender as _, SharedProfiles, SharedSigningKeys, host_time};
use posthaste_sender::{AllowedNetworks, HttpSender, LookupError, Resolver, SenderOptions};

use crate::harness::certificates::{Certificates, RECEIVER_NAME};
use crate::harness::lease::lease;
use crate::harness::receiver::Receiver;
use crate::harness::script::{AMPLE, SMALL_BYTES, Step, Transport};

/// A name whose lookup never ends.
pub(crate) const STALLED_NAME: &str = "stalls.example";

/// A sender under test, with the certificates that its receivers present.
pub(crate) struct Fixture {
    sender: HttpSender,
    certificates: Certificates,
    attempts: AtomicU64,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_pool_size(SenderOptions::new().pool_size_total)
    }

    pub(crate) fn with_pool_size(pool_size_total: usize) -> Self {
        let certificates = Certificates::new();
        let options = SenderOptions {
            pool_size_total,
            allowed_networks: AllowedNetworks::loopback(),
            ca_file: Some(certificates.ca_file()),
            resolver: Arc::new(FakeResolver),
            ..SenderOptions::new()
        };
        let keys = SigningKeys::new(vec![Secret::from_bytes(vec![7; 32]).unwrap()]).unwrap();
        let sender =
            HttpSender::new(&options, SharedSigningKeys::new(keys), SharedProfiles::default()).unwrap();
        Self { sender, certificates, attempts: AtomicU64::new(0) }
    }

    pub(crate) async fn receiver(&self, over: Transport, steps: impl Into<Arc<[Step]>>) -> Receiver {
        Receiver::start(&self.certificates, over, steps.into()).await
    }

    /// Sends to a receiver with an ample deadline.
    pub(crate) async fn send_to(&self, receiver: &Receiver) -> Outcome {
        self.send(&receiver.url, SMALL_BYTES, AMPLE).await
    }

    /// Sends a new event.
    pub(crate) async fn send(&self, url: &str, payload_bytes: usize, deadline: Duration) -> Outcome {
        let number = self.attempts.fetch_add(1, Ordering::SeqCst);
        let lease = Lease {
            event_id: EventId::new(format!("event-{number}")).unwrap(),
            payload: Bytes::from(vec![b' '; payload_bytes]).into(),
            ..lease(DestinationUrl::parse(url).unwrap())
        };
        self.sender.send(&lease, host_time(), deadline).await.expect("this host lacks nothing")
    }
}

/// Resolves the names of this harness.
struct FakeResolver;

#[async_trait]
impl Resolver for FakeResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        match name {
            RECEIVER_NAME => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
            STALLED_NAME => std::future::pending().await,
            other => Err(LookupError::NoAddress(other.to_owned())),
        }
    }
}
