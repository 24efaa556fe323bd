//! Connections that wait for their next request.
//!
//! HTTP/1.1 connections are handed out, newest first, and come back when their response has been read; an HTTP/2
//! connection stays here while it is used. Those that are here are bounded per receiver and in all, in idle time and in
//! age: a receiver that moves to other addresses is followed within minutes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::now;
use crate::link::{Http1, Http2, Link};
use crate::target::Origin;

const IDLE_MAX: Duration = Duration::from_secs(60);
const AGE_MAX: Duration = Duration::from_secs(300);
const SWEEP_EVERY: Duration = Duration::from_secs(15);

pub(crate) struct Pool {
    shelves: Mutex<Shelves>,
    per_origin_max: usize,
    total_max: usize,
}

#[derive(Default)]
struct Shelves {
    /// Oldest in front.
    idle: HashMap<Arc<Origin>, VecDeque<Idle>>,
    /// Every idle connection by the order in which it came, so that the oldest of all is found without a search.
    by_arrival: BTreeMap<u64, Arc<Origin>>,
    arrivals: u64,
    /// Usually one per receiver; another when it carries all that it can. None is empty.
    shared: HashMap<Arc<Origin>, Vec<Shared>>,
    shared_count: usize,
}

struct Idle {
    arrival: u64,
    since: Instant,
    link: Box<Http1>,
}

struct Shared {
    used_at: Instant,
    link: Http2,
}

impl Shared {
    fn is_young(&self, now: Instant) -> bool {
        self.link.opened_at() + AGE_MAX > now
    }
}

/// What was taken out, to be let go of when the lock is: closing a socket is a system call.
type TakenOut = (Vec<Idle>, Vec<Shared>);

impl Pool {
    /// Sweeps by itself until it is dropped; must be called on a runtime.
    pub(crate) fn new(per_origin_max: usize, total_max: usize) -> Arc<Self> {
        let pool = Arc::new(Self { shelves: Mutex::default(), per_origin_max, total_max });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// A connection that looks alive; its receiver may close it all the same before it hears from us.
    pub(crate) async fn take(&self, origin: &Origin) -> Option<Link> {
        let now = now();
        loop {
            let mut link = self.shelves().pick(origin, now)?;
            let fresh = match &mut link {
                Link::Http1(link) => link.opened_at + AGE_MAX > now && link.is_fresh().await,
                Link::Http2(_) => true,
            };
            if fresh {
                return Some(link);
            }
        }
    }

    /// Keeps a connection whose response has been read, if it can carry another request.
    pub(crate) fn put(&self, origin: &Arc<Origin>, mut link: Box<Http1>) {
        if self.per_origin_max == 0 || self.total_max == 0 || !link.is_idle() {
            return;
        }
        let taken_out = {
            let mut shelves = self.shelves();
            shelves.keep(origin, link, now());
            (shelves.trim_origin(origin, self.per_origin_max), shelves.trim(self.total_max))
        };
        drop(taken_out);
    }

    /// Lets others use a connection from now on, if they need it: of several that were opened at once, those that come
    /// too late carry the request that they were opened for, and close.
    pub(crate) fn share(&self, origin: &Arc<Origin>, link: &Http2) {
        let now = now();
        let taken_out = {
            let mut shelves = self.shelves();
            let closed = shelves.take_shared(origin, |shared| !shared.link.is_open());
            if !shelves.has_place(origin, now) {
                shelves
                    .shared
                    .entry(Arc::clone(origin))
                    .or_default()
                    .push(Shared { used_at: now, link: link.clone() });
                shelves.shared_count += 1;
            }
            (closed, shelves.trim_origin(origin, self.per_origin_max), shelves.trim(self.total_max))
        };
        drop(taken_out);
    }

    /// Nobody shall use this connection again; those who do now may finish.
    pub(crate) fn forget(&self, origin: &Origin, link: &Http2) {
        let taken_out = self.shelves().take_shared(origin, |shared| shared.link.is_same_as(link));
        drop(taken_out);
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    fn pick(&mut self, origin: &Origin, now: Instant) -> Option<Link> {
        for shared in self.shared.get_mut(origin).into_iter().flatten() {
            if shared.is_young(now)
                && let Some(place) = shared.link.place()
            {
                shared.used_at = now;
                return Some(Link::Http2(place));
            }
        }
        let shelf = self.idle.get_mut(origin)?;
        let newest = shelf.pop_back()?;
        self.unlist(origin, newest.arrival);
        Some(Link::Http1(newest.link))
    }

    fn has_place(&self, origin: &Origin, now: Instant) -> bool {
        let mut shared = self.shared.get(origin).into_iter().flatten();
        shared.any(|shared| shared.is_young(now) && shared.link.has_place())
    }

    fn keep(&mut self, origin: &Arc<Origin>, link: Box<Http1>, since: Instant) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.by_arrival.insert(arrival, Arc::clone(origin));
        self.idle.entry(Arc::clone(origin)).or_default().push_back(Idle { arrival, since, link });
    }

    fn take_oldest_of(&mut self, origin: &Origin) -> Option<Idle> {
        let oldest = self.idle.get_mut(origin)?.pop_front()?;
        self.unlist(origin, oldest.arrival);
        Some(oldest)
    }

    /// After a connection was taken off its shelf.
    fn unlist(&mut self, origin: &Origin, arrival: u64) {
        self.by_arrival.remove(&arrival);
        if self.idle.get(origin).is_some_and(VecDeque::is_empty) {
            self.idle.remove(origin);
        }
    }

    fn take_shared(&mut self, origin: &Origin, which: impl Fn(&Shared) -> bool) -> Vec<Shared> {
        let Some(shelf) = self.shared.get_mut(origin) else { return Vec::new() };
        let taken: Vec<_> = shelf.extract_if(.., |shared| which(shared)).collect();
        self.shared_count -= taken.len();
        if shelf.is_empty() {
            self.shared.remove(origin);
        }
        taken
    }

    /// Down to the limit of one receiver: what was used longest ago goes first, of either kind.
    fn trim_origin(&mut self, origin: &Origin, per_origin_max: usize) -> TakenOut {
        let (mut idle, mut shared) = TakenOut::default();
        while self.count_of(origin) > per_origin_max {
            let oldest = self.idle.get(origin).and_then(VecDeque::front);
            let stalest = self.shared.get(origin).into_iter().flatten().min_by_key(|shared| shared.used_at);
            match stalest {
                Some(stalest) if oldest.is_none_or(|oldest| stalest.used_at < oldest.since) => {
                    let link = stalest.link.clone();
                    shared.extend(self.take_shared(origin, |shared| shared.link.is_same_as(&link)));
                }
                _ => idle.extend(self.take_oldest_of(origin)),
            }
        }
        (idle, shared)
    }

    fn count_of(&self, origin: &Origin) -> usize {
        self.idle.get(origin).map_or(0, VecDeque::len) + self.shared.get(origin).map_or(0, Vec::len)
    }

    /// Down to the limit of all: the oldest idle connection goes first, then the shared one that was used longest ago.
    fn trim(&mut self, total_max: usize) -> TakenOut {
        let (mut idle, mut shared) = TakenOut::default();
        while self.by_arrival.len() + self.shared_count > total_max {
            if let Some((_, origin)) = self.by_arrival.first_key_value() {
                let origin = Arc::clone(origin);
                idle.push(self.take_oldest_of(&origin).expect("every arrival is on its shelf"));
                continue;
            }
            let stalest = self
                .shared
                .iter()
                .flat_map(|(origin, shelf)| shelf.iter().map(move |shared| (origin, shared)));
            let Some((origin, found)) = stalest.min_by_key(|(_, shared)| shared.used_at) else { break };
            let (origin, link) = (Arc::clone(origin), found.link.clone());
            shared.extend(self.take_shared(&origin, |shared| shared.link.is_same_as(&link)));
        }
        (idle, shared)
    }

    /// Takes out what has waited too long.
    fn take_expired(&mut self, now: Instant) -> TakenOut {
        let (mut idle, mut shared) = TakenOut::default();
        while let Some((_, origin)) = self.by_arrival.first_key_value() {
            let origin = Arc::clone(origin);
            let oldest =
                self.idle.get(&origin).and_then(VecDeque::front).expect("every arrival is on its shelf");
            if oldest.since + IDLE_MAX > now {
                break;
            }
            idle.extend(self.take_oldest_of(&origin));
        }
        let expired = |shared: &Shared| {
            !shared.link.is_open() || (shared.link.is_unused() && shared.used_at + IDLE_MAX <= now)
        };
        let origins: Vec<_> = self.shared.keys().cloned().collect();
        for origin in origins {
            shared.extend(self.take_shared(&origin, expired));
        }
        (idle, shared)
    }
}

#[expect(clippy::disallowed_methods, reason = "real sockets grow stale in real time")]
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        let expired = pool.shelves().take_expired(now());
        drop(expired);
    }
}
