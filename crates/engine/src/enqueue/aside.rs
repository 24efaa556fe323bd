//! Requests that wait for somebody else's open transaction, out of everybody else's way.
//!
//! A producer may leave a transaction open in which it stored an event for a new destination, or under some event id.
//! Whoever needs the same has to wait until it ends. One of them finds out; those who come later are put aside at once.
//! Those who wait are tried in turns, one for all who need the same.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_store::{EnqueueRequest, Store, StoreError};
use tokio::sync::Notify;

use super::{Asking, QUEUE, store_together};

/// How often a request is tried, or another that needs the same. The store lets each of them wait for a moment.
const TRIES: usize = 8;
/// More than these are not remembered: then somebody finds out again.
const HELD_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Aside {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Tried>,
    /// Destinations and event ids that somebody held when they were last asked for.
    held: BTreeSet<String>,
    closed: bool,
}

struct Tried {
    asking: Asking,
    times: usize,
}

/// What is to be done next.
enum Next {
    Try(Tried),
    WaitForSomebody,
    End,
}

impl Aside {
    /// Whether it needs what somebody holds.
    pub(super) fn concerns(&self, request: &EnqueueRequest) -> bool {
        let state = self.state();
        !state.held.is_empty() && request.needs().any(|need| state.held.contains(need))
    }

    /// As many may wait here as in front.
    pub(super) fn put(&self, asking: Asking) {
        let mut state = self.state();
        if state.waiting.len() < QUEUE {
            state.waiting.push_back(Tried { asking, times: 0 });
            self.changed.notify_one();
        } else {
            drop(state);
            asking.answer(Err(StoreError::Contended { held: None }));
        }
    }

    /// Those who come with it from now on are put aside.
    pub(super) fn hold(&self, held: Option<String>) {
        let mut state = self.state();
        if state.held.len() >= HELD_MAX {
            state.held.clear();
        }
        state.held.extend(held);
    }

    /// Nobody else is put aside.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    /// Until it is closed and nobody waits.
    pub(super) async fn run(&self, store: &dyn Store) {
        loop {
            match self.next() {
                Next::Try(tried) => self.try_again(store, tried).await,
                Next::WaitForSomebody => self.changed.notified().await,
                Next::End => return,
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = self.state();
        // A producer that has gone away asks again under its idempotency key.
        state.waiting.retain(|tried| !tried.asking.reply.is_closed());
        match state.waiting.pop_front() {
            Some(tried) => Next::Try(tried),
            None if state.closed => Next::End,
            None => Next::WaitForSomebody,
        }
    }

    async fn try_again(&self, store: &dyn Store, tried: Tried) {
        let requests = std::slice::from_ref(&tried.asking.request);
        match store_together(store, requests).await.remove(0) {
            Err(StoreError::Contended { held }) => {
                self.hold(held.clone());
                self.put_back(tried, held.as_deref());
            }
            answer => {
                self.let_go(&tried.asking.request);
                tried.asking.answer(answer);
            }
        }
    }

    /// Behind all others, with those who need the same: they would have fared no better.
    fn put_back(&self, tried: Tried, held: Option<&str>) {
        let given_up: Vec<Tried> = {
            let mut state = self.state();
            let is_alike = |other: &Tried| {
                held.is_some_and(|held| other.asking.request.needs().any(|need| need == held))
            };
            let (alike, others): (Vec<_>, Vec<_>) = state.waiting.drain(..).partition(is_alike);
            let tried = std::iter::once(tried).chain(alike);
            let (given_up, go_on): (Vec<_>, Vec<_>) = tried
                .map(|Tried { asking, times }| Tried { asking, times: times + 1 })
                .partition(|tried| tried.times == TRIES);
            state.waiting = others.into_iter().chain(go_on).collect();
            given_up
        };
        for Tried { asking, .. } in given_up {
            asking.answer(Err(StoreError::Contended { held: held.map(str::to_owned) }));
        }
    }

    fn let_go(&self, request: &EnqueueRequest) {
        let mut state = self.state();
        for need in request.needs() {
            state.held.remove(need);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
