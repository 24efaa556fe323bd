//! The connection pool: open connections that are available to further requests.
//!
//! An HTTP/1.1 connection leaves the pool while a request uses it, most recently used first, and returns when its
//! response has been read. An HTTP/2 connection stays in the pool while it is used. The pool limits the connections per
//! receiver and in total, their idle time and their age. The age limit makes the sender follow a receiver to new
//! addresses within minutes.
//!
//! A receiver may keep as many connections as it recently had requests in flight, from all its destinations together.
//! With fewer, the requests of the next moment would open connections anew.

#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::{Connection, Http1Connection, Http2Connection};
use crate::deadline::now;
use crate::target::Origin;
use usage::OriginUsage;

pub(crate) use usage::RequestInFlight;

/// Idle time after which a connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Age after which a connection takes no new requests.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Interval between sweeps for expired connections, and for receivers with more connections than they recently used.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);

/// Open connections to all receivers, keyed by origin.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    per_origin_max: usize,
    total_max: usize,
}

#[derive(Default)]
struct PoolState {
    /// Idle HTTP/1.1 connections, the longest idle first. No entry is empty.
    idle: HashMap<Arc<Origin>, VecDeque<IdleConnection>>,
    /// Origins of all idle connections, keyed by arrival number, so that the longest idle one is found without a search.
    by_arrival: BTreeMap<u64, Arc<Origin>>,
    /// Arrival number of the most recent idle connection.
    last_arrival: u64,
    /// HTTP/2 connections: usually one per origin, more when one is full. No entry is empty.
    shared: HashMap<Arc<Origin>, Vec<SharedConnection>>,
    shared_count: usize,
    /// Requests in flight, of origins that had any recently.
    usage: HashMap<Arc<Origin>, OriginUsage>,
}

/// An HTTP/1.1 connection that no request uses.
struct IdleConnection {
    arrival: u64,
    idle_since: Instant,
    connection: Box<Http1Connection>,
}

/// An HTTP/2 connection that further requests may share.
struct SharedConnection {
    used_at: Instant,
    connection: Http2Connection,
}

impl SharedConnection {
    fn is_young(&self, now: Instant) -> bool {
        self.connection.opened_at() + AGE_MAX > now
    }
}

/// Connections that were removed from the pool. Callers drop them after they release the lock, because closing a socket
/// is a system call.
type RemovedConnections = (Vec<IdleConnection>, Vec<SharedConnection>);

impl Pool {
    /// Creates a pool and spawns the task that closes its expired connections. Must be called within a Tokio runtime.
    pub(crate) fn new(per_origin_max: usize, total_max: usize) -> Arc<Self> {
        let pool = Arc::new(Self { state: Mutex::default(), per_origin_max, total_max });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// Counts a request to this origin as in flight until the returned guard is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>, origin: &Arc<Origin>) -> RequestInFlight {
        self.state().usage.entry(Arc::clone(origin)).or_default().begin();
        RequestInFlight::new(Arc::clone(self), Arc::clone(origin))
    }

    /// Returns a connection that was open when checked. Its receiver may still close it before the request arrives.
    pub(crate) async fn take(&self, origin: &Origin) -> Option<Connection> {
        let now = now();
        loop {
            let mut connection = self.state().take_connection(origin, now)?;
            let is_usable = match &mut connection {
                Connection::Http1(connection) => {
                    connection.opened_at + AGE_MAX > now && connection.is_usable().await
                }
                Connection::Http2(_) => true,
            };
            if is_usable {
                return Some(connection);
            }
        }
    }

    /// Adds an HTTP/1.1 connection whose response has been read, if it can carry another request.
    pub(crate) fn put(&self, origin: &Arc<Origin>, mut connection: Box<Http1Connection>) {
        if self.per_origin_max == 0 || self.total_max == 0 || !connection.is_idle() {
            return;
        }
        let removed = {
            let mut state = self.state();
            state.add_idle(origin, connection, now());
            (state.trim_origin(origin, self.per_origin_max), state.trim_total(self.total_max))
        };
        drop(removed);
    }

    /// Adds a new HTTP/2 connection, unless the pool has another one to the same origin with a free slot.
    ///
    /// Attempts that start together may each open a connection. Those that the pool does not need carry only the
    /// request that they were opened for, and then close.
    pub(crate) fn share(&self, origin: &Arc<Origin>, connection: &Http2Connection) {
        let now = now();
        let removed = {
            let mut state = self.state();
            let closed = state.take_shared(origin, |shared| !shared.connection.is_open());
            if !state.has_free_slot(origin, now) {
                state
                    .shared
                    .entry(Arc::clone(origin))
                    .or_default()
                    .push(SharedConnection { used_at: now, connection: connection.clone() });
                state.shared_count += 1;
            }
            (closed, state.trim_origin(origin, self.per_origin_max), state.trim_total(self.total_max))
        };
        drop(removed);
    }

    /// Removes an HTTP/2 connection, so that no new request uses it. Requests in flight may finish.
    pub(crate) fn retire(&self, origin: &Origin, connection: &Http2Connection) {
        let removed = self.state().take_shared(origin, |shared| shared.connection.is_same_as(connection));
        drop(removed);
    }

    /// Closes the connection that has been idle for the longest time. Returns whether a socket was closed. Without an idle
    /// HTTP/1.1 connection it retires an idle HTTP/2 connection, which closes its socket a moment later.
    pub(crate) fn close_longest_idle(&self) -> bool {
        let (idle, shared) = self.state().take_longest_idle();
        drop(shared);
        idle.is_some()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    /// Returns a slot on an HTTP/2 connection, or else the most recently used HTTP/1.1 connection.
    fn take_connection(&mut self, origin: &Origin, now: Instant) -> Option<Connection> {
        for shared in self.shared.get_mut(origin).into_iter().flatten() {
            if shared.is_young(now)
                && let Some(slot) = shared.connection.reserve_slot()
            {
                shared.used_at = now;
                return Some(Connection::Http2(slot));
            }
        }
        let newest = self.idle.get_mut(origin)?.pop_back()?;
        self.remove_arrival(origin, newest.arrival);
        Some(Connection::Http1(newest.connection))
    }

    fn has_free_slot(&self, origin: &Origin, now: Instant) -> bool {
        let mut shared = self.shared.get(origin).into_iter().flatten();
        shared.any(|shared| shared.is_young(now) && shared.connection.has_free_slot())
    }

    fn add_idle(&mut self, origin: &Arc<Origin>, connection: Box<Http1Connection>, idle_since: Instant) {
        self.last_arrival += 1;
        let arrival = self.last_arrival;
        self.by_arrival.insert(arrival, Arc::clone(origin));
        let idle = self.idle.entry(Arc::clone(origin)).or_default();
        idle.push_back(IdleConnection { arrival, idle_since, connection });
    }

    fn take_oldest_idle(&mut self, origin: &Origin) -> Option<IdleConnection> {
        let oldest = self.idle.get_mut(origin)?.pop_front()?;
        self.remove_arrival(origin, oldest.arrival);
        Some(oldest)
    }

    /// Completes the removal of an idle connection: removes its arrival, and its origin's entry if that is now empty.
    fn remove_arrival(&mut self, origin: &Origin, arrival: u64) {
        self.by_arrival.remove(&arrival);
        if self.idle.get(origin).is_some_and(VecDeque::is_empty) {
            self.idle.remove(origin);
        }
    }

    /// Removes the HTTP/2 connections to an origin that match a predicate.
    fn take_shared(
        &mut self,
        origin: &Origin,
        predicate: impl Fn(&SharedConnection) -> bool,
    ) -> Vec<SharedConnection> {
        let Some(connections) = self.shared.get_mut(origin) else { return Vec::new() };
        let taken: Vec<_> = connections.extract_if(.., |shared| predicate(shared)).collect();
        self.shared_count -= taken.len();
        if connections.is_empty() {
            self.shared.remove(origin);
        }
        taken
    }

    /// Removes connections to one origin until its limit holds: the least recently used first, of either kind. The limit is
    /// `per_origin_max`, or the number of requests that were recently in flight at once if that is larger.
    fn trim_origin(&mut self, origin: &Origin, per_origin_max: usize) -> RemovedConnections {
        let (mut idle, mut shared) = RemovedConnections::default();
        let limit = self.usage.get(origin).map_or(0, OriginUsage::recent_max).max(per_origin_max);
        while self.count(origin) > limit {
            let oldest = self.idle.get(origin).and_then(VecDeque::front);
            let stalest = self.shared.get(origin).into_iter().flatten().min_by_key(|shared| shared.used_at);
            match stalest {
                Some(stalest) if oldest.is_none_or(|oldest| stalest.used_at < oldest.idle_since) => {
                    let connection = stalest.connection.clone();
                    shared
                        .extend(self.take_shared(origin, |shared| shared.connection.is_same_as(&connection)));
                }
                _ => idle.extend(self.take_oldest_idle(origin)),
            }
        }
        (idle, shared)
    }

    /// Begins a new period of usage at every origin, and removes the connections that its requests no longer need.
    fn trim_unused(&mut self, per_origin_max: usize) -> Vec<RemovedConnections> {
        self.usage.values_mut().for_each(OriginUsage::begin_period);
        let origins: Vec<_> = self.usage.keys().cloned().collect();
        let removed = origins.iter().map(|origin| self.trim_origin(origin, per_origin_max)).collect();
        self.usage.retain(|_, usage| usage.recent_max() > 0);
        removed
    }

    fn count(&self, origin: &Origin) -> usize {
        self.idle.get(origin).map_or(0, VecDeque::len) + self.shared.get(origin).map_or(0, Vec::len)
    }

    /// Removes connections until the total limit holds: the longest idle HTTP/1.1 connection first, then the least
    /// recently used HTTP/2 connection.
    fn trim_total(&mut self, total_max: usize) -> RemovedConnections {
        let (mut idle, mut shared) = RemovedConnections::default();
        while self.by_arrival.len() + self.shared_count > total_max {
            if let Some((_, origin)) = self.by_arrival.first_key_value() {
                let origin = Arc::clone(origin);
                idle.push(self.take_oldest_idle(&origin).expect("every arrival has an idle connection"));
                continue;
            }
            let all_shared = self
                .shared
                .iter()
                .flat_map(|(origin, connections)| connections.iter().map(move |shared| (origin, shared)));
            let Some((origin, stalest)) = all_shared.min_by_key(|(_, shared)| shared.used_at) else { break };
            let (origin, connection) = (Arc::clone(origin), stalest.connection.clone());
            shared.extend(self.take_shared(&origin, |shared| shared.connection.is_same_as(&connection)));
        }
        (idle, shared)
    }

    /// Removes the longest idle HTTP/1.1 connection, or else the least recently used idle HTTP/2 connection.
    fn take_longest_idle(&mut self) -> (Option<IdleConnection>, Vec<SharedConnection>) {
        if let Some((_, origin)) = self.by_arrival.first_key_value() {
            let origin = Arc::clone(origin);
            return (self.take_oldest_idle(&origin), Vec::new());
        }
        let all_shared =
            self.shared.iter().flat_map(|(origin, all)| all.iter().map(move |one| (origin, one)));
        let idle = all_shared.filter(|(_, shared)| shared.connection.is_idle());
        let stalest = idle.min_by_key(|(_, shared)| shared.used_at);
        let stalest = stalest.map(|(origin, shared)| (Arc::clone(origin), shared.connection.clone()));
        let shared = stalest.map(|(origin, connection)| {
            self.take_shared(&origin, |shared| shared.connection.is_same_as(&connection))
        });
        (None, shared.unwrap_or_default())
    }

    /// Removes connections that have been idle for too long, and HTTP/2 connections that are closed.
    fn take_expired(&mut self, now: Instant) -> RemovedConnections {
        let (mut idle, mut shared) = RemovedConnections::default();
        while let Some((_, origin)) = self.by_arrival.first_key_value() {
            let origin = Arc::clone(origin);
            let oldest = self
                .idle
                .get(&origin)
                .and_then(VecDeque::front)
                .expect("every arrival has an idle connection");
            if oldest.idle_since + IDLE_MAX > now {
                break;
            }
            idle.extend(self.take_oldest_idle(&origin));
        }
        let is_expired = |shared: &SharedConnection| {
            !shared.connection.is_open() || (shared.connection.is_idle() && shared.used_at + IDLE_MAX <= now)
        };
        let origins: Vec<_> = self.shared.keys().cloned().collect();
        for origin in origins {
            shared.extend(self.take_shared(&origin, is_expired));
        }
        (idle, shared)
    }
}

/// Closes expired and unused connections at intervals, until the pool is dropped.
#[expect(clippy::disallowed_methods, reason = "real sockets grow stale in real time")]
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let removed = {
            let mut state = pool.state();
            (state.take_expired(now()), state.trim_unused(pool.per_origin_max))
        };
        drop(removed);
    }
}
