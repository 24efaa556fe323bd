//! Requests that wait for somebody else's open transaction, out of everybody else's way.
//!
//! A producer may leave a transaction open in which it stored an event for a new destination, or under some event id.
//! Whoever needs the same has to wait until it ends. One of them finds out; those who come later are put aside at once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_domain::EventId;
use posthaste_store::{EnqueueRequest, Store, StoreError};
use tokio::sync::Notify;

use super::{Asking, store_together};

/// How often a request is tried. The store lets each of them wait for a moment.
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
    waiting: VecDeque<Asking>,
    /// Destinations and event ids that somebody held when they were last asked for.
    held: BTreeSet<String>,
    closed: bool,
}

impl Aside {
    /// Whether it needs what somebody holds.
    pub(super) fn concerns(&self, request: &EnqueueRequest) -> bool {
        let state = self.state();
        !state.held.is_empty() && needs(request).any(|need| state.held.contains(need))
    }

    pub(super) fn put(&self, asking: Asking) {
        self.state().waiting.push_back(asking);
        self.changed.notify_one();
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

    /// Tries them in the order in which they came, until it is closed and nobody waits.
    pub(super) async fn run(&self, store: &dyn Store) {
        loop {
            match self.first() {
                Ok(asking) => self.insist(store, asking).await,
                Err(closed) if closed => return,
                Err(_) => self.changed.notified().await,
            }
        }
    }

    /// Who has waited longest; where nobody waits, whether somebody may still come.
    fn first(&self) -> Result<Asking, bool> {
        let mut state = self.state();
        let closed = state.closed;
        state.waiting.pop_front().ok_or(closed)
    }

    async fn insist(&self, store: &dyn Store, asking: Asking) {
        let requests = std::slice::from_ref(&asking.request);
        let mut in_the_way = None;
        for _ in 0..TRIES {
            if asking.reply.is_closed() {
                return;
            }
            match store_together(store, requests).await.remove(0) {
                Err(StoreError::Contended { held }) => {
                    self.hold(held.clone());
                    in_the_way = held;
                }
                answer => {
                    self.let_go(&asking.request);
                    return asking.answer(answer);
                }
            }
        }
        self.give_up(asking, in_the_way.as_deref());
    }

    /// Who waits for the same would fare no better.
    fn give_up(&self, asking: Asking, held: Option<&str>) {
        let alike: Vec<Asking> = {
            let mut state = self.state();
            let is_alike =
                |other: &Asking| held.is_some_and(|held| needs(&other.request).any(|need| need == held));
            let (alike, others) = state.waiting.drain(..).partition(is_alike);
            state.waiting = others;
            Vec::from(alike)
        };
        for asking in std::iter::once(asking).chain(alike) {
            asking.answer(Err(StoreError::Contended { held: held.map(str::to_owned) }));
        }
    }

    fn let_go(&self, request: &EnqueueRequest) {
        let mut state = self.state();
        for need in needs(request) {
            state.held.remove(need);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What only one open transaction can make.
fn needs(request: &EnqueueRequest) -> impl Iterator<Item = &str> {
    request.events.iter().flat_map(|event| {
        let event_id = event.event_id().map(EventId::as_str);
        std::iter::once(event.destination_url().as_str()).chain(event_id)
    })
}
