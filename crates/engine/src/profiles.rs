//! The profiles of destinations: their own signing keys and custom headers, read by version.
//!
//! A lease has the version of its destination's profile as of the claim. Version zero means no profile, and costs nothing. For
//! any other version, the worker looks in its cache and reads the profile only if the cache has none of that version. Before a
//! request starts, the profile that it is signed with is held for its lease; the sender asks for it by the lease.
//!
//! A request that starts more than [`SECRETS_LEARNED_WITHIN`](crate::SECRETS_LEARNED_WITHIN) after a rotation has a signature
//! of each valid key: the lease was claimed, or the profile was read, at most [`FRESH_FOR`] before it starts. A claim that
//! lists a destination as updated makes the worker read its profile sooner.
//!
//! An event whose profile cannot be read or opened is released. It loses no attempt, and its destination gets no claim for a
//! growing time.

mod cache;
mod profile;
mod unresolved;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::seal::MasterKeys;
use posthaste_domain::{ApplicationId, DestinationId, Lease, LeaseToken, Timestamp};
use posthaste_store::{ClaimResponse, DestinationProfile};

use crate::signing::SECRETS_LEARNED_WITHIN;
use crate::supervise::catch_store_panic;
use crate::worker::Worker;
use cache::ProfileCache;
use unresolved::UnresolvedDestinations;

pub use profile::{Profile, UnusableProfile};

/// How long after a claim or a reading a profile is used without another reading.
const FRESH_FOR: Duration = Duration::from_secs(3);
/// Shortest time between two readings of a profile that claims list as updated. Every claim of some seconds lists it.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of profiles that one call reads. It bounds the bytes of the response.
const READ_MAX: usize = 128;
/// Maximum number of destinations that wait for a reading. Beyond it, each request reads its own profile.
const WANTED_MAX: usize = 1_024;

const _: () = assert!(FRESH_FOR.as_secs() + READ_AGAIN_AFTER.as_secs() < SECRETS_LEARNED_WITHIN.as_secs());

/// The profiles that the workers of a process use. Clones share them.
#[derive(Clone, Default)]
pub struct SharedProfiles(Arc<Shared>);

#[derive(Default)]
struct Shared {
    master_keys: Arc<MasterKeys>,
    state: Mutex<State>,
    /// Held during a reading, so that requests which need the same profile read it once.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    cache: ProfileCache,
    /// The profiles of requests in flight.
    in_use: BTreeMap<LeaseToken, Arc<Profile>>,
    /// Destinations of claimed events whose profiles are not in the cache. The next reading brings them too.
    wanted: BTreeSet<DestinationId>,
    unresolved: UnresolvedDestinations,
}

/// A profile that is held for one request. Dropping it ends that.
pub struct ProfileInUse {
    profiles: SharedProfiles,
    token: LeaseToken,
    app: Option<ApplicationId>,
}

/// The profile of an event's destination could not be read or opened.
pub(crate) struct NoProfile;

impl SharedProfiles {
    /// Creates an empty cache of profiles, which the master keys open.
    pub fn new(master_keys: Arc<MasterKeys>) -> Self {
        Self(Arc::new(Shared { master_keys, ..Shared::default() }))
    }

    /// Returns the profile with which the request of a lease is made. `None` if its destination has no profile, or none is held
    /// for the lease.
    pub fn for_lease(&self, lease: &Lease) -> Option<Arc<Profile>> {
        if lease.profile_version == 0 {
            return None;
        }
        self.state().in_use.get(&lease.token).cloned()
    }

    /// Holds a profile for the request of a lease.
    pub fn hold(&self, lease: &Lease, profile: Arc<Profile>) -> ProfileInUse {
        let app = profile.app();
        self.state().in_use.insert(lease.token, profile);
        ProfileInUse { profiles: self.clone(), token: lease.token, app }
    }

    /// Takes the response of a claim: forgets profiles that have changed, and marks those that new leases need.
    pub(crate) fn record_claim(&self, response: &ClaimResponse, requested_at: Duration) {
        let with_profile = response.leases.iter().filter(|lease| lease.profile_version > 0);
        let mut with_profile = with_profile.peekable();
        if response.updated.is_empty() && with_profile.peek().is_none() {
            return;
        }
        let mut state = self.state();
        for id in &response.updated {
            state.cache.remove_read_before(*id, requested_at.saturating_sub(READ_AGAIN_AFTER));
        }
        for lease in with_profile {
            let id = lease.destination_id;
            if !state.cache.has_version(id, lease.profile_version) && state.wanted.len() < WANTED_MAX {
                state.wanted.insert(id);
            }
        }
    }

    /// Returns the limit of events that may be claimed for a destination whose profile could not be resolved: none until its
    /// next trial, and one for the trial.
    pub(crate) fn send_limit(&self, destination: DestinationId, now: Duration) -> Option<usize> {
        self.state().unresolved.send_limit(destination, now)
    }

    /// Holds the profile of a lease for its request, and reads it if need be. Returns none if the destination has no profile.
    /// `requested_at` is when the lease was requested.
    pub(crate) async fn resolve(
        &self,
        worker: &Worker,
        lease: &Lease,
        requested_at: Duration,
    ) -> Result<Option<ProfileInUse>, NoProfile> {
        if lease.profile_version == 0 {
            return Ok(None);
        }
        let find = || self.find(worker, lease, requested_at);
        if let Some(profile) = find() {
            return Ok(Some(self.hold(lease, profile)));
        }
        let _reading = self.0.reading.lock().await;
        // Another request may have read the profile meanwhile, or have failed to.
        let found = match find() {
            Some(profile) => Some(profile),
            None if self.is_paused(worker, lease.destination_id) => None,
            None => {
                self.read(worker, lease.destination_id).await;
                find()
            }
        };
        match found {
            Some(profile) => Ok(Some(self.hold(lease, profile))),
            None => {
                self.report_unsent(worker, lease);
                Err(NoProfile)
            }
        }
    }

    /// Finds a profile in the cache that is recent enough for a request now. Retired keys are taken out of it.
    fn find(&self, worker: &Worker, lease: &Lease, requested_at: Duration) -> Option<Arc<Profile>> {
        let now = worker.ports.clock.monotonic();
        let store_now = worker.store_time.at(now).unwrap_or(Timestamp::from_secs(0));
        let mut state = self.state();
        let cached = state.cache.find(lease.destination_id, lease.profile_version)?;
        // The claim returned the version of its own time, so a profile of that version was current then.
        if cached.read_at.max(requested_at) + FRESH_FOR < now {
            return None;
        }
        match cached.profile.without_retired_keys(store_now) {
            None => Some(cached.profile),
            Some(shorter) => {
                let shorter = Arc::new(shorter);
                state.cache.insert(lease.destination_id, Arc::clone(&shorter), cached.read_at);
                Some(shorter)
            }
        }
    }

    fn is_paused(&self, worker: &Worker, destination: DestinationId) -> bool {
        self.send_limit(destination, worker.ports.clock.monotonic()) == Some(0)
    }

    /// Reads the profile of a destination, and with it the others that are wanted.
    async fn read(&self, worker: &Worker, destination: DestinationId) {
        let ids = self.state().take_wanted(destination);
        let read_at = worker.ports.clock.monotonic();
        let stored = catch_store_panic(async { worker.ports.store.endpoints().profiles(&ids).await }).await;
        let now = worker.ports.clock.monotonic();
        let mut state = self.state();
        match stored {
            Ok(stored) => {
                for id in ids {
                    let opened = self.open(stored.iter().find(|profile| profile.destination == id));
                    state.record_opened(id, opened, read_at, now);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                ids.iter().for_each(|id| state.unresolved.record(*id, reason.clone(), now));
            }
        }
    }

    fn open(&self, stored: Option<&DestinationProfile>) -> Result<Profile, UnusableProfile> {
        Profile::open(stored.ok_or(UnusableProfile::Missing)?, &self.0.master_keys)
    }

    /// Counts an event that is not sent, and logs it if a log line is due.
    fn report_unsent(&self, worker: &Worker, lease: &Lease) {
        let (now, id) = (worker.ports.clock.monotonic(), lease.destination_id);
        let mut state = self.state();
        // A reading that took too long, or that returned an older version than the lease has, is a failure too.
        if state.unresolved.send_limit(id, now) != Some(0) {
            state.unresolved.record(id, "the profile was not read in time".to_owned(), now);
        }
        let Some((events, reason)) = state.unresolved.record_unsent(id, now) else { return };
        drop(state);
        tracing::warn!(worker_id = %worker.settings.worker_id, destination_id = id.0, events, reason,
            "events were not sent, because the keys and headers of their destination cannot be read; they lose no \
             attempt and are tried again");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the destinations that the next reading reads: this one and others that are wanted.
    fn take_wanted(&mut self, destination: DestinationId) -> Vec<DestinationId> {
        self.wanted.remove(&destination);
        let others = std::iter::from_fn(|| self.wanted.pop_first()).take(READ_MAX - 1);
        std::iter::once(destination).chain(others).collect()
    }

    fn record_opened(
        &mut self,
        id: DestinationId,
        opened: Result<Profile, UnusableProfile>,
        read_at: Duration,
        now: Duration,
    ) {
        match opened {
            Ok(profile) => {
                self.unresolved.remove(id);
                self.cache.insert(id, Arc::new(profile), read_at);
            }
            Err(reason) => self.unresolved.record(id, reason.to_string(), now),
        }
    }
}

impl ProfileInUse {
    /// The application of an endpoint. `None` if the destination is a URL.
    pub(crate) fn app(&self) -> Option<ApplicationId> {
        self.app
    }
}

impl Drop for ProfileInUse {
    fn drop(&mut self) {
        self.profiles.state().in_use.remove(&self.token);
    }
}
