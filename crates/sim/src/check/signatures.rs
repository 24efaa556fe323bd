//! Checks of signatures: a receiver that has any valid key of its endpoint accepts every request, also during a rotation.
//!
//! A key is valid from its rotation until its successor's grace period ends by the store's clock. A worker learns of a
//! rotation within [`SECRETS_LEARNED_WITHIN`], by its own clock. So:
//!
//! - A request has a signature of each key that is valid when it is signed and was added that long ago. With a grace period
//!   of more than that, a receiver can change its key at any time from then until the end of the period, and refuses no
//!   request. Without a grace period, the old key is invalid at once: in the first seconds, the requests of a worker that has
//!   not learned of the rotation carry the old key alone, and the receiver refuses them. Their events are retried.
//! - A request has no signature of a key that became invalid that long ago.
//!
//! The requests are signed and verified by the code that the real sender and receivers use.

use std::time::Duration;

use posthaste_domain::signature::{EndpointSecret, SignedHeaders, SigningKeys};
use posthaste_domain::{DestinationId, Lease, Timestamp};
use posthaste_engine::{Profile, SECRETS_LEARNED_WITHIN};
use posthaste_store::{DestinationKey, RotateKey};

use super::registry::ModelKey;
use super::{CheckResult, Checker, require};
use crate::process::Process;

/// How much slower than the true time a worker's clock runs at most.
const DRIFT_MAX: u32 = 4;
/// How long after a step of the store's clock a worker may still use the time before the step. It reads the clock with its
/// next claim.
const CLOCK_READ_WITHIN: Duration = Duration::from_secs(120);

/// The signed parts of a request.
struct SignedRequest<'a> {
    lease: &'a Lease,
    dated: Timestamp,
    signature: String,
}

impl SignedRequest<'_> {
    /// Returns whether a receiver with this key accepts the request.
    fn is_accepted_with(&self, key: &EndpointSecret) -> bool {
        let (id, timestamp) = (self.lease.wire_id.as_str(), self.dated.as_secs().to_string());
        let headers = SignedHeaders { id, timestamp: &timestamp, signature: &self.signature };
        let (body, tolerance) = (self.lease.payload.expect_loaded(), Duration::from_secs(300));
        let verified = match key {
            EndpointSecret::Hmac(secret) => SigningKeys::new(vec![secret.clone()])
                .expect("one secret is a valid number")
                .verify(headers, body, self.dated, tolerance),
            EndpointSecret::Ed25519(key) => key.public_key().verify(headers, body, self.dated, tolerance),
        };
        verified.is_ok()
    }
}

impl Checker {
    /// Checks the signatures of a request to an endpoint, at the time when it is signed.
    pub(crate) fn check_signature(
        &self,
        lease: &Lease,
        dated: Timestamp,
        profile: Option<&Profile>,
        process: &Process,
    ) {
        let mut model = self.model();
        let Some(endpoint) = model.registry.endpoints.get(&lease.destination_id) else { return };
        let result = (|| {
            let Some(keys) = profile.and_then(Profile::keys) else {
                return Err((
                    "rotation",
                    format!("{} is sent without the keys of its endpoint", lease.event_id),
                ));
            };
            let signature = keys.signature(&lease.wire_id, dated, lease.payload.expect_loaded()).to_string();
            let request = SignedRequest { lease, dated, signature };
            endpoint.keys.iter().try_for_each(|key| self.check_key(&request, key, process))
        })();
        let is_signed_twice = profile.and_then(Profile::keys).is_some_and(|keys| keys.keys().len() > 1);
        model.counts.registry.signed_twice += u64::from(is_signed_twice);
        self.record_result(model, result);
    }

    fn check_key(&self, request: &SignedRequest<'_>, key: &ModelKey, process: &Process) -> CheckResult {
        let is_accepted = request.is_accepted_with(&key.secret);
        let (event_id, id) = (&request.lease.event_id, request.lease.destination_id);
        require!(
            "rotation",
            is_accepted || !self.must_sign(key, process),
            "a receiver of endpoint {id} with a valid key, added {:?} ago, refuses {event_id}",
            self.clock.elapsed() - key.added_at
        );
        require!(
            "rotation",
            !is_accepted || !self.must_not_sign(key, process),
            "{event_id} is signed with a key of endpoint {id} that retired at {:?}",
            key.retires_at
        );
        Ok(())
    }

    /// Returns whether a key must sign now: the worker has had the time to learn of it, and it has not retired, neither by the
    /// store's clock nor by the time that the worker may take for it.
    fn must_sign(&self, key: &ModelKey, process: &Process) -> bool {
        let is_learned = self.clock.elapsed() - key.added_at > learned_within(process);
        let (Some(retires_at), Some(replaced_at)) = (key.retires_at, key.replaced_at) else {
            return is_learned;
        };
        let error = self.clock_error(process);
        let recent = self.clock.timestamps_by_steps_within(CLOCK_READ_WITHIN);
        let latest = recent.into_iter().max().max(Some(self.clock.latest_timestamp_since(replaced_at)));
        is_learned && latest.is_some_and(|latest| latest.after(error) < retires_at)
    }

    /// Returns whether a key must not sign any more: it retired so long ago that the worker has noticed, also if the store's
    /// clock has stepped back.
    fn must_not_sign(&self, key: &ModelKey, process: &Process) -> bool {
        let (Some(retires_at), Some(replaced_at)) = (key.retires_at, key.replaced_at) else { return false };
        let is_learned = self.clock.elapsed() - replaced_at > learned_within(process);
        let noticed_at = retires_at.after(learned_within(process) + self.clock_error(process));
        let recent = self.clock.timestamps_by_steps_within(CLOCK_READ_WITHIN);
        is_learned && recent.into_iter().all(|now| now > noticed_at)
    }

    /// Returns how far off a worker's reading of the store's clock may be: it is as precise as a claim is fast.
    fn clock_error(&self, process: &Process) -> Duration {
        let lease = self.scenario.settings.lease.duration();
        if process.has_exact_clock() { lease } else { lease * DRIFT_MAX }
    }

    /// Records a rotation. The response has the valid keys, newest first; a repetition adds none.
    pub(super) fn record_rotation(
        &self,
        id: DestinationId,
        request: &RotateKey<'_>,
        keys: &[DestinationKey],
    ) {
        let (now, elapsed) = (self.clock.timestamp(), self.clock.elapsed());
        let mut model = self.model();
        let Some(endpoint) = model.registry.endpoints.get_mut(&id) else { return };
        let is_repetition = endpoint.keys.iter().any(|key| key.new == request.key);
        if !is_repetition {
            for key in endpoint.keys.iter_mut().filter(|key| key.retires_at.is_none()) {
                key.retires_at = Some(now.after(request.grace.duration()));
                key.replaced_at = Some(elapsed);
            }
            endpoint.keys.push(ModelKey::new(&request.key, elapsed));
            model.counts.registry.rotated += 1;
        }
        let result = (|| {
            let Some(endpoint) = model.registry.endpoints.get(&id) else { return Ok(()) };
            let is_returned = |key: &ModelKey| keys.iter().any(|stored| stored.sealed == key.new.sealed);
            let newest = endpoint.keys.last().filter(|key| is_returned(key));
            require!("rotation", newest.is_some(), "the newest key of endpoint {id} is not valid");
            let mut retired = endpoint.keys.iter().filter(|key| key.retires_at.is_some_and(|at| at <= now));
            require!("rotation", !retired.any(is_returned), "a retired key of endpoint {id} is valid");
            let is_valid = |key: &&ModelKey| {
                let latest = key.replaced_at.map(|at| self.clock.latest_timestamp_since(at));
                key.retires_at.is_none_or(|at| Some(at) > latest)
            };
            let lost = endpoint.keys.iter().filter(is_valid).find(|key| !is_returned(key));
            require!("rotation", lost.is_none(), "a valid key of endpoint {id} is not returned");
            Ok(())
        })();
        self.record_result(model, result);
    }
}

/// Returns the time within which a worker learns of a rotation. A worker counts it by its own clock.
fn learned_within(process: &Process) -> Duration {
    if process.has_exact_clock() { SECRETS_LEARNED_WITHIN } else { SECRETS_LEARNED_WITHIN * DRIFT_MAX }
}
