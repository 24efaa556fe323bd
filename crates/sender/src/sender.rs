//! One attempt, from a lease to an outcome.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ErrorClass, Lease, Outcome, Timestamp};
use posthaste_engine::{LocalShortage, Profile, Sender, SharedProfiles, SharedSigningKeys};

use crate::connect::Connector;
use crate::deadline::{Deadline, Progress};
use crate::destinations::Destinations;
use crate::exchange::Client;
use crate::failure::Failure;
use crate::options::{CompatHeaders, InvalidOptions, SenderOptions};
use crate::pool::Pool;
use crate::request::{RequestContext, build_request};
use crate::response::ResponseSummary;
use crate::shortage::AttemptError;
use crate::sockets::SocketBudget;
use crate::tls::{RootSource, load_root_certificates};

/// Sends webhooks over HTTP. A worker needs only one: all attempts share its connection pool.
pub struct HttpSender {
    client: Client,
    destinations: Destinations,
    keys: SharedSigningKeys,
    profiles: SharedProfiles,
    compat_headers: CompatHeaders,
}

impl HttpSender {
    /// Creates a sender that signs each request with the keys of its destination that the engine holds in `profiles`, or with
    /// the instance's keys that are current then. Must be called within a Tokio runtime, because it spawns the task that closes
    /// idle connections.
    pub fn new(
        options: &SenderOptions,
        keys: SharedSigningKeys,
        profiles: SharedProfiles,
    ) -> Result<Self, InvalidOptions> {
        let pool = Pool::new(options.pool_size, options.pool_size_total);
        let sockets = SocketBudget::new(options.sockets_max, Arc::clone(&pool));
        let destinations = Destinations::new(Arc::clone(&pool));
        let client = Client { connector: Connector::new(options, sockets)?, pool };
        Ok(Self { client, destinations, keys, profiles, compat_headers: options.compat_headers })
    }

    /// Returns the number of certificate authorities that a sender with this CA file would trust, including the
    /// system's.
    pub fn count_authorities(ca_file: Option<&Path>) -> Result<usize, InvalidOptions> {
        load_root_certificates(RootSource::system_and(ca_file)).map(|roots| roots.len())
    }

    /// Checks that a sender can use this CA file. Does not load the system's certificate authorities.
    pub fn check_ca_file(ca_file: &Path) -> Result<(), InvalidOptions> {
        load_root_certificates(RootSource::File(ca_file)).map(drop)
    }

    /// Returns the keys and headers of the destination. A request must not be signed with other keys than its own, so their
    /// absence is a failure.
    fn profile_of(&self, lease: &Lease) -> Result<Option<Arc<Profile>>, Failure> {
        let profile = self.profiles.for_lease(lease);
        if profile.is_none() && lease.profile_version != 0 {
            let reason = "the keys and headers of the destination are not loaded";
            return Err(Failure::new(ErrorClass::Unsendable, reason.to_owned()));
        }
        Ok(profile)
    }

    async fn attempt(
        &self,
        lease: &Lease,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Outcome, AttemptError> {
        let destination = self.destinations.of_lease(lease)?;
        let request = build_request(
            lease,
            &RequestContext {
                instance_keys: &self.keys.current(),
                profile: self.profile_of(lease)?.as_deref(),
                compat_headers: self.compat_headers,
                now,
            },
        )?;
        let progress = Progress::default();
        let sending = deadline.within(self.client.send(&destination, request, &progress));
        let mut response = sending.await.ok_or_else(|| deadline.timeout_failure(&progress))??;
        let mut summary = ResponseSummary::new(&response.response, now.after(deadline.elapsed()));
        if deadline.within(summary.read_body(&mut response)).await == Some(true) {
            self.client.keep_connection(&destination, response);
        }
        Ok(summary.outcome())
    }
}

#[async_trait]
impl Sender for HttpSender {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        match self.attempt(lease, now, Deadline::after(timeout)).await {
            Ok(outcome) => Ok(outcome),
            Err(AttemptError::Failed(failure)) => Ok(failure.into()),
            Err(AttemptError::Shortage(shortage)) => Err(shortage),
        }
    }
}
