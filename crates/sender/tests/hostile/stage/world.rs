//! One sender under test, and the receivers that it meets.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, EventId, Lease, Outcome};
use posthaste_engine::Sender as _;
use posthaste_sender::{AllowedNetworks, HttpSender, LookupError, Resolve, SenderOptions};

use crate::stage::certificates::{Certificates, RECEIVER};
use crate::stage::lease::lease;
use crate::stage::receiver::Receiver;
use crate::stage::script::{AMPLE, SMALL_BYTES, Step, Transport};

/// A name whose lookup never ends.
pub(crate) const STALLING_NAME: &str = "stalls.example";

pub(crate) struct World {
    sender: HttpSender,
    certificates: Certificates,
    attempts: AtomicU64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_pool_of(SenderOptions::new().pool_size_total)
    }

    pub(crate) fn with_pool_of(pool_size_total: usize) -> Self {
        let certificates = Certificates::new();
        let options = SenderOptions {
            pool_size_total,
            allowed_networks: AllowedNetworks::loopback(),
            ca_file: Some(certificates.ca_file()),
            resolver: Arc::new(Names),
            ..SenderOptions::new()
        };
        let keys = SigningKeys::new(vec![Secret::from_bytes(vec![7; 32]).unwrap()]).unwrap();
        let sender = HttpSender::new(options, keys).unwrap();
        Self { sender, certificates, attempts: AtomicU64::new(0) }
    }

    pub(crate) async fn receiver(&self, over: Transport, steps: impl Into<Arc<[Step]>>) -> Receiver {
        Receiver::start(&self.certificates, over, steps.into()).await
    }

    /// Sends to a receiver and leaves it ample time.
    pub(crate) async fn send_to(&self, receiver: &Receiver) -> Outcome {
        self.send(&receiver.url, SMALL_BYTES, AMPLE).await
    }

    /// A new event each time.
    pub(crate) async fn send(&self, url: &str, payload_bytes: usize, deadline: Duration) -> Outcome {
        let number = self.attempts.fetch_add(1, Ordering::SeqCst);
        let lease = Lease {
            event_id: EventId::new(format!("event-{number}")).unwrap(),
            payload: Bytes::from(vec![b' '; payload_bytes]),
            ..lease(DestinationUrl::parse(url).unwrap())
        };
        self.sender.send(&lease, deadline).await
    }
}

/// The names that exist here.
struct Names;

#[async_trait]
impl Resolve for Names {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        match name {
            RECEIVER => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
            STALLING_NAME => std::future::pending().await,
            other => Err(LookupError::NoAddress(other.to_owned())),
        }
    }
}
