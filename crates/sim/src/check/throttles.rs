//! Checks of throttles: the leases of all workers together stay within the rate of an endpoint and of an application.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{ApplicationId, DestinationId};

use super::registry::RegistryModel;
use super::step::Change;
use super::{CheckResult, Model, require};
use crate::time::elapsed;

/// The bound of a throttle: in any period of T seconds, at most rate × (T + 1) leases. A bucket that holds the tokens of one
/// second and never gets below zero is the same bound for all periods at once.
///
/// A step of the store's clock may fill the bucket, because the store cannot tell how long ago the last lease was.
pub(super) struct TokenBucket {
    per_second: f64,
    tokens: f64,
    /// Time since the start of the simulation at which `tokens` was computed.
    at: Duration,
    /// Time since the start of the simulation of the last lease.
    last_lease_at: Option<Duration>,
}

/// Floating point adds a small error to each of some hundred leases.
const TOKEN_ERROR: f64 = 1e-3;

impl TokenBucket {
    pub(super) fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, tokens: per_second, at: Duration::ZERO, last_lease_at: None }
    }

    /// Takes tokens. Returns false if there were not enough.
    fn take(&mut self, count: u32, now: Duration) -> bool {
        let refill = (now - self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + refill).min(self.per_second) - f64::from(count);
        self.at = now;
        self.last_lease_at = Some(now);
        self.tokens >= -TOKEN_ERROR
    }
}

/// The leases that a claim granted are within the throttles of their endpoints and applications.
pub(super) fn check_leases(granted: &[&Change<'_>], model: &mut Model) -> CheckResult {
    let now = elapsed();
    let mut by_endpoint: BTreeMap<DestinationId, u32> = BTreeMap::new();
    let mut by_application: BTreeMap<ApplicationId, u32> = BTreeMap::new();
    for change in granted {
        *by_endpoint.entry(change.after.destination_id).or_default() += 1;
        if let Some(app) = change.after.app {
            *by_application.entry(app).or_default() += 1;
        }
    }
    for (id, count) in by_endpoint {
        let bucket = model.registry.endpoints.get_mut(&id).and_then(|endpoint| endpoint.bucket.as_mut());
        let Some(bucket) = bucket else { continue };
        let (allowed, rate) = (bucket.take(count, now), bucket.per_second);
        model.counts.registry.throttled_leases += u64::from(count);
        require!("throttle", allowed, "{count} leases exceed the {rate} per second of endpoint {id}");
    }
    for (app, count) in by_application {
        let Some(bucket) = model.registry.application_buckets.get_mut(&app) else { continue };
        let (allowed, rate) = (bucket.take(count, now), bucket.per_second);
        model.counts.registry.throttled_leases += u64::from(count);
        require!("throttle", allowed, "{count} leases exceed the {rate} per second of application {app}");
    }
    Ok(())
}

impl RegistryModel {
    /// Fills the buckets of all throttles.
    pub(super) fn fill_buckets(&mut self) {
        let of_endpoints = self.endpoints.values_mut().filter_map(|endpoint| endpoint.bucket.as_mut());
        of_endpoints.chain(self.application_buckets.values_mut()).for_each(|it| it.tokens = it.per_second);
    }
}

impl Model {
    /// Returns the time since the start of the simulation of the last lease that a throttle of this destination counted.
    /// None if it has no throttle, or no lease yet.
    pub(super) fn last_throttled_lease_at(&self, destination: DestinationId) -> Option<Duration> {
        let endpoint = self.registry.endpoints.get(&destination)?;
        let of_endpoint = endpoint.bucket.as_ref().and_then(|bucket| bucket.last_lease_at);
        let bucket = self.registry.application_buckets.get(&endpoint.app);
        of_endpoint.max(bucket.and_then(|bucket| bucket.last_lease_at))
    }
}
