//! Enqueue requests blocked by a row lock of another client's transaction. They wait here instead of blocking a batch.
//!
//! A client may leave a transaction open in which it stored an event for a new destination, or under some event id.
//! Requests that need the same row must wait until that transaction ends. The first of them detects the lock; later
//! ones join it here at once. They are retried in turns, and one try counts for all that need the same resource.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_domain::EventId;
use posthaste_store::{EnqueueRequest, StoreError};
use tokio::sync::Notify;

use super::batch::{BatchWriter, PendingEnqueue, QUEUED_REQUESTS_MAX, WriteError, write_contained};

/// Maximum number of tries of a blocked request. A try of another request for the same resource counts, too. Each try
/// waits for the lock for a short time.
const TRIES_MAX: usize = 8;
/// Maximum number of resources in the set of locked ones. A full set is emptied; later requests then detect the locks
/// again.
const LOCKED_RESOURCES_MAX: usize = 1_000;

/// The requests that wait for a lock, and the resources found locked.
#[derive(Default)]
pub(super) struct ContendedRequests {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ContendedRequest>,
    /// Destination URLs and event ids that were locked at the last try.
    locked: BTreeSet<String>,
    closed: bool,
}

struct ContendedRequest {
    pending: PendingEnqueue,
    /// Number of tries that found it blocked, its own and those of other requests for the same resource.
    tries: usize,
}

/// What [`ContendedRequests::run`] does next.
enum Step {
    Retry(ContendedRequest),
    WaitForRequest,
    Stop,
}

/// Returns the destination URLs and chosen event ids of a request. While a transaction that inserted such a row is
/// open, no other transaction can insert it.
pub(super) fn lockable_resources(request: &EnqueueRequest) -> impl Iterator<Item = &str> {
    request.events.iter().flat_map(|event| {
        let event_id = event.event_id().map(EventId::as_str);
        std::iter::once(event.destination_url().as_str()).chain(event_id)
    })
}

impl ContendedRequests {
    /// Returns whether the request needs a resource that was locked at the last try.
    pub(super) fn needs_locked_resource(&self, request: &EnqueueRequest) -> bool {
        let state = self.state();
        !state.locked.is_empty()
            && lockable_resources(request).any(|resource| state.locked.contains(resource))
    }

    /// Adds a request to retry. Beyond the capacity, the request is refused at once.
    pub(super) fn add(&self, pending: PendingEnqueue) {
        let mut state = self.state();
        if state.waiting.len() < QUEUED_REQUESTS_MAX {
            state.waiting.push_back(ContendedRequest { pending, tries: 0 });
            self.changed.notify_one();
        } else {
            drop(state);
            pending.refuse(still_locked());
        }
    }

    /// Records a locked resource. Requests that need it are added here instead of to a batch.
    pub(super) fn mark_locked(&self, resource: Option<String>) {
        let mut state = self.state();
        if state.locked.len() >= LOCKED_RESOURCES_MAX {
            state.locked.clear();
        }
        state.locked.extend(resource);
    }

    /// Makes [`Self::run`] end once no request waits. No request may be added after this call.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    /// Retries waiting requests one by one, until [`Self::close`] has been called and none waits.
    pub(super) async fn run(&self, writer: &dyn BatchWriter) {
        loop {
            match self.next_step() {
                Step::Retry(request) => self.retry(writer, request).await,
                Step::WaitForRequest => self.changed.notified().await,
                Step::Stop => return,
            }
        }
    }

    fn next_step(&self) -> Step {
        let mut state = self.state();
        state.waiting.retain(|request| !request.pending.is_abandoned());
        match state.waiting.pop_front() {
            Some(request) => Step::Retry(request),
            None if state.closed => Step::Stop,
            None => Step::WaitForRequest,
        }
    }

    async fn retry(&self, writer: &dyn BatchWriter, contended: ContendedRequest) {
        let batch = std::slice::from_ref(&contended.pending.request);
        match write_contained(writer, batch).await.remove(0) {
            Err(WriteError::Blocked { resource }) => {
                self.mark_locked(resource.clone());
                self.requeue(contended, resource.as_deref());
            }
            Err(WriteError::Failed(error)) => {
                self.mark_unlocked(&contended.pending.request);
                contended.pending.refuse(error);
            }
            Ok(response) => {
                self.mark_unlocked(&contended.pending.request);
                contended.pending.respond(writer, response).await;
            }
        }
    }

    /// Moves a blocked request behind all others, together with the requests that need the same resource: their tries
    /// would have failed too. A request that has reached [`TRIES_MAX`] gets an error instead.
    fn requeue(&self, blocked: ContendedRequest, resource: Option<&str>) {
        let given_up: Vec<ContendedRequest> = {
            let mut state = self.state();
            let needs_same = |other: &ContendedRequest| {
                resource.is_some_and(|resource| {
                    lockable_resources(&other.pending.request).any(|needed| needed == resource)
                })
            };
            let (same, others): (Vec<_>, Vec<_>) = state.waiting.drain(..).partition(needs_same);
            let (given_up, retried): (Vec<_>, Vec<_>) = std::iter::once(blocked)
                .chain(same)
                .map(|ContendedRequest { pending, tries }| ContendedRequest { pending, tries: tries + 1 })
                .partition(|request| request.tries == TRIES_MAX);
            state.waiting = others.into_iter().chain(retried).collect();
            given_up
        };
        for request in given_up {
            request.pending.refuse(still_locked());
        }
    }

    fn mark_unlocked(&self, request: &EnqueueRequest) {
        let mut state = self.state();
        for resource in lockable_resources(request) {
            state.locked.remove(resource);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error of a request that stays blocked.
fn still_locked() -> StoreError {
    StoreError::Busy { reason: "another client's open transaction holds the destination or the event id" }
}

#[cfg(test)]
mod tests;
