//! Connections that wait for their next request.
//!
//! HTTP/1.1 connections are handed out, newest first, and come back when their response has been read; an HTTP/2
//! connection stays here while it is used. Bounded per receiver and in all, in idle time and in age: a receiver that
//! moves to other addresses is followed within minutes.

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
    shared: HashMap<Arc<Origin>, Shared>,
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
            // Links are let go of after the lock: closing a socket is a system call.
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
        let pushed_out = {
            let mut shelves = self.shelves();
            let pushed_out = shelves.make_room(origin, self.per_origin_max, self.total_max);
            shelves.keep(origin, link, now());
            pushed_out
        };
        drop(pushed_out);
    }

    /// Lets others use a connection from now on, in place of the one that they used so far.
    pub(crate) fn share(&self, origin: &Arc<Origin>, link: &Http2) {
        let shared = Shared { used_at: now(), link: link.clone() };
        let pushed_out = {
            let mut shelves = self.shelves();
            let former = shelves.shared.insert(Arc::clone(origin), shared);
            (former, shelves.trim_shared(self.total_max))
        };
        drop(pushed_out);
    }

    /// Nobody shall use this connection again; those who do now may finish.
    pub(crate) fn forget(&self, origin: &Origin, link: &Http2) {
        let forgotten = {
            let mut shelves = self.shelves();
            let is_it = shelves.shared.get(origin).is_some_and(|shared| shared.link.is_same_as(link));
            if is_it { shelves.shared.remove(origin) } else { None }
        };
        drop(forgotten);
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    fn pick(&mut self, origin: &Origin, now: Instant) -> Option<Link> {
        if let Some(shared) = self.shared.get_mut(origin) {
            if shared.link.is_open() && shared.link.opened_at + AGE_MAX > now {
                shared.used_at = now;
                return Some(Link::Http2(shared.link.clone()));
            }
            self.shared.remove(origin);
        }
        let shelf = self.idle.get_mut(origin)?;
        let newest = shelf.pop_back()?;
        if shelf.is_empty() {
            self.idle.remove(origin);
        }
        self.by_arrival.remove(&newest.arrival);
        Some(Link::Http1(newest.link))
    }

    fn keep(&mut self, origin: &Arc<Origin>, link: Box<Http1>, since: Instant) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.by_arrival.insert(arrival, Arc::clone(origin));
        self.idle.entry(Arc::clone(origin)).or_default().push_back(Idle { arrival, since, link });
    }

    fn make_room(&mut self, origin: &Origin, per_origin_max: usize, total_max: usize) -> [Option<Idle>; 2] {
        let full = self.idle.get(origin).is_some_and(|shelf| shelf.len() >= per_origin_max);
        let of_origin = if full { self.take_oldest_of(origin) } else { None };
        let of_all = if self.by_arrival.len() >= total_max { self.take_oldest() } else { None };
        [of_origin, of_all]
    }

    fn take_oldest(&mut self) -> Option<Idle> {
        let origin = Arc::clone(self.by_arrival.first_key_value()?.1);
        self.take_oldest_of(&origin)
    }

    fn take_oldest_of(&mut self, origin: &Origin) -> Option<Idle> {
        let shelf = self.idle.get_mut(origin)?;
        let oldest = shelf.pop_front()?;
        if shelf.is_empty() {
            self.idle.remove(origin);
        }
        self.by_arrival.remove(&oldest.arrival);
        Some(oldest)
    }

    /// Lets go of the shared connection that was used longest ago, if there is one too many.
    fn trim_shared(&mut self, total_max: usize) -> Option<Shared> {
        if self.shared.len() <= total_max {
            return None;
        }
        let stalest = self.shared.iter().min_by_key(|(_, shared)| shared.used_at)?;
        let origin = Arc::clone(stalest.0);
        self.shared.remove(&origin)
    }

    /// Takes out what has waited too long.
    fn take_expired(&mut self, now: Instant) -> (Vec<Idle>, Vec<Shared>) {
        let mut idle = Vec::new();
        while let Some((arrival, origin)) = self.by_arrival.first_key_value() {
            let oldest = self.idle.get(origin).and_then(VecDeque::front);
            let expired = oldest.is_none_or(|idle| idle.arrival != *arrival || idle.since + IDLE_MAX <= now);
            if !expired {
                break;
            }
            idle.extend(self.take_oldest());
        }
        let waits = |shared: &mut Shared| {
            !shared.link.is_open() || (shared.link.is_unused() && shared.used_at + IDLE_MAX <= now)
        };
        let shared = self.shared.extract_if(|_, shared| waits(shared)).map(|(_, shared)| shared).collect();
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
