//! One attempt, from a lease to an outcome.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::SigningKeys;
use posthaste_domain::{Lease, Outcome};
use posthaste_engine::Sender;

use crate::clock::WallClock;
use crate::connect::Connector;
use crate::deadline::{Deadline, Progress};
use crate::exchange::Client;
use crate::failure::Failure;
use crate::options::{InvalidOptions, SenderOptions};
use crate::pool::Pool;
use crate::request::request;
use crate::response::Answer;
use crate::target::Target;
use crate::tls;

/// Sends over HTTP. One for a whole worker: its connections are pooled.
pub struct HttpSender {
    client: Client,
    keys: SigningKeys,
    clock: Arc<dyn WallClock>,
}

impl HttpSender {
    /// Must be called on a runtime, which then looks after idle connections.
    pub fn new(options: SenderOptions, keys: SigningKeys) -> Result<Self, InvalidOptions> {
        Ok(Self {
            client: Client {
                connector: Connector::new(&options)?,
                pool: Pool::new(options.pool_size, options.pool_size_total),
            },
            keys,
            clock: options.clock,
        })
    }

    /// How many certificate authorities a sender with this file would trust.
    pub fn authorities(ca_file: Option<&Path>) -> Result<usize, InvalidOptions> {
        tls::authorities(ca_file).map(|authorities| authorities.len())
    }

    /// Whether a sender can use this file. The system's authorities are not looked at.
    pub fn check_authorities(ca_file: &Path) -> Result<(), InvalidOptions> {
        tls::of_file(ca_file).map(drop)
    }

    async fn attempt(&self, lease: &Lease, deadline: Deadline) -> Result<Outcome, Failure> {
        let target = Target::of(&lease.destination_url)?;
        let request = request(lease, &self.keys, self.clock.now())?;
        let progress = Progress::default();
        let exchanging = deadline.within(self.client.exchange(&target, request, &progress));
        let mut exchanged = exchanging.await.ok_or_else(|| deadline.passed(&progress))??;
        let mut answer = Answer::of(&exchanged.response, self.clock.now());
        if deadline.within(answer.read(&mut exchanged)).await == Some(true) {
            self.client.finish(&target, exchanged);
        }
        Ok(answer.outcome())
    }
}

#[async_trait]
impl Sender for HttpSender {
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome {
        self.attempt(lease, Deadline::after(timeout)).await.unwrap_or_else(Outcome::from)
    }
}
