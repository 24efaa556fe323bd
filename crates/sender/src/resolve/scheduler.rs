//! Schedules blocking lookups, so that names whose lookups hang do not delay other names.
//!
//! A call of the C library's resolver blocks its thread for an unbounded time and cannot be cancelled. Each lookup
//! therefore needs a permit from one of three groups, by the history of its name: names that were answered, new names,
//! and suspect names, whose last lookup failed. Names of one group never wait for names of another. A lookup that is
//! slow exchanges its permit for one of a fourth group, so that it does not delay other names of its own group either.
//!
//! Concurrent lookups of one name share a single blocking call. A lookup that is still waiting for its permit is dropped
//! when no caller waits for it any more.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_resolver::proto::rr::Name;
use lru::LruCache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::LookupError;
use super::cache::CachedAddresses;
use crate::deadline::{Deadline, now};

/// Upper bound of concurrent lookups of names that were answered before, and separately of new names.
const PROMPT_LOOKUPS_MAX: usize = 32;
/// Upper bound of concurrent lookups of suspect names.
const SUSPECT_LOOKUPS_MAX: usize = 16;
/// Upper bound of concurrent slow lookups. The limit is high because a thread that only waits costs little.
const SLOW_LOOKUPS_MAX: usize = 128;
/// Duration after which a lookup counts as slow.
const SLOW_AFTER: Duration = Duration::from_millis(500);

/// TTL of a cached answer. The C library does not report the TTL of the zone.
const ANSWER_TTL: Duration = Duration::from_secs(5);
/// How long a name is suspect after a failure. After that it counts as new: a working name must not queue behind dead
/// names indefinitely.
const SUSPECT_FOR: Duration = Duration::from_secs(30);
/// Upper bound of names whose history is kept.
const NAMES_MAX: NonZeroUsize = NonZeroUsize::new(2_048).expect("the number is not zero");

type LookupResult = Result<Vec<IpAddr>, LookupError>;

/// A lookup function that blocks its thread until it has a result.
pub(super) type BlockingLookup = dyn Fn(&Name) -> LookupResult + Send + Sync;

/// Runs blocking lookups on Tokio's blocking threads, within the limits of this module.
pub(super) struct LookupScheduler {
    blocking_lookup: Box<BlockingLookup>,
    answered_permits: Arc<Semaphore>,
    new_permits: Arc<Semaphore>,
    suspect_permits: Arc<Semaphore>,
    slow_permits: Arc<Semaphore>,
    state: Mutex<SchedulerState>,
}

struct SchedulerState {
    /// Lookups that are running or waiting for a permit. Each publishes its result to all its callers.
    in_progress: HashMap<Name, watch::Sender<Option<LookupResult>>>,
    history: LruCache<Name, NameHistory>,
}

/// A cached answer, or the lookup to wait for.
enum LookupHandle {
    Cached(Vec<IpAddr>),
    InProgress(watch::Receiver<Option<LookupResult>>),
}

/// The result of the last lookup of a name.
enum NameHistory {
    /// The name has addresses, which may be cached, or is known to have none, which is never cached.
    Answered(Option<CachedAddresses>),
    /// The lookup failed, or outlasted all its callers.
    Suspect { until: Instant },
}

impl LookupScheduler {
    pub(super) fn new(blocking_lookup: Box<BlockingLookup>) -> Arc<Self> {
        let permits = |count| Arc::new(Semaphore::new(count));
        let state = SchedulerState { in_progress: HashMap::new(), history: LruCache::new(NAMES_MAX) };
        Arc::new(Self {
            blocking_lookup,
            answered_permits: permits(PROMPT_LOOKUPS_MAX),
            new_permits: permits(PROMPT_LOOKUPS_MAX),
            suspect_permits: permits(SUSPECT_LOOKUPS_MAX),
            slow_permits: permits(SLOW_LOOKUPS_MAX),
            state: Mutex::new(state),
        })
    }

    /// Looks up a name, from the cache or together with other callers.
    pub(super) async fn lookup(self: &Arc<Self>, name: Name) -> LookupResult {
        let mut in_progress = match self.join_or_start(&name) {
            LookupHandle::Cached(addresses) => return Ok(addresses),
            LookupHandle::InProgress(receiver) => receiver,
        };
        let result = in_progress.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        result.unwrap_or_else(|| Err(interrupted(&name)))
    }

    /// Returns a cached answer or the lookup in progress. Starts a lookup if there is neither.
    fn join_or_start(self: &Arc<Self>, name: &Name) -> LookupHandle {
        let mut state = self.state();
        if let Some(sender) = state.in_progress.get(name) {
            return LookupHandle::InProgress(sender.subscribe());
        }
        let permits = match state.history.get(name) {
            Some(NameHistory::Answered(cached)) => {
                if let Some(addresses) = cached.as_ref().and_then(|cached| cached.get(now())) {
                    return LookupHandle::Cached(addresses);
                }
                &self.answered_permits
            }
            Some(NameHistory::Suspect { until }) if now() < *until => &self.suspect_permits,
            Some(NameHistory::Suspect { .. }) | None => &self.new_permits,
        };
        let (sender, receiver) = watch::channel(None);
        state.in_progress.insert(name.clone(), sender.clone());
        tokio::spawn(Arc::clone(self).run(name.clone(), Arc::clone(permits), sender));
        LookupHandle::InProgress(receiver)
    }

    /// Runs one lookup, records its result in the name's history and publishes it. A blocking call that has started
    /// runs to its end, even if no caller waits for it any more.
    async fn run(
        self: Arc<Self>,
        name: Name,
        permits: Arc<Semaphore>,
        sender: watch::Sender<Option<LookupResult>>,
    ) {
        let Some(permit) = self.acquire_permit(&name, permits, &sender).await else { return };
        let (scheduler, looked_up) = (Arc::clone(&self), name.clone());
        let thread = tokio::task::spawn_blocking(move || (scheduler.blocking_lookup)(&looked_up));
        let result = self.join_thread(thread, permit).await.unwrap_or_else(|_| Err(interrupted(&name)));
        let mut state = self.state();
        let history = match &result {
            _ if sender.is_closed() => NameHistory::Suspect { until: now() + SUSPECT_FOR },
            Ok(addresses) => NameHistory::Answered(CachedAddresses::new(addresses, ANSWER_TTL, now())),
            Err(LookupError::NoAddress(_)) => NameHistory::Answered(None),
            Err(_) => NameHistory::Suspect { until: now() + SUSPECT_FOR },
        };
        state.in_progress.remove(&name);
        state.history.put(name, history);
        sender.send_replace(Some(result));
    }

    /// Waits for a permit. Returns `None`, and drops the lookup, if all callers stop waiting first.
    async fn acquire_permit(
        &self,
        name: &Name,
        permits: Arc<Semaphore>,
        sender: &watch::Sender<Option<LookupResult>>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut permit = Box::pin(permits.acquire_owned());
        loop {
            tokio::select! {
                biased;
                () = sender.closed() => {
                    let mut state = self.state();
                    // A new caller may have joined since. None can join while this task holds the lock.
                    if sender.is_closed() {
                        state.in_progress.remove(name);
                        return None;
                    }
                }
                permit = &mut permit => return Some(permit.expect("the semaphores are never closed")),
            }
        }
    }

    /// Waits for the blocking call, holding a permit until its thread is free. Once the lookup is slow, it exchanges
    /// its permit for a slow one as soon as one is free.
    async fn join_thread(
        &self,
        mut thread: JoinHandle<LookupResult>,
        permit: OwnedSemaphorePermit,
    ) -> Result<LookupResult, JoinError> {
        if let Some(result) = Deadline::after(SLOW_AFTER).within(&mut thread).await {
            return result;
        }
        // Suspect names keep their own permits, so that they cannot use up the slow ones.
        let may_exchange = !Arc::ptr_eq(permit.semaphore(), &self.suspect_permits);
        tokio::select! {
            biased;
            result = &mut thread => result,
            slow_permit = Arc::clone(&self.slow_permits).acquire_owned(), if may_exchange => {
                drop(permit);
                let result = thread.await;
                drop(slow_permit);
                result
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn interrupted(name: &Name) -> LookupError {
    LookupError::failed(&display_name(name), "the lookup was interrupted")
}

/// Formats a name without its trailing dot.
pub(super) fn display_name(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_owned()
}
